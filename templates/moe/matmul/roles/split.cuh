//===- split.cuh - split-K in a cluster of CTAs -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Split-K within a cluster of two CTAs. It is used if at most about a quarter
// of the CTAs would have a tile. The two CTAs of a cluster then share one tile,
// and each CTA computes half of k. The second CTA stores its accumulators in
// its ring of pipeline stages, which is idle by then. The first CTA reads them
// through distributed shared memory, adds them to its own accumulators in a
// fixed order, and stores the result.
//
// All CTAs make the same decision, because it depends only on the number of
// tiles, which the routing wrote. The limit is low because a quarter of the
// CTAs reads memory nearly as fast as all CTAs: on 132 SMs, splitting made
// launches with 32 tiles faster and launches with 48 tiles slower.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/ptx_async.cuh"
#include "moe/core/ptx_cluster.cuh"
#include "moe/core/types.cuh"

namespace moe {

/// Returns the number of CTAs that may share a tile: 2, or 1 without split-K.
template <class Config> constexpr int splitOf() {
  if constexpr (requires { Config::kSplit; }) {
    static_assert(Config::kSplit == 2 && Config::kSplitTiles > 0,
                  "kSplit must be 2, and kSplitTiles positive");
    return Config::kSplit;
  } else {
    return 1;
  }
}

/// Returns true if the CTAs of each cluster share one tile. This requires at
/// most Config::kSplitTiles tiles, a limit up to which splitting is faster, and
/// at most one tile per cluster.
template <class Config>
__device__ __forceinline__ bool splitsTiles(int tiles, int ctas) {
  if constexpr (splitOf<Config>() > 1)
    return tiles <= Config::kSplitTiles && splitOf<Config>() * tiles <= ctas;
  else
    return false;
}

/// The range of k steps that this CTA computes: [first, end).
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

/// Executes the cluster barriers of exchangeSums(), for threads without
/// accumulators.
__device__ __forceinline__ void passExchange() {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    ptx::arriveAtCluster();
    ptx::waitForCluster();
  }
}

/// Adds the second CTA's accumulators to the first CTA's accumulators. Returns
/// true in the first CTA, which stores the result, and false in the second CTA.
/// `shared`: address of the ring. `thread`: index among the kThreads consumer
/// threads. `barrier`: named barrier of these threads.
template <int kThreads, class Worker>
__device__ __forceinline__ bool exchangeSums(Worker &worker, unsigned shared,
                                             int thread, int barrier) {
  if (ptx::clusterRank() != 0) {
    // Waits until no thread issues MMAs that read the ring.
    ptx::synchronize(barrier, kThreads);
#pragma unroll
    for (int i = 0; i < Worker::kSize; ++i)
      ptx::storeShared(shared + unsigned(i * kThreads + thread) * 4,
                       __float_as_uint(worker.value(i)));
    ptx::arriveAtCluster();
    ptx::waitForCluster();
    // The next cluster barrier allows TMA to overwrite these pipeline stages.
    // The first CTA reads them meanwhile, so the fence delays no thread.
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
