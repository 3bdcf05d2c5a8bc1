//===- scales.cuh - scales of a tile's accumulators -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The scales of a thread's accumulators, for any Fragment. Scales of a group
// along k multiply partial accumulators. Scales of a whole row or column
// multiply the final ones. Scales past the last row, column or group are never
// read.
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

/// The layout of the scales in memory, for a Config with kN, kK, kInterleave
/// and Quant.
template <class Config> struct ScaleLayout {
  using Quant = typename Config::Quant;
  static constexpr quant::LhsScale kLhs = Quant::kLhsScale;
  static constexpr quant::RhsScale kRhs = Quant::kRhsScale;
  static constexpr bool kByGroup = kLhs == quant::LhsScale::Group128;
  static constexpr bool kScaled =
      kLhs != quant::LhsScale::None || kRhs != quant::RhsScale::None;
  static_assert(kByGroup == (kRhs == quant::RhsScale::Block128),
                "groups along k need scales of both operands");
  /// True if partial accumulators have scales of weight rows only.
  static constexpr bool kRowGroups = kRhs == quant::RhsScale::Groups;
  /// Number of groups along k.
  static constexpr int kGroups =
      ceilDiv(Config::kK, kRowGroups ? Quant::kPromoteK : 128);
  /// Number of parts of a weight with separate blocks or tensor scales: gate
  /// and up rows, or 1.
  static constexpr int kParts = Config::kInterleave != 0 ? 2 : 1;
  static constexpr bool kUpFirst = StoredOrder<Config>::Type::kUpFirst;
  static constexpr int kPartRows = Config::kN / kParts;
  static constexpr int kPartBlocks = ceilDiv(kPartRows, 128);
  /// Number of scales of an expert's weight.
  static constexpr int kPerExpert =
      kRhs == quant::RhsScale::Block128  ? kParts * kPartBlocks * kGroups
      : kRhs == quant::RhsScale::Channel ? Config::kN
      : kRowGroups                       ? Config::kN * kGroups
                                         : kParts;

  /// Offset from the scale of a gate's block to that of its up's.
  static constexpr int kToUp = (kUpFirst ? -1 : 1) * kPartBlocks * kGroups;

  /// Returns the index of a weight row's scale in those of its expert. For
  /// Block128 and Groups: the scale of the first group.
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

/// True if each weight row has a second scale.
template <class Config> inline constexpr bool scalesRowsTwice = false;
template <class Config>
  requires requires { Config::kSecondPerRow; }
inline constexpr bool scalesRowsTwice<Config> = Config::kSecondPerRow;

/// Loads the second scales of a thread's weight rows: two rows, 8 apart, in
/// each kApart rows from weightRow on. There is one for each row, or one for
/// the expert's gates and one for its ups, which alternate every 8 rows.
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

/// The weights' scales of a thread whose weight rows start at weightRow, if
/// they are constant along k. `kByGroup`: false.
template <class Config, bool kByGroup = ScaleLayout<Config>::kByGroup>
struct WeightScales {
  using Layout = ScaleLayout<Config>;
  /// True if `ofRows` holds second scales, which are those of slabs and of
  /// block scales. A thread has two rows, 8 apart, of each atom. Unless there
  /// is one for each row, they are the same in all 64 rows.
  static constexpr bool kSecond =
      takesSlabs<typename Config::Mma> || scalesBlocks<typename Config::Mma>;
  /// True if rows are tokens: a lane then has every 32nd weight row of the
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
  /// Stride from a thread's row of an atom to that of the next atom.
  static constexpr int kAtomRows =
      sumsInTensorMemory<typename Config::Mma> ? 16 : 64;
  float ofRows[kCount];

  /// Returns the first of a thread's weight rows. `rowOfSums`: first row of its
  /// accumulators.
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

/// If scales change along k, they are copied with each stage: see StageScales.
template <class Config> struct WeightScales<Config, true> {
  static __device__ __forceinline__ int firstRow(int rowOfSums, int) {
    return rowOfSums;
  }
  template <class Args>
  __device__ __forceinline__ WeightScales(const Args &, int, int) {}
};

/// The weights' scales of a stage of the ring, if they change along k. There is
/// one for each block of 128 weight rows of a tile, or one for its gates and
/// one for its ups.
template <class Config> struct StageScales {
  using Layout = ScaleLayout<Config>;
  static constexpr int kParts = Layout::kParts;
  static constexpr int kTileN = Config::Schedule::kTileN;
  static constexpr int kCount = kParts == 2 ? 2 : ceilDiv(int(kTileN), 128);
  static_assert(kCount <= 2, "a tile has at most 256 weight rows");
  /// Bytes in shared memory. The tokens' scales, which are read four at a time,
  /// follow.
  static constexpr int kBytes = 16;

  /// Returns the index in rhs_scale of the first group of scale i of a tile. A
  /// block that does not exist uses the scale of one that does.
  static __device__ __forceinline__ unsigned first(int expert, int firstN,
                                                   int i) {
    // The first up row of a tile follows its first gates.
    int row = firstN + i * (kParts == 2 ? Config::kInterleave : 128);
    return unsigned(expert * Layout::kPerExpert +
                    Layout::rhsIndex(row < Config::kN ? row : firstN));
  }
  /// Returns the offset of a warpgroup's scales in bytes. If weight rows are
  /// rows of an instruction, those of a warpgroup start at the tile's block
  /// `block` of 64, and are within one block of 128.
  static constexpr __device__ __forceinline__ unsigned ofWarpgroup(int block) {
    return Config::Mma::kTokensAreColumns && kParts == 1 && kCount == 2
               ? unsigned(block / 2) * 4
               : 0;
  }
};

/// The scales of accumulators that need none: all factors are 1.
struct NoScales {
  __device__ __forceinline__ void fetchRows() {}
  __device__ __forceinline__ float ofResult(int, int) const { return 1.0f; }
  template <class Args, class Source>
  __device__ __forceinline__ void fetchOwn(const Args &, int, int, Source) {}
  template <class Fragment>
  __device__ __forceinline__ void finish(Fragment &, unsigned, int, int) {}
};

/// The type of weight scales: f32 unless a Config has the type Scale.
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
  /// A warp's weight rows are within one block, or one of gates and one of ups,
  /// because tiles and the warps' parts of them are powers of two.
  static_assert(!Layout::kByGroup ||
                    128 % (Fragment::kWarpN / Layout::kParts) == 0,
                "a warp's weight rows must not cross a block of 128");

  using RhsScale = typename RhsScaleOf<Config>::Type;
  /// Columns of a thread that have their own scales for each group.
  static constexpr int kColumns = Layout::kRowGroups ? Fragment::kColumns : 1;

  const float *lhs;
  const RhsScale *rhs; ///< scales of the expert's weight
  int firstN;
  unsigned lhsRow[Fragment::kRows]; ///< index of each row's first scale
  float lhsScale[Fragment::kRows];
  float rhsScale[Layout::kParts];
  int rhsIndex[Layout::kParts];
  float columnScale[kColumns];

  /// Sets the addresses. `rows`: number of rows of the tile. `source(r)`: row
  /// of lhs for row r of the tile.
  template <class Source>
  __device__ __forceinline__ Scales(const float *lhs, const RhsScale *rhs,
                                    int expert, int firstN, int rows,
                                    const Fragment &fragment, Source source)
      : lhs(lhs), rhs(rhs + (long long)expert * Layout::kPerExpert),
        firstN(firstN) {
    constexpr bool kRowScales = Layout::kLhs == quant::LhsScale::Token ||
                                Layout::kLhs == quant::LhsScale::Group128;
    constexpr int kStride = Layout::kByGroup ? Layout::kGroups : 1;
#pragma unroll
    for (int slot = 0; slot < Fragment::kRows; ++slot) {
      int row = fragment.heldRow(slot);
      // Rows that do not exist use the scales of one that does.
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

  /// Loads the scales of a group along k.
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

  /// Returns the factor of partial accumulator i in the fetched group.
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

  /// Loads the factors of final accumulators for each row.
  __device__ __forceinline__ void fetchRows() {
    if constexpr (Layout::kLhs == quant::LhsScale::Token ||
                  Layout::kLhs == quant::LhsScale::Tensor) {
#pragma unroll
      for (int slot = 0; slot < Fragment::kRows; ++slot)
        lhsScale[slot] = lhs[lhsRow[slot]];
    }
  }

  /// Returns the factor of final accumulator i. `n`: its weight row, less than
  /// kN.
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
