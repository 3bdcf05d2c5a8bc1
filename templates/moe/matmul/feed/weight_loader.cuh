//===- weight_loader.cuh - weights of a stage -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The feeds that copy weights to a pipeline stage:
//
//   TensorMapWeights  one thread issues a TMA copy of a tensor-map box
//   SlabWeights       one thread issues bulk copies of blocks of slabs (codes
//                     in MMA fragment order, moe/math/slabs.cuh)
//   SpreadWeights     all producer threads copy 4-bit codes, 16 codes per
//                     16-byte chunk
//
// moe/matmul/contract.cuh lists the members of a feed. The part of a box
// outside the weights is filled with zeros; blocks outside the weights are not
// copied.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/ptx_async.cuh"
#include "moe/core/ptx_grid.cuh"
#include "moe/core/swizzle.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/feed/slab_stage.cuh"

namespace moe {

/// The feed of weights whose element type is that of the MMA. A box is kTileN
/// rows by kTileK elements.
template <class Config> struct TensorMapWeights {
  using Schedule = typename Config::Schedule;
  static constexpr int kRowBytes = Config::Mma::kRowBytes;
  static constexpr int kBytes = Schedule::kTileN * kRowBytes;
  const typename Config::Args &args;

  __device__ __forceinline__ void prefetch() const {
    ptx::prefetchMap(&args.rhs);
  }

  /// Issues the copy of k tile `k` of the expert's rows, from row firstN on.
  /// `once`: the weights are not read again (L2 eviction hint).
  __device__ __forceinline__ void copy(unsigned to, int firstN, int k,
                                       int expert, unsigned barrier,
                                       bool once = false) const {
    ptx::arriveExpecting(barrier, kBytes);
    int x = k * Schedule::kTileK;
    if (once)
      ptx::copyTileOnce(to, &args.rhs, x, firstN, expert, barrier);
    else
      ptx::copyTile(to, &args.rhs, x, firstN, expert, barrier);
  }
};

/// The feed of codes, scales and zero points in blocks of 64 rows. Each block
/// is contiguous in global memory.
template <class Config> struct SlabWeights {
  using Schedule = typename Config::Schedule;
  using Stage = SlabStage<Config>;
  using Codes = typename Stage::Codes;
  static constexpr int kRowBytes = Codes::kBlockBytes / Codes::kRows;
  static constexpr int kBytes = Stage::kBytes;
  static_assert(Stage::kBlocksOfK == 1,
                "a stage must be one slab block along k");
  const typename Config::Args &args;

  __device__ __forceinline__ void prefetch() const {}

  __device__ __forceinline__ void copy(unsigned to, int firstN, int k,
                                       int expert, unsigned barrier,
                                       bool = false) const {
    constexpr int kBlocksOfRows = Config::kN / Codes::kRows;
    constexpr int kSteps = Config::kK / Codes::kColumns;
    int first = firstN / Codes::kRows;
    int blocks = Config::kN % Schedule::kTileN == 0
                     ? Stage::kBlocks
                     : minimum(Stage::kBlocks, kBlocksOfRows - first);
    ptx::arriveExpecting(barrier,
                         unsigned(blocks) *
                             unsigned(Codes::kBlockBytes + Stage::kScaleBytes +
                                      Stage::kZeroBytes));
    long long block = (long long)expert * kBlocksOfRows + first;
    int group = Stage::firstGroup(k);
#pragma unroll
    for (int i = 0; i < Stage::kBlocks; ++i) {
      if (i >= blocks)
        break;
      ptx::copyBulk(to + unsigned(i * Codes::kBlockBytes),
                    reinterpret_cast<const char *>(args.rhs) +
                        ((block + i) * kSteps + k) * Codes::kBlockBytes,
                    Codes::kBlockBytes, barrier);
      long long numbers = ((block + i) * Stage::kGroups + group) * Codes::kRows;
      ptx::copyBulk(to + unsigned(Stage::kScales + i * Stage::kScaleBytes),
                    args.rhs_scale + numbers, Stage::kScaleBytes, barrier);
      if constexpr (Config::kZeroPoint)
        ptx::copyBulk(to + unsigned(Stage::kZeros + i * Stage::kZeroBytes),
                      args.rhs_zero_point + numbers, Stage::kZeroBytes,
                      barrier);
    }
  }
};

/// The feed of 4-bit weights with 8-bit activations. 16 codes use the first
/// half of a 16-byte chunk in shared memory. All producer threads copy them, 8
/// bytes at a time.
template <class Config> struct SpreadWeights {
  using Schedule = typename Config::Schedule;
  static constexpr int kRowBytes = Config::Mma::kRowBytes;
  static constexpr int kBytes = Schedule::kTileN * kRowBytes;
  using Layout = Swizzle<kRowBytes>;
  static constexpr int kRowsPerPass =
      32 * Schedule::kProducerWarps / Layout::kChunks;
  static_assert(
      Schedule::kTileN % kRowsPerPass == 0 && Config::kK % 16 == 0,
      "weight rows must be whole chunks of 16 codes, and kTileN whole passes");
  const typename Config::Args &args;

  __device__ __forceinline__ void prefetch() const {}

  /// Arrives at the mbarrier. copyByAll() issues the copies themselves, which
  /// complete together with the copies of the tokens.
  __device__ __forceinline__ void copy(unsigned, int, int, int,
                                       unsigned barrier, bool = false) const {
    ptx::arrive(barrier);
  }

  /// Issues the copies of k tile `k` to the stage at shared-memory address
  /// `to`. Called by all producer threads.
  __device__ __forceinline__ void copyByAll(unsigned to, int firstN, int k,
                                            int expert) const {
    const int row = int(threadIdx.x) / Layout::kChunks;
    const int chunk = int(threadIdx.x) % Layout::kChunks;
    const int first = k * Schedule::kTileK + chunk * 16;
    const bool inK = Config::kK % Schedule::kTileK == 0 || first < Config::kK;
    const char *from =
        reinterpret_cast<const char *>(args.rhs) +
        ((long long)expert * Config::kN + firstN + row) * (Config::kK / 2) +
        first / 2;
    const unsigned own = to + Layout::offset(row, chunk);
    const int left = inK ? Config::kN - firstN - row : 0;
#pragma unroll
    for (int pass = 0; pass < Schedule::kTileN; pass += kRowsPerPass)
      ptx::copySmall<true, 8>(own + unsigned(pass * kRowBytes),
                              from + pass * (Config::kK / 2), pass < left);
  }
};

namespace detail {
template <class Config> constexpr auto weightLoaderOf() {
  using Mma = typename Config::Mma;
  if constexpr (takesSlabs<Mma>)
    return static_cast<SlabWeights<Config> *>(nullptr);
  else if constexpr (spreadsCodes<Mma>)
    return static_cast<SpreadWeights<Config> *>(nullptr);
  else
    return static_cast<TensorMapWeights<Config> *>(nullptr);
}
} // namespace detail

/// The feed of a Config's weights.
template <class Config>
using WeightLoader =
    RemoveReference<decltype(*detail::weightLoaderOf<Config>())>;

} // namespace moe
