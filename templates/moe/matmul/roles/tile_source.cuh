//===- tile_source.cuh - which tiles a CTA takes ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tiles are taken in turn: CTA i begins with tile i, and one producer thread
// takes each further one from a cursor in global memory and hands it to the
// CTA through two slots in shared memory. So long tiles delay nobody, and no
// result depends on who computed it.
//
// Two matmuls in a row run beside each other: the first counts, in the last
// word of a row tile, the column tiles that it has stored (kCounts), and the
// second takes the place of its CTAs as they end and begins with row tiles of
// which all are (kAwaited). All CTAs of the first one run by then, so that
// nobody waits for ever. What the second one writes must not lie where the
// first one still reads.
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

/// A tile as it is handed around; no rows: there are no more tiles.
struct SlotTile {
  int expert, firstRow, rows, firstN;
  int index;    ///< of the row tile in the list
  bool isThere; ///< the predecessor is known to have written its rows
  bool isSplit; ///< the CTAs of a cluster share its k
  static constexpr int kExpertBits = 10, kRowBits = 16;

  /// As the words of a slot say. isBeside: this matmul runs beside another, so
  /// that the words say more. maySplit: of clusters that may share a tile.
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
  static constexpr unsigned kSplitBit = 1u << 31; ///< of the fourth word

  /// Sets the words that of() reads. listed: row tile `index` of the list.
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

  /// The row of lhs that is row r of a tile.
  __device__ __forceinline__ int source(const SlotTile &tile, int r) const {
    if constexpr (Config::kGather)
      return args.rows[tile.firstRow + r] / Config::kPairs;
    else
      return tile.firstRow + r;
  }

  /// Reads the tile in a slot and gives the slot back. One lane of a warp does
  /// both, so that nobody reads what it gives back, and tells the others.
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

  /// Returns when the predecessor has written the rows of a tile.
  __device__ __forceinline__ void awaitRows(const SlotTile &tile) const {
    if (Config::kAwaited == 0 || tile.isThere)
      return;
    if (threadIdx.x % 32 == 0)
      ptx::waitForCount<64>(&args.tiles[tile.index].w, Config::kAwaited,
                            "a row tile's counter is reached in time");
    __syncwarp();
  }

  /// Counts a tile that is stored. By all consumers; `stores`: this CTA did.
  __device__ __forceinline__ void count(const SlotTile &tile,
                                        bool stores) const {
    if constexpr (Config::kCounts) {
      ptx::synchronize(S::kCounted, 32 * Schedule::kConsumerWarps);
      if (threadIdx.x == S::kProducers && stores)
        ptx::countUp(&args.tiles[tile.index].w);
    }
  }

  /// The steps of k of a tile.
  static __device__ __forceinline__ SplitSteps steps(const SlotTile &tile) {
    return splitSteps<S::kSplit, S::kTiles>(tile.isSplit);
  }

  /// Puts the tile of this index, if there is one, into the slot of the CTA's
  /// tile `count`.
  __device__ __forceinline__ void publish(int index, int rowTiles,
                                          unsigned count) const {
    // Else the optimizer computes all of this before the loop over k, and keeps
    // it in registers.
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

/// Hands tiles to the CTA: one thread of its producers.
template <class Config> struct TileCursor {
  using S = Specialized<Config>;
  const TileSource<Config> &tiles;
  bool isHere; ///< this thread is that one
  int rowTiles = 0;

  /// The CTA's first tile.
  __device__ __forceinline__ void begin() {
    if (!isHere)
      return;
    if constexpr (S::kBeside)
      rowTiles = ptx::loadFresh(tiles.args.tile_count);
    tiles.publish(int(blockIdx.x), rowTiles, 0);
  }
  /// Takes a further one: its index.
  __device__ __forceinline__ int take() const {
    int next = 0;
    if (isHere)
      next = ptx::gridSize() +
             atomicAdd(tiles.args.tile_count + Config::kCursor, 1);
    return next;
  }
  /// Called at each step of k of the tile before. At one of the first, hands
  /// over what take() took, as the CTA's tile `count`.
  __device__ __forceinline__ void handOver(int next, int turn, int k, int first,
                                           unsigned count) const {
    if (isHere && turn == 0 &&
        k == first + minimum(2, S::kTiles / S::kSplit - 1))
      tiles.publish(next, rowTiles, count);
  }
};

} // namespace moe
