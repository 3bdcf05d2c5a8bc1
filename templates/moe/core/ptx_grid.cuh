//===- ptx_grid.cuh - signals between the CTAs of a grid --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Counters in global memory by which CTAs that are resident together wait for
// each other, and the hints that keep in the second-level cache what is read
// again. All of sm_90.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/deadline.cuh"

namespace moe::ptx {

/// Counts one more. What this thread wrote or read, and what it knows of others
/// by a barrier of the CTA, comes before it for whoever sees the count.
__device__ __forceinline__ void signal(int *counter) {
  asm volatile("fence.acq_rel.gpu;\n\t"
               "red.release.gpu.global.add.s32 [%0], 1;" ::"l"(counter)
               : "memory");
}

/// Waits until the counter has reached `count`.
__device__ __forceinline__ void awaitSignals(const int *counter, int count,
                                             Waiter waiter = Waiter::here()) {
  Deadline deadline("all CTAs signal in time", waiter);
  int seen;
  while (true) {
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];"
                 : "=r"(seen)
                 : "l"(counter)
                 : "memory");
    if (seen >= count)
      break;
    deadline.check();
    __nanosleep(40);
  }
}

/// As copyTile, of what nobody reads a second time.
__device__ __forceinline__ void copyTileOnce(unsigned destination,
                                             const void *map, int x, int y,
                                             int z, unsigned barrier) {
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;"
               : "=l"(policy));
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::"
      "complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], "
      "%6;" ::"r"(destination),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier), "l"(policy)
      : "memory");
}

/// 16 bytes that nobody reads a second time, past the first-level cache, which
/// may hold what was there before.
__device__ __forceinline__ uint4 loadSecondLevelOnce(const void *pointer) {
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;"
               : "=l"(policy));
  uint4 value;
  asm volatile("ld.global.cg.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(pointer), "l"(policy)
               : "memory");
  return value;
}

/// Stores 16 bytes that nobody reads soon.
__device__ __forceinline__ void storeStreaming(void *pointer, uint4 value) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(pointer),
               "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
               : "memory");
}

} // namespace moe::ptx
