//===- scales.cuh - scales of a tile's accumulators -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The scales of a thread's accumulators, for any Fragment. Scales per group
// along k multiply partial accumulators. Scales per row or column multiply the
// final accumulators. Scales past the last row, column or group are never read.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/gate_up.cuh"
#include "moe/core/types.cuh"
#include "moe/quant/code_groups.cuh"
#include "moe/quant/fp8.cuh"
#include "moe/quant/int8.cuh"
#include "moe/quant/none.cuh"

namespace moe {

/// Layout of lhs_scale and rhs_scale in memory, for a Config with kN, kK,
/// kInterleave and Quant.
template <class Config> struct ScaleLayout {
  using Quant = typename Config::Quant;
  static constexpr quant::LhsScale kLhs = Quant::kLhsScale;
  static constexpr quant::RhsScale kRhs = Quant::kRhsScale;
  /// kByGroup: tokens have scales per group of 128 along k. kByBlock: weights
  /// have scales per block of 128 rows and such a group.
  static constexpr bool kByGroup = kLhs == quant::LhsScale::Group128;
  static constexpr bool kByBlock = kRhs == quant::RhsScale::Block128;
  static constexpr bool kScaled =
      kLhs != quant::LhsScale::None || kRhs != quant::RhsScale::None;
  /// True if each weight row has its own scales per group along k.
  static constexpr bool kRowGroups = kRhs == quant::RhsScale::Groups;
  static_assert(kByGroup ? kByBlock || kRowGroups : !kByBlock,
                "Group128 scales of lhs need Block128 or Groups scales of rhs, "
                "and Block128 needs Group128");
  /// Number of groups along k that tokens' scales have, and weights' scales.
  static constexpr int kTokenGroups = ceilDiv(Config::kK, 128);
  static constexpr int kGroups =
      ceilDiv(Config::kK, kRowGroups ? Quant::kPromoteK : 128);
  /// Number of parts of a weight that have separate blocks or tensor scales: 2
  /// for gate and up rows, else 1.
  static constexpr int kParts = Config::kInterleave != 0 ? 2 : 1;
  static constexpr bool kUpFirst = StoredOrder<Config>::Type::kUpFirst;
  static constexpr int kPartRows = Config::kN / kParts;
  static constexpr int kPartBlocks = ceilDiv(kPartRows, 128);
  /// Number of scales per expert.
  static constexpr int kPerExpert =
      kRhs == quant::RhsScale::Block128  ? kParts * kPartBlocks * kGroups
      : kRhs == quant::RhsScale::Channel ? Config::kN
      : kRowGroups                       ? Config::kN * kGroups
                                         : kParts;

  /// Index distance from the scale of a gate block to the scale of its up
  /// block.
  static constexpr int kToUp = (kUpFirst ? -1 : 1) * kPartBlocks * kGroups;

  /// Returns the index of a weight row's scale among the expert's scales. With
  /// Block128 and Groups, it is the scale of the first group.
  static __device__ __forceinline__ int rhsIndex(int weightRow) {
    if constexpr (kRhs == quant::RhsScale::Channel) {
      return storedRow<Config>(weightRow);
    } else if constexpr (kRowGroups) {
      return storedRow<Config>(weightRow) * kGroups;
    } else {
      GateUpRow row{false, weightRow};
      if constexpr (kParts == 2)
        row = gateUpRow<Config::kInterleave>(weightRow);
      int part = kParts == 2 && row.up != kUpFirst;
      if constexpr (kRhs == quant::RhsScale::Tensor)
        return part;
      return (part * kPartBlocks + row.index / 128) * kGroups;
    }
  }
};

/// True if each weight row has its own second scale.
template <class Config> inline constexpr bool scalesRowsTwice = false;
template <class Config>
  requires requires { Config::kSecondPerRow; }
inline constexpr bool scalesRowsTwice<Config> = Config::kSecondPerRow;

/// Loads the second scales of a thread's weight rows: rows r and r + 8 for each
/// r = weightRow, weightRow + kApart, ... If second scales are not per row, the
/// expert has one scale for gates and one for ups, which alternate every 8
/// rows.
template <class Config, int kApart = 64, int kCount, class Args>
__device__ __forceinline__ void secondScales(const Args &args, int expert,
                                             int weightRow,
                                             float (&second)[kCount]) {
  static_assert(kCount == 2 || scalesRowsTwice<Config>);
#pragma unroll
  for (int j = 0; j < kCount; ++j)
    second[j] = 1.0f;
  if constexpr (scalesRowsTwice<Config>) {
    const float *ofExpert =
        args.rhs_second_scale + (long long)expert * Config::kN;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      int n = minimum(weightRow + j / 2 * kApart + j % 2 * 8, Config::kN - 1);
      second[j] = ofExpert[storedRow<Config>(n)];
    }
  } else if constexpr (Config::kSecondScale) {
    constexpr int kParts = Config::kInterleave != 0 ? 2 : 1;
    constexpr bool kUpFirst = StoredOrder<Config>::Type::kUpFirst;
    const float *ofParts = args.rhs_second_scale + expert * kParts;
    second[0] = ofParts[kParts == 2 && kUpFirst];
    second[1] = ofParts[kParts == 2 && !kUpFirst];
  }
}

/// A thread's weight scales, if they are constant along k (kByBlock is false).
/// They are loaded before the mainloop. `weightRow`: the thread's first weight
/// row.
template <class Config, bool kByBlock = ScaleLayout<Config>::kByBlock>
struct WeightScales {
  using Layout = ScaleLayout<Config>;
  /// True if `ofRows` has second scales, which is so for slabs and for block
  /// scales. A thread has two rows, 8 apart, of each 64-row MMA block. If
  /// second scales are not per row, they are the same in all blocks.
  static constexpr bool kSecond =
      takesSlabs<typename Config::Mma> || scalesBlocks<typename Config::Mma>;
  /// True if rows are tokens. Lane i then has weight rows i, i + 32, ... of the
  /// tile.
  static constexpr bool kByLane =
      requires { requires !Config::Mma::kTokensAreColumns; } && !kSecond;
  static constexpr int count() {
    if constexpr (kSecond && !scalesRowsTwice<Config>)
      return 2;
    else if constexpr (kByLane)
      return Config::Schedule::kTileN / 32;
    else if constexpr (kSecond || Layout::kScaled)
      return 2 * (Config::Mma::kRows / 64);
    else
      return 1;
  }
  static constexpr int kCount = count();
  /// Row stride between a thread's rows in consecutive 64-row MMA blocks.
  static constexpr int kAtomRows =
      sumsInTensorMemory<typename Config::Mma> ? 16 : 64;
  float ofRows[kCount];

  /// Returns the thread's first weight row. `rowOfSums`: row of the thread's
  /// first accumulator.
  static __device__ __forceinline__ int firstRow(int rowOfSums, int thread) {
    return kByLane ? thread % 32 : rowOfSums;
  }

  template <class Args>
  __device__ __forceinline__ WeightScales(const Args &args, int expert,
                                          int weightRow) {
    if constexpr (kSecond) {
      secondScales<Config>(args, expert, weightRow, ofRows);
    } else if constexpr (Layout::kScaled) {
      const float *ofExpert =
          args.rhs_scale + (long long)expert * Layout::kPerExpert;
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        int row =
            weightRow + (kByLane ? j * 32 : j / 2 * kAtomRows + j % 2 * 8);
        ofRows[j] = ofExpert[Layout::rhsIndex(minimum(row, Config::kN - 1))];
      }
    }
  }
};

/// Empty if scales change along k: they are copied with each pipeline stage,
/// see StageScales.
template <class Config> struct WeightScales<Config, true> {
  static __device__ __forceinline__ int firstRow(int rowOfSums, int) {
    return rowOfSums;
  }
  template <class Args>
  __device__ __forceinline__ WeightScales(const Args &, int, int) {}
};

/// The weight scales of a pipeline stage, if they change along k. There is one
/// scale per 128 weight rows of the tile, or one for its gates and one for its
/// ups.
template <class Config> struct StageScales {
  using Layout = ScaleLayout<Config>;
  static constexpr int kParts = Layout::kParts;
  static constexpr int kTileN = Config::Schedule::kTileN;
  static constexpr int kCount = !Layout::kByBlock ? 0
                                : kParts == 2     ? 2
                                                  : ceilDiv(int(kTileN), 128);
  static_assert(kCount <= 2, "a tile must have at most 256 weight rows");
  /// Bytes in shared memory. Padded because the tokens' scales, which follow,
  /// are read four at a time.
  static constexpr int kBytes = kCount == 0 ? 0 : 16;

  /// Returns the index in rhs_scale of the tile's scale i, for the first group.
  /// A block past the last weight row uses the scale of the tile's first block.
  static __device__ __forceinline__ unsigned first(int expert, int firstN,
                                                   int i) {
    // The tile's first up row follows its first gates.
    int row = firstN + i * (kParts == 2 ? Config::kInterleave : 128);
    return unsigned(expert * Layout::kPerExpert +
                    Layout::rhsIndex(row < Config::kN ? row : firstN));
  }
  /// Returns the byte offset of a warpgroup's scale. If the MMA's rows are
  /// weight rows, a warpgroup's rows start at the tile's 64-row block `block`,
  /// and are within one block of 128.
  static constexpr __device__ __forceinline__ unsigned ofWarpgroup(int block) {
    return Config::Mma::kTokensAreColumns && kParts == 1 && kCount == 2
               ? unsigned(block / 2) * 4
               : 0;
  }
};

/// Placeholder for accumulators without scales: all factors are 1.
struct NoScales {
  __device__ __forceinline__ void fetchRows() {}
  __device__ __forceinline__ float ofResult(int, int) const { return 1.0f; }
  template <class Args, class Source>
  __device__ __forceinline__ void fetchOwn(const Args &, int, int, Source) {}
  template <class Fragment>
  __device__ __forceinline__ void finish(Fragment &, unsigned, int, int) {}
};

/// The type of rhs_scale: float unless the Config has the type Scale.
template <class Config> struct RhsScaleOf {
  using Type = float;
};
template <class Config>
  requires requires { typename Config::Scale; }
struct RhsScaleOf<Config> {
  using Type = typename Config::Scale;
};

/// The scales of one worker's accumulators, for grid engines.
template <class Config, class Fragment> struct Scales {
  using Layout = ScaleLayout<Config>;
  /// A warp's weight rows are within one block of 128, or within one gate block
  /// and one up block, because tiles and the warps' parts are powers of two.
  static_assert(!Layout::kByGroup ||
                    128 % (Fragment::kWarpN / Layout::kParts) == 0,
                "a warp's weight rows must not cross a block of 128");

  using RhsScale = typename RhsScaleOf<Config>::Type;
  /// Number of a thread's columns that have their own scales for each group.
  static constexpr int kColumns = Layout::kRowGroups ? Fragment::kColumns : 1;

  const float *lhs;
  const RhsScale *rhs; ///< the expert's weight scales
  int firstN;
  unsigned lhsRow[Fragment::kRows]; ///< index of each row's first scale
  float lhsScale[Fragment::kRows];
  float rhsScale[Layout::kParts];
  int rhsIndex[Layout::kParts];
  float columnScale[kColumns];

  /// Sets the addresses. `rows`: number of rows in the tile. `source(r)`: row
  /// of lhs for row r of the tile.
  template <class Source>
  __device__ __forceinline__ Scales(const float *lhs, const RhsScale *rhs,
                                    int expert, int firstN, int rows,
                                    const Fragment &fragment, Source source)
      : lhs(lhs), rhs(rhs + (long long)expert * Layout::kPerExpert),
        firstN(firstN) {
    constexpr bool kRowScales = Layout::kLhs == quant::LhsScale::Token ||
                                Layout::kLhs == quant::LhsScale::Group128;
    constexpr int kStride = Layout::kByGroup ? Layout::kTokenGroups : 1;
#pragma unroll
    for (int slot = 0; slot < Fragment::kRows; ++slot) {
      int row = fragment.heldRow(slot);
      // Rows past the end of the tile use the scales of its row 0.
      lhsRow[slot] =
          kRowScales ? unsigned(source(row < rows ? row : 0)) * kStride : 0;
    }
    if constexpr (Layout::kByGroup) {
#pragma unroll
      for (int part = 0; part < Layout::kParts; ++part) {
        int n = firstN + fragment.firstHeldCol() + part * Config::kInterleave;
        rhsIndex[part] = Layout::rhsIndex(minimum(n, Config::kN - 1));
      }
    }
  }

  /// Loads the scales of group `group` along k.
  template <class Worker>
  __device__ __forceinline__ void fetchGroup(const Worker &worker, int group) {
    if constexpr (Layout::kRowGroups) {
#pragma unroll
      for (int slot = 0; slot < kColumns; ++slot) {
        int n = minimum(firstN + worker.heldCol(slot), Config::kN - 1);
        columnScale[slot] = toFloat(rhs[Layout::rhsIndex(n) + group]);
      }
    }
    if constexpr (Layout::kByGroup) {
#pragma unroll
      for (int slot = 0; slot < Fragment::kRows; ++slot)
        lhsScale[slot] = lhs[lhsRow[slot] + unsigned(group)];
#pragma unroll
      for (int part = 0; part < Layout::kParts; ++part)
        rhsScale[part] = rhs[rhsIndex[part] + group];
    }
  }

  /// Returns the factor of partial accumulator i in the loaded group.
  __device__ __forceinline__ float ofGroup(int i) const {
    if constexpr (Layout::kByGroup) {
      int part = Layout::kParts == 2 && !Fragment::isGate(i) ? 1 : 0;
      return lhsScale[Fragment::rowSlot(i)] * rhsScale[part];
    } else if constexpr (Layout::kRowGroups) {
      return columnScale[Fragment::colSlot(i)];
    } else {
      return 1.0f;
    }
  }

  /// Loads the per-row factors of the final accumulators.
  __device__ __forceinline__ void fetchRows() {
    if constexpr (Layout::kLhs == quant::LhsScale::Token ||
                  Layout::kLhs == quant::LhsScale::Tensor) {
#pragma unroll
      for (int slot = 0; slot < Fragment::kRows; ++slot)
        lhsScale[slot] = lhs[lhsRow[slot]];
    }
  }

  /// Returns the factor of final accumulator i. `n`: weight row of the
  /// accumulator, less than kN.
  __device__ __forceinline__ float ofResult(int i, int n) const {
    if constexpr (Layout::kByGroup)
      return 1.0f;
    else if constexpr (Layout::kRowGroups)
      return lhsScale[Fragment::rowSlot(i)];
    else
      return lhsScale[Fragment::rowSlot(i)] * toFloat(rhs[Layout::rhsIndex(n)]);
  }
};

} // namespace moe
