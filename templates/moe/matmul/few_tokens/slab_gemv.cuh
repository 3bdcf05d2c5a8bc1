//===- slab_gemv.cuh - weights of few bits by few rows ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The main loop of few tokens for weights in the order of fragments
// (math/slabs.cuh). A step of a warp is two slabs or more of 16 weight rows by
// 64 of k: it converts them into registers and multiplies them by up to 4 rows
// of lhs by mma.sync. Codes, their scales and the rows of lhs pass through a
// ring in shared memory whose slots belong to one warp: kStages - 1 steps of a
// warp are on their way all the time, also from one item to the next.
//
// An item is one unit of weight rows and all that the CTA adds up for them: the
// steps of one tile of lhs rows, or of several tiles. The warps of a CTA share
// the steps of an item; one of them adds up their sums. A step of a unit of 16
// rows has two slabs along k. A step of 32 or 64 rows has one: its slabs share
// the copied rows of lhs.
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
/// with kStages and kUnitRows, and what quant/slab_codes.cuh takes. kColumns:
/// sums of a weight row.
template <class Config, int kColumns> struct SlabGemv {
  using Numbers = SlabNumbers<Config>;
  using Codes = typename Numbers::Codes;
  /// Weight rows and slabs of a unit.
  static constexpr int kRows = Config::Schedule::kUnitRows;
  static constexpr int kUnitSlabs = kRows / Codes::kSlabRows;
  static_assert(kUnitSlabs * Codes::kSlabRows == kRows &&
                    Codes::kRows % kRows == 0,
                "a unit must be 16, 32 or 64 weight rows");
  static constexpr int kTileRows = routing::kTileRowsOf<Config>;
  static constexpr int kWarps = Config::kThreads / 32;
  static constexpr int kStages = Config::Schedule::kStages;
  /// Units of a tile. Along k: slabs of a step, slabs and steps of a unit.
  static constexpr int kUnits = Config::kN / kRows;
  static constexpr int kOfStep = kUnitSlabs == 1 ? 2 : 1;
  static constexpr int kSlabs = Config::kK / Codes::kColumns;
  static constexpr int kSteps = ceilDiv(kSlabs, kOfStep);
  /// Whether the last step of a unit has one slab along k.
  static constexpr bool kOdd = kSlabs % kOfStep != 0;

  /// Groups of a step. The slabs of a step may share one.
  static constexpr bool kShares =
      Numbers::kGroups == 1 ||
      Numbers::kGroupK % (kOfStep * Codes::kColumns) == 0;
  static constexpr int kGroups =
      Numbers::kBlockGroups * (kShares ? 1 : kOfStep);

  /// A slot: the codes of a step, their scales and zero points, and the columns
  /// of the rows of lhs, which lie so that ldmatrix meets no bank twice.
  static constexpr int kScaleBytes =
      kRows * int(sizeof(typename Config::Scale)); ///< of a group
  static constexpr int kZeroBytes = Config::kZeroPoint ? kRows : 0;
  static constexpr int kScales = kOfStep * kUnitSlabs * Codes::kSlabBytes;
  static constexpr int kZeros = kScales + kGroups * kScaleBytes;
  static constexpr int kLhs = kZeros + kGroups * kZeroBytes;
  static constexpr int kLhsLanes = kOfStep * Codes::kColumns / 8;
  static constexpr int kLhsRowBytes = kLhsLanes * 16 + 16;
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
///   count                items
///   steps(item)          steps of an item, kSteps of each of its tiles
///   tile(item, t)        its t-th tile, a SlabTile
///   lhsAt(row)           where the row of lhs begins that a row has, in
///                        elements
///   second(tile, i, s)   the second scales of a thread's two rows of slab i
template <class Config, int kColumns, class Items> struct SlabStream {
  using G = SlabGemv<Config, kColumns>;
  using Numbers = typename G::Numbers;
  using Codes = typename G::Codes;
  using Args = typename Config::Args;
  using Input = typename Config::Input;

  const Args &args;
  const Items &items;
  unsigned ring; ///< shared address of this warp's slots
  float *sums;   ///< shared: of all warps
  int warp, lane;

  __device__ __forceinline__ SlabStream(const Args &args, const Items &items,
                                        unsigned char *shared)
      : args(args), items(items),
        sums(reinterpret_cast<float *>(shared + G::kRingBytes)),
        warp(int(threadIdx.x) / 32), lane(int(threadIdx.x) % 32) {
    ring = ptx::sharedAddress(shared) +
           unsigned(warp * G::kStages * G::kSlotBytes);
  }

  /// The steps of an item that are this warp's: from which on, or up to which.
  __device__ __forceinline__ int share(int item, int bound) const {
    int turn = (warp + item) % G::kWarps + bound;
    return int(unsigned(items.steps(item) * turn) / unsigned(G::kWarps));
  }

  /// Rows of lhs that the lanes copy at a time, and turns for those of a tile.
  static constexpr int kLhsRows = 32 / G::kLhsLanes;
  static constexpr int kLhsTurns = ceilDiv(G::kTileRows, kLhsRows);

  /// The steps of the warp, one after the other, and where they lie.
  struct Walk {
    int item = -1, step = 0, end = 0; ///< step: counted over an item's tiles
    int k = 0;
    const char *codes, *numbers; ///< of this lane
    const char *lhs[kLhsTurns];  ///< null: a row that the tile lacks
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
    const int first = tile.unit * G::kUnitSlabs, slab = first % 4;
    const long long block =
        (long long)tile.expert * (Config::kN / Codes::kRows) + first / 4;
    walk.codes = reinterpret_cast<const char *>(args.rhs) +
                 block * G::kSlabs * Codes::kBlockBytes +
                 slab * Codes::kSlabBytes + lane * 16;
    // A lane has 16 bytes of the scales or of the zero points of a group.
    const long long number =
        block * Numbers::kGroups * Codes::kRows + slab * Codes::kSlabRows;
    walk.numbers = reinterpret_cast<const char *>(args.rhs_scale) +
                   number * int(sizeof(typename Config::Scale)) +
                   lane % kPieces * 16;
    if constexpr (Config::kZeroPoint)
      if (lane >= kOfScales)
        walk.numbers = reinterpret_cast<const char *>(args.rhs_zero_point) +
                       number + (lane - kOfScales) % kZeroPieces * 16;
#pragma unroll
    for (int i = 0; i < kLhsTurns; ++i) {
      const int row = i * kLhsRows + lane / G::kLhsLanes;
      walk.lhs[i] = nullptr;
      if (row < tile.rows)
        walk.lhs[i] = reinterpret_cast<const char *>(
                          args.lhs + items.lhsAt(tile.firstRow + row)) +
                      lane % G::kLhsLanes * 16;
    }
  }

  /// Lanes of a group's scales and zero points, and of those of all groups.
  static constexpr int kPieces = G::kScaleBytes / 16;
  static constexpr int kZeroPieces = maximum(G::kZeroBytes / 16, 1);
  static constexpr int kOfScales = G::kGroups * kPieces;
  static constexpr int kOfZeros = G::kGroups * G::kZeroBytes / 16;
  static_assert(kOfScales + kOfZeros <= 32,
                "each lane copies the numbers of a step once");

  /// Begins to copy the weights of a step, and their scales.
  __device__ __forceinline__ void copyWeights(const Walk &walk,
                                              unsigned slot) const {
    constexpr int kVectors = G::kUnitSlabs * Codes::kVectors;
    bool both = !G::kOdd || walk.k < G::kSteps - 1;
#pragma unroll
    for (int v = 0; v < G::kOfStep * kVectors; ++v)
      if (v < kVectors || both)
        ptx::copy16<Config::kCpAsync>(
            slot + unsigned(v * 512 + lane * 16), walk.codes,
            unsigned((walk.k * G::kOfStep + v / kVectors) *
                         (Codes::kBlockBytes / 16) +
                     v % kVectors * 32),
            true);
    bool isZero = Config::kZeroPoint && lane >= kOfScales;
    int group = isZero ? (lane - kOfScales) / kZeroPieces : lane / kPieces;
    int ofStep = group / Numbers::kBlockGroups;
    if (lane < kOfScales + kOfZeros && (ofStep == 0 || both)) {
      int bytes = isZero ? Codes::kRows
                         : Codes::kRows * int(sizeof(typename Config::Scale));
      int at = Numbers::firstGroup(walk.k * G::kOfStep + ofStep) +
               group % Numbers::kBlockGroups;
      ptx::copy16<Config::kCpAsync>(slot + unsigned(G::kScales + lane * 16),
                                    walk.numbers, unsigned(at * (bytes / 16)),
                                    true);
    }
  }
  /// Begins to copy the rows of lhs of a step. A last slab may be missing.
  __device__ __forceinline__ void copyLhs(const Walk &walk,
                                          unsigned slot) const {
    bool inside = !G::kOdd || walk.k < G::kSteps - 1 || lane % 16 < 8;
#pragma unroll
    for (int i = 0; i < kLhsTurns; ++i)
      if (walk.lhs[i] && inside)
        ptx::copy16<Config::kCpAsync>(
            slot + unsigned(G::kLhs +
                            (i * kLhsRows + lane / G::kLhsLanes) *
                                G::kLhsRowBytes +
                            lane % G::kLhsLanes * 16),
            walk.lhs[i], unsigned(walk.k * G::kLhsLanes), true);
  }

  static __device__ __forceinline__ void advance(unsigned &slot) {
    slot += unsigned(G::kSlotBytes);
    if (slot == unsigned(G::kStages * G::kSlotBytes))
      slot = 0;
  }

  /// The sums of a thread for the slabs of a unit, rows g and g + 8 by columns
  /// 2 t and 2 t + 1. A unit of one slab uses two sets of sums in turn, so that
  /// a multiply does not wait for the one before it.
  static constexpr int kSumsOfSlab = G::kUnitSlabs == 1 ? 2 : 1;
  struct Sums {
    float of[G::kUnitSlabs][kSumsOfSlab][4];
  };
  using Scaling = SlabScaling<Config>;
  using Slab = typename Scaling::Slab;
  static constexpr int kScaleBytes = int(sizeof(typename Config::Scale));
  /// Slabs whose codes a thread has at a time. Codes with exponents need more
  /// registers to convert: four of them spilled.
  static constexpr int kOfPass = kSame<typename Config::Weight, i4>
                                     ? G::kUnitSlabs
                                     : minimum(G::kUnitSlabs, 2);

  /// Adds the products of the slabs in a slot.
  __device__ __forceinline__ void multiply(unsigned slot, bool both,
                                           Sums &sums) const {
    // Rows that the tile lacks are read as others: nobody looks at their sums.
    unsigned rows =
        slot + unsigned(G::kLhs +
                        minimum(lane % 8, G::kTileRows - 1) * G::kLhsRowBytes +
                        lane / 8 * 16);
#pragma unroll
    for (int ofStep = 0; ofStep < G::kOfStep; ++ofStep) {
      if (ofStep > 0 && !both)
        break;
      int group = G::kShares ? 0 : ofStep * Numbers::kBlockGroups;
      const unsigned columns = rows + unsigned(ofStep * 128);
#pragma unroll
      for (int first = 0; first < G::kUnitSlabs; first += kOfPass) {
        Slab slabs[kOfPass];
        bool isLarge = false;
#pragma unroll
        for (int i = 0; i < kOfPass; ++i) {
          const int slab = first + i;
          const int number = group * G::kRows + slab * Codes::kSlabRows;
          slabs[i] = Scaling::template read<G::kRows>(
              slot +
                  unsigned((ofStep * G::kUnitSlabs + slab) * Codes::kSlabBytes),
              slot + unsigned(G::kScales + number * kScaleBytes),
              slot + unsigned(G::kZeros + number), lane);
          isLarge |= Scaling::Converter::kHasLarge && slabs[i].isLarge;
        }
        if (isLarge) [[unlikely]]
          multiplySlabs<true>(slabs, columns, sums.of + first);
        else
          multiplySlabs<false>(slabs, columns, sums.of + first);
      }
    }
  }
  /// columns: the shared address of this lane's row of a matrix of lhs.
  template <bool kLarge>
  static __device__ __forceinline__ void
  multiplySlabs(const Slab (&slabs)[kOfPass], unsigned columns,
                float (*sums)[kSumsOfSlab][4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      unsigned lhs[4];
      ptx::loadMatrices(lhs, columns + unsigned(half * 64));
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int slab = 0; slab < kOfPass; ++slab) {
          unsigned weights[4];
          slabs[slab].template convertAs<kLarge>(half * 2 + i, weights);
          auto &of = sums[slab][i % kSumsOfSlab];
          if constexpr (kSame<Input, bf16>)
            ptx::multiplyBfloat(of, weights, lhs[2 * i], lhs[2 * i + 1]);
          else
            ptx::multiplyHalf(of, weights, lhs[2 * i], lhs[2 * i + 1]);
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
  /// sums, to) adds a thread's sums of a slab of a tile to those of its warp;
  /// finish(item) is called by one warp when all have added theirs.
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
        float second[G::kUnitSlabs][2];
#pragma unroll
        for (int i = 0; i < G::kUnitSlabs; ++i)
          items.second(tile, i, second[i]);
        Sums sums = {};
#pragma unroll 1
        for (; step < last; ++step) {
          ptx::waitForCopies<G::kStages - 2>();
          // All lanes have what they copied, and nobody reads the slot that is
          // written next any more.
          __syncwarp();
          copy(true);
          multiply(ring + readSlot,
                   !G::kOdd || step % G::kSteps < G::kSteps - 1, sums);
          advance(readSlot);
        }
#pragma unroll
        for (int slab = 0; slab < G::kUnitSlabs; ++slab) {
          auto &of = sums.of[slab];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            of[0][i] += kSumsOfSlab > 1 ? of[kSumsOfSlab - 1][i] : 0.0f;
            of[0][i] *= Scaling(second[slab]).ofSums(i / 2, i / 2);
          }
          add(tile, of[0], own + slab * Codes::kSlabRows * kColumns);
        }
      }
      __syncthreads();
      if (warp == item % G::kWarps)
        finish(item);
    }
  }
};

} // namespace moe
