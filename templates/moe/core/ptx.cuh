//===- ptx.cuh - inline instructions of every arch --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The inline PTX of the templates but for what only sm_90 has (ptx_async.cuh,
// ptx_wgmma.cuh) and for arithmetic of values (math/instructions.cuh). Each
// function has a plain fallback where an older arch lacks the instruction and a
// plain form exists; the tensor-core instructions have none, and engines that
// use them are not legal there.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/instructions.cuh"

namespace moe::ptx {

//===--- programmatic dependent launch ------------------------------------===//

__device__ __forceinline__ void launchDependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

__device__ __forceinline__ void waitForPredecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Loads that see what a kernel before the predecessor wrote: they pass by L1,
/// which only the wait for the predecessor makes fresh.
__device__ __forceinline__ int loadFresh(const int *pointer) {
  int value;
  asm volatile("ld.global.cg.b32 %0, [%1];"
               : "=r"(value)
               : "l"(pointer)
               : "memory");
  return value;
}

__device__ __forceinline__ long long loadFresh(const long long *pointer) {
  long long value;
  asm volatile("ld.global.cg.b64 %0, [%1];"
               : "=l"(value)
               : "l"(pointer)
               : "memory");
  return value;
}

__device__ __forceinline__ float loadFresh(const float *pointer) {
  return __int_as_float(loadFresh(reinterpret_cast<const int *>(pointer)));
}

__device__ __forceinline__ unsigned short
loadFresh(const unsigned short *pointer) {
  unsigned short value;
  asm volatile("ld.global.cg.b16 %0, [%1];"
               : "=h"(value)
               : "l"(pointer)
               : "memory");
  return value;
}

__device__ __forceinline__ int4 loadFresh(const int4 *pointer) {
  int4 value;
  asm volatile("ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(pointer)
               : "memory");
  return value;
}

//===--- shared memory ----------------------------------------------------===//

__device__ __forceinline__ unsigned sharedAddress(const void *pointer) {
  return unsigned(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void storeShared(unsigned address, unsigned word) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}

__device__ __forceinline__ void storeShared(unsigned address,
                                            unsigned short half) {
  asm volatile("st.shared.b16 [%0], %1;" ::"r"(address), "h"(half) : "memory");
}

__device__ __forceinline__ void storeShared(unsigned address,
                                            const unsigned (&words)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

__device__ __forceinline__ void storeSharedPair(unsigned address, float first,
                                                float second) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(first),
               "f"(second)
               : "memory");
}

__device__ __forceinline__ void addShared(unsigned address, int word) {
  asm volatile("red.shared.add.s32 [%0], %1;" ::"r"(address), "r"(word)
               : "memory");
}

__device__ __forceinline__ unsigned loadShared(unsigned address) {
  unsigned word;
  asm volatile("ld.shared.b32 %0, [%1];"
               : "=r"(word)
               : "r"(address)
               : "memory");
  return word;
}

/// Two bytes.
__device__ __forceinline__ unsigned loadSharedHalf(unsigned address) {
  unsigned short half;
  asm volatile("ld.shared.u16 %0, [%1];"
               : "=h"(half)
               : "r"(address)
               : "memory");
  return half;
}

__device__ __forceinline__ void loadShared(unsigned address,
                                           unsigned (&words)[4]) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}

/// 4 or 8 bytes.
template <int kBytes>
__device__ __forceinline__ void loadShared(unsigned address,
                                           unsigned (&words)[2]) {
  if constexpr (kBytes == 4)
    words[0] = loadShared(address);
  else
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
                 : "=r"(words[0]), "=r"(words[1])
                 : "r"(address)
                 : "memory");
}

/// 16 bytes from `chunk` 16-byte chunks behind `base` to shared memory; zeros
/// when !valid (nothing is then read). kAsync: completes with waitForCopies,
/// else at once. The address is computed inside the instruction text: the
/// optimizer would keep one 64-bit pointer for each copy of the main loop.
template <bool kAsync>
__device__ __forceinline__ void copy16(unsigned destination, const void *base,
                                       unsigned chunk, bool valid) {
#if __CUDA_ARCH__ >= 800
  if constexpr (kAsync) {
    int bytes = valid ? 16 : 0;
    asm volatile("{.reg .u64 p; mad.wide.u32 p, %2, 16, %1;\n\t"
                 "cp.async.cg.shared.global.L2::128B [%0], [p], 16, "
                 "%3;}" ::"r"(destination),
                 "l"(base), "r"(chunk), "r"(bytes)
                 : "memory");
    return;
  }
#endif
  uint4 value = make_uint4(0, 0, 0, 0);
  if (valid)
    value = static_cast<const uint4 *>(base)[chunk];
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(destination),
               "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
               : "memory");
}

/// 4 bytes to shared memory; completes with waitForCopies, or at once without
/// kAsync.
template <bool kAsync>
__device__ __forceinline__ void copy4(unsigned destination,
                                      const float *source) {
#if __CUDA_ARCH__ >= 800
  if constexpr (kAsync) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(destination),
                 "l"(source)
                 : "memory");
    return;
  }
#endif
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(destination), "f"(*source)
               : "memory");
}

/// 4, 6 or 8 bytes (6: of an even address) to shared memory, zeros when !valid;
/// completes with waitForCopies, or at once without kAsync and with 6 bytes.
template <bool kAsync, int kBytes>
__device__ __forceinline__ void copySmall(unsigned destination,
                                          const void *source, bool valid) {
#if __CUDA_ARCH__ >= 800
  if constexpr (kAsync && kBytes != 6) {
    int bytes = valid ? kBytes : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, "
                 "%3;" ::"r"(destination),
                 "l"(source), "n"(kBytes), "r"(bytes)
                 : "memory");
    return;
  }
#endif
  unsigned words[2] = {};
  if (valid) {
    if constexpr (kBytes == 6) {
      const auto *halves = static_cast<const unsigned short *>(source);
      words[0] = halves[0] | unsigned(halves[1]) << 16;
      words[1] = halves[2];
    } else {
      const auto *from = static_cast<const unsigned *>(source);
      words[0] = from[0];
      if constexpr (kBytes == 8)
        words[1] = from[1];
    }
  }
  storeShared(destination, words[0]);
  if constexpr (kBytes != 4)
    storeShared(destination + 4, words[1]);
}

/// Copies 8 bytes of codes from a multiple of 8, or 12 bytes from a multiple
/// of 4, likewise.
template <bool kAsync, int kBytes>
__device__ __forceinline__ void copyCodes(unsigned destination,
                                          const void *source, bool valid) {
  if constexpr (kBytes == 8) {
    copySmall<kAsync, 8>(destination, source, valid);
  } else {
    static_assert(kBytes == 12);
#pragma unroll
    for (int i = 0; i < 3; ++i)
      copySmall<kAsync, 4>(destination + 4 * i,
                           static_cast<const char *>(source) + 4 * i, valid);
  }
}

/// Ends a group of copies.
__device__ __forceinline__ void commitCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until at most kPending of the newest groups are unfinished.
template <int kPending> __device__ __forceinline__ void waitForCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

//===--- tensor cores -----------------------------------------------------===//

/// Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8
/// of matrix l / 8.
__device__ __forceinline__ void loadMatrices(unsigned (&words)[4],
                                             unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, "
               "[%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}

/// An 8x8 matrix of 16-bit elements, of which lane 4 r + c has columns 2 c and
/// 2 c + 1 of row r, with rows and columns exchanged.
__device__ __forceinline__ unsigned transpose(unsigned word) {
  unsigned result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
               : "=r"(result)
               : "r"(word));
  return result;
}

#if __CUDA_ARCH__ >= 800
/// sums += a (16 x 16) * b (16 x 8), f32 sums.
__device__ __forceinline__ void
multiplyBfloat(float *sums, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void
multiplyHalf(float *sums, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

#if __CUDA_ARCH__ >= 800
/// sums += a (16 x 32) * b (32 x 8) of e4m3. kNative: by the arch's own
/// multiply, which keeps fewer bits of the sums than f32 has. Else with exact
/// halves: two multiplies of 16 along k, the first of the lower two codes of
/// each word, the second of the upper two. PTX has the native one from sm_89
/// on, but where the machine has none ptxas makes conversions and a multiply
/// of halves of it, with more registers than the code here takes.
template <bool kNative>
__device__ __forceinline__ void
multiplyE4m3(float *sums, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if constexpr (kNative) {
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
#pragma unroll
    for (int half = 0; half < 32; half += 16) {
      unsigned wide[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        wide[i] = halvesFromE4m3(a[i] >> half & 0xffffu);
      multiplyHalf(sums, wide, halvesFromE4m3(b0 >> half & 0xffffu),
                   halvesFromE4m3(b1 >> half & 0xffffu));
    }
  }
}
#endif

#if __CUDA_ARCH__ >= 800
/// 32 along k of signed bytes, exactly.
__device__ __forceinline__ void multiplyBytes(int *sums, const unsigned (&a)[4],
                                              unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

//===--- warp reductions --------------------------------------------------===//

__device__ __forceinline__ unsigned warpMaximum(unsigned value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(0xffffffffu, value);
#else
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value = max(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
#endif
}

__device__ __forceinline__ unsigned warpMinimum(unsigned value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_min_sync(0xffffffffu, value);
#else
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value = min(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
#endif
}

__device__ __forceinline__ float warpMaximum(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}

/// The sum over the warp, in every lane, in an order fixed by the lanes.
__device__ __forceinline__ float warpSum(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

} // namespace moe::ptx
