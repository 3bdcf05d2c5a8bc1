//===- slab_gemv.cuh - codes by few rows of lhs -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The mainloop of few-token kernels for weights in slabs, which are codes
// (quantized values) in MMA fragment order (moe/math/slabs.cuh).
//
//   Input:   codes, scales and zero points of the weights; rows of lhs, in
//            tiles of up to 4 rows for one expert
//   Output:  the products of each tile with units of 16, 32 or 64 weight rows
//
// The work of a CTA is a list of items. An item is one unit of weight rows with
// all products that the CTA adds up for it: for one tile of lhs rows, or for
// several tiles. An item is divided into steps along k, and the steps are
// divided among the CTA's warps. One warp adds up the warps' partial sums.
//
// In a step, a warp converts two or more slabs (16 weight rows by 64 elements
// of k each) in registers and multiplies them by the rows of lhs with mma.sync.
// In a unit of 16 rows, a step has two slabs along k. In a unit of 32 or 64
// rows, it has one slab along k, and the slabs of different rows share the
// copied rows of lhs.
//
// Codes, scales and rows of lhs pass through a ring in shared memory. A slot of
// the ring belongs to one warp, so warps do not synchronize within an item.
// Each warp always has kStages - 1 steps in flight, also across items, because
// the run time is bounded by the reads of weights.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/types.cuh"
#include "moe/quant/slab_codes.cuh"
#include "moe/quant/weight_only.cuh"
#include "moe/routing/few.cuh"

namespace moe {

/// True if a few-token kernel reads codes in fragment order.
template <class Config>
inline constexpr bool readsSlabs =
    requires { requires Config::Quant::kDequantizes; };

/// Sizes of the mainloop. The Config has Weight, Input, Quant, kN, kK, kTokens,
/// kThreads, a Schedule with kStages and kUnitRows, and the members that
/// moe/quant/slab_codes.cuh needs. `kColumns`: number of results per weight
/// row.
template <class Config, int kColumns> struct SlabGemv {
  using Numbers = SlabNumbers<Config>;
  using Codes = typename Numbers::Codes;
  /// Number of weight rows, and of slabs along the rows, per unit.
  static constexpr int kRows = Config::Schedule::kUnitRows;
  static constexpr int kUnitSlabs = kRows / Codes::kSlabRows;
  static_assert(kUnitSlabs * Codes::kSlabRows == kRows &&
                    Codes::kRows % kRows == 0,
                "a unit must be 16, 32 or 64 weight rows");
  static constexpr int kTileRows = routing::kTileRowsOf<Config>;
  static constexpr int kWarps = Config::kThreads / 32;
  static constexpr int kStages = Config::Schedule::kStages;
  /// kUnits: units per expert. Along k: kOfStep slabs per step, kSlabs slabs
  /// per unit, and kSteps steps per unit.
  static constexpr int kUnits = Config::kN / kRows;
  static constexpr int kOfStep = kUnitSlabs == 1 ? 2 : 1;
  static constexpr int kSlabs = Config::kK / Codes::kColumns;
  static constexpr int kSteps = ceilDiv(kSlabs, kOfStep);
  /// True if a unit's last step has only one slab along k.
  static constexpr bool kOdd = kSlabs % kOfStep != 0;

  /// kShares: true if the slabs of a step share scale groups. kGroups: scale
  /// groups per step.
  static constexpr bool kShares =
      Numbers::kGroups == 1 ||
      Numbers::kGroupK % (kOfStep * Codes::kColumns) == 0;
  static constexpr int kGroups =
      Numbers::kBlockGroups * (kShares ? 1 : kOfStep);

  /// The layout of a slot: the codes of a step, their scales and zero points,
  /// and the step's columns of the lhs rows. Rows of lhs are padded so that
  /// ldmatrix has no bank conflicts.
  static constexpr int kScaleBytes =
      kRows * int(sizeof(typename Config::Scale)); ///< bytes per group
  static constexpr int kZeroBytes = Config::kZeroPoint ? kRows : 0;
  static constexpr int kScales = kOfStep * kUnitSlabs * Codes::kSlabBytes;
  static constexpr int kZeros = kScales + kGroups * kScaleBytes;
  static constexpr int kLhs = kZeros + kGroups * kZeroBytes;
  static constexpr int kLhsLanes = kOfStep * Codes::kColumns / 8;
  static constexpr int kLhsRowBytes = kLhsLanes * 16 + 16;
  static constexpr int kSlotBytes = kLhs + kTileRows * kLhsRowBytes;
  static constexpr int kRingBytes = kWarps * kStages * kSlotBytes;

  /// The partial sums of all warps for one item. There are two buffers, because
  /// warps write the next item's sums while one warp still reads these.
  static constexpr int kSums = kRows * kColumns;
  static constexpr int kSumBytes = 2 * kWarps * kSums * 4;
  static constexpr int kBytes = kRingBytes + kSumBytes;

  static_assert(sizeof(typename Config::Input) == 2,
                "weights are converted to 16-bit floats");
  static_assert(kStages >= 2);
};

/// Some rows of lhs for one expert, and one unit of the expert's weight rows.
struct SlabTile {
  int expert, unit;
  int firstRow, rows; ///< sorted rows
};

/// The mainloop of one warp. `Items` describes the work of the CTA:
///
///   count               number of items
///   steps(item)         number of steps in an item, kSteps per tile
///   tile(item, t)       the item's t-th tile, a SlabTile
///   lhsAt(row)          offset, in elements, of a sorted row's row of lhs
///   second(tile, i, s)  stores in s the second scales of the thread's two rows
///                       in slab i
template <class Config, int kColumns, class Items> struct SlabStream {
  using G = SlabGemv<Config, kColumns>;
  using Numbers = typename G::Numbers;
  using Codes = typename G::Codes;
  using Args = typename Config::Args;
  using Input = typename Config::Input;

  const Args &args;
  const Items &items;
  unsigned ring; ///< shared-memory address of this warp's slots
  float *sums;   ///< partial sums of all warps, in shared memory
  int warp, lane;

  __device__ __forceinline__ SlabStream(const Args &args, const Items &items,
                                        unsigned char *shared)
      : args(args), items(items),
        sums(reinterpret_cast<float *>(shared + G::kRingBytes)),
        warp(int(threadIdx.x) / 32), lane(int(threadIdx.x) % 32) {
    ring = ptx::sharedAddress(shared) +
           unsigned(warp * G::kStages * G::kSlotBytes);
  }

  /// Returns the range of an item's steps that this warp computes: the first
  /// step for bound = 0, the end for bound = 1.
  __device__ __forceinline__ int share(int item, int bound) const {
    int turn = (warp + item) % G::kWarps + bound;
    return int(unsigned(items.steps(item) * turn) / unsigned(G::kWarps));
  }

  /// Number of lhs rows that a warp copies with one instruction, and number of
  /// such copies for the rows of a tile.
  static constexpr int kLhsRows = 32 / G::kLhsLanes;
  static constexpr int kLhsTurns = ceilDiv(G::kTileRows, kLhsRows);

  /// Position of the next copy in the warp's steps, with its global addresses.
  struct Walk {
    int item = -1, step = 0, end = 0; ///< step: over all of the item's tiles
    int k = 0;
    const char *codes, *numbers; ///< addresses for this lane
    const char *lhs[kLhsTurns];  ///< null if the tile lacks the row
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
  /// Computes the addresses of a step.
  __device__ __forceinline__ void find(Walk &walk) const {
    walk.k = walk.step % G::kSteps;
    SlabTile tile = items.tile(walk.item, walk.step / G::kSteps);
    const int first = tile.unit * G::kUnitSlabs, slab = first % 4;
    const long long block =
        (long long)tile.expert * (Config::kN / Codes::kRows) + first / 4;
    walk.codes = reinterpret_cast<const char *>(args.rhs) +
                 block * G::kSlabs * Codes::kBlockBytes +
                 slab * Codes::kSlabBytes + lane * 16;
    // A lane copies 16 bytes of a group's scales or of its zero points.
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

  /// Number of lanes that copy: the scales of one group (kPieces), the zero
  /// points of one group (kZeroPieces), the scales of all groups (kOfScales),
  /// and the zero points of all groups (kOfZeros).
  static constexpr int kPieces = G::kScaleBytes / 16;
  static constexpr int kZeroPieces = maximum(G::kZeroBytes / 16, 1);
  static constexpr int kOfScales = G::kGroups * kPieces;
  static constexpr int kOfZeros = G::kGroups * G::kZeroBytes / 16;
  static_assert(
      kOfScales + kOfZeros <= 32,
      "each lane copies at most one chunk of a step's scales and zero points");

  /// Issues the copies of a step's codes, scales and zero points.
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
  /// Issues the copies of a step's lhs columns. The last step may have only one
  /// slab.
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

  /// A thread's accumulators for a unit's slabs: rows g and g + 8 by columns 2
  /// t and 2 t + 1. A unit of one slab alternates between two sets of
  /// accumulators, so that an MMA does not depend on the previous MMA.
  static constexpr int kSumsOfSlab = G::kUnitSlabs == 1 ? 2 : 1;
  struct Sums {
    float of[G::kUnitSlabs][kSumsOfSlab][4];
  };
  using Scaling = SlabScaling<Config>;
  using Slab = typename Scaling::Slab;
  static constexpr int kScaleBytes = int(sizeof(typename Config::Scale));
  /// Number of slabs whose codes a thread holds at a time. Codes other than i4
  /// need more registers for the conversion; with four slabs, registers
  /// spilled.
  static constexpr int kOfPass = kSame<typename Config::Weight, i4>
                                     ? G::kUnitSlabs
                                     : minimum(G::kUnitSlabs, 2);

  /// Adds the products of the slabs in a slot to the accumulators. `both`: true
  /// if the step has two slabs along k.
  __device__ __forceinline__ void multiply(unsigned slot, bool both,
                                           Sums &sums) const {
    // ldmatrix reads 8 rows. Addresses past row kTileRows - 1 repeat that row.
    // The results of rows that the tile lacks are ignored.
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
          isLarge |= Scaling::Converter::kBranchesOnLarge && slabs[i].isLarge;
        }
        if (isLarge) [[unlikely]]
          multiplySlabs<true>(slabs, columns, sums.of + first);
        else
          multiplySlabs<false>(slabs, columns, sums.of + first);
      }
    }
  }
  /// Converts slabs to operands and adds their products to the accumulators.
  /// `columns`: shared-memory address of this lane's ldmatrix row of lhs.
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

  /// Returns the shared-memory address of warp `ofWarp`'s partial sums for an
  /// item.
  __device__ __forceinline__ float *sumsOf(int item, int ofWarp) const {
    return sums + (item % 2 * G::kWarps + ofWarp) * G::kSums;
  }
  /// Returns the result for a weight row and column: the sum over all warps.
  __device__ __forceinline__ float total(int item, int row, int column) const {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < G::kWarps; ++i)
      sum += sumsOf(item, i)[row * kColumns + column];
    return sum;
  }

  /// Runs all items.
  ///
  ///   await()               waits until the rows of lhs may be read
  ///   add(tile, sums, to)   adds a thread's accumulators for a tile's slab to
  ///                         the partial sums of its warp
  ///   finish(item)          is called by one warp after all warps have added
  ///                         their partial sums
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
          // The copies of all lanes are complete. After __syncwarp(), no lane
          // reads the slot that is written next.
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
