//===- ptx_scaled.cuh - block-scaled multiplies -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mma.sync with block_scale, of sm_120f and sm_121f. In all shapes an operand
// row has 32 bytes along k. `byte` selects the bytes of the scale registers
// that are read, and `thread` selects the lanes that provide them. For lhs
// these are lanes 4 g + 2 thread (row g) and 4 g + 2 thread + 1 (row g + 8);
// for rhs, lane 4 n + thread (column n).
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::ptx {

/// A register of scales, and the selection of the bytes and lanes that are
/// read.
struct BlockScales {
  unsigned word;
  unsigned short byte, thread;
};

#define MOE_MULTIPLY_SCALED(name, shape, kind, types)                          \
  __device__ __forceinline__ void name(                                        \
      float *sums, const unsigned (&a)[4], unsigned b0, unsigned b1,           \
      const BlockScales &lhs, const BlockScales &rhs) {                        \
    asm("mma.sync.aligned." shape ".row.col.kind::" kind "." types " "         \
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, "     \
        "{%10}, {%11, %12}, {%13}, {%14, %15};"                                \
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])           \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1),        \
          "r"(lhs.word), "h"(lhs.byte), "h"(lhs.thread), "r"(rhs.word),        \
          "h"(rhs.byte), "h"(rhs.thread));                                     \
  }

/// Like loadMatrices, for codes (quantized values) of kBits bits that expand to
/// one byte each. The first 8 or 12 bytes of each 16-byte row hold 16 codes. An
/// expanded e2m1 code has the bits 00seem00; a 6-bit code is in the lowest
/// bits.
template <int kBits>
__device__ __forceinline__ void loadCodeMatrices(unsigned (&matrices)[4],
                                                 unsigned address) {
  if constexpr (kBits == 6) {
    asm volatile("ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b6x16_p32 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]),
                   "=r"(matrices[3])
                 : "r"(address)
                 : "memory");
  } else {
    static_assert(kBits == 4);
    asm volatile("ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]),
                   "=r"(matrices[3])
                 : "r"(address)
                 : "memory");
#pragma unroll
    for (int i = 0; i < 4; ++i)
      matrices[i] <<= 2;
  }
}

/// Multiplies e4m3 by e4m3, with one scale per 32 elements of k.
MOE_MULTIPLY_SCALED(multiplyMxfp8, "m16n8k32",
                    "mxf8f6f4.block_scale.scale_vec::1X",
                    "f32.e4m3.e4m3.f32.ue8m0")

/// Multiply e4m3 by 6-bit floats, and 6-bit floats by the same type, with one
/// scale per 32 elements of k.
MOE_MULTIPLY_SCALED(multiplyMxfp8ByE3m2, "m16n8k32",
                    "mxf8f6f4.block_scale.scale_vec::1X",
                    "f32.e4m3.e3m2.f32.ue8m0")
MOE_MULTIPLY_SCALED(multiplyMxfp8ByE2m3, "m16n8k32",
                    "mxf8f6f4.block_scale.scale_vec::1X",
                    "f32.e4m3.e2m3.f32.ue8m0")
MOE_MULTIPLY_SCALED(multiplyE3m2, "m16n8k32",
                    "mxf8f6f4.block_scale.scale_vec::1X",
                    "f32.e3m2.e3m2.f32.ue8m0")
MOE_MULTIPLY_SCALED(multiplyE2m3, "m16n8k32",
                    "mxf8f6f4.block_scale.scale_vec::1X",
                    "f32.e2m3.e2m3.f32.ue8m0")

/// Multiplies e4m3 by e2m1, with one scale per 32 elements of k.
MOE_MULTIPLY_SCALED(multiplyMxfp8ByMxfp4, "m16n8k32",
                    "mxf8f6f4.block_scale.scale_vec::1X",
                    "f32.e4m3.e2m1.f32.ue8m0")

/// Multiplies e2m1 by e2m1 over 64 elements of k, with one scale per 32
/// elements. The two scales are in byte `byte` and the next byte.
MOE_MULTIPLY_SCALED(multiplyMxfp4, "m16n8k64",
                    "mxf4nvf4.block_scale.scale_vec::2X",
                    "f32.e2m1.e2m1.f32.ue8m0")

/// Multiplies e2m1 by e2m1 over 64 elements of k, with one e4m3 scale per 16
/// elements. The four scales occupy all four bytes of the register.
MOE_MULTIPLY_SCALED(multiplyNvfp4, "m16n8k64",
                    "mxf4nvf4.block_scale.scale_vec::4X",
                    "f32.e2m1.e2m1.f32.ue4m3")

#undef MOE_MULTIPLY_SCALED

} // namespace moe::ptx
