//===- tile_source.cuh - assignment of tiles to CTAs ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tile scheduler. CTA i starts with tile i. One producer thread fetches
// each further tile from an atomic cursor in global memory and passes it to the
// CTA through two slots in shared memory. Long tiles thus delay no other CTA,
// and no result depends on which CTA computed it.
//
// Two consecutive matmuls may run concurrently. The first one counts the column
// tiles that it has stored, in the last word of a row tile (kCounts). CTAs of
// the second one start when CTAs of the first one end, and begin with row tiles
// that are complete (kAwaited). All CTAs of the first matmul run by then, so no
// wait is endless. The second matmul must not write memory that the first one
// still reads.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/ptx_async.cuh"
#include "moe/core/tile_order.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/roles/produce_consume_layout.cuh"
#include "moe/matmul/roles/split.cuh"

namespace moe {

/// A tile as it is passed to the CTA's warps. If `rows` is 0, there are no more
/// tiles.
struct SlotTile {
  int expert, firstRow, rows, firstN;
  int index;    ///< index of the row tile in the list
  bool isThere; ///< true if the predecessor is known to have written its rows
  bool isSplit; ///< true if the CTAs of a cluster split its k
  static constexpr int kExpertBits = 10, kRowBits = 16;

  /// Returns the tile that the words of a slot encode. `isBeside`: this matmul
  /// runs concurrently with another one, so the words have more fields.
  /// `maySplit`: clusters may share a tile.
  template <bool isBeside, bool maySplit>
  static __device__ __forceinline__ SlotTile of(const unsigned (&words)[4]) {
    bool isSplit = maySplit && words[3] > kSplitBit - 1;
    int firstN = int(maySplit ? words[3] & (kSplitBit - 1) : words[3]);
    if constexpr (!isBeside)
      return {int(words[0]), int(words[1]), int(words[2]), firstN, 0,
              false,         isSplit};
    constexpr unsigned kExperts = (1u << kExpertBits) - 1;
    constexpr unsigned kRows = (1u << kRowBits) - 1;
    return {int(words[0] & kExperts),
            int(words[1]),
            int(words[2] & kRows),
            firstN,
            int(words[0] >> kExpertBits),
            words[2] > kRows,
            isSplit};
  }
  static constexpr unsigned kSplitBit = 1u << 31; ///< bit of the fourth word

  /// Sets the words that of() reads. `listed`: row tile `index` of the list.
  template <bool isBeside>
  static __device__ __forceinline__ void put(unsigned (&words)[4], int4 listed,
                                             int index, int firstN,
                                             bool isThere, bool isSplit) {
    words[0] = unsigned(listed.x);
    if constexpr (isBeside)
      words[0] |= unsigned(index) << kExpertBits;
    words[1] = unsigned(listed.y);
    words[2] = unsigned(listed.z - listed.y);
    if (isThere)
      words[2] |= 1u << kRowBits;
    words[3] = unsigned(firstN) | (isSplit ? kSplitBit : 0u);
  }
};

/// The tiles of a CTA.
template <class Config> struct TileSource {
  using Args = typename Config::Args;
  using Schedule = typename Config::Schedule;
  using S = Specialized<Config>;
  static_assert(Config::kExperts <= 1 << SlotTile::kExpertBits,
                "an expert's number must fit its slot");

  const Args &args;
  unsigned shared;
  Barriers<Config> barriers;

  /// Returns the row of lhs for row r of a tile.
  __device__ __forceinline__ int source(const SlotTile &tile, int r) const {
    if constexpr (Config::kGather)
      return args.rows[tile.firstRow + r] / Config::kPairs;
    else
      return tile.firstRow + r;
  }

  /// Reads the tile in a slot and releases the slot. Lane 0 of each warp does
  /// both, so that no thread reads a released slot, and broadcasts the tile.
  __device__ __forceinline__ SlotTile take(unsigned count) const {
    int slot = int(count % 2);
    unsigned phase = count / 2 % 2;
    unsigned words[4] = {0, 0, 0, 0};
    int index = S::kGroups == 1 ? ptx::threadIndex() : int(threadIdx.x);
    if (index % 32 == 0) {
      ptx::waitForBarrier(barriers.slotFull(slot), phase);
      ptx::loadShared(shared + S::kSlots + unsigned(slot) * 16, words);
      ptx::arrive(barriers.slotEmpty(slot));
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
      words[i] = __shfl_sync(0xffffffffu, words[i], 0);
    return SlotTile::of<S::kBeside, (S::kSplit > 1)>(words);
  }

  /// Waits until the predecessor has written the rows of a tile.
  __device__ __forceinline__ void awaitRows(const SlotTile &tile) const {
    if (Config::kAwaited == 0 || tile.isThere)
      return;
    if (threadIdx.x % 32 == 0)
      ptx::waitForCount<64>(&args.tiles[tile.index].w, Config::kAwaited,
                            "a row tile's counter is reached in time");
    __syncwarp();
  }

  /// Counts a stored tile. Called by all consumers. `stores`: this CTA stored
  /// it.
  __device__ __forceinline__ void count(const SlotTile &tile,
                                        bool stores) const {
    if constexpr (Config::kCounts) {
      ptx::synchronize(S::kCounted, 32 * Schedule::kConsumerWarps);
      if (threadIdx.x == S::kProducers && stores)
        ptx::countUp(&args.tiles[tile.index].w);
    }
  }

  /// Returns the steps of k that this CTA computes of a tile.
  static __device__ __forceinline__ SplitSteps steps(const SlotTile &tile) {
    return splitSteps<S::kSplit, S::kTiles>(tile.isSplit);
  }

  /// Writes the tile with this index, if there is one, to the slot of the CTA's
  /// tile number `count`.
  __device__ __forceinline__ void publish(int index, int rowTiles,
                                          unsigned count) const {
    // Prevents the compiler from computing all of this before the loop over k,
    // where it would occupy registers.
    asm volatile("" : "+r"(index), "+r"(count));
    int slot = int(count % 2);
    unsigned phase = count / 2 % 2;
    if constexpr (!S::kBeside)
      rowTiles = ptx::loadFresh(args.tile_count);
    unsigned words[4] = {0, 0, 0, 0};
    bool isSplit =
        splitsTiles<Config>(rowTiles * S::kColumnTiles, ptx::gridSize());
    if (isSplit)
      index /= S::kSplit;
    if (index < rowTiles * S::kColumnTiles) {
      TileIndex at =
          tileOf<Schedule::kGroupM, S::kColumnTiles>(index, rowTiles);
      int4 tile = S::kBeside ? ptx::loadCounted(args.tiles + at.m)
                             : ptx::loadFresh(args.tiles + at.m);
      bool isThere = Config::kAwaited > 0 && tile.w >= Config::kAwaited;
      if (isThere)
        ptx::fenceCount();
      SlotTile::put<S::kBeside>(words, tile, at.m, at.n * S::kTakenN, isThere,
                                isSplit);
    }
    ptx::waitForBarrier(barriers.slotEmpty(slot), phase ^ 1);
    ptx::storeShared(shared + S::kSlots + unsigned(slot) * 16, words);
    ptx::arrive(barriers.slotFull(slot));
  }
};

/// The scheduler of a CTA. One producer thread fetches and publishes the tiles.
template <class Config> struct TileCursor {
  using S = Specialized<Config>;
  const TileSource<Config> &tiles;
  bool isHere; ///< true for this producer thread
  int rowTiles = 0;

  /// Publishes the CTA's first tile.
  __device__ __forceinline__ void begin() {
    if (!isHere)
      return;
    if constexpr (S::kBeside)
      rowTiles = ptx::loadFresh(tiles.args.tile_count);
    tiles.publish(int(blockIdx.x), rowTiles, 0);
  }
  /// Fetches a further tile from the cursor. Returns its index.
  __device__ __forceinline__ int take() const {
    int next = 0;
    if (isHere)
      next = ptx::gridSize() +
             atomicAdd(tiles.args.tile_count + Config::kCursor, 1);
    return next;
  }
  /// Publishes what take() returned, as the CTA's tile number `count`. Called
  /// at each step of k of the previous tile; one of the first steps publishes.
  __device__ __forceinline__ void handOver(int next, int turn, int k, int first,
                                           unsigned count) const {
    if (isHere && turn == 0 &&
        k == first + minimum(2, S::kTiles / S::kSplit - 1))
      tiles.publish(next, rowTiles, count);
  }
};

} // namespace moe
