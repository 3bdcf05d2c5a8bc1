//===- ptx_cluster.cuh - clusters of CTAs -----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Synchronization and data exchange among the CTAs of a cluster, from sm_90 on.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"

namespace moe::ptx {

/// Returns the rank of this CTA in its cluster.
__device__ __forceinline__ int clusterRank() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// Arrives at the cluster barrier with release semantics. After its own
/// waitForCluster, every thread of the cluster sees what this thread wrote to
/// any memory. All threads of all CTAs must call arriveAtCluster and
/// waitForCluster.
__device__ __forceinline__ void arriveAtCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void waitForCluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Returns the shared::cluster address, in CTA `rank`, that corresponds to
/// address `shared` of this CTA.
__device__ __forceinline__ unsigned peerAddress(unsigned shared, int rank) {
  unsigned address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(shared), "r"(rank));
  return address;
}

/// Stores 16 bytes into the shared memory of a CTA of the cluster.
__device__ __forceinline__ void storeToPeer(unsigned address,
                                            const Vector16 &value) {
  asm volatile(
      "st.shared::cluster.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address),
      "r"(value.words[0]), "r"(value.words[1]), "r"(value.words[2]),
      "r"(value.words[3])
      : "memory");
}

/// Loads a float from the shared memory of a CTA of the cluster.
__device__ __forceinline__ float loadFromPeer(unsigned address) {
  float value;
  asm volatile("ld.shared::cluster.f32 %0, [%1];"
               : "=f"(value)
               : "r"(address)
               : "memory");
  return value;
}

} // namespace moe::ptx
