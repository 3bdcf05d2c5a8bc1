//===- warp.cuh - accumulators of a warp in registers -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One warp's accumulators, in the register layout of mma.m16n8. In each block
// of 16 rows by 8 columns, a thread has two adjacent columns of two rows, which
// are 8 rows apart. Engine mma_sync uses these classes; its epilogue reads them
// as a Fragment (moe/core/concepts.cuh).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"
#include "moe/matmul/accumulator/sums.cuh"

namespace moe::mma {

/// Number of accumulators per thread, if the warps of `Schedule` divide the
/// tile evenly.
template <class Schedule>
inline constexpr int kSumsOfThread =
    Schedule::kTileM * Schedule::kTileN /
    (Schedule::kWarpsM * Schedule::kWarpsN * 32);

/// The part of a CTA's tile that one warp computes. The tile is divided into
/// kWarpsM x kWarpsN parts.
template <class Schedule> struct WarpShare {
  static constexpr int kWarpM = Schedule::kTileM / Schedule::kWarpsM;
  static constexpr int kWarpN = Schedule::kTileN / Schedule::kWarpsN;
  static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0 &&
                    kWarpM * Schedule::kWarpsM == Schedule::kTileM &&
                    kWarpN * Schedule::kWarpsN == Schedule::kTileN,
                "a warp's share must be whole 16 x 16 blocks");
  /// Returns the warp's first token (firstM) or weight row (firstN) in the
  /// tile.
  static __device__ __forceinline__ int firstM(int warp) {
    return warp / Schedule::kWarpsN * kWarpM;
  }
  static __device__ __forceinline__ int firstN(int warp) {
    return warp % Schedule::kWarpsN * kWarpN;
  }
};

/// Accumulators whose rows are tokens and whose columns are weight rows. There
/// are kMs x kNs blocks of 16 tokens by 8 weight rows.
template <class Schedule, bool kPromoted, class Sum>
struct WarpSums : Sums<kSumsOfThread<Schedule>, kPromoted, Sum> {
  using Share = WarpShare<Schedule>;
  static constexpr int kMs = Share::kWarpM / 16;
  static constexpr int kNs = Share::kWarpN / 8;
  static constexpr int kSize = kMs * kNs * 4;
  static constexpr int kRun = 2;
  static constexpr bool kTokensAreColumns = false;
  static constexpr int kRows = kMs * 2;
  static constexpr int kColumns = kNs * 2;
  static constexpr int kWarpN = Share::kWarpN;

  int firstRow, firstCol; ///< position of value(0) in the tile

  /// Stores the position of this lane's accumulators. `m`, `n`: first token and
  /// first weight row of the warp.
  __device__ __forceinline__ void place(int m, int n, int lane) {
    firstRow = m + lane / 4;
    firstCol = n + lane % 4 * 2;
  }

  /// Returns the thread's four accumulators of block (m, n).
  __device__ __forceinline__ Sum *block(int m, int n) {
    return this->sums + (m * kNs + n) * 4;
  }
  __device__ __forceinline__ int row(int i) const {
    return firstRow + i / 4 / kNs * 16 + i % 4 / 2 * 8;
  }
  __device__ __forceinline__ int col(int i) const {
    return firstCol + i / 4 % kNs * 8 + i % 2;
  }
  static constexpr bool isGate(int i) { return i / 4 % kNs % 2 == 0; }
  static constexpr int partner(int i) { return i + 4; }
  __device__ __forceinline__ int heldRow(int slot) const {
    return firstRow + slot / 2 * 16 + slot % 2 * 8;
  }
  __device__ __forceinline__ int firstHeldCol() const { return firstCol; }
  __device__ __forceinline__ int heldCol(int slot) const {
    return firstCol + slot / 2 * 8 + slot % 2;
  }
  static constexpr int colSlot(int i) { return i / 4 % kNs * 2 + i % 2; }
  static constexpr int rowSlot(int i) { return i / 4 / kNs * 2 + i % 4 / 2; }
};

/// Accumulators whose rows are weight rows and whose columns are tokens. There
/// are kSlabs slabs (moe/math/slabs.cuh) of 16 weight rows, by kBlocks blocks
/// of 8 tokens.
template <class Schedule>
struct WarpSlabSums : Sums<kSumsOfThread<Schedule>, false> {
  using Share = WarpShare<Schedule>;
  static constexpr int kSlabs = Share::kWarpN / 16;
  static constexpr int kBlocks = Share::kWarpM / 8;
  static constexpr int kSize = kSlabs * kBlocks * 4;
  static constexpr int kRun = 2;
  static constexpr bool kTokensAreColumns = true;
  static constexpr int kRowAtoms = kSlabs;

  int firstRow, firstCol; ///< position of value(0) in the tile

  /// Stores the position of this lane's accumulators. `m`, `n`: first token and
  /// first weight row of the warp.
  __device__ __forceinline__ void place(int m, int n, int lane) {
    firstRow = n + lane / 4;
    firstCol = m + lane % 4 * 2;
  }

  /// Returns the thread's four accumulators for a slab and a block of tokens.
  __device__ __forceinline__ float *block(int slab, int tokens) {
    return this->sums + (slab * kBlocks + tokens) * 4;
  }
  __device__ __forceinline__ int row(int i) const {
    return firstRow + i / 4 / kBlocks * 16 + i % 4 / 2 * 8;
  }
  __device__ __forceinline__ int col(int i) const {
    return firstCol + i / 4 % kBlocks * 8 + i % 2;
  }
  static constexpr bool isGate(int i) { return i % 4 < 2; }
  static constexpr int partner(int i) { return i + 2; }
};

} // namespace moe::mma
