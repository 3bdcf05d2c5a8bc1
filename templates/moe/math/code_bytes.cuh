//===- code_bytes.cuh - codes of 4 bits as elements of 8 --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Four codes of 4 bits as four elements of 8 bits: exact. Those of i4 (0 to 15)
// are less 8. The first code becomes the lowest byte. It has the lowest bits,
// or codes are halves of four bytes.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::detail {

/// As i8.
__device__ __forceinline__ unsigned integersOf4(unsigned codes) {
  unsigned spread = __byte_perm(codes & 0x0f0fu, codes >> 4 & 0x0f0fu, 0x5140);
  // 0x80 keeps what is below 8 from borrowing of its neighbour.
  return ((spread | 0x80808080u) - 0x08080808u) ^ 0x80808080u;
}

/// As e4m3.
__device__ __forceinline__ unsigned floatsOf4(unsigned codes) {
  // Codes from 8 on are 0 to 7, those below it -8 to -1.
  unsigned place = codes & 0x7777u;
  unsigned above = __byte_perm(0x44403800u, 0x4e4c4a48u, place);
  unsigned below = __byte_perm(0xcaccced0u, 0xb8c0c4c8u, place);
  unsigned isAbove = __byte_perm(0x0000ff00u, 0u, codes >> 3 & 0x1111u);
  return (above & isAbove) | (below & ~isAbove);
}

/// The same of codes in the low halves of bytes, as e4m3 times 2^-9, whose
/// numbers up to 2^-5 are the multiples of 2^-9.
__device__ __forceinline__ unsigned floatsOfHalves(unsigned bytes) {
  // A byte is 1 where the code is below 8.
  unsigned below = (~bytes & 0x08080808u) >> 3;
  // There the sign and 15 less the code. No byte borrows: each is 8 or more.
  unsigned sizes = (bytes & 0x0f0f0f0fu) ^ below * 0x8fu;
  return sizes + below - 0x08080808u;
}

/// Four e2m1 as e4m3 times 2^-6: the same exponents and mantissas, subnormal
/// where they were. kHigh: codes are the high halves of bytes, else the low
/// ones.
template <bool kHigh>
__device__ __forceinline__ unsigned smallFloatsOfHalves(unsigned bytes) {
  unsigned signs = kHigh ? bytes : bytes << 4;
  unsigned sizes = kHigh ? bytes >> 2 : bytes << 2;
  return (signs & 0x80808080u) | (sizes & 0x1c1c1c1cu);
}

} // namespace moe::detail
