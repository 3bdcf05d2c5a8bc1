//===- ptx_pairs.cuh - arithmetic of two 16-bit floats ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Arithmetic on two bf16 or f16 values in a register, the first in the lower
// half. Each result is rounded once, to nearest even. Subnormals are preserved.
// Archs before sm_90 emulate bf16 multiplication and subtraction.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"

namespace moe::ptx {

/// Computes a * b + c for pairs of bf16, rounded once. Archs before sm_90 use
/// it for products and differences of bf16, with the same results.
__device__ __forceinline__ unsigned multiplyAddBfloats(unsigned a, unsigned b,
                                                       unsigned c) {
  unsigned result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}

template <class T>
__device__ __forceinline__ unsigned multiplyPair(unsigned a, unsigned b) {
  unsigned result;
  if constexpr (kSame<T, bf16>)
#if __CUDA_ARCH__ >= 900
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
#else
    result = multiplyAddBfloats(a, b, 0x80008000u); // adds -0
#endif
  else
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

template <class T>
__device__ __forceinline__ unsigned subtractPair(unsigned a, unsigned b) {
  unsigned result;
  if constexpr (kSame<T, bf16>)
#if __CUDA_ARCH__ >= 900
    asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
#else
    result = multiplyAddBfloats(b, 0xbf80bf80u, a); // multiplies by -1
#endif
  else
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

/// Returns (word & kMask) | kBits.
template <unsigned kMask, unsigned kBits>
__device__ __forceinline__ unsigned maskOr(unsigned word) {
  unsigned result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;"
      : "=r"(result)
      : "r"(word), "n"(kMask), "n"(kBits));
  return result;
}

} // namespace moe::ptx
