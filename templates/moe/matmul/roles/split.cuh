//===- split.cuh - split-K in a cluster of CTAs -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Split-K by clusters: if three quarters of the CTAs would have no tile, a
// cluster of two CTAs shares one tile, and each CTA has half of k. The second
// CTA stores its accumulators in its ring, which is idle by then. The first CTA
// adds them to its own, in this fixed order, and stores the result. All CTAs
// make the same decision, because it depends only on the number of tiles, which
// routing wrote. A quarter of the CTAs reads memory nearly as fast as all of
// them: on 132 multiprocessors, 32 tiles gain by splitting, and 48 lose.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/ptx_async.cuh"
#include "moe/core/ptx_cluster.cuh"
#include "moe/core/types.cuh"

namespace moe {

/// Returns the number of CTAs that may share a tile: 1, or 2 of a cluster.
template <class Config> constexpr int splitOf() {
  if constexpr (requires { Config::kSplit; }) {
    static_assert(Config::kSplit == 2 && Config::kSplitTiles > 0,
                  "kSplit must be 2, of at least one tile");
    return Config::kSplit;
  } else {
    return 1;
  }
}

/// Returns true if CTAs share tiles: there are at most Config::kSplitTiles
/// tiles, up to which splitting pays, and at most one for each cluster.
template <class Config>
__device__ __forceinline__ bool splitsTiles(int tiles, int ctas) {
  if constexpr (splitOf<Config>() > 1)
    return tiles <= Config::kSplitTiles && splitOf<Config>() * tiles <= ctas;
  else
    return false;
}

/// The steps of k that this CTA computes.
struct SplitSteps {
  int first, end;
};

template <int kSplit, int kSteps>
__device__ __forceinline__ SplitSteps splitSteps(bool isSplit) {
  if constexpr (kSplit == 1) {
    return {0, kSteps};
  } else {
    int rank = isSplit ? ptx::clusterRank() : 0;
    constexpr int kHalf = (kSteps + 1) / 2;
    return {rank * kHalf, isSplit && rank == 0 ? kHalf : kSteps};
  }
}

/// Takes part in the exchange as a thread that issues no MMAs.
__device__ __forceinline__ void passExchange() {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    ptx::arriveAtCluster();
    ptx::waitForCluster();
  }
}

/// Adds the second CTA's accumulators to the first one's. Returns true in the
/// first CTA, which stores the result, and false in the second. `shared`:
/// address of the ring. `thread`: index among the kThreads consumer threads.
template <int kThreads, class Worker>
__device__ __forceinline__ bool exchangeSums(Worker &worker, unsigned shared,
                                             int thread, int barrier) {
  if (ptx::clusterRank() != 0) {
    // No thread multiplies from the ring any more.
    ptx::synchronize(barrier, kThreads);
#pragma unroll
    for (int i = 0; i < Worker::kSize; ++i)
      ptx::storeShared(shared + unsigned(i * kThreads + thread) * 4,
                       __float_as_uint(worker.value(i)));
    ptx::arriveAtCluster();
    ptx::waitForCluster();
    // TMA may overwrite these stages after the next cluster barrier. The first
    // CTA reads meanwhile, so the fence delays no thread.
    ptx::fenceShared();
    ptx::arriveAtCluster();
    ptx::waitForCluster();
    return false;
  }
  ptx::arriveAtCluster();
  ptx::waitForCluster();
  unsigned peer = ptx::peerAddress(shared, 1);
#pragma unroll
  for (int i = 0; i < Worker::kSize; ++i)
    worker.increase(
        i, ptx::loadFromPeer(peer + unsigned(i * kThreads + thread) * 4));
  ptx::arriveAtCluster();
  ptx::waitForCluster();
  return true;
}

} // namespace moe
