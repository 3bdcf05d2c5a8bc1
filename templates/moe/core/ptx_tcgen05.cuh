//===- ptx_tcgen05.cuh - MMAs with tensor memory ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// tcgen05 of the sm_100 family, with one CTA. One thread issues an MMA of two
// operands in shared memory. The accumulators are in tensor memory: 128 lanes,
// the rows of the first operand, by 512 columns of 32 bits. A tensor memory
// address has the lane in its upper half and the column in its lower half. For
// layouts and descriptors, see PTX ISA 9.0, "TensorCore 5th Generation Family
// Instructions".
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"
#include "moe/math/codes.cuh"

namespace moe::ptx {

/// Allocates kColumns columns of tensor memory, a power of two from 32 on, and
/// writes their address to shared memory. Blocks while other CTAs of the SM
/// hold the columns. A whole warp must call it.
template <int kColumns>
__device__ __forceinline__ void allotTensorMemory(unsigned to) {
  asm volatile(
      "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;\n\t"
      "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::"r"(to),
      "n"(kColumns)
      : "memory");
}

/// Deallocates the columns. The warp that allocated them must call it.
template <int kColumns>
__device__ __forceinline__ void giveBackTensorMemory(unsigned address) {
  asm volatile(
      "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address),
      "n"(kColumns)
      : "memory");
}

/// Order tcgen05 instructions across a barrier between threads:
/// fenceBeforeBarrier orders earlier tcgen05 instructions before the barrier,
/// and fenceAfterBarrier orders later ones after the barrier.
__device__ __forceinline__ void fenceBeforeBarrier() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
__device__ __forceinline__ void fenceAfterBarrier() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

/// Arrives at an mbarrier when all MMAs that this thread has issued are
/// complete.
__device__ __forceinline__ void arriveAfterMultiplies(unsigned barrier) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::"
               "cluster.b64 [%0];" ::"r"(barrier)
               : "memory");
}

/// Returns the shared-memory descriptor of an operand with rows of 128 bytes
/// along k (128-byte swizzle: chunk index XOR row % 8; 8 rows are 1024 bytes).
/// The address must be a multiple of 1024. alongK (moe/core/ptx_wgmma.cuh)
/// advances it along k.
__device__ __forceinline__ unsigned long long
tensorDescriptor(unsigned address) {
  return (unsigned long long)((address & 0x3ffff) >> 4) | 1ull << 16 |
         64ull << 32 | 1ull << 46 | 2ull << 61;
}

/// Returns the instruction descriptor: 128 rows by `columns` columns, a
/// multiple of 16 up to 256. Both operands are K-major, and accumulators are
/// f32.
template <class Element>
__device__ __forceinline__ unsigned instructionDescriptor(int columns) {
  static_assert(kSame<Element, bf16> || kSame<Element, f16> ||
                    kSame<Element, e4m3>,
                "tcgen05 multiplies bf16, f16 or e4m3");
  // In the descriptor's type field, both f16 (of the 16-bit types) and e4m3 (of
  // the 8-bit types) are encoded as 0.
  constexpr unsigned kType = kSame<Element, bf16> ? 1 : 0;
  constexpr unsigned kFloatSums = 1u << 4, kRows = (128 / 16) << 24;
  return kFloatSums | kType << 7 | kType << 10 | unsigned(columns / 8) << 17 |
         kRows;
}

/// Returns the instruction descriptor of a block-scaled MMA. Rows, Columns:
/// element types of the first and the second operand. `id`: index of the first
/// byte that the instruction reads in each 32-bit word of scales, for both
/// operands.
template <class Rows, class Columns, class Scale>
__device__ __forceinline__ unsigned scaledDescriptor(int columns, int id) {
  constexpr bool kOfBytes = kSame<Columns, e4m3>;
  static_assert(kOfBytes ? kSame<Rows, e4m3> || kSame<Rows, e2m1>
                         : kSame<Rows, e2m1x2> && kSame<Columns, e2m1x2>,
                "tcgen05 multiplies e4m3 or e2m1 by e4m3, and pairs of e2m1");
  // The encoding of a type depends on the kind of the instruction: e2m1 is 5 in
  // mxf8f6f4 and 1 in the 4-bit kinds.
  constexpr unsigned kType = kSame<Rows, e2m1> ? 5 : kOfBytes ? 0 : 1;
  constexpr unsigned kTypeOfColumns = kOfBytes ? 0 : 1;
  constexpr unsigned kPowers = kSame<Scale, ue8m0> ? 1u << 23 : 0,
                     kRows = (128 / 16) << 24;
  return unsigned(id) << 4 | kType << 7 | kTypeOfColumns << 10 |
         unsigned(columns / 8) << 17 | kPowers | kRows | unsigned(id) << 29;
}

/// Returns the shared-memory descriptor of a scale block of 128 rows by 4
/// scales (moe/math/scale_atoms.cuh). In shared memory, the block is 32 rows of
/// 16 bytes. The address must be a multiple of 16.
__device__ __forceinline__ unsigned long long
scaleDescriptor(unsigned address) {
  return (unsigned long long)((address & 0x3ffff) >> 4) | 8ull << 32 |
         1ull << 46;
}

/// Issues the copy of a scale block to four columns of tensor memory. The four
/// scales of block row r are one 32-bit word. It is written to lane r % 32 of
/// column r / 32, in each of the four groups of 32 lanes. The thread that
/// issues the MMAs must call it; the MMAs execute after the copy.
__device__ __forceinline__ void copyScales(unsigned columns,
                                           unsigned long long from) {
  asm volatile(
      "tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(columns),
      "l"(from)
      : "memory");
}

/// Issues a block-scaled MMA of 32 bytes along k. One thread calls it. If
/// `adds`, the product is added to the accumulators; otherwise it replaces
/// them.
template <class Columns, class Scale>
__device__ __forceinline__ void
multiplyScaled(unsigned sums, unsigned long long rows,
               unsigned long long columns, unsigned instruction,
               unsigned scalesOfRows, unsigned scalesOfColumns, bool adds) {
#define MOE_MULTIPLY_SCALED_TENSOR(kind)                                       \
  asm volatile("{.reg .pred adds;\n\t"                                         \
               "setp.ne.u32 adds, %6, 0;\n\t"                                  \
               "tcgen05.mma.cta_group::1.kind::" kind                          \
               " [%0], %1, %2, %3, [%4], [%5], adds;}" ::"r"(sums),            \
               "l"(rows), "l"(columns), "r"(instruction), "r"(scalesOfRows),   \
               "r"(scalesOfColumns), "r"(unsigned(adds))                       \
               : "memory")
  if constexpr (kSame<Columns, e4m3>)
    MOE_MULTIPLY_SCALED_TENSOR("mxf8f6f4.block_scale.block32");
  else if constexpr (kSame<Scale, ue8m0>)
    MOE_MULTIPLY_SCALED_TENSOR("mxf4.block_scale.block32");
  else
    MOE_MULTIPLY_SCALED_TENSOR("mxf4nvf4.block_scale.block16");
#undef MOE_MULTIPLY_SCALED_TENSOR
}

/// Issues an MMA of 32 bytes along k. One thread calls it. If `adds`, the
/// product is added to the accumulators; otherwise it replaces them.
template <class Element>
__device__ __forceinline__ void
multiplyTensor(unsigned sums, unsigned long long rows,
               unsigned long long columns, unsigned instruction, bool adds) {
  if constexpr (sizeof(Element) == 1)
    asm volatile(
        "{.reg .pred adds;\n\t"
        "setp.ne.u32 adds, %4, 0;\n\t"
        "tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], %1, %2, %3, adds;}" ::"r"(
            sums),
        "l"(rows), "l"(columns), "r"(instruction), "r"(unsigned(adds))
        : "memory");
  else
    asm volatile(
        "{.reg .pred adds;\n\t"
        "setp.ne.u32 adds, %4, 0;\n\t"
        "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, adds;}" ::"r"(
            sums),
        "l"(rows), "l"(columns), "r"(instruction), "r"(unsigned(adds))
        : "memory");
}

/// Issues the load of 16 lanes by 16 columns of accumulators. Registers have
/// the layout of a 16 x 16 MMA result: register 4 j + q is row lane / 4 + 8 (q
/// / 2), column 8 j + lane % 4 * 2 + q % 2. They are valid after waitForSums.
__device__ __forceinline__ void loadSums(float *to, unsigned address) {
  asm volatile("tcgen05.ld.sync.aligned.16x256b.x2.b32 {%0, %1, %2, %3, %4, "
               "%5, %6, %7}, [%8];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]),
                 "=f"(to[4]), "=f"(to[5]), "=f"(to[6]), "=f"(to[7])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void waitForSums() {
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

} // namespace moe::ptx
