//===- code_bytes.cuh - codes of 4 bits as bytes ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exact conversions of four 4-bit codes (quantized values) to four 8-bit
// elements. An i4 code (0 to 15) represents the code minus 8. The codes are
// either contiguous, with the first code in the lowest bits, or the low or high
// nibbles of four bytes. The first code becomes the lowest byte of the result.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::detail {

/// Converts four contiguous i4 codes to the i8 values code - 8.
__device__ __forceinline__ unsigned integersOf4(unsigned codes) {
  unsigned spread = __byte_perm(codes & 0x0f0fu, codes >> 4 & 0x0f0fu, 0x5140);
  // Bit 7 prevents a borrow from the adjacent byte if a code is less than 8.
  return ((spread | 0x80808080u) - 0x08080808u) ^ 0x80808080u;
}

/// Converts four contiguous i4 codes to the e4m3 values code - 8.
__device__ __forceinline__ unsigned floatsOf4(unsigned codes) {
  // Codes from 8 on represent 0 to 7; codes below 8 represent -8 to -1.
  unsigned place = codes & 0x7777u;
  unsigned above = __byte_perm(0x44403800u, 0x4e4c4a48u, place);
  unsigned below = __byte_perm(0xcaccced0u, 0xb8c0c4c8u, place);
  unsigned isAbove = __byte_perm(0x0000ff00u, 0u, codes >> 3 & 0x1111u);
  return (above & isAbove) | (below & ~isAbove);
}

/// Converts four i4 codes, in the low nibbles of four bytes, to the e4m3 values
/// (code - 8) * 2^-9. The e4m3 value n * 2^-9 has the bit pattern n for n from
/// 0 to 16, so integer arithmetic on the bytes yields the result.
__device__ __forceinline__ unsigned floatsOfHalves(unsigned bytes) {
  // A byte is 1 if its code is less than 8.
  unsigned below = (~bytes & 0x08080808u) >> 3;
  // In such bytes, the XOR sets the sign bit and yields 15 - code. Each low
  // nibble is then at least 8, so the subtraction does not borrow.
  unsigned sizes = (bytes & 0x0f0f0f0fu) ^ below * 0x8fu;
  return sizes + below - 0x08080808u;
}

/// Converts four e2m1 codes to e4m3 values, times 2^-6. Exponent and mantissa
/// bits are copied unchanged, also for subnormal values. kHigh: the codes are
/// the high nibbles of bytes; otherwise they are the low nibbles.
template <bool kHigh>
__device__ __forceinline__ unsigned smallFloatsOfHalves(unsigned bytes) {
  unsigned signs = kHigh ? bytes : bytes << 4;
  unsigned sizes = kHigh ? bytes >> 2 : bytes << 2;
  return (signs & 0x80808080u) | (sizes & 0x1c1c1c1cu);
}

/// e4m3 values for e2m1 codes 0 to 7, the first one in the lowest byte of
/// `low`.
struct SmallFloatTable {
  unsigned low, high;
};

/// Converts eight e2m1 codes by a table: those in the low nibbles of four bytes
/// to `first`, those in the high nibbles to `second`.
__device__ __forceinline__ void smallFloatsByTable(unsigned codes,
                                                   const SmallFloatTable &table,
                                                   unsigned &first,
                                                   unsigned &second) {
  // PRMT selects by the lowest four nibbles of its third operand.
  const unsigned sizes = codes & 0x77777777u;
  const unsigned low = __byte_perm(table.low, table.high, sizes);
  const unsigned high = __byte_perm(table.low, table.high, sizes >> 16);
  first = (codes << 4 & 0x80808080u) | __byte_perm(low, high, 0x6420);
  second = (codes & 0x80808080u) | __byte_perm(low, high, 0x7531);
}

} // namespace moe::detail
