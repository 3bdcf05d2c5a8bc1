//===- sums.cuh - slices to the output --------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The combine of a CTA that keeps token rows
// (moe/matmul/slices/stationary.cuh). For each slice of result columns, it
// computes the weighted sums over the pairs of each of the CTA's tokens.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/combine/weighted_sum.cuh"
#include "moe/core/ptx.cuh"
#include "moe/core/ptx_async.cuh"
#include "moe/core/ptx_grid.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/slices/exchange.cuh"
#include "moe/matmul/slices/layout.cuh"

namespace moe::detail {

/// Discards partial results from L2 after they have been used, so that they are
/// not written back to memory. `first`, `end`: range of the CTA's pairs. The
/// calling warp must have read these partial results, and no other warp may
/// read them.
///
/// The discard cannot destroy the next slice in the same buffer. It is a weak
/// write, and it happens before the next write of its line through this chain:
/// __syncwarp(), the arrival at kSummed, countUp (release), waitForCount
/// (acquire) and the arrival at kFree. A write that precedes another write in
/// causality order also precedes it in coherence order.
template <class Config>
__device__ __forceinline__ void
discardPartials(const StationaryExchange<Config> &cta,
                typename Config::Result *partials, int first, int end) {
  using Result = typename Config::Result;
  using S = Stationary<Config>;
  constexpr int kPerLine = ptx::kLineBytes / int(sizeof(Result));
  constexpr int kLines = S::kSlice / kPerLine;
  static_assert(S::kSlice % kPerLine == 0,
                "a row of a slice must be whole cache lines");
  int count = (end - first) * kLines;
#pragma unroll 1
  for (int i = int(threadIdx.x) % 32; i < count; i += 32) {
    int row = int(ptx::loadShared(cta.shared + S::kPairList +
                                  unsigned(first + i / kLines) * 8));
    if (row >= 0)
      ptx::discardLine(partials + unsigned(row) * unsigned(S::kSlice) +
                       i % kLines * kPerLine);
  }
}

/// Computes the weighted sums of each slice as soon as all CTAs have stored it.
/// Run by the non-consumer threads from warp kSumWarp on.
template <class Config>
__device__ __forceinline__ void
sumSlices(const StationaryExchange<Config> &cta) {
  using Result = typename Config::Result;
  using Output = typename Config::Output;
  using S = Stationary<Config>;
  using Exchange = StationaryExchange<Config>;
  const typename Config::Args &args = cta.args;
  constexpr int kPairs = Config::kPairs;
  constexpr int kWidth = maximum(kPerVector<Result>, kPerVector<Output>);
  constexpr int kPartialVectors = kWidth / kPerVector<Result>;
  constexpr int kOutputVectors = kWidth / kPerVector<Output>;
  constexpr int kChunks = S::kSlice / kWidth;
  constexpr int kBatch = minimum(kPairs, 8);
  int thread = int(threadIdx.x) - 32 * S::kSumWarp;
  int share = (args.tokens + int(gridDim.x) - 1) / int(gridDim.x);
  int first = int(blockIdx.x) * share;
  int count = max(0, min(share, args.tokens - first));
  unsigned pairs = cta.shared + S::kPairList;
#pragma unroll 1
  for (int i = thread; i < count * kPairs; i += S::kSumThreads) {
    long long pair = (long long)first * kPairs + i;
    ptx::storeShared(pairs + unsigned(i) * 8, unsigned(args.positions[pair]));
    ptx::storeShared(pairs + unsigned(i) * 8 + 4,
                     __float_as_uint(args.topk_weights[pair]));
  }
  ptx::synchronize(15, S::kSumThreads);
#pragma unroll 1
  for (int slice = 0; slice < S::kSlices; ++slice) {
    int buffer = slice % Config::Schedule::kBuffers,
        uses = slice / Config::Schedule::kBuffers;
    ptx::waitForBarrier(cta.local(Exchange::kReady, buffer),
                        unsigned(uses & 1));
    Result *partials =
        args.partials + (long long)buffer * args.tokens * kPairs * S::kSlice;
    // A warp processes whole tokens, so it may discard their partial results.
    static_assert(32 % kChunks == 0, "a warp must sum whole rows of a slice");
#pragma unroll 1
    for (int ofWarp = thread / 32 * 32; ofWarp < count * kChunks;
         ofWarp += S::kSumThreads) {
      int i = ofWarp + thread % 32;
      if (i < count * kChunks) {
        int token = i / kChunks, column = i % kChunks * kWidth;
        unsigned own = pairs + unsigned(token * kPairs) * 8;
        float sums[kWidth] = {};
#pragma unroll 1
        for (int begin = 0; begin < kPairs; begin += kBatch) {
          Vector16 vectors[kBatch][kPartialVectors];
          unsigned have = 0;
#pragma unroll
          for (int k = 0; k < kBatch; ++k) {
            bool exists = kPairs % kBatch == 0 || begin + k < kPairs;
            int row = exists
                          ? int(ptx::loadShared(own + unsigned(begin + k) * 8))
                          : -1;
            have |= unsigned(row >= 0) << k;
            const Result *source =
                partials + unsigned(row) * unsigned(S::kSlice) + column;
#pragma unroll
            for (int v = 0; v < kPartialVectors; ++v) {
              vectors[k][v] = Vector16{};
              if (row < 0)
                continue;
              uint4 words =
                  ptx::loadSecondLevelOnce(source + v * kPerVector<Result>);
              vectors[k][v] = {{words.x, words.y, words.z, words.w}};
            }
          }
#pragma unroll
          for (int k = 0; k < kBatch; ++k) {
            if (!(have >> k & 1))
              continue;
            float scale = __uint_as_float(
                ptx::loadShared(own + unsigned(begin + k) * 8 + 4));
            addWeighted<Result>(sums, vectors[k], scale, [](int, float *) {});
          }
        }
        Output *out = args.out + (long long)(first + token) * Config::kN +
                      slice * S::kSlice + column;
#pragma unroll
        for (int v = 0; v < kOutputVectors; ++v) {
          Vector16 words = pack<Output>(sums + v * kPerVector<Output>);
          ptx::storeStreaming(out + v * kPerVector<Output>,
                              make_uint4(words.words[0], words.words[1],
                                         words.words[2], words.words[3]));
        }
      }
      __syncwarp();
      discardPartials<Config>(cta, partials, ofWarp / kChunks * kPairs,
                              minimum(count, (ofWarp + 32) / kChunks) * kPairs);
    }
    __syncwarp();
    if (thread % 32 == 0)
      ptx::arrive(cta.local(Exchange::kSummed, buffer));
  }
}

/// Fills the whole output with NaN. Used if the grid of a launch is too small,
/// so that the output cannot be mistaken for a result. A trap would destroy the
/// CUDA context.
template <class Config>
__device__ __forceinline__ void refuse(const typename Config::Args &args) {
  using Output = typename Config::Output;
  constexpr int kVectors = Config::kN / kPerVector<Output>;
  float none[kPerVector<Output>];
#pragma unroll
  for (float &value : none)
    value = __uint_as_float(0x7fffffffu);
  const Vector16 words = pack<Output>(none);
#pragma unroll 1
  for (int token = int(blockIdx.x); token < args.tokens;
       token += int(gridDim.x))
#pragma unroll 1
    for (int i = int(threadIdx.x); i < kVectors; i += Config::kThreads)
      reinterpret_cast<Vector16 *>(args.out)[(long long)token * kVectors + i] =
          words;
}

} // namespace moe::detail
