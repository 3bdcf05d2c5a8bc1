//===- token_loader.cuh - tokens of a stage ---------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The feed of a pipeline stage's tokens, and of both operands' scales for the
// stage's group along k. There are three ways to copy token rows:
//
//   OwnRows     all producer threads gather rows with cp.async; each thread
//               copies one 16-byte chunk of every kRowsPerPass-th row, and
//               keeps the offsets of its rows in registers
//   HandedRows  like OwnRows, but with fewer registers: each lane keeps the
//               offset of one of every 32 rows that its warp copies, and
//               shuffles distribute the offsets in every k tile; contiguous
//               rows need no kept offsets
//   MappedRows  if rows are contiguous, one thread issues TMA copies of
//               tensor-map boxes
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/ptx_async.cuh"
#include "moe/core/types.cuh"
#include "moe/math/codes.cuh"
#include "moe/matmul/feed/scales_swapped.cuh"
#include "moe/matmul/roles/produce_consume_layout.cuh"
#include "moe/matmul/roles/ring.cuh"
#include "moe/matmul/roles/tile_source.cuh"

namespace moe {

/// The 16-byte chunk that a producer thread copies in each pass.
template <class Config> struct TokenChunk {
  using S = Specialized<Config>;
  int row = int(threadIdx.x) / S::Layout::kChunks;
  int chunk = int(threadIdx.x) % S::Layout::kChunks;
  unsigned destination; ///< shared-memory address in the first stage

  __device__ __forceinline__ explicit TokenChunk(unsigned shared)
      : destination(shared + S::kWeightBytes + S::Layout::offset(row, chunk)) {}
};

namespace detail {

/// Row offsets, if every thread keeps the offsets of all rows that it copies.
/// OwnRows and HandedRows have the same members:
///
///   beginSteps()  is called before the k tiles of an output tile
///   advance()     is called after each k tile
///   place()       returns the row offset for a pass; the offsets of kBatch
///                 passes are queried at a time
///   copy()        issues the copy for a pass
template <class Config> struct OwnRows {
  using S = Specialized<Config>;
  static constexpr int kBatch = S::kPasses;
  int row; ///< row that this thread copies in pass 0
  unsigned held[S::kPasses];
  const char *lhs;

  __device__ __forceinline__ OwnRows(const TileSource<Config> &tiles,
                                     const SlotTile &tile, int row, int chunk,
                                     unsigned rowChunks)
      : row(row) {
#pragma unroll
    for (int j = 0; j < S::kPasses; ++j) {
      int r = row + j * S::kRowsPerPass;
      held[j] =
          unsigned(tiles.source(tile, r < tile.rows ? r : 0)) * rowChunks +
          unsigned(chunk);
    }
  }
  __device__ __forceinline__ void beginSteps(const void *all, int first) {
    lhs = reinterpret_cast<const char *>(all) + first * S::kRowBytes;
  }
  __device__ __forceinline__ void advance() { lhs += S::kRowBytes; }
  __device__ __forceinline__ unsigned place(const SlotTile &, int pass) const {
    return held[pass];
  }
  __device__ __forceinline__ void copy(const void *, const SlotTile &tile,
                                       unsigned to, unsigned from, int pass,
                                       int, bool inK) const {
    int r = row + pass * S::kRowsPerPass;
    ptx::copy16<true>(to, lhs, from, r < tile.rows && inK);
  }
};

/// Row offsets, if each lane keeps the offset of one of every 32 rows that its
/// warp copies. Shuffles distribute the offsets for two passes at a time.
template <class Config> struct HandedRows {
  using S = Specialized<Config>;
  static constexpr int kBatch = minimum(S::kPasses, 2);
  static constexpr int kHeld = ceilDiv(S::kPasses, 8);
  int row, chunk;
  unsigned held[kHeld];
  unsigned rowChunks;

  __device__ __forceinline__ HandedRows(const TileSource<Config> &tiles,
                                        const SlotTile &tile, int row,
                                        int chunk, unsigned rowChunks)
      : row(row), chunk(chunk), rowChunks(rowChunks) {
    int lane = int(threadIdx.x) % 32;
    int heldRow =
        lane / 4 * S::kRowsPerPass + int(threadIdx.x) / 32 * 4 + lane % 4;
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      int r = heldRow + j * 8 * S::kRowsPerPass;
      held[j] = unsigned(tiles.source(tile, r < tile.rows ? r : 0)) * rowChunks;
    }
  }
  __device__ __forceinline__ void beginSteps(const void *, int) {}
  __device__ __forceinline__ void advance() {}
  __device__ __forceinline__ unsigned place(const SlotTile &tile,
                                            int pass) const {
    if constexpr (Config::kGather)
      return __shfl_sync(0xffffffffu, held[pass / 8],
                         pass % 8 * 4 + int(threadIdx.x) % 32 / 8);
    else
      return unsigned(tile.firstRow + row + pass * S::kRowsPerPass) * rowChunks;
  }
  __device__ __forceinline__ void copy(const void *all, const SlotTile &tile,
                                       unsigned to, unsigned from, int pass,
                                       int k, bool inK) const {
    int r = row + pass * S::kRowsPerPass;
    ptx::copyBelow(to, all, from + unsigned(k * S::Layout::kChunks + chunk), r,
                   inK ? tile.rows : 0);
  }
};

template <class Config, bool kOwn> struct RowsOfThread {
  using Type = OwnRows<Config>;
};
template <class Config> struct RowsOfThread<Config, false> {
  using Type = HandedRows<Config>;
};

/// The copies of a stage's token rows by all producer threads. A thread copies
/// one 16-byte chunk per pass.
template <class Config> struct CopiedRows {
  using Schedule = typename Config::Schedule;
  using Input = typename Config::Input;
  using S = Specialized<Config>;
  using Chunk = TokenChunk<Config>;
  using Rows =
      typename RowsOfThread<Config, (Schedule::kProducerRegisters >= 48)>::Type;

  const TileSource<Config> &tiles;
  const SlotTile &tile;
  const Chunk &own;
  Rows rows;
  int passes; ///< passes needed for the tile's rows; at most kPasses + 1
  /// A divisor of `passes`. The loop over passes checks its end only at
  /// multiples of kAlike.
  static constexpr int kAlike = Schedule::kTileM % S::kCopiedTokens == 0
                                    ? S::kCopiedTokens / S::kRowsPerPass
                                    : 1;

  /// Returns the row stride of lhs in 16-byte chunks.
  static __device__ __forceinline__ unsigned
  rowChunks(const typename Config::Args &args) {
    // Prevents the compiler from keeping the stride in a register during the
    // mainloop.
    long long rowStride = args.lhs_row_stride;
    asm volatile("" : "+l"(rowStride));
    return unsigned(rowStride / (kPerVector<Input> * kNumbers<Input>));
  }

  __device__ __forceinline__ CopiedRows(const TileSource<Config> &tiles,
                                        const SlotTile &tile, const Chunk &own)
      : tiles(tiles), tile(tile), own(own),
        rows(tiles, tile, own.row, own.chunk, rowChunks(tiles.args)) {}

  __device__ __forceinline__ void countPasses() {
    passes = ceilDiv(tile.rows, S::kCopiedTokens) *
             (S::kCopiedTokens / S::kRowsPerPass);
  }
  __device__ __forceinline__ void beginSteps(int first) {
    rows.beginSteps(tiles.args.lhs, first);
  }
  __device__ __forceinline__ void advance() { rows.advance(); }

  __device__ __forceinline__ void copy(int k, int stage) {
    bool inK =
        !S::kTailK ||
        k * Schedule::kTileK + own.chunk * kPerVector<Input> < Config::kK;
    unsigned to = own.destination + unsigned(stage * S::kStageBytes);
#pragma unroll
    for (int first = 0; first < S::kPasses; first += Rows::kBatch) {
      if (first % kAlike == 0 && first >= passes)
        break;
      unsigned from[Rows::kBatch];
#pragma unroll
      for (int i = 0; i < Rows::kBatch; ++i)
        from[i] = rows.place(tile, first + i);
#pragma unroll
      for (int i = 0; i < Rows::kBatch; ++i) {
        // The tile's last pass may be the first pass of its batch. The copies
        // must not continue, because the next stage's weights follow in shared
        // memory.
        if (first + i >= S::kPasses ||
            ((first + i) % kAlike == 0 && first + i >= passes))
          break;
        rows.copy(tiles.args.lhs, tile,
                  to + unsigned((first + i) * S::kRowsPerPass * S::kRowBytes),
                  from[i], first + i, k, inK);
      }
    }
  }
};

/// The copies of a stage's token rows by TMA. One thread issues them, in a warp
/// that neither copies weights nor draws tiles. A box may contain rows past the
/// end of the tile; their results are not stored. TMA fills zeros past the last
/// row and column of the matrix.
template <class Config> struct MappedRows {
  using Schedule = typename Config::Schedule;
  using S = Specialized<Config>;
  const TileSource<Config> &tiles;
  const SlotTile &tile;

  __device__ __forceinline__ MappedRows(const TileSource<Config> &tiles,
                                        const SlotTile &tile,
                                        const TokenChunk<Config> &)
      : tiles(tiles), tile(tile) {}

  static __device__ __forceinline__ bool asks() { return threadIdx.x == 64; }

  __device__ __forceinline__ void countPasses() {}
  __device__ __forceinline__ void beginSteps(int) {
    // A counter in global memory has signaled that the rows were written. The
    // fence orders the TMA reads after the read of the counter.
    if (Config::kAwaited > 0 && asks())
      ptx::fenceGlobal();
  }
  __device__ __forceinline__ void advance() {}

  __device__ __forceinline__ void copy(int k, int stage) {
    if (!asks())
      return;
    unsigned barrier = tiles.barriers.full(stage);
    unsigned to = tiles.shared + unsigned(stage * S::kStageBytes) +
                  unsigned(S::kWeightBytes);
    ptx::expectBytes(barrier, unsigned(ceilDiv(tile.rows, S::kBoxRows) *
                                       S::kBoxRows * S::kRowBytes));
#pragma unroll
    for (int row = 0; row < Schedule::kTileM; row += S::kBoxRows)
      if (row == 0 || row < tile.rows)
        ptx::copyRows(to + unsigned(row * S::kRowBytes), &tiles.args.lhs,
                      k * Schedule::kTileK, tile.firstRow + row, barrier);
  }
};

template <class Config, bool kMaps> struct RowLoaderOf {
  using Type = CopiedRows<Config>;
};
template <class Config> struct RowLoaderOf<Config, true> {
  using Type = MappedRows<Config>;
};

} // namespace detail

/// The feed of the tokens and scales of one tile.
template <class Config> struct TokenLoader {
  using Schedule = typename Config::Schedule;
  using S = Specialized<Config>;
  using Rows = typename detail::RowLoaderOf<Config, mapsRows<Config>>::Type;

  const TileSource<Config> &tiles;
  const SlotTile &tile;
  Rows rows;
  unsigned scaleRow[S::kScaleRows];
  /// Index distance between the scales of consecutive tokens; 0 if all tokens
  /// share one scale.
  static constexpr int kScaleStride =
      S::kStagesScales ? ScaleLayout<Config>::kTokenGroups
      : ScaleLayout<Config>::kLhs == quant::LhsScale::Token ? 1
                                                            : 0;
  unsigned weightScale; ///< index of the weight scale for the first group
  int firstStep;
  ScaleAtomLoader<Config> atoms;

  __device__ __forceinline__ TokenLoader(const TileSource<Config> &tiles,
                                         const SlotTile &tile,
                                         const TokenChunk<Config> &own)
      : tiles(tiles), tile(tile), rows(tiles, tile, own) {
    // Thread r copies the scales of row r and of row r + kProducers.
    if constexpr (S::kStagesScales || S::kFirstScales)
#pragma unroll
      for (int j = 0; j < S::kScaleRows; ++j) {
        int token = int(threadIdx.x) + j * S::kProducers;
        scaleRow[j] =
            kScaleStride == 0
                ? 0
                : unsigned(tiles.source(tile, token < tile.rows ? token : 0)) *
                      unsigned(kScaleStride);
      }
    if constexpr (scalesBlocks<typename Config::Mma>)
      atoms.setTokens(tiles.args, tile.rows,
                      [&](int r) { return tiles.source(tile, r); });
    rows.countPasses();
  }
  /// Prepares the copies of k tiles from `first` on, for weight rows from
  /// firstN on.
  __device__ __forceinline__ void beginSteps(int first, int firstN) {
    rows.beginSteps(first);
    firstStep = first;
    if constexpr (StageScales<Config>::kCount > 0)
      weightScale = StageScales<Config>::first(tile.expert, firstN,
                                               int(weightScaleOfThread() == 1));
    if constexpr (scalesBlocks<typename Config::Mma>)
      atoms.setWeights(tiles.args, tile.expert, firstN);
  }

  /// Returns the index of the weight scale that this thread copies. The thread
  /// copies no weight scale if the index is at least StageScales::kCount. The
  /// threads that copy one are in a warp that neither issues TMA copies nor
  /// draws tiles.
  static __device__ __forceinline__ unsigned weightScaleOfThread() {
    return threadIdx.x - 32;
  }

  /// Issues the copies of k tile `k`, which complete on the stage's mbarrier
  /// `full`.
  __device__ __forceinline__ void copy(int k, int stage) {
    rows.copy(k, stage);
    unsigned scales =
        tiles.shared + S::kScales + unsigned(stage * S::kScaleBytes);
    if constexpr (S::kStagesScales) {
      copyScales(k, scales);
      if constexpr (StageScales<Config>::kCount > 0)
        copyWeightScales(k, scales + unsigned(Schedule::kTileM * 4));
    } else if constexpr (S::kFirstScales) {
      if (k == firstStep)
        copyScales(0, scales);
    } else if constexpr (scalesBlocks<typename Config::Mma>) {
      atoms.copy(k, scales);
      if constexpr (spreadsCodes<typename Config::Mma>)
        WeightLoader<Config>{tiles.args}.copyByAll(
            tiles.shared + unsigned(stage * S::kStageBytes), atoms.firstN, k,
            tile.expert);
      if constexpr (!ScaleAtomLoader<Config>::kIsWhole)
        ptx::arrive(tiles.barriers.full(stage));
    }
    if constexpr (!mapsRows<Config> || S::kStagesScales || S::kFirstScales)
      ptx::arriveAfterCopies(tiles.barriers.full(stage));
    else
      ptx::arrive(tiles.barriers.full(stage));
    rows.advance();
  }

  /// Issues the copies of the tokens' scales for group `k`. `to`: shared-memory
  /// address of the stage's scales.
  __device__ __forceinline__ void copyScales(int k, unsigned to) const {
    // These copies go through the L1 cache. Its lines may have stale scales of
    // rows that the predecessor launch had not written yet. The acquire that
    // reads the row tile's counter invalidates such lines.
    static_assert(sizeof(*tiles.args.lhs_scale) == 4,
                  "a token's scale must be 4 bytes, the size of one copy");
#pragma unroll
    for (int j = 0; j < S::kScaleRows; ++j) {
      int token = int(threadIdx.x) + j * S::kProducers;
      if (token < Schedule::kTileM)
        ptx::copySmall<true, 4>(
            to + tokenScaleOffset<Config::Mma::kTokensAreColumns>(token),
            tiles.args.lhs_scale + (scaleRow[j] + unsigned(k)),
            token < tile.rows);
    }
  }

  __device__ __forceinline__ void copyWeightScales(int k, unsigned to) const {
    static_assert(sizeof(*tiles.args.rhs_scale) == 4,
                  "a weight scale must be 4 bytes, the size of one copy");
    unsigned ofWeights = weightScaleOfThread();
    if (ofWeights < StageScales<Config>::kCount)
      ptx::copySmall<true, 4>(
          to + ofWeights * 4,
          tiles.args.rhs_scale + (weightScale + unsigned(k)), true);
  }
};

} // namespace moe
