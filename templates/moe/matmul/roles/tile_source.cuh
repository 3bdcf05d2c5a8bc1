//===- tile_source.cuh - assignment of tiles to CTAs ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dynamic tile scheduler of persistent kernels. CTA i starts with tile i.
// For each further tile, one producer thread increments an atomic cursor in
// global memory, and passes the tile to the CTA's warps through two slots in
// shared memory. A long tile thus delays no other CTA. No result depends on
// which CTA computed it.
//
// The two matmuls of a layer may run concurrently. The first matmul counts its
// stored column tiles in the last word of each row tile's entry (kCounts). CTAs
// of the second matmul start as CTAs of the first matmul end. They wait for the
// count before they read the rows of a row tile (kAwaited). By then all CTAs of
// the first matmul have started, so every wait ends. The second matmul must not
// write memory that the first matmul still reads.
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

/// A tile as it is passed to the CTA's warps. `rows` is 0 if there are no more
/// tiles.
struct SlotTile {
  int expert, firstRow, rows, firstN;
  int index;    ///< index of the row tile in the list
  bool isThere; ///< true if the predecessor has already written its rows
  bool isSplit; ///< true if the CTAs of a cluster split k of this tile
  static constexpr int kExpertBits = 10, kRowBits = 16;

  /// Decodes the words of a slot. `isBeside`: this matmul runs concurrently
  /// with the layer's other matmul, so the words have more fields. `maySplit`:
  /// a cluster may share a tile.
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

  /// Encodes the words that of() decodes. `listed`: entry `index` of the tile
  /// list.
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

/// The tiles of a CTA, and the waits and signals that belong to a tile.
template <class Config> struct TileSource {
  using Args = typename Config::Args;
  using Schedule = typename Config::Schedule;
  using S = Specialized<Config>;
  static_assert(Config::kExperts <= 1 << SlotTile::kExpertBits,
                "an expert's index must fit its slot");

  const Args &args;
  unsigned shared;
  Barriers<Config> barriers;

  /// Returns the row of lhs for row r of the tile.
  __device__ __forceinline__ int source(const SlotTile &tile, int r) const {
    if constexpr (Config::kGather)
      return args.rows[tile.firstRow + r] / Config::kPairs;
    else
      return tile.firstRow + r;
  }

  /// Reads the tile in the slot of the CTA's `count`-th tile, and releases the
  /// slot. Only lane 0 of each warp reads and releases, so that no thread reads
  /// a released slot. It then broadcasts the tile.
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

  /// Waits until the predecessor matmul has written the rows of the tile.
  __device__ __forceinline__ void awaitRows(const SlotTile &tile) const {
    if (Config::kAwaited == 0 || tile.isThere)
      return;
    if (threadIdx.x % 32 == 0)
      ptx::waitForCount<64>(&args.tiles[tile.index].w, Config::kAwaited,
                            "a row tile's counter is reached in time");
    __syncwarp();
  }

  /// Counts a column tile as stored. Called by all consumer threads. `stores`:
  /// true if this CTA stored the tile.
  __device__ __forceinline__ void count(const SlotTile &tile,
                                        bool stores) const {
    if constexpr (Config::kCounts) {
      ptx::synchronize(S::kCounted, 32 * Schedule::kConsumerWarps);
      if (threadIdx.x == S::kProducers && stores)
        ptx::countUp(&args.tiles[tile.index].w);
    }
  }

  /// Returns the range of k steps that this CTA computes for the tile.
  static __device__ __forceinline__ SplitSteps steps(const SlotTile &tile) {
    return splitSteps<S::kSplit, S::kTiles>(tile.isSplit);
  }

  /// Writes tile `index` to the slot of the CTA's `count`-th tile. If there are
  /// no more tiles, writes an empty tile.
  __device__ __forceinline__ void publish(int index, int rowTiles,
                                          unsigned count) const {
    // Prevents the compiler from hoisting this computation out of the loop over
    // k, where it would occupy registers.
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

/// The scheduler of a CTA. One producer thread (isHere) draws tiles and
/// publishes them in the CTA's slots.
template <class Config> struct TileCursor {
  using S = Specialized<Config>;
  const TileSource<Config> &tiles;
  bool isHere; ///< true in the producer thread that draws tiles
  int rowTiles = 0;

  /// Publishes the CTA's first tile.
  __device__ __forceinline__ void begin() {
    if (!isHere)
      return;
    if constexpr (S::kBeside)
      rowTiles = ptx::loadFresh(tiles.args.tile_count);
    tiles.publish(int(blockIdx.x), rowTiles, 0);
  }
  /// Draws the CTA's next tile from the cursor. Returns the tile's index.
  __device__ __forceinline__ int take() const {
    int next = 0;
    if (isHere)
      next = ptx::gridSize() +
             atomicAdd(tiles.args.tile_count + Config::kCursor, 1);
    return next;
  }
  /// Publishes the index that take() returned, as the CTA's `count`-th tile.
  /// Called at each k step of the previous tile; only one of the first steps
  /// publishes.
  __device__ __forceinline__ void handOver(int next, int turn, int k, int first,
                                           unsigned count) const {
    if (isHere && turn == 0 &&
        k == first + minimum(2, S::kTiles / S::kSplit - 1))
      tiles.publish(next, rowTiles, count);
  }
};

} // namespace moe
