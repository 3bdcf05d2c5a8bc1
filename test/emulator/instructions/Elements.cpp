//===- Elements.cpp - operands of multiplies ------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bytes of a row to values, and sums of products.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/instructions/Elements.h"

#include "test/emulator/core/Program.h"

#include <cstring>

using namespace moec::emulator;

Element moec::emulator::elementOf(std::string_view name) {
  struct Name {
    std::string_view name;
    Element element;
  };
  static constexpr Name kNames[] = {
      {"f16", Element::F16},   {"bf16", Element::BF16}, {"e4m3", Element::E4M3},
      {"e5m2", Element::E5M2}, {"e2m1", Element::E2M1}, {"e2m3", Element::E2M3},
      {"e3m2", Element::E3M2}, {"s8", Element::S8},     {"u8", Element::U8}};
  for (const Name &one : kNames)
    if (one.name == name)
      return one.element;
  throw PtxError("elements of type " + std::string(name) + " are not covered");
}

unsigned moec::emulator::bitsOf(Element element) {
  switch (element) {
  case Element::F16:
  case Element::BF16:
    return 16;
  case Element::TF32:
    return 32;
  case Element::E2M1:
    return 4;
  case Element::E2M3:
  case Element::E3M2:
    return 6;
  default:
    return 8;
  }
}

static const SmallTable &tableOf(Element element) {
  switch (element) {
  case Element::E5M2:
    return valuesOf(kE5M2);
  case Element::E2M1:
    return valuesOf(kE2M1);
  case Element::E2M3:
    return valuesOf(kE2M3);
  case Element::E3M2:
    return valuesOf(kE3M2);
  default:
    return valuesOf(kE4M3);
  }
}

void moec::emulator::decodeRow(const uint8_t *row, unsigned count,
                               Element element, bool inBytes, float *values) {
  const SmallTable &table = tableOf(element);
  for (unsigned i = 0; i < count; ++i)
    switch (element) {
    case Element::F16:
    case Element::BF16: {
      uint16_t bits;
      std::memcpy(&bits, row + 2 * i, 2);
      values[i] =
          element == Element::F16 ? decodeHalf(bits) : decodeBfloat(bits);
      break;
    }
    case Element::TF32: {
      uint32_t bits;
      std::memcpy(&bits, row + 4 * i, 4);
      // The low 13 bits of the mantissa do not count.
      values[i] = std::bit_cast<float>(bits & 0xFFFFE000);
      break;
    }
    case Element::S8:
      values[i] = float(int8_t(row[i]));
      break;
    case Element::U8:
      values[i] = float(row[i]);
      break;
    case Element::E2M1:
      // In a byte of its own the code is in bits 2 to 5.
      values[i] =
          table[inBytes ? row[i] >> 2 & 15 : row[i / 2] >> (i % 2 * 4) & 15];
      break;
    default:
      values[i] = table[row[i]];
    }
}

void moec::emulator::unpackSixBits(const uint8_t *dense, uint8_t *bytes) {
  for (unsigned i = 0; i < 16; ++i) {
    const unsigned bit = 6 * i;
    unsigned pair = dense[bit / 8];
    if (bit / 8 + 1 < 12)
      pair |= unsigned(dense[bit / 8 + 1]) << 8;
    bytes[i] = uint8_t(pair >> bit % 8 & 63);
  }
}

// Vectors of the machine that runs it; sums and products are the same on all.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
double moec::emulator::dotProduct(const float *a, const float *b,
                                  unsigned count) {
  // Sums that need not wait for each other. k is a multiple of 8.
  double sums[8] = {};
  for (unsigned i = 0; i < count; i += 8)
    for (unsigned j = 0; j < 8; ++j)
      sums[j] += double(a[i + j]) * double(b[i + j]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
         ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}
