//===- ptx_cluster.cuh - clusters of CTAs -----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Synchronization and exchange of the CTAs of a cluster, from sm_90 on.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"

namespace moe::ptx {

/// Which CTA of its cluster this is.
__device__ __forceinline__ int clusterRank() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// Every thread of the cluster sees what this thread wrote, to whatever memory,
/// after its own waitForCluster. All threads of all CTAs call it.
__device__ __forceinline__ void arriveAtCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void waitForCluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// The address, in the cluster's window, of what CTA `rank` has where this CTA
/// has `shared`.
__device__ __forceinline__ unsigned peerAddress(unsigned shared, int rank) {
  unsigned address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(shared), "r"(rank));
  return address;
}

/// Stores into shared memory of a CTA of the cluster.
__device__ __forceinline__ void storeToPeer(unsigned address,
                                            const Vector16 &value) {
  asm volatile(
      "st.shared::cluster.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address),
      "r"(value.words[0]), "r"(value.words[1]), "r"(value.words[2]),
      "r"(value.words[3])
      : "memory");
}

/// A float from shared memory of a CTA of the cluster.
__device__ __forceinline__ float loadFromPeer(unsigned address) {
  float value;
  asm volatile("ld.shared::cluster.f32 %0, [%1];"
               : "=f"(value)
               : "r"(address)
               : "memory");
  return value;
}

} // namespace moe::ptx
