//===- ptx_peer.cuh - instructions between GPUs -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads and stores of words that the GPUs of several ranks, or the host, read
// and write. A release of scope sys makes visible the writes of its thread, and
// the writes of other threads that its thread has observed.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::ptx {

__device__ __forceinline__ void storeRelease(unsigned long long *word,
                                             unsigned long long value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value)
               : "memory");
}
__device__ __forceinline__ void storeRelease(unsigned *word, unsigned value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value)
               : "memory");
}

__device__ __forceinline__ unsigned long long
loadAcquire(const unsigned long long *word) {
  unsigned long long value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];"
               : "=l"(value)
               : "l"(word)
               : "memory");
  return value;
}

/// Loads a word that other GPUs or the host may write at any time. The load
/// orders no other memory access.
__device__ __forceinline__ unsigned long long
loadRelaxed(const unsigned long long *word) {
  unsigned long long value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];"
               : "=l"(value)
               : "l"(word)
               : "memory");
  return value;
}
__device__ __forceinline__ unsigned loadRelaxed(const unsigned *word) {
  unsigned value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];"
               : "=r"(value)
               : "l"(word)
               : "memory");
  return value;
}

/// Prefetches a line that is read soon into L1.
__device__ __forceinline__ void prefetchFirstLevel(const void *line) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(line));
}

/// Increments a CTA counter, which wraps to 0 at `ctas`. Returns the number of
/// CTAs counted before. The writes of those CTAs are then visible to the
/// caller.
__device__ __forceinline__ unsigned countCta(unsigned *counter, unsigned ctas) {
  unsigned before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(counter), "r"(ctas - 1)
               : "memory");
  return before;
}

__device__ __forceinline__ unsigned long long nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// Suspends the thread for about `nanoseconds`.
__device__ __forceinline__ void pause(unsigned nanoseconds) {
  asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds));
}

} // namespace moe::ptx
