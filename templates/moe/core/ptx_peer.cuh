//===- ptx_peer.cuh - instructions between GPUs -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads and stores of words that GPUs of several ranks, or the host, read and
// write. A release of scope sys makes visible what its thread wrote, and what
// it saw that others wrote.
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

/// A word that other GPUs or the host may write at any time. Nothing follows
/// from it for other memory.
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

/// A hint that the line is read soon.
__device__ __forceinline__ void prefetchFirstLevel(const void *line) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(line));
}

/// Counts a CTA, and from the last of `ctas` on again from 0. Returns how many
/// came before; what those wrote is then visible here.
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

/// Leaves the multiprocessor to others for about so long.
__device__ __forceinline__ void pause(unsigned nanoseconds) {
  asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds));
}

} // namespace moe::ptx
