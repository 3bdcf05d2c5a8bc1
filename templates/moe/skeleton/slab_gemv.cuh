//===- slab_gemv.cuh - weights of few bits by few rows ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The main loop of few tokens for weights in the order of fragments
// (math/slabs.cuh). A warp converts slabs of 16 weight rows by 64 of k into
// registers and multiplies them by up to 4 rows of lhs by mma.sync. Codes, their
// scales and the rows of lhs pass through a ring in shared memory whose slots
// belong to one warp: kStages - 1 steps of a warp are on their way all the time,
// also from one item to the next.
//
// An item is 16 weight rows and all that the CTA adds up for them: the slabs of
// one tile of lhs rows, or of several tiles. The warps of a CTA share the slabs
// of an item; one of them adds up what they found.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/types.cuh"
#include "moe/quant/slab_codes.cuh"
#include "moe/quant/weight_only.cuh"
#include "moe/routing/few.cuh"

namespace moe {

/// Whether a few-token kernel reads codes in the order of fragments.
template <class Config>
inline constexpr bool readsSlabs =
    requires { requires Config::Quant::kDequantizes; };

/// Sizes. Config: Weight, Input, Quant, kN, kK, kTokens, kThreads, Schedule
/// with kStages, and what quant/slab_codes.cuh takes. kColumns: sums of a weight
/// row.
template <class Config, int kColumns> struct SlabGemv {
  using Numbers = SlabNumbers<Config>;
  using Codes = typename Numbers::Codes;
  static constexpr int kRows = Codes::kSlabRows;
  static constexpr int kTileRows =
      minimum(Config::kTokens, routing::kFewTileRows);
  static constexpr int kWarps = Config::kThreads / 32;
  static constexpr int kStages = Config::Schedule::kStages;
  /// Items of a tile, and slabs of an item and a tile.
  static constexpr int kUnits = Config::kN / kRows;
  static constexpr int kSteps = Config::kK / Codes::kColumns;

  /// A slot: the codes of a slab, its scales and zero points, and 64 columns of
  /// the rows of lhs, which lie so that ldmatrix meets no bank twice.
  static constexpr int kScaleBytes =
      kRows * int(sizeof(typename Config::Scale)); ///< of a group
  static constexpr int kZeroBytes = Config::kZeroPoint ? kRows : 0;
  static constexpr int kScales = Codes::kSlabBytes;
  static constexpr int kZeros = kScales + Numbers::kStageGroups * kScaleBytes;
  static constexpr int kLhs = kZeros + Numbers::kStageGroups * kZeroBytes;
  static constexpr int kLhsRowBytes = Codes::kColumns * 2 + 16;
  static constexpr int kSlotBytes = kLhs + kTileRows * kLhsRowBytes;
  static constexpr int kRingBytes = kWarps * kStages * kSlotBytes;

  /// Sums of the warps for an item, and for the next one.
  static constexpr int kSums = kRows * kColumns;
  static constexpr int kSumBytes = 2 * kWarps * kSums * 4;
  static constexpr int kBytes = kRingBytes + kSumBytes;

  static_assert(sizeof(typename Config::Input) == 2,
                "weights become 16-bit floats");
  static_assert(kStages >= 2);
};

/// Some rows of lhs of one expert, and 16 of its weight rows.
struct SlabTile {
  int expert, unit;
  int firstRow, rows; ///< in the order of experts
};

/// One warp of a CTA. Items: what the CTA has,
///   count            items
///   steps(item)      slabs of an item, kSteps of each of its tiles
///   tile(item, t)    its t-th tile, a SlabTile
///   lhsAt(row)       where the row of lhs begins that a row has, in elements
///   second(tile, s)  the second scales of a tile's two rows of a thread
template <class Config, int kColumns, class Items> struct SlabStream {
  using G = SlabGemv<Config, kColumns>;
  using Numbers = typename G::Numbers;
  using Codes = typename G::Codes;
  using Args = typename Config::Args;
  using Input = typename Config::Input;

  const Args &args;
  const Items &items;
  unsigned ring;  ///< shared address of this warp's slots
  float *sums;    ///< shared: of all warps
  int warp, lane;

  __device__ __forceinline__ SlabStream(const Args &args, const Items &items,
                                        unsigned char *shared)
      : args(args), items(items),
        sums(reinterpret_cast<float *>(shared + G::kRingBytes)),
        warp(int(threadIdx.x) / 32), lane(int(threadIdx.x) % 32) {
    ring = ptx::sharedAddress(shared) +
           unsigned(warp * G::kStages * G::kSlotBytes);
  }

  /// The slabs of an item that are this warp's: from which on, or up to which.
  __device__ __forceinline__ int share(int item, int bound) const {
    int turn = (warp + item) % G::kWarps + bound;
    return int(unsigned(items.steps(item) * turn) / unsigned(G::kWarps));
  }

  /// The slabs of the warp, one after the other, and where they lie.
  struct Walk {
    int item = -1, step = 0, end = 0; ///< step: counted over an item's tiles
    int k = 0;
    const char *codes, *numbers, *lhs; ///< of this lane
    bool brings = false;               ///< whether this lane has a row of lhs
  };
  __device__ __forceinline__ void next(Walk &walk) const {
    if (++walk.step >= walk.end) {
      do {
        if (++walk.item >= items.count)
          return;
        walk.step = share(walk.item, 0);
        walk.end = share(walk.item, 1);
      } while (walk.step == walk.end);
    } else if (++walk.k < G::kSteps) {
      return;
    }
    find(walk);
  }
  /// The tile of a step.
  __device__ __forceinline__ void find(Walk &walk) const {
    walk.k = walk.step % G::kSteps;
    SlabTile tile = items.tile(walk.item, walk.step / G::kSteps);
    const long long block =
        (long long)tile.expert * (Config::kN / Codes::kRows) + tile.unit / 4;
    const int slab = tile.unit % 4;
    walk.codes = reinterpret_cast<const char *>(args.rhs) +
                 block * G::kSteps * Codes::kBlockBytes +
                 slab * Codes::kSlabBytes + lane * 16;
    // A lane has 16 bytes of the scales or of the zero points of a step.
    constexpr int kPieces = G::kScaleBytes / 16;
    constexpr int kOfScales = Numbers::kStageGroups * kPieces;
    const long long first =
        block * Numbers::kGroups * Codes::kRows + slab * G::kRows;
    walk.numbers =
        reinterpret_cast<const char *>(args.rhs_scale) +
        (first + lane / kPieces * Codes::kRows) *
            int(sizeof(typename Config::Scale)) +
        lane % kPieces * 16;
    if constexpr (Config::kZeroPoint)
      if (lane >= kOfScales)
        walk.numbers = reinterpret_cast<const char *>(args.rhs_zero_point) +
                       first + (lane - kOfScales) * Codes::kRows;
    walk.brings = lane / 8 < tile.rows;
    if (walk.brings)
      walk.lhs = reinterpret_cast<const char *>(
                     args.lhs + items.lhsAt(tile.firstRow + lane / 8)) +
                 lane % 8 * 16;
  }

  /// Begins to copy the weights of a step, and their scales.
  __device__ __forceinline__ void copyWeights(const Walk &walk,
                                              unsigned slot) const {
#pragma unroll
    for (int v = 0; v < Codes::kVectors; ++v)
      ptx::copy16<Config::kCpAsync>(
          slot + unsigned(v * 512 + lane * 16), walk.codes,
          unsigned(walk.k * (Codes::kBlockBytes / 16) + v * 32), true);
    constexpr int kOfScales = Numbers::kStageGroups * G::kScaleBytes / 16;
    constexpr int kOfZeros = Numbers::kStageGroups * G::kZeroBytes / 16;
    if (lane < kOfScales + kOfZeros) {
      int bytes = Codes::kRows * int(sizeof(typename Config::Scale));
      if (Config::kZeroPoint && lane >= kOfScales)
        bytes = Codes::kRows;
      ptx::copy16<Config::kCpAsync>(
          slot + unsigned(G::kScales + lane * 16), walk.numbers,
          unsigned(Numbers::firstGroup(walk.k) * (bytes / 16)), true);
    }
  }
  /// Begins to copy the rows of lhs of a step.
  __device__ __forceinline__ void copyLhs(const Walk &walk,
                                          unsigned slot) const {
    if (walk.brings)
      ptx::copy16<Config::kCpAsync>(
          slot + unsigned(G::kLhs + lane / 8 * G::kLhsRowBytes + lane % 8 * 16),
          walk.lhs, unsigned(walk.k * 8), true);
  }

  static __device__ __forceinline__ void advance(unsigned &slot) {
    slot += unsigned(G::kSlotBytes);
    if (slot == unsigned(G::kStages * G::kSlotBytes))
      slot = 0;
  }

  /// Adds the product of the slab in a slot to the sums of a thread, rows g and
  /// g + 8 by columns 2 t and 2 t + 1.
  __device__ __forceinline__ void multiply(const SlabScaling<Config> &scaling,
                                           unsigned slot,
                                           float (&of)[2][4]) const {
    auto slab = scaling.template read<G::kRows>(
        slot, slot + unsigned(G::kScales), slot + unsigned(G::kZeros), lane);
    // Rows that the tile lacks are read as others: nobody looks at their sums.
    unsigned rows =
        slot + unsigned(G::kLhs +
                        minimum(lane % 8, G::kTileRows - 1) * G::kLhsRowBytes +
                        lane / 8 * 16);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      unsigned columns[4];
      ptx::loadMatrices(columns, rows + unsigned(half * 64));
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        unsigned weights[4];
        slab.convert(half * 2 + i, weights);
        if constexpr (kSame<Input, bf16>)
          ptx::multiplyBfloat(of[i], weights, columns[2 * i],
                              columns[2 * i + 1]);
        else
          ptx::multiplyHalf(of[i], weights, columns[2 * i],
                            columns[2 * i + 1]);
      }
    }
  }

  /// The sums of a warp for an item, in shared memory.
  __device__ __forceinline__ float *sumsOf(int item, int ofWarp) const {
    return sums + (item % 2 * G::kWarps + ofWarp) * G::kSums;
  }
  /// The sum over the warps.
  __device__ __forceinline__ float total(int item, int row, int column) const {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < G::kWarps; ++i)
      sum += sumsOf(item, i)[row * kColumns + column];
    return sum;
  }

  /// All items. await() returns when the rows of lhs may be read; add(tile,
  /// sums, to) adds a thread's sums of a tile to those of its warp; finish(item)
  /// is called by one warp when all have added theirs.
  template <class Await, class Add, class Finish>
  __device__ __forceinline__ void run(Await await, Add add,
                                      Finish finish) const {
    Walk ahead;
    unsigned writeSlot = 0, readSlot = 0;
    next(ahead);
#pragma unroll 1
    for (int i = 0; i < G::kStages - 1; ++i) {
      if (ahead.item < items.count) {
        copyWeights(ahead, ring + unsigned(i * G::kSlotBytes));
        next(ahead);
      }
    }
    await();
    ahead = Walk();
    next(ahead);
    auto copy = [&](bool weights) {
      if (ahead.item < items.count) {
        if (weights)
          copyWeights(ahead, ring + writeSlot);
        copyLhs(ahead, ring + writeSlot);
        next(ahead);
      }
      ptx::commitCopies();
      advance(writeSlot);
    };
#pragma unroll 1
    for (int i = 0; i < G::kStages - 1; ++i)
      copy(false);

#pragma unroll 1
    for (int item = 0; item < items.count; ++item) {
      float *own = sumsOf(item, warp);
      for (int i = lane; i < G::kSums / 4; i += 32)
        reinterpret_cast<float4 *>(own)[i] = float4{};
      __syncwarp();
      int step = share(item, 0), end = share(item, 1);
#pragma unroll 1
      while (step < end) {
        SlabTile tile = items.tile(item, step / G::kSteps);
        int last = minimum(end, (step / G::kSteps + 1) * G::kSteps);
        float second[2];
        items.second(tile, second);
        const SlabScaling<Config> scaling(second);
        float of[2][4] = {};
#pragma unroll 1
        for (; step < last; ++step) {
          ptx::waitForCopies<G::kStages - 2>();
          // All lanes have what they copied, and nobody reads the slot that is
          // written next any more.
          __syncwarp();
          copy(true);
          multiply(scaling, ring + readSlot, of);
          advance(readSlot);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
          of[0][i] += of[1][i];
        add(tile, of[0], own);
      }
      __syncthreads();
      if (warp == item % G::kWarps)
        finish(item);
    }
  }
};

} // namespace moe
