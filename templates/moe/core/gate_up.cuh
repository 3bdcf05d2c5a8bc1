//===- gate_up.cuh - where gate and up rows stand ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Packed weights hold kInterleave gate rows, their up rows, the next gate rows
// and so on. How the rows stood as stored is a policy, since biases and scales
// are read as they were stored:
//   row<kHalf>(up, i)  of gate or up row i, of kHalf each
//   kUpFirst           what is of all gates or all ups stands up first
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

/// kRun gates, their ups, the next gates, ...
template <int kRun> struct Alternating {
  static constexpr bool kUpFirst = false;
  template <int kHalf>
  static __device__ __forceinline__ int row(bool up, int i) {
    return i / kRun * (2 * kRun) + up * kRun + i % kRun;
  }
};

/// The order of a Config; gates first where it says none.
template <class Config> struct StoredOrder {
  using Type = GateFirst;
};
template <class Config>
  requires requires { typename Config::GateUpOrder; }
struct StoredOrder<Config> {
  using Type = typename Config::GateUpOrder;
};

/// A packed row of gate or up.
struct GateUpRow {
  bool up;
  int index; ///< among the gates, or the ups
};

template <int kInterleave>
__device__ __forceinline__ GateUpRow gateUpRow(int packedRow) {
  int block = packedRow / (2 * kInterleave);
  int inBlock = packedRow % (2 * kInterleave);
  bool up = inBlock >= kInterleave;
  return {up, block * kInterleave + inBlock - (up ? kInterleave : 0)};
}

/// The stored place of a weight row, for a Config with kN, kInterleave and
/// perhaps GateUpOrder.
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
