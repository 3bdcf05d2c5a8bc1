//===- ptx.cuh - inline PTX of every arch -----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The inline PTX of the templates, except instructions that only sm_90 and
// later have (moe/core/ptx_async.cuh, moe/core/ptx_wgmma.cuh) and arithmetic on
// values (moe/math/instructions.cuh). If an older arch lacks an instruction,
// its function falls back to plain code where that exists. Tensor-core
// instructions have no fallback, and engines that use them are not legal on
// such archs.
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

/// Loads data that a kernel before the predecessor wrote. The load bypasses L1,
/// which may hold stale lines until griddepcontrol.wait returns.
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

/// Loads two bytes, zero-extended.
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

/// Loads 4 or 8 bytes.
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

/// Copies 16 bytes to shared memory from the 16-byte chunk with index `chunk`
/// of `base`. Writes zeros if !valid, without reading memory. With kAsync the
/// copy completes at waitForCopies, otherwise on return. The address is
/// computed inside the instruction text; otherwise the optimizer would keep one
/// 64-bit pointer for each copy of the mainloop.
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

/// Copies 4 bytes to shared memory. With kAsync the copy completes at
/// waitForCopies, otherwise on return.
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

/// Copies 4, 6 or 8 bytes to shared memory, or writes zeros if !valid. 6 bytes
/// need only an even source address. The copy completes at waitForCopies with
/// kAsync, and on return without it or with 6 bytes.
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

/// Copies 8 or 12 bytes of codes (quantized values) to shared memory. The
/// source address must be a multiple of 8 for 8 bytes, and of 4 for 12 bytes.
/// Like copySmall, it writes zeros if !valid.
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

/// Commits the copies that were issued since the last commit as one group.
__device__ __forceinline__ void commitCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until at most kPending commit groups, the latest ones, are pending.
template <int kPending> __device__ __forceinline__ void waitForCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

//===--- tensor cores -----------------------------------------------------===//

/// Loads four 8x8 matrices of 16-bit elements. Lane l passes the address of row
/// l % 8 of matrix l / 8.
__device__ __forceinline__ void loadMatrices(unsigned (&words)[4],
                                             unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, "
               "[%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}

/// Transposes an 8x8 matrix of 16-bit elements in which lane 4 r + c holds
/// columns 2 c and 2 c + 1 of row r.
__device__ __forceinline__ unsigned transpose(unsigned word) {
  unsigned result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
               : "=r"(result)
               : "r"(word));
  return result;
}

#if __CUDA_ARCH__ >= 800
/// Computes sums += a (16 x 16) * b (16 x 8) with f32 accumulators.
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
/// Computes sums += a (16 x 32) * b (32 x 8) for e4m3. With kNative, the arch's
/// own instruction is used, which accumulates with fewer bits than f32 has.
/// Otherwise operands are converted exactly to half and multiplied in two steps
/// of 16 along k: first the lower two codes of each word, then the upper two.
/// PTX has the native instruction from sm_89 on. If the hardware lacks it,
/// ptxas expands it to conversions and half multiplies that need more registers
/// than the code here.
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
/// Computes sums += a (16 x 32) * b (32 x 8) for signed bytes, exactly.
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

/// Returns the sum over the warp in every lane. The order of additions is fixed
/// by the lanes.
__device__ __forceinline__ float warpSum(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

} // namespace moe::ptx
