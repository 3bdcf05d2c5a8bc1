//===- GateUpOrders.h - orders of gate and up rows --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The orders in which checkpoints store gate and up rows. The build generates
// the table from dialect/catalog/GateUpOrders.h.
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
  int64_t run; ///< gate and up alternate after this many rows; 0: all rows of
               ///< one part, then all rows of the other part
  bool upFirst;
};

/// Returns the order called `name`, or null.
const GateUpOrder *findGateUpOrder(std::string_view name);
/// Returns the names of all orders whose `run` is at most `mostRun`, separated
/// by commas.
std::string gateUpOrderNames(int64_t mostRun = INT64_MAX);

} // namespace moec

#endif // MOEC_RUNTIME_HOST_GATEUPORDERS_H
