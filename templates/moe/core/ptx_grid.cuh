//===- ptx_grid.cuh - copies of what is read once, or again -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Hints that keep in the second-level cache what CTAs that are resident
// together read again, and that drop from it what nobody reads again. All of
// sm_90.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::ptx {

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

/// Bytes that discardLine drops.
inline constexpr int kLineBytes = 128;

/// Drops an aligned line that nobody reads again, so that it is not written to
/// memory. A weak write of unknown values: threads that read the line, and
/// those that write it again, must be ordered with it as with any store.
__device__ __forceinline__ void discardLine(void *line) {
  asm volatile("discard.global.L2 [%0], %1;" ::"l"(line), "n"(kLineBytes)
               : "memory");
}

/// Stores 16 bytes that nobody reads soon.
__device__ __forceinline__ void storeStreaming(void *pointer, uint4 value) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(pointer),
               "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
               : "memory");
}

} // namespace moe::ptx
