//===- GateUpOrders.h - how gate and up rows are stored ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The orders of w13's rows, and of its bias and scales. Packing undoes that
// of rows; biases and scales are read where they stand.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_GATEUPORDERS_H
#define MOEC_DIALECT_CATALOG_GATEUPORDERS_H

#include "dialect/catalog/Catalog.h"

namespace moec::catalog {

struct GateUpOrder {
  std::string_view name;
  std::string_view policy; ///< its C++ type (templates/moe/core/gate_up.cuh)
  /// So many gate rows and as many up rows take turns, which divides 8; 0: all
  /// of one follow all of the other.
  int run = 0;
  /// Rows of up stand first where all of one follow all of the other.
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
