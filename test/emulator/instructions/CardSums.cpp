//===- CardSums.cpp - sums as a card's tensor cores make them -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/emulator/instructions/CardSums.h"

#include <algorithm>
#include <bit>
#include <cmath>

using namespace moec::emulator;

static constexpr int kLeastOfFloat = -126;
static constexpr uint32_t kNan = 0x7FFFFFFF;

/// The exponent of the smallest normal value.
static int leastExponent(Element element) {
  switch (element) {
  case Element::F16:
  case Element::E5M2:
    return -14;
  case Element::E4M3:
    return -6;
  default:
    return kLeastOfFloat;
  }
}

/// Values that are not normal have the exponent of the smallest normal one.
static int exponentOf(float value, int least) {
  return std::max(std::ilogb(value), least);
}

CardSums moec::emulator::cardSumsOf(Element element, bool isWgmma) {
  const bool isSmall = element == Element::E4M3 || element == Element::E5M2;
  if (isSmall && isWgmma)
    return {32, 13, 13};
  return {16, 25, 23, isSmall};
}

/// sum * 2^power, cut to so many bits of a fraction.
static float cut(int64_t sum, int power, unsigned fractionBits) {
  if (sum == 0)
    return 0;
  const auto magnitude = uint64_t(std::abs(sum));
  const int exponent = int(std::bit_width(magnitude)) - 1 + power;
  const int unit = std::max(exponent, kLeastOfFloat) - int(fractionBits);
  const double kept =
      std::trunc(std::ldexp(double(magnitude), power - unit)); // exact
  const auto value = float(std::ldexp(kept, unit));
  return sum < 0 ? -value : value;
}

/// One step: all products and the addend at once. Those that are zero do not
/// count for the largest exponent.
static float addOnce(const CardSums &sums, int leastA, const float *a,
                     int leastB, const float *b, unsigned count, float addend) {
  double all = addend;
  for (unsigned i = 0; i < count; ++i)
    all += double(a[i]) * double(b[i]);
  if (!std::isfinite(all))
    return std::isnan(all) ? std::bit_cast<float>(kNan) : float(all);
  constexpr int kNone = -1000;
  int largest = addend == 0 ? kNone : exponentOf(addend, kLeastOfFloat);
  for (unsigned i = 0; i < count; ++i)
    if (a[i] != 0 && b[i] != 0)
      largest = std::max(largest,
                         exponentOf(a[i], leastA) + exponentOf(b[i], leastB));
  if (largest == kNone)
    return 0;
  const int shift = int(sums.fractionBits) - largest;
  auto sum = int64_t(std::ldexp(double(addend), shift));
  for (unsigned i = 0; i < count; ++i)
    sum += int64_t(std::ldexp(double(a[i]) * double(b[i]), shift));
  return cut(sum, -shift, sums.resultBits);
}

float moec::emulator::addLikeCard(const CardSums &sums, Element elementA,
                                  const float *a, Element elementB,
                                  const float *b, unsigned count,
                                  float addend) {
  constexpr unsigned kMost = 64;
  float pairsA[kMost], pairsB[kMost];
  if (sums.asHalves) {
    for (unsigned i = 0; i < count; ++i) {
      const unsigned from =
          i % (count / 2) / 2 * 4 + i / (count / 2) * 2 + i % 2;
      pairsA[i] = a[from];
      pairsB[i] = b[from];
    }
    a = pairsA;
    b = pairsB;
    elementA = elementB = Element::F16;
  }
  const int leastA = leastExponent(elementA), leastB = leastExponent(elementB);
  float sum = sums.asHalves ? 0 : addend;
  for (unsigned first = 0; first < count; first += sums.terms)
    sum = addOnce(sums, leastA, a + first, leastB, b + first,
                  std::min(count - first, sums.terms), sum);
  if (!sums.asHalves)
    return sum;
  const float all = sum + addend;
  return std::isnan(all) ? std::bit_cast<float>(kNan) : all;
}
