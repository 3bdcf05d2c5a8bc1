//===- GateUpOrders.h - order of gate and up rows ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The orders of the rows of w13, its bias and its scales. Packing reorders the
// weight rows; biases and scales are read in their stored order.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_GATEUPORDERS_H
#define MOEC_DIALECT_CATALOG_GATEUPORDERS_H

#include "dialect/catalog/Catalog.h"

namespace moec::catalog {

struct GateUpOrder {
  std::string_view name;
  std::string_view policy; ///< C++ type in moe/core/gate_up.cuh
  /// The number of gate rows that alternate with equally many up rows, a
  /// divisor of 8. 0: all gate rows precede or follow all up rows.
  int run = 0;
  /// All up rows precede all gate rows.
  bool upFirst = false;
};

inline constexpr GateUpOrder kGateUpOrders[] = {
    {.name = "gate_first", .policy = "moe::GateFirst"},
    {.name = "up_first", .policy = "moe::UpFirst", .upFirst = true},
    // gate 0, up 0, gate 1, ...
    {.name = "interleaved", .policy = "moe::Alternating<1>", .run = 1},
    {.name = "interleaved_8", .policy = "moe::Alternating<8>", .run = 8},
};

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_GATEUPORDERS_H
