//===- gemv.cuh - dot products of weight rows with few rows -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The mainloop of few-token kernels for weights in row order. Its run time is
// bounded by the reads of weights.
//
//   Input:   weights in global memory; rows of lhs in shared memory, in tiles
//            of up to 4 rows for one expert
//   Output:  the products of each tile with units of weight rows
//
// kLanes lanes share a weight row, and each lane reads 16 bytes of it at a
// time. A lane multiplies its part of kRows weight rows by the rows of lhs.
// Weights pass through a ring in shared memory. A slot of the ring belongs to
// one warp, and each thread reads only what it copied itself, so threads do not
// synchronize. Each warp always has kStages - 1 steps in flight, also across
// items. A unit is the kUnit results that one warp computes at a time: kOutputs
// results for each of its 32 / kLanes groups of lanes.
//
// An item is the product of a tile of lhs rows (for one expert) with the weight
// rows of one unit. The kernel specifies the items of each warp and their
// order.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/feed/scales.cuh"
#include "moe/routing/few.cuh"

namespace moe {

/// Checks the Config of a few-token kernel.
template <class Config> constexpr bool checkFewConfig() {
  MOE_REQUIRE_TYPE(Config, Score, "score policy");
  MOE_REQUIRE_TYPE(Config, Select, "selection policy");
  MOE_REQUIRE_TYPE(Config, Normalize, "normalization policy");
  MOE_REQUIRE_TYPE(Config, Scaling, "granularity of the lhs scales");
  MOE_REQUIRE_TYPE(Config, Weight, "element type of rhs");
  MOE_REQUIRE_TYPE(Config, Result, "element type of the result");
  MOE_REQUIRE_TYPE(Config, Quant, "quantization policy");
  MOE_REQUIRE_TYPE(Config, Activation, "activation policy");
  MOE_REQUIRE_TYPE(Config, Schedule, "pipeline stages");
  MOE_REQUIRE_VALUE(Config, kExperts, "experts of the layer");
  MOE_REQUIRE_VALUE(Config, kLocalExperts, "experts of this rank");
  MOE_REQUIRE_VALUE(Config, kTopK, "experts chosen for a token");
  MOE_REQUIRE_VALUE(Config, kTokens, "maximum number of tokens");
  MOE_REQUIRE_VALUE(Config, kN, "rows of rhs");
  MOE_REQUIRE_VALUE(Config, kK, "columns of lhs and rhs");
  MOE_REQUIRE_VALUE(Config, kBias, "true if a bias is added");
  MOE_REQUIRE_VALUE(Config, kInterleave,
                    "rows of an interleaved gate or up block, or 0");
  MOE_REQUIRE_VALUE(Config, kScales, "static scales");
  using Schedule = typename Config::Schedule;
  MOE_REQUIRE_VALUE(Schedule, kStages, "pipeline stages");
  static_assert(Config::kTokens >= 1 && Config::kTokens <= 8 &&
                    Config::kTokens * routing::kPairsOf<Config> <=
                        routing::kFewPairs,
                "kTokens must be 1 to 8, with at most 64 pairs");
  static_assert(checkScorePolicy<typename Config::Score>());
  static_assert(checkSelectPolicy<typename Config::Select>());
  static_assert(checkNormalizePolicy<typename Config::Normalize>());
  static_assert(checkQuantPolicy<typename Config::Quant>());
  static_assert(checkActivation<typename Config::Activation>());
  return true;
}

/// Returns the number of lanes that share a weight row. `vectors`: 16-byte
/// vectors per weight row. The result is the largest power of two from 32 down
/// to 4 for which the idle lanes of the last step are at most 1/16 of
/// `vectors`. If there is none, it is the one with the fewest idle lanes.
constexpr int gemvLanes(int vectors) {
  int best = 32, least = 1 << 30;
  for (int lanes = 32; lanes >= 4; lanes /= 2) {
    int idle = ceilDiv(vectors, lanes) * lanes - vectors;
    if (idle * 16 <= vectors)
      return lanes;
    if (idle < least) {
      least = idle;
      best = lanes;
    }
  }
  return best;
}

/// Sizes of the mainloop. The Config has Weight, Quant, Activation, kN, kK,
/// kInterleave, kCpAsync, kThreads, and a Schedule with kStages and kOutputs.
template <class Config> struct Gemv {
  using Weight = typename Config::Weight;
  using Layout = ScaleLayout<Config>;
  using Schedule = typename Config::Schedule;
  MOE_REQUIRE_VALUE(Schedule, kOutputs, "results per lane");
  static constexpr int kTileRows = routing::kTileRowsOf<Config>;
  static constexpr int kWarps = Config::kThreads / 32;
  static constexpr int kStages = Schedule::kStages;
  static constexpr int kVectors = Config::kK * int(sizeof(Weight)) / 16;
  static constexpr int kLanes = gemvLanes(kVectors);
  static constexpr int kGroups = 32 / kLanes;
  static constexpr int kSteps = ceilDiv(kVectors, kLanes);
  static constexpr bool kTail = kVectors % kLanes != 0;
  /// Number of weight rows per result: 2 for a gate and its up row, else 1.
  static constexpr int kParts = Config::Activation::kGated ? 2 : 1;
  static constexpr int kRows = kParts * Schedule::kOutputs;
  static constexpr int kResults = Config::kN / kParts;
  /// Number of results per unit.
  static constexpr int kUnit = Schedule::kOutputs * kGroups;
  static constexpr int kUnits = ceilDiv(kResults, kUnit);
  static constexpr int kRowBytes = 512 + (Layout::kScaled ? 128 : 0);
  static constexpr int kSlotBytes = kRows * kRowBytes;
  static constexpr int kRingBytes = kWarps * kStages * kSlotBytes;
  static_assert(Config::kK * int(sizeof(Weight)) % 16 == 0,
                "weight rows must be whole 16-byte chunks");
  static_assert(kParts == 1 || Config::kInterleave == 8,
                "gate and up rows must be interleaved by 8");
  static_assert(kStages >= 2 && kRows <= 8);
  static_assert(kRowBytes % 128 == 0,
                "each row of a slot must start at a multiple of 128 bytes");
  // The index of a 16-byte weight chunk has 32 bits.
  static_assert((long long)Config::kLocalExperts * Config::kN * kVectors <
                    1ll << 32,
                "weights of all experts must be below 64 GiB");

  /// Returns the index of the result to which this lane contributes for output
  /// p of a unit.
  static __device__ __forceinline__ int result(int unit, int p, int lane) {
    return unit * kUnit + p * kGroups + lane / kLanes;
  }
  /// Returns the packed weight row of a result's gate (c = 0) or up row (c =
  /// 1).
  static __device__ __forceinline__ int weightRow(int result, int c) {
    if constexpr (kParts == 2)
      return result / 8 * 16 + result % 8 + c * 8;
    else
      return result;
  }

  /// Returns, in every lane, the sum of `value` over the kLanes lanes that
  /// share its weight row.
  static __device__ __forceinline__ float reduce(float value) {
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2)
      value += __shfl_xor_sync(0xffffffffu, value, distance);
    return value;
  }
};

/// Rows of lhs in shared memory, converted to the element type of the weights,
/// and their scales.
template <class Config> struct GemvOperand {
  const unsigned char *data;
  const float *scales;
  static constexpr int kRowBytes =
      Config::kK * int(sizeof(typename Config::Weight));
  static constexpr int kScales =
      ScaleLayout<Config>::kByGroup ? ScaleLayout<Config>::kTokenGroups : 1;
  static constexpr int kLineBytes = 128;
  /// Returns the bytes of the rows and their scales, rounded up to a 128-byte
  /// line. The ring follows and must be aligned: copying a 32-byte sector to
  /// two sectors of shared memory would read it from L2 twice.
  static constexpr int bytes(int rows) {
    int scales = ScaleLayout<Config>::kScaled ? rows * kScales * 4 : 0;
    return ceilDiv(rows * kRowBytes + scales, kLineBytes) * kLineBytes;
  }
};

/// The weights and scales that one warp reads, through its ring.
template <class Config> struct GemvStream {
  using G = Gemv<Config>;
  using Layout = typename G::Layout;
  using Weight = typename Config::Weight;

  const Weight *rhs;
  const float *rhsScale;
  unsigned ring;   ///< shared-memory address of this thread's chunk in slot 0
  int lane, items; ///< items: number of items of this warp
  int item = 0, step = 0; ///< position of the next copy
  unsigned writeSlot = 0, readSlot = 0;
  unsigned chunk[G::kRows]; ///< index of the next 16-byte chunk of each row
  unsigned scaleAt[G::kRows];
  unsigned exists = 0; ///< bit r is 1 if weight row r exists

  __device__ __forceinline__ GemvStream(const Weight *rhs,
                                        const float *rhsScale, unsigned ring,
                                        int items)
      : rhs(rhs), rhsScale(rhsScale), lane(int(threadIdx.x) % 32),
        items(items) {
    this->ring = ring +
                 threadIdx.x / 32 * unsigned(G::kStages * G::kSlotBytes) +
                 unsigned(lane) * 16;
  }

  __device__ __forceinline__ unsigned scaleSlot(unsigned slot, int r) const {
    // The scales follow the rows of the slot, 4 bytes per lane.
    return slot + unsigned(G::kRows * 512 + r * 128) - unsigned(lane) * 12;
  }

  /// Issues the copies of one step, if a step is left, and commits a group in
  /// either case. itemOf(i) returns {expert, unit} of this warp's i-th item.
  template <class ItemOf> __device__ __forceinline__ void copy(ItemOf itemOf) {
    if (item < items) {
      if (step == 0) {
        int2 next = itemOf(item);
        exists = 0;
#pragma unroll
        for (int r = 0; r < G::kRows; ++r) {
          int result = G::result(next.y, r / G::kParts, lane);
          if (G::kResults % G::kUnit == 0 || result < G::kResults)
            exists |= 1u << r;
          else
            result = 0;
          int row = G::weightRow(result, r % G::kParts);
          chunk[r] = unsigned(next.x * Config::kN + row) * G::kVectors +
                     unsigned(lane % G::kLanes);
          if constexpr (Layout::kScaled)
            scaleAt[r] = unsigned(next.x * Layout::kPerExpert) +
                         unsigned(Layout::rhsIndex(row));
        }
      }
      unsigned slot = ring + writeSlot;
      int column = step * G::kLanes + lane % G::kLanes;
      bool inside = !G::kTail || column < G::kVectors;
#pragma unroll
      for (int r = 0; r < G::kRows; ++r) {
        ptx::copy16<Config::kCpAsync>(slot + r * 512, rhs, chunk[r],
                                      inside && (exists >> r & 1));
        chunk[r] += G::kLanes;
      }
      if constexpr (Layout::kScaled) {
        // A per-row scale is copied with the row's last step.
        if (Layout::kByGroup || step == G::kSteps - 1) {
          int group =
              Layout::kByGroup ? minimum(column, G::kVectors - 1) / 8 : 0;
#pragma unroll
          for (int r = 0; r < G::kRows; ++r)
            ptx::copy4<Config::kCpAsync>(scaleSlot(slot, r),
                                         rhsScale + scaleAt[r] + group);
        }
      }
      if (++step == G::kSteps) {
        step = 0;
        ++item;
      }
    }
    ptx::commitCopies();
    writeSlot += G::kSlotBytes;
    if (writeSlot == G::kStages * G::kSlotBytes)
      writeSlot = 0;
  }

  /// Fills the ring. Called before the first multiply().
  template <class ItemOf> __device__ __forceinline__ void fill(ItemOf itemOf) {
#pragma unroll 1
    for (int i = 0; i < G::kStages - 1; ++i)
      copy(itemOf);
  }

  /// Computes this lane's part of the next item's products. `rows`: number of
  /// rows in the item's tile. `row[i]`: row of `lhs` for row i of the tile.
  /// `sums`: the products, by row of the tile and weight row.
  template <class ItemOf>
  __device__ __forceinline__ void
  multiply(ItemOf itemOf, const GemvOperand<Config> &lhs,
           const int (&row)[G::kTileRows], int rows,
           float (&sums)[G::kTileRows][G::kRows]) {
    constexpr int kWide = kPerVector<Weight>;
#pragma unroll
    for (int i = 0; i < G::kTileRows; ++i)
#pragma unroll
      for (int r = 0; r < G::kRows; ++r)
        sums[i][r] = 0.0f;
    float rhsScales[G::kRows];
#pragma unroll 1
    for (int k = 0; k < G::kSteps; ++k) {
      copy(itemOf);
      ptx::waitForCopies<G::kStages - 1>();
      unsigned slot = ring + readSlot;
      readSlot += G::kSlotBytes;
      if (readSlot == G::kStages * G::kSlotBytes)
        readSlot = 0;
      Vector16 weights[G::kRows];
#pragma unroll
      for (int r = 0; r < G::kRows; ++r)
        ptx::loadShared(slot + r * 512, weights[r].words);
      if constexpr (Layout::kScaled)
        if (Layout::kByGroup || k == G::kSteps - 1)
#pragma unroll
          for (int r = 0; r < G::kRows; ++r)
            rhsScales[r] = __uint_as_float(ptx::loadShared(scaleSlot(slot, r)));
      int column = k * G::kLanes + lane % G::kLanes;
      bool inside = !G::kTail || column < G::kVectors;
#pragma unroll
      for (int i = 0; i < G::kTileRows; ++i) {
        if (i >= rows)
          break;
        Vector16 vector = {};
        if (inside)
          vector = *reinterpret_cast<const Vector16 *>(
              lhs.data + row[i] * GemvOperand<Config>::kRowBytes + column * 16);
        float values[kWide];
        unpack<Weight>(vector, values);
        float lhsScale = 0.0f;
        if constexpr (Layout::kByGroup)
          lhsScale = lhs.scales[row[i] * Layout::kGroups +
                                minimum(column, G::kVectors - 1) / 8];
#pragma unroll
        for (int r = 0; r < G::kRows; ++r) {
          float factors[kWide];
          unpack<Weight>(weights[r], factors);
          float sum = Layout::kByGroup ? 0.0f : sums[i][r];
#pragma unroll
          for (int j = 0; j < kWide; ++j)
            sum = fmaf(values[j], factors[j], sum);
          if constexpr (Layout::kByGroup)
            sum = fmaf(sum, lhsScale * rhsScales[r], sums[i][r]);
          sums[i][r] = sum;
        }
      }
    }
    if constexpr (Layout::kScaled && !Layout::kByGroup) {
#pragma unroll
      for (int i = 0; i < G::kTileRows; ++i) {
        if (i >= rows)
          break;
        float lhsScale =
            lhs.scales[Layout::kLhs == quant::LhsScale::Token ? row[i] : 0];
#pragma unroll
        for (int r = 0; r < G::kRows; ++r)
          sums[i][r] *= lhsScale * rhsScales[r];
      }
    }
  }
};

} // namespace moe
