//===- GateUpOrders.h - how gate and up rows are stored ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The catalog's orders (dialect/catalog/GateUpOrders.h), which the build prints
// for the runtime.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_HOST_GATEUPORDERS_H
#define MOEC_RUNTIME_HOST_GATEUPORDERS_H

#include <cstdint>
#include <string>
#include <string_view>

namespace moec {

struct GateUpOrder {
  std::string_view name;
  int64_t run; ///< rows after which gates and ups take turns; 0: never
  bool upFirst;
};

/// The row of that name, or null.
const GateUpOrder *findGateUpOrder(std::string_view name);
/// All names with commas between them, or those whose runs have so many rows at
/// most.
std::string gateUpOrderNames(int64_t mostRun = INT64_MAX);

} // namespace moec

#endif // MOEC_RUNTIME_HOST_GATEUPORDERS_H
