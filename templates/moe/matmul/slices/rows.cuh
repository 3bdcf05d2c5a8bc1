//===- rows.cuh - which rows a CTA keeps ------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The assignment of sorted rows to CTAs that keep token rows
// (moe/matmul/slices/stationary.cuh). Each CTA receives an equal share of the
// sorted rows. In shared memory, each expert's rows start at a multiple of 8.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/slices/layout.cuh"

namespace moe::detail {

/// The rows of one expert in a CTA. `place`: index of the first row in shared
/// memory.
struct Segment {
  int expert, firstRow, rows, place;
};

/// Finds the rows of this CTA and stores them in shared memory as a list of
/// segments. Called by one warp. The input is the list of row tiles. An
/// expert's tiles are consecutive, and all except its last tile have a multiple
/// of 8 rows, so they are joined to one segment.
///
/// If the grid has too few CTAs for the number of rows or tokens, the function
/// stores -1 as the number of segments. All CTAs reach the same decision,
/// because all of them compare the same values.
template <class Config>
__device__ __forceinline__ void findRows(const typename Config::Args &args,
                                         unsigned shared) {
  using S = Stationary<Config>;
  constexpr unsigned kAll = 0xffffffffu;
  int lane = int(threadIdx.x) % 32;
  int tiles = ptx::loadFresh(args.tile_count);
  auto tileAt = [&](int index) {
    return index < tiles ? ptx::loadFresh(args.tiles + index)
                         : make_int4(-1, 0, 0, 0);
  };
  int total = 0;
#pragma unroll 1
  for (int index = lane; index < tiles; index += 32) {
    int4 tile = tileAt(index);
    total += (tile.z - tile.y + 7) / 8;
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    total += __shfl_xor_sync(kAll, total, step);
  int share = (total + int(gridDim.x) - 1) / int(gridDim.x) * 8;
  if (share > S::kRows || args.tokens > S::kTokens * int(gridDim.x)) {
    if (lane == 0)
      ptx::storeShared(shared + S::kSegmentList + S::kSegments * 16, ~0u);
    return;
  }
  int low = int(blockIdx.x) * share, high = low + share;
  int before = 0, count = 0, lastExpert = -1;
#pragma unroll 1
  for (int base = 0; base < tiles; base += 32) {
    int4 tile = tileAt(base + lane);
    int rows = tile.z - tile.y;
    int padded = (rows + 7) / 8 * 8;
    int end = padded;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      int other = __shfl_up_sync(kAll, end, step);
      end += lane >= step ? other : 0;
    }
    int begin = before + end - padded;
    before += __shfl_sync(kAll, end, 31);
    int from = max(begin, low), to = min(begin + padded, high);
    bool has = from < to;
    // The rows of this CTA belong to consecutive tiles.
    int expert = has ? tile.x : -1;
    int left = __shfl_up_sync(kAll, expert, 1);
    bool isFirst = has && expert != (lane == 0 ? lastExpert : left);
    unsigned firsts = __ballot_sync(kAll, isFirst);
    unsigned owned = __ballot_sync(kAll, has);
    if (isFirst) {
      int place = count + __popc(firsts & ((1u << lane) - 1));
      unsigned words[4] = {unsigned(expert), unsigned(tile.y + from - begin), 0,
                           unsigned(from - low)};
      ptx::storeShared(shared + S::kSegmentList + unsigned(place) * 16, words);
    }
    __syncwarp();
    if (has) {
      int place = count + __popc(firsts & ((2u << lane) - 1)) - 1;
      ptx::addShared(shared + S::kSegmentList + unsigned(place) * 16 + 8,
                     min(to - begin, rows) - (from - begin));
    }
    __syncwarp();
    count += __popc(firsts);
    if (owned)
      lastExpert = __shfl_sync(kAll, expert, 31 - __clz(int(owned)));
  }
  if (lane == 0)
    ptx::storeShared(shared + S::kSegmentList + S::kSegments * 16,
                     unsigned(count));
}

} // namespace moe::detail
