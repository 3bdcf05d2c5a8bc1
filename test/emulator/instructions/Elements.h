//===- Elements.h - operands of multiplies ----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bytes of a row to values, and sums of products.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_INSTRUCTIONS_ELEMENTS_H
#define MOEC_TEST_EMULATOR_INSTRUCTIONS_ELEMENTS_H

#include "test/emulator/core/Numbers.h"

#include <string_view>

namespace moec::emulator {

enum class Element : uint8_t {
  F16,
  BF16,
  E4M3,
  E5M2,
  E2M1,
  E2M3,
  E3M2,
  TF32,
  S8,
  U8
};

/// The element type of a name, "bf16" say; throws PtxError for others.
Element elementOf(std::string_view name);
/// Bits of an element where elements are dense.
unsigned bitsOf(Element element);

/// Values of `count` elements of a row. `inBytes`: elements of 4 and 6 bits
/// have a byte each, with their sign in bit 5.
void decodeRow(const uint8_t *row, unsigned count, Element element,
               bool inBytes, float *values);

/// 16 codes of 6 bits, dense in 12 bytes, to a byte each.
void unpackSixBits(const uint8_t *dense, uint8_t *bytes);

/// Exact products, added in double.
double dotProduct(const float *a, const float *b, unsigned count);

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_INSTRUCTIONS_ELEMENTS_H
