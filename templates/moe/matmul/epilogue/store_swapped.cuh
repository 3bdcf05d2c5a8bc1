//===- store_swapped.cuh - swapped sums to memory ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The epilogue of a warpgroup's Fragment whose rows are weight rows and whose
// columns are tokens. It adds the bias, applies the activation and rounds. The
// results are transposed in shared memory, 16 or 32 tokens at a time, so that
// global stores are whole 16-byte chunks of a token's row. Each warpgroup
// stores its own weight rows. If results have block scales, a thread quantizes
// 8 of the transposed values, and lanes exchange the maxima of their group.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/ptx_async.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/epilogue/finished.cuh"
#include "moe/matmul/epilogue/store.cuh"
#include "moe/matmul/epilogue/store_emulated.cuh"
#include "moe/matmul/epilogue/swapped_sums.cuh"

namespace moe {

/// Sizes of a warpgroup's staging tile.
template <class Config> struct SwappedStaging {
  using Result = typename Config::Result;
  static constexpr bool kGated = Config::Activation::kGated;
  static constexpr int kRows = Config::Mma::kRows;
  /// Result columns of a warpgroup and of the whole result.
  static constexpr int kOwnColumns = kGated ? kRows / 2 : kRows;
  static constexpr int kTileColumns = kOwnColumns;
  static constexpr int kColumns = kGated ? Config::kN / 2 : Config::kN;
  /// Tokens of two buffers together. One buffer is filled while the other
  /// buffer is stored.
  static constexpr int kTokens =
      minimum(Config::Schedule::kTileM,
              sizeof(Result) == 4 || kOwnColumns > 64 ? 32 : 64);
  static constexpr int kPass = kTokens >= 64 ? 32 : 16;
  static constexpr int kAtoms = kRows / 64;
  /// Bytes per row. The padding of one 16-byte chunk lets consecutive rows
  /// start at different banks.
  static constexpr int kRowBytes = kOwnColumns * int(sizeof(Result)) + 16;
  static constexpr int kBytes = kTokens * kRowBytes;
  static_assert(kColumns * int(sizeof(Result)) % 16 == 0,
                "result rows must be whole 16-byte chunks");
};

namespace detail {

/// Quantizes and stores the pass of staged tokens that begins with token
/// `first`. `shared`: address of the pass in shared memory. `firstColumn`: the
/// warpgroup's first column of the result. For other parameters, see
/// storeSwapped.
template <class Config, class Stored, class StoredScale>
__device__ __forceinline__ void
storeEncodedPass(int thread, unsigned shared, int rows, int first,
                 int firstColumn, Stored *result, float inverse,
                 StoredScale *scales) {
  using S = SwappedStaging<Config>;
  constexpr int kScales = ceilDiv(S::kColumns, Config::Scaling::kColumns);
  storeEmulated<Config, S, 128>(
      thread, shared, minimum(S::kPass, rows - first), firstColumn,
      result + storedBefore<Config, S::kColumns>(first), inverse,
      scales + first * kScales);
}

} // namespace detail

/// Stores tokens [0, rows) of the tile. Called by a warpgroup.
///
///   shared      shared-memory address of the warpgroup's own
///               SwappedStaging::kBytes bytes
///   barrier     id of the warpgroup's own named barrier
///   thread      index in the warpgroup
///   firstN      first weight row of the tile
///   bias        the expert's bias; null if not Config::kBias
///   result      address of row 0 of the tile, at column 0 of the result
///   inverse     see storeChunk
///   activation  the expert's activation
///   scales      address of the scales of row 0 of the tile, if the result is
///               codes (quantized values)
template <class Config, class Fragment, class Bias, class Stored,
          class StoredScale = float>
__device__ __forceinline__ void
storeSwapped(const Fragment &fragment, unsigned shared, int barrier, int thread,
             int warpgroup, int rows, int firstN, const Bias *bias,
             Stored *result, float inverse,
             const typename Config::Activation &activation = {},
             [[maybe_unused]] StoredScale *scales = nullptr) {
  static_assert(checkFragment<Fragment>());
  static_assert(Fragment::kTokensAreColumns,
                "this epilogue needs accumulators whose columns are tokens");
  using S = SwappedStaging<Config>;
  using Result = typename Config::Result;
  constexpr int kBlocks = Fragment::kSize / S::kAtoms / 4; ///< 8 tokens each
  constexpr int kChunks = S::kOwnColumns / kPerVector<Result>;
  // Column strides between a warp's row blocks (atoms) and between warps.
  constexpr int kAtomColumns = Fragment::kAtomRows * S::kOwnColumns / S::kRows;
  constexpr int kWarpColumns = Fragment::kWarpRows * S::kOwnColumns / S::kRows;
  int lane = thread % 32, warp = thread / 32;

  auto finished = finishedOf<Fragment>(
      activation, SwappedSums<Config, Fragment, Bias>(fragment, firstN, bias));
  // `own`: address of this warp's columns in the staging tile. `chunk`: the
  // 16-byte chunk that this thread stores, for every kRowsAtOnce-th token.
  unsigned own = shared + unsigned(warp * kWarpColumns * int(sizeof(Result)));
  constexpr int kRowsAtOnce = 128 / kChunks;
  int storedToken = thread / kChunks, chunk = thread % kChunks;
  int firstColumn =
      (S::kGated ? firstN / 2 : firstN) + warpgroup * S::kOwnColumns;
  int column = firstColumn + chunk * kPerVector<Result>;
  bool inN = Config::kN % Config::Schedule::kTileN == 0 || column < S::kColumns;
  int left = inN ? rows - storedToken : 0;
  Stored *to = result + (long long)storedToken * S::kColumns + column;
  unsigned from = shared + unsigned(storedToken * S::kRowBytes + chunk * 16);

  // Waits until all threads have read the staging tile of the previous call.
  ptx::synchronize(barrier, 128);
#pragma unroll
  for (int first = 0; first < kBlocks * 8; first += S::kPass) {
    if (first >= rows)
      break;
    unsigned buffer =
        unsigned(first / S::kPass % 2 * (S::kPass * S::kRowBytes));
#pragma unroll
    for (int step = 0; step < S::kPass / 16 * S::kAtoms; ++step) {
      int j = step / S::kAtoms * 16, atom = step % S::kAtoms;
      if (first + j >= kBlocks * 8)
        break;
      int i = atom * kBlocks * 4 + (first + j) / 2;
      unsigned columns =
          own + buffer + unsigned(atom * kAtomColumns * int(sizeof(Result)));
      if constexpr (sizeof(Result) == 4) {
#pragma unroll
        for (int v = 0; v < 8; ++v) {
          if (S::kGated && !Fragment::isGate(i + v))
            continue;
          int token = fragment.col(i + v) - first;
          int row = lane / 4 + v % 4 / 2 * 8;
          ptx::storeShared(columns + unsigned(token * S::kRowBytes + row * 4),
                           __float_as_uint(finished(i + v)));
        }
      } else if constexpr (S::kGated) {
        unsigned words[2] = {
            packPair<Result>(finished(i), finished(i + 1)),
            packPair<Result>(finished(i + 4), finished(i + 5))};
        int token = j + lane % 16;
        ptx::storeTransposed(columns + unsigned(token * S::kRowBytes), words);
      } else {
        unsigned words[4] = {
            packPair<Result>(finished(i), finished(i + 1)),
            packPair<Result>(finished(i + 2), finished(i + 3)),
            packPair<Result>(finished(i + 4), finished(i + 5)),
            packPair<Result>(finished(i + 6), finished(i + 7))};
        int token = j + lane % 8 + lane / 16 * 8;
        ptx::storeTransposed(
            columns + unsigned(token * S::kRowBytes + lane / 8 % 2 * 16),
            words);
      }
    }
    // Waits until all threads have written this buffer and have read the other
    // buffer.
    ptx::synchronize(barrier, 128);
    if constexpr (encodesResult<Config>) {
      detail::storeEncodedPass<Config>(thread, shared + buffer, rows, first,
                                       firstColumn, result, inverse, scales);
    } else {
#pragma unroll
      for (int token = 0; token < S::kPass; token += kRowsAtOnce) {
        if (first + token < left &&
            (S::kPass % kRowsAtOnce == 0 || storedToken + token < S::kPass)) {
          Vector16 vector;
          ptx::loadShared(from + buffer + unsigned(token * S::kRowBytes),
                          vector.words);
          storeChunk<Result>(
              vector, to + (long long)(first + token) * S::kColumns, inverse);
        }
      }
    }
  }
}

} // namespace moe
