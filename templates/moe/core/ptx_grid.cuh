//===- ptx_grid.cuh - L2 hints for data read once, or again -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Cache hints. They keep data in L2 that concurrently resident CTAs read again,
// and let L2 evict data that is not read again. All need sm_90.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::ptx {

/// Like copyTile, for data that is not read again: L2 evicts it first.
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

/// Loads 16 bytes that are not read again, with the hint that L2 evicts them
/// first. The load bypasses L1, which may hold a stale line.
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

/// The bytes that discardLine discards.
inline constexpr int kLineBytes = 128;

/// Discards an aligned L2 line that is not read again, so that it is not
/// written back to memory. It is a weak write of undefined values: threads that
/// read the line or write it again must be ordered with it like with any store.
__device__ __forceinline__ void discardLine(void *line) {
  asm volatile("discard.global.L2 [%0], %1;" ::"l"(line), "n"(kLineBytes)
               : "memory");
}

/// Stores 16 bytes that are not read soon (streaming store).
__device__ __forceinline__ void storeStreaming(void *pointer, uint4 value) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(pointer),
               "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
               : "memory");
}

} // namespace moe::ptx
