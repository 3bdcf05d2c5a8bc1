//===- gate_up.cuh - the order of gate and up rows --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Packed weights hold kInterleave gate rows, their up rows, the next gate rows,
// and so on. A policy describes the order in which the checkpoint stores the
// rows, because biases and scales are read in stored order:
//   row<kHalf>(up, i)  the stored row of gate or up row i; each has kHalf rows
//   kUpFirst           true if parameters that exist once for all gates and
//                      once for all ups are stored up first
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe {

struct GateFirst {
  static constexpr bool kUpFirst = false;
  template <int kHalf>
  static __device__ __forceinline__ int row(bool up, int i) {
    return up ? kHalf + i : i;
  }
};

struct UpFirst {
  static constexpr bool kUpFirst = true;
  template <int kHalf>
  static __device__ __forceinline__ int row(bool up, int i) {
    return up ? i : kHalf + i;
  }
};

/// kRun gates, their ups, the next kRun gates, and so on.
template <int kRun> struct Alternating {
  static constexpr bool kUpFirst = false;
  template <int kHalf>
  static __device__ __forceinline__ int row(bool up, int i) {
    return i / kRun * (2 * kRun) + up * kRun + i % kRun;
  }
};

/// The GateUpOrder of a Config, or GateFirst if it has none.
template <class Config> struct StoredOrder {
  using Type = GateFirst;
};
template <class Config>
  requires requires { typename Config::GateUpOrder; }
struct StoredOrder<Config> {
  using Type = typename Config::GateUpOrder;
};

/// The gate or up row that a packed row holds.
struct GateUpRow {
  bool up;
  int index; ///< index among the gates, or among the ups
};

template <int kInterleave>
__device__ __forceinline__ GateUpRow gateUpRow(int packedRow) {
  int block = packedRow / (2 * kInterleave);
  int inBlock = packedRow % (2 * kInterleave);
  bool up = inBlock >= kInterleave;
  return {up, block * kInterleave + inBlock - (up ? kInterleave : 0)};
}

/// Returns the stored row of a packed weight row. Config has kN, kInterleave
/// and optionally GateUpOrder.
template <class Config>
__device__ __forceinline__ int storedRow(int weightRow) {
  if constexpr (Config::kInterleave == 0) {
    return weightRow;
  } else {
    GateUpRow row = gateUpRow<Config::kInterleave>(weightRow);
    return StoredOrder<Config>::Type::template row<Config::kN / 2>(row.up,
                                                                   row.index);
  }
}

} // namespace moe
