//===- warpgroup.cuh - epilogues of a warpgroup -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Selection of the epilogue of a warpgroup engine. WarpgroupEpilogue is the
// class that fits a Config's Fragment and result. All of these classes have the
// same interface:
//
//   kBytes     shared memory of all consumer warpgroups, in bytes
//   kInTurn    number of column tiles that a CTA must compute one after
//              another
//   scratch()  returns the address of shared memory that a warpgroup may use
//              before it calls store()
//   store()    stores a warpgroup's part of a tile
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_async.cuh"
#include "moe/matmul/epilogue/quantize_groups.cuh"
#include "moe/matmul/epilogue/quantize_row_groups.cuh"
#include "moe/matmul/epilogue/store_chunk.cuh"
#include "moe/matmul/epilogue/store_rows.cuh"
#include "moe/matmul/epilogue/store_swapped.cuh"

namespace moe {

/// The tile that a warpgroup stores.
struct StoredTile {
  unsigned shared; ///< shared-memory address of the CTA's kBytes bytes
  int thread, warpgroup;
  int firstRow, rows, firstN; ///< first sorted row, row count, first weight row
  float inverse;              ///< see inverseOfScale
};

/// The epilogue if columns are tokens and the result is not quantized by
/// groups of 128 columns.
template <class Config> struct SwappedEpilogue {
  using Staging = SwappedStaging<Config>;
  static constexpr int kBytes =
      Config::Schedule::kConsumerWarps / 4 * Staging::kBytes;
  static constexpr int kInTurn = 1;
  static __device__ __forceinline__ unsigned scratch(unsigned shared,
                                                     int warpgroup) {
    return shared + unsigned(warpgroup * Staging::kBytes);
  }
  template <class Fragment, class Args, class Bias, class Activation>
  static __device__ __forceinline__ void
  store(const Fragment &fragment, const Args &args, const StoredTile &at,
        const Bias *bias, const Activation &activation) {
    storeSwapped<Config>(
        fragment, scratch(at.shared, at.warpgroup), 1 + at.warpgroup, at.thread,
        at.warpgroup, at.rows, at.firstN, bias,
        storedResult<Config>(args) +
            storedBefore<Config, Staging::kColumns>(at.firstRow),
        at.inverse, activation,
        storedScales<Config, Staging::kColumns>(args, at.firstRow));
  }
};

/// The epilogue if rows are tokens and the result is not quantized by groups.
template <class Config> struct RowEpilogue {
  using Staging = RowStaging<Config>;
  static constexpr int kBytes = Staging::kBytes;
  static constexpr int kInTurn = 1;
  static __device__ __forceinline__ unsigned scratch(unsigned shared,
                                                     int warpgroup) {
    return shared + unsigned(warpgroup * 4 * Staging::kWarpBytes);
  }
  template <class Fragment, class Args, class Bias, class Activation>
  static __device__ __forceinline__ void
  store(const Fragment &fragment, const Args &args, const StoredTile &at,
        const Bias *bias, const Activation &activation) {
    storeRows<Config>(
        fragment,
        at.shared +
            unsigned((at.warpgroup * 4 + at.thread / 32) * Staging::kWarpBytes),
        at.thread % 32, at.rows, at.firstN, bias,
        storedResult<Config>(args) + (long long)at.firstRow * Staging::kColumns,
        activation);
  }
};

/// The epilogue if columns are tokens and every 128 result columns share a
/// scale.
template <class Config> struct GroupEpilogue {
  using Staging = GroupStaging<Config>;
  static constexpr int kBytes = Staging::kBytes;
  static constexpr int kInTurn = Staging::kTiles;
  static __device__ __forceinline__ unsigned scratch(unsigned shared,
                                                     int warpgroup) {
    return SwappedEpilogue<Config>::scratch(shared, warpgroup);
  }
  template <class Fragment, class Args, class Bias, class Activation>
  static __device__ __forceinline__ void
  store(const Fragment &fragment, const Args &args, const StoredTile &at,
        const Bias *bias, const Activation &activation) {
    constexpr int kTileN = Config::Schedule::kTileN;
    constexpr int kConsumers = 32 * Config::Schedule::kConsumerWarps;
    int turn = at.firstN / kTileN % kInTurn;
    // Waits until all threads have read the previous group.
    if (turn == 0)
      ptx::synchronize(1, kConsumers);
    stageGroup<Config>(fragment, at.shared, at.thread, at.warpgroup, at.firstN,
                       turn, bias, activation);
    if (turn < kInTurn - 1)
      return;
    ptx::synchronize(1, kConsumers);
    int group = at.firstN / (kInTurn * kTileN);
    storeGroup<Config, kConsumers>(
        at.shared, at.warpgroup * 128 + at.thread, at.rows, group,
        args.data + (long long)at.firstRow * Staging::kColumns + group * 128,
        args.scale + (long long)at.firstRow * Staging::kGroups + group);
  }
};

/// The epilogue if rows are tokens and every 128 result columns share a scale.
template <class Config> struct RowGroupEpilogue {
  using Staging = RowGroupStaging<Config>;
  static constexpr int kBytes = Staging::kBytes;
  static constexpr int kInTurn = 1;
  static __device__ __forceinline__ unsigned scratch(unsigned shared,
                                                     int warpgroup) {
    return shared + unsigned(warpgroup * 4 * Staging::kWarpBytes);
  }
  template <class Fragment, class Args, class Bias, class Activation>
  static __device__ __forceinline__ void
  store(const Fragment &fragment, const Args &args, const StoredTile &at,
        const Bias *bias, const Activation &activation) {
    storeRowGroups<Config>(
        fragment,
        scratch(at.shared, at.warpgroup) +
            unsigned(at.thread / 32 * Staging::kWarpBytes),
        at.thread % 32, at.rows, at.firstN, bias,
        args.data + (long long)at.firstRow * Staging::kColumns,
        args.scale + (long long)at.firstRow * Staging::kGroups, activation);
  }
};

namespace detail {
template <class Config> constexpr auto epilogueOf() {
  if constexpr (quantizesGroups<Config> && !Config::Mma::kTokensAreColumns)
    return RowGroupEpilogue<Config>();
  else if constexpr (quantizesGroups<Config>)
    return GroupEpilogue<Config>();
  else if constexpr (Config::Mma::kTokensAreColumns)
    return SwappedEpilogue<Config>();
  else
    return RowEpilogue<Config>();
}
} // namespace detail

template <class Config>
using WarpgroupEpilogue = decltype(detail::epilogueOf<Config>());

} // namespace moe
