//===- quantize_groups.cuh - swapped accumulators to e4m3 groups *- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The quantizing epilogue of a Fragment whose rows are weight rows, for results
// with one scale per token and 128 columns. A column tile is narrower than such
// a group. The same CTA therefore computes the column tiles of a group one
// after another, and stores the f32 results of each in shared memory. After the
// last tile, all consumer warps quantize the group from shared memory. No f32
// results are written to global memory, and no CTA waits for another CTA.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_async.cuh"
#include "moe/core/types.cuh"
#include "moe/math/scaling.cuh"
#include "moe/matmul/epilogue/finished.cuh"
#include "moe/matmul/epilogue/store_chunk.cuh"
#include "moe/matmul/epilogue/store_swapped.cuh"

namespace moe {

/// Layout of a staged group in shared memory. Each token has a row of 128 f32
/// values.
template <class Config> struct GroupStaging {
  static constexpr int kParts = Config::Activation::kGated ? 2 : 1;
  static constexpr int kTileColumns = Config::Schedule::kTileN / kParts;
  static constexpr int kColumns = Config::kN / kParts;
  static constexpr int kGroups = ceilDiv(kColumns, 128);
  /// Number of column tiles per group.
  static constexpr int kTiles = 128 / kTileColumns;
  static constexpr int kRowBytes = 128 * 4;
  static constexpr int kBytes = Config::Schedule::kTileM * kRowBytes;
  static_assert(128 % kTileColumns == 0,
                "column tiles must divide a group of 128 columns");
  static_assert(kColumns % 16 == 0, "rows must be whole 16-byte chunks");

  /// Returns the byte offset of a value. The swizzle lets lanes with adjacent
  /// token pairs write to different banks, and keeps 8 adjacent columns
  /// contiguous.
  static __device__ __forceinline__ unsigned offset(int token, int column) {
    return unsigned(token * kRowBytes + (column ^ token / 2 % 4 * 8) * 4);
  }
};

/// Stores a warpgroup's results for column tile `tile` of the group in shared
/// memory. `firstN`: first weight row of the tile. `thread`: index in the
/// warpgroup. `bias`, `activation`: see storeSwapped.
template <class Config, class Fragment, class Bias>
__device__ __forceinline__ void
stageGroup(const Fragment &fragment, unsigned shared, int thread, int warpgroup,
           int firstN, int tile, const Bias *bias,
           const typename Config::Activation &activation) {
  static_assert(Fragment::kTokensAreColumns,
                "this epilogue needs accumulators whose columns are tokens");
  using G = GroupStaging<Config>;
  using Activation = typename Config::Activation;
  constexpr bool kGated = Activation::kGated;
  constexpr int kOwnColumns = Config::Mma::kRows / G::kParts;
  // Column strides between a warp's row blocks (called atoms in identifiers)
  // and between warps.
  constexpr int kAtomColumns = Fragment::kAtomRows / G::kParts;
  constexpr int kWarpColumns = Fragment::kWarpRows / G::kParts;
  auto value = finishedOf<Fragment>(
      activation, SwappedSums<Config, Fragment, Bias>(fragment, firstN, bias));
  int column = tile * G::kTileColumns + warpgroup * kOwnColumns +
               thread / 32 * kWarpColumns + thread % 32 / 4;
  // Tokens that differ by a multiple of 8 have the same swizzle, and so do the
  // two tokens of an adjacent pair. One address per row is therefore enough.
  int token = fragment.col(0);
  unsigned places[Fragment::kRowAtoms][2];
#pragma unroll
  for (int atom = 0; atom < Fragment::kRowAtoms; ++atom)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      places[atom][half] =
          shared + G::offset(token, column + atom * kAtomColumns + half * 8);
#pragma unroll
  for (int i = 0; i < Fragment::kSize; ++i) {
    if (kGated && !Fragment::isGate(i))
      continue;
    int ofAtom = i % Fragment::kAtomSize;
    ptx::storeShared(places[i / Fragment::kAtomSize][kGated ? 0 : i % 4 / 2] +
                         unsigned((ofAtom / 4 * 8 + i % 2) * G::kRowBytes),
                     __float_as_uint(value(i)));
  }
}

/// Quantizes rows [0, rows) of the staged group and stores codes and scales.
/// Called after all consumer warps have staged it. `thread`: index among the
/// kThreads consumer threads. `data`, `scale`: address of row 0, at this group.
template <class Config, int kThreads>
__device__ __forceinline__ void storeGroup(unsigned shared, int thread,
                                           int rows, int group, e4m3 *data,
                                           float *scale) {
  using G = GroupStaging<Config>;
  constexpr int kAtOnce = kThreads / 16;
  int lane = thread % 16;
  int first = lane * 4, second = first + 64;
  bool hasFirst = G::kColumns % 128 == 0 || group * 128 + first < G::kColumns;
  bool hasSecond = G::kColumns % 128 == 0 || group * 128 + second < G::kColumns;
#pragma unroll 2
  for (int base = 0; base < rows; base += kAtOnce) {
    int row = base + thread / 16;
    bool exists = row < rows;
    unsigned chunks[2][4];
    ptx::loadShared(shared + G::offset(exists ? row : 0, first), chunks[0]);
    ptx::loadShared(shared + G::offset(exists ? row : 0, second), chunks[1]);
    float values[2][4], largest = 0.0f;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        values[half][i] = __uint_as_float(chunks[half][i]);
        // Columns past the end do not affect the scale.
        if (half == 0 ? hasFirst : hasSecond)
          largest = fmaxf(largest, fabsf(values[half][i]));
      }
#pragma unroll
    for (int distance = 8; distance > 0; distance /= 2)
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
    float ofGroup = Config::Scaling::scale(largest);
    quant::Divisor divisor(ofGroup);
    unsigned codes[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        values[half][i] = divisor.quotient(values[half][i]);
      codes[half] = packBytes<e4m3>(values[half]);
    }
    e4m3 *to = data + (long long)row * G::kColumns;
    if (exists && hasFirst)
      *reinterpret_cast<unsigned *>(to + first) = codes[0];
    if (exists && hasSecond)
      *reinterpret_cast<unsigned *>(to + second) = codes[1];
    if (exists && lane == 0)
      scale[(long long)row * G::kGroups] = ofGroup;
  }
}

} // namespace moe
