//===- gate_up.cuh - the order of gate and up rows --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Packed weights hold kInterleave gate rows, their up rows, the next gate rows,
// and so on. A policy describes the order in which the checkpoint stores the
// rows, because biases and scales are read in the checkpoint's row order:
//   row<kHalf>(up, i)  the stored row of gate row i, or of up row i if `up`;
//                      there are kHalf gate rows and kHalf up rows
//   kUpFirst           true if, of two parameters of which one belongs to all
//                      gate rows and one to all up rows, the up rows'
//                      parameter is stored first
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

/// The checkpoint stores kRun gate rows, the matching kRun up rows, the next
/// kRun gate rows, and so on.
template <int kRun> struct Alternating {
  static constexpr bool kUpFirst = false;
  template <int kHalf>
  static __device__ __forceinline__ int row(bool up, int i) {
    return i / kRun * (2 * kRun) + up * kRun + i % kRun;
  }
};

/// Config::GateUpOrder if the Config has it, otherwise GateFirst.
template <class Config> struct StoredOrder {
  using Type = GateFirst;
};
template <class Config>
  requires requires { typename Config::GateUpOrder; }
struct StoredOrder<Config> {
  using Type = typename Config::GateUpOrder;
};

/// A gate or up row, identified by its half and its index in that half.
struct GateUpRow {
  bool up;
  int index; ///< index among the gates, or among the ups
};

/// Returns the gate or up row that packed row `packedRow` holds.
template <int kInterleave>
__device__ __forceinline__ GateUpRow gateUpRow(int packedRow) {
  int block = packedRow / (2 * kInterleave);
  int inBlock = packedRow % (2 * kInterleave);
  bool up = inBlock >= kInterleave;
  return {up, block * kInterleave + inBlock - (up ? kInterleave : 0)};
}

/// Returns the row in the checkpoint that packed weight row `weightRow` holds.
/// Config has kN, kInterleave and optionally GateUpOrder.
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
