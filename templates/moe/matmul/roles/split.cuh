//===- split.cuh - a cluster shares the k of a tile -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Split-K by clusters: if three quarters of the CTAs would have no tile, a
// cluster of two takes one tile. Each CTA has a half of k. The second one
// leaves its sums in its ring, which is idle by then. The first one adds them
// to its own, in this fixed order, and stores. All CTAs agree on splitting: it
// follows from the number of tiles, which routing wrote. A quarter of the CTAs
// reads memory nearly as fast as all do: 32 tiles on 132 multiprocessors gain
// by splitting, 48 lose.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/ptx_async.cuh"
#include "moe/core/ptx_cluster.cuh"
#include "moe/core/types.cuh"

namespace moe {

/// CTAs that may share a tile: 1, or 2 of a cluster.
template <class Config> constexpr int splitOf() {
  if constexpr (requires { Config::kSplit; }) {
    static_assert(Config::kSplit == 2 && Config::kSplitTiles > 0,
                  "kSplit must be 2, of at least one tile");
    return Config::kSplit;
  } else {
    return 1;
  }
}

/// Whether CTAs share tiles: no more than are worth it (Config::kSplitTiles),
/// of which each cluster has one at most.
template <class Config>
__device__ __forceinline__ bool splitsTiles(int tiles, int ctas) {
  if constexpr (splitOf<Config>() > 1)
    return tiles <= Config::kSplitTiles && splitOf<Config>() * tiles <= ctas;
  else
    return false;
}

/// The steps of k that this CTA has.
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

/// The part of a thread that does not multiply.
__device__ __forceinline__ void passExchange() {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    ptx::arriveAtCluster();
    ptx::waitForCluster();
  }
}

/// Adds the second CTA's sums to the first one's, which alone goes on: false in
/// the second one. shared: of the ring. thread: of kThreads that multiply.
template <int kThreads, class Worker>
__device__ __forceinline__ bool exchangeSums(Worker &worker, unsigned shared,
                                             int thread, int barrier) {
  if (ptx::clusterRank() != 0) {
    // Nobody multiplies out of the ring any more.
    ptx::synchronize(barrier, kThreads);
#pragma unroll
    for (int i = 0; i < Worker::kSize; ++i)
      ptx::storeShared(shared + unsigned(i * kThreads + thread) * 4,
                       __float_as_uint(worker.value(i)));
    ptx::arriveAtCluster();
    ptx::waitForCluster();
    // The copy engine may fill these stages behind the next barrier. The first
    // CTA reads meanwhile, so nobody waits for the fence.
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
