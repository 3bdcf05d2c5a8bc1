//===- ptx_async.cuh - mbarriers and bulk copies of sm_90 -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Instructions for warp-specialized kernels: mbarriers, TMA and bulk copies,
// named barriers, counters in global memory, and setmaxnreg. All need sm_90;
// setmaxnreg needs sm_90a.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/deadline.cuh"

namespace moe::ptx {

//===--- barriers in shared memory ----------------------------------------===//

/// Initializes an mbarrier whose phase completes after `arrivals` arrivals and
/// the expected bytes. publishBarriers must follow.
__device__ __forceinline__ void initializeBarrier(unsigned barrier,
                                                  unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier),
               "r"(arrivals)
               : "memory");
}

/// Makes initialized mbarriers visible to the async proxy (TMA). The thread
/// that initialized them must call it before the CTA synchronizes.
__device__ __forceinline__ void publishBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier)
               : "memory");
}

/// Arrives at an mbarrier and adds the bytes that a copy will transfer to its
/// expected count.
__device__ __forceinline__ void arriveExpecting(unsigned barrier,
                                                unsigned bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
      "r"(bytes)
      : "memory");
}

/// Adds to the expected bytes of an mbarrier without arriving. The calling
/// thread must arrive later in the same phase.
__device__ __forceinline__ void expectBytes(unsigned barrier, unsigned bytes) {
  asm volatile(
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier),
      "r"(bytes)
      : "memory");
}

/// Arrives at an mbarrier when all earlier cp.async copies of this thread have
/// completed.
__device__ __forceinline__ void arriveAfterCopies(unsigned barrier) {
  asm volatile(
      "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier)
      : "memory");
}

/// Waits for the end of the phase with parity `parity`. The phase before the
/// first one has parity 1 and is complete.
__device__ __forceinline__ void
waitForBarrier(unsigned barrier, unsigned parity,
               [[maybe_unused]] Waiter waiter = Waiter::here()) {
#ifdef MOEC_SPIN_DEADLINE
  Deadline deadline("a barrier's phase ends in time", waiter, 2);
  while (true) {
    unsigned done;
    asm volatile("{.reg .pred done;\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n\t"
                 "selp.b32 %0, 1, 0, done;}"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    if (done)
      break;
    deadline.check();
  }
#else
  asm volatile("{.reg .pred done;\n\t"
               "again:\n\t"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
               "@!done bra again;}" ::"r"(barrier),
               "r"(parity)
               : "memory");
#endif
}

/// Orders writes to shared memory by plain instructions or cp.async, which this
/// thread made or synchronized with, before later accesses of the async proxy
/// that this thread issues: reads by the tensor cores and writes by TMA.
__device__ __forceinline__ void fenceShared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Orders writes to global memory, which this thread synchronized with, before
/// later TMA reads that this thread issues.
__device__ __forceinline__ void fenceGlobal() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

/// Waits at the named barrier `number`, 1 to 15, for `threads` threads.
__device__ __forceinline__ void synchronize(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

/// Like synchronize(), and returns whether `holds` is true in all `threads`
/// threads.
__device__ __forceinline__ bool allOf(int barrier, int threads, bool holds) {
  unsigned all;
  asm volatile("{.reg .pred holds, all;\n\t"
               "setp.ne.u32 holds, %1, 0;\n\t"
               "bar.red.and.pred all, %2, %3, holds;\n\t"
               "selp.u32 %0, 1, 0, all;}"
               : "=r"(all)
               : "r"(unsigned(holds)), "r"(barrier), "r"(threads)
               : "memory");
  return all != 0;
}

/// Arrives at a named barrier without waiting.
__device__ __forceinline__ void arriveAt(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

//===--- counters in global memory ----------------------------------------===//

/// Increments a counter with release semantics. A thread that acquires the new
/// value sees all writes that this thread made or synchronized with.
__device__ __forceinline__ void countUp(int *counter) {
  asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(counter)
               : "memory");
}

/// Waits until the counter has reached `count`. The acquire makes the writes
/// before each increment visible. `what` names the wait in the deadline's
/// message. After each failed poll the thread sleeps for kNanoseconds.
template <int kNanoseconds>
__device__ __forceinline__ void waitForCount(const int *counter, int count,
                                             const char *what,
                                             Waiter waiter = Waiter::here()) {
  Deadline deadline(what, waiter);
  int value;
  while (true) {
    asm volatile("ld.acquire.gpu.global.b32 %0, [%1];"
                 : "=r"(value)
                 : "l"(counter)
                 : "memory");
    if (value >= count)
      break;
    deadline.check();
    __nanosleep(kNanoseconds);
  }
}

/// Loads four words with relaxed semantics. Other threads may increment the
/// last word at the same time.
__device__ __forceinline__ int4 loadCounted(const int4 *pointer) {
  int4 value;
  asm volatile("ld.relaxed.gpu.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(pointer)
               : "memory");
  return value;
}

/// Fences accesses to a counter. After a loadCounted that returned a sufficient
/// count, the fence makes the writes before the increments visible. Before
/// countUp, it orders this thread's earlier reads before the increment.
__device__ __forceinline__ void fenceCount() {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

/// Reads threadIdx.x at this place, so that no register holds it before.
__device__ __forceinline__ int threadIndex() {
  int index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return index;
}

/// Broadcasts lane 0's value so that the compiler treats it as warp-uniform.
/// All lanes must pass the same value.
__device__ __forceinline__ unsigned sameInWarp(unsigned number) {
  return __shfl_sync(0xffffffffu, number, 0);
}
/// Reads gridDim.x at this place, so that no register holds it before.
__device__ __forceinline__ int gridSize() {
  int size;
  asm volatile("mov.u32 %0, %%nctaid.x;" : "=r"(size));
  return size;
}

//===--- copies -----------------------------------------------------------===//

/// Prefetches a tensor map, so that the first TMA copy does not wait for it.
__device__ __forceinline__ void prefetchMap(const void *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/// Issues the copy of the box of a rank-3 tensor map at (x, y, z). Its bytes
/// arrive at the mbarrier. Elements out of bounds become zeros.
__device__ __forceinline__ void copyTile(unsigned destination, const void *map,
                                         int x, int y, int z,
                                         unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::"
      "complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(destination),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}

/// Like copyTile, for a tensor map of rank 2.
__device__ __forceinline__ void copyRows(unsigned destination, const void *map,
                                         int x, int y, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::"
      "complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(destination),
      "l"(map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}

/// Issues the copy of `bytes` bytes, a multiple of 16. Both addresses must be
/// 16-byte aligned. The bytes arrive at the mbarrier.
__device__ __forceinline__ void copyBulk(unsigned destination,
                                         const void *source, unsigned bytes,
                                         unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
               "bytes [%0], [%1], %2, [%3];" ::"r"(destination),
               "l"(source), "r"(bytes), "r"(barrier)
               : "memory");
}

/// Issues the copy of the 16-byte chunk with index `chunk` of `base` if row <
/// rows, otherwise of zeros. The comparison is inside the instruction text;
/// otherwise the optimizer would keep a predicate register for each copy of a
/// loop.
__device__ __forceinline__ void copyBelow(unsigned destination,
                                          const void *base, unsigned chunk,
                                          int row, int rows) {
  asm volatile("{.reg .u64 p; .reg .pred v; .reg .b32 bytes;\n\t"
               "mad.wide.u32 p, %2, 16, %1;\n\t"
               "setp.lt.s32 v, %3, %4;\n\t"
               "selp.b32 bytes, 16, 0, v;\n\t"
               "cp.async.cg.shared.global.L2::128B [%0], [p], 16, "
               "bytes;}" ::"r"(destination),
               "l"(base), "r"(chunk), "r"(row), "r"(rows)
               : "memory");
}

/// Loads two adjacent floats from shared memory.
__device__ __forceinline__ float2 loadSharedPair(unsigned source) {
  float2 pair;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
               : "=f"(pair.x), "=f"(pair.y)
               : "r"(source)
               : "memory");
  return pair;
}

/// Stores kCount 8 x 8 blocks of 16-bit elements, transposed. Lane l passes the
/// address of column l % 8 of block l / 8; the addresses of lanes from 8 *
/// kCount on are ignored.
template <int kCount>
__device__ __forceinline__ void
storeTransposed(unsigned address, const unsigned (&words)[kCount]) {
  static_assert(kCount == 2 || kCount == 4);
  if constexpr (kCount == 2)
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, "
                 "%2};" ::"r"(address),
                 "r"(words[0]), "r"(words[1])
                 : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, "
                 "%2, %3, %4};" ::"r"(address),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}

//===--- registers --------------------------------------------------------===//

/// Returns the number of registers that a launch allocates to a CTA of
/// `threads` threads if `ctasPerSm` CTAs must be resident on an SM. Registers
/// per thread are allocated in multiples of 8. If warps request more registers
/// in total by setmaxnreg, they wait forever.
constexpr int registersOfCta(int threads, int ctasPerSm) {
  return 65536 / ctasPerSm / threads / 8 * 8 * threads;
}

/// Reduces the registers of each thread of a warpgroup to kRegisters
/// (setmaxnreg.dec).
template <int kRegisters> __device__ __forceinline__ void giveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// Waits until the registers of each thread of a warpgroup can be increased to
/// kRegisters, and allocates them (setmaxnreg.inc).
template <int kRegisters> __device__ __forceinline__ void takeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

} // namespace moe::ptx
