//===- ptx_async.cuh - barriers and bulk copies of sm_90 --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parts of warps with roles: barriers in shared memory that
// count arrivals and bytes, tile copies by the copy engine, named barriers of
// some warps, and the hand-over of registers between warpgroups. All of sm_90,
// the last of sm_90a.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/deadline.cuh"

namespace moe::ptx {

//===--- barriers in shared memory ----------------------------------------===//

/// A barrier whose phase ends after `arrivals` (and the bytes that were
/// announced). To be followed by publishBarriers.
__device__ __forceinline__ void initializeBarrier(unsigned barrier,
                                                  unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier),
               "r"(arrivals)
               : "memory");
}

/// Makes initialized barriers known to the copy engine; by the thread that
/// initialized them, before the CTA synchronizes.
__device__ __forceinline__ void publishBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier)
               : "memory");
}

/// Arrives, and announces bytes that a tile copy will bring.
__device__ __forceinline__ void arriveExpecting(unsigned barrier,
                                                unsigned bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
      "r"(bytes)
      : "memory");
}

/// Announces bytes without arriving; by a thread that has yet to arrive.
__device__ __forceinline__ void expectBytes(unsigned barrier, unsigned bytes) {
  asm volatile(
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier),
      "r"(bytes)
      : "memory");
}

/// Arrives as soon as all earlier cp.async copies of this thread have landed.
__device__ __forceinline__ void arriveAfterCopies(unsigned barrier) {
  asm volatile(
      "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier)
      : "memory");
}

/// Waits for the end of the phase of this parity. The phase before the first
/// one has parity 1 and has ended.
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

/// Shared memory that was written by plain instructions or cp.async, and is
/// known to this thread, may now be read by the tensor cores for it, and
/// written by the copy engine.
__device__ __forceinline__ void fenceShared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Global memory that other threads wrote, and of which this thread knows, may
/// now be read by the copy engine for it.
__device__ __forceinline__ void fenceGlobal() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

/// A barrier of `threads` threads with a number of its own, 1 to 15.
__device__ __forceinline__ void synchronize(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

/// Arrives at such a barrier without waiting.
__device__ __forceinline__ void arriveAt(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

//===--- counters in global memory ----------------------------------------===//

/// A thread that sees the counter one higher also sees what this thread wrote,
/// and what others wrote and this thread knows of.
__device__ __forceinline__ void countUp(int *counter) {
  asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(counter)
               : "memory");
}

/// Returns when the counter has reached `count`, and what was written before is
/// seen. what: the wait, as a deadline names it. A thread that has
/// waited in vain sleeps for kNanoseconds.
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

/// Four words of which others may count up the last one meanwhile.
__device__ __forceinline__ int4 loadCounted(const int4 *pointer) {
  int4 value;
  asm volatile("ld.relaxed.gpu.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(pointer)
               : "memory");
  return value;
}

/// The fence of a counter. After loadCounted that found it high enough, what
/// was written before is seen. Before countUp, what this thread read comes
/// before the count, too.
__device__ __forceinline__ void fenceCount() {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

/// threadIdx.x, read at this place.
__device__ __forceinline__ int threadIndex() {
  int index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return index;
}

/// A number that all lanes have. What follows from it is computed once for the
/// warp.
__device__ __forceinline__ unsigned sameInWarp(unsigned number) {
  return __shfl_sync(0xffffffffu, number, 0);
}
/// gridDim.x, read at this place.
__device__ __forceinline__ int gridSize() {
  int size;
  asm volatile("mov.u32 %0, %%nctaid.x;" : "=r"(size));
  return size;
}

//===--- copies -----------------------------------------------------------===//

/// Begins to bring a tensor map where the copy engine reads it fast.
__device__ __forceinline__ void prefetchMap(const void *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/// Copies the box of a rank-3 tensor map at (x, y, z); its bytes arrive at the
/// barrier. What lies outside of the tensor is zeros.
__device__ __forceinline__ void copyTile(unsigned destination, const void *map,
                                         int x, int y, int z,
                                         unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::"
      "complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(destination),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}

/// Likewise, of a map of rank 2.
__device__ __forceinline__ void copyRows(unsigned destination, const void *map,
                                         int x, int y, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::"
      "complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(destination),
      "l"(map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}

/// Begins to copy bytes, a multiple of 16 between addresses that 16 divides.
__device__ __forceinline__ void copyBulk(unsigned destination,
                                         const void *source, unsigned bytes,
                                         unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
               "bytes [%0], [%1], %2, [%3];" ::"r"(destination),
               "l"(source), "r"(bytes), "r"(barrier)
               : "memory");
}

/// Begins to copy 16 bytes from `chunk` such behind `base`, or zeros unless row
/// < rows. The comparison is inside of the text, too: the optimizer would keep
/// the outcome for each copy of a loop in a register.
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

/// Two neighbours in shared memory.
__device__ __forceinline__ float2 loadSharedPair(unsigned source) {
  float2 pair;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
               : "=f"(pair.x), "=f"(pair.y)
               : "r"(source)
               : "memory");
  return pair;
}

/// Stores kCount 8 x 8 blocks of 16-bit elements transposed: lane l gives the
/// address of column l % 8 of block l / 8 (lanes from 8 * kCount on: any).
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

/// Registers that a launch gives a CTA of so many threads, of which so many are
/// to fit on a multiprocessor: in eights a thread. Where warps ask for more,
/// they wait for ever.
constexpr int registersOfCta(int threads, int ctasPerSm) {
  return 65536 / ctasPerSm / threads / 8 * 8 * threads;
}

/// A warpgroup gives back all but kRegisters registers a thread.
template <int kRegisters> __device__ __forceinline__ void giveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// A warpgroup waits for, and takes, registers up to kRegisters a thread.
template <int kRegisters> __device__ __forceinline__ void takeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

} // namespace moe::ptx
