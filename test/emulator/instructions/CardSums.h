//===- CardSums.h - sums as a card's tensor cores make them -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tensor cores align products and the addend to the largest exponent, cut what
// lies below some bits of it, and add integers. The models are those of
// "Accurate Models of NVIDIA Tensor Cores" (arXiv 2512.07004). test/emulator/
// sums.txt has what an H200 gave.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_INSTRUCTIONS_CARDSUMS_H
#define MOEC_TEST_EMULATOR_INSTRUCTIONS_CARDSUMS_H

#include "test/emulator/instructions/Elements.h"

namespace moec::emulator {

/// The bits that sums of an instruction keep.
struct CardSums {
  unsigned terms;        ///< products that are added at once
  unsigned fractionBits; ///< below the largest exponent
  unsigned resultBits;   ///< of the fraction of what is stored
  /// 8 bits are multiplied as f16, first the lower pairs of each word and then
  /// the upper ones; the addend is added to their sum.
  bool asHalves = false;
};

/// The sums of sm_90.
CardSums cardSumsOf(Element element, bool isWgmma);

/// addend + sum of a[i] * b[i].
float addLikeCard(const CardSums &sums, Element elementA, const float *a,
                  Element elementB, const float *b, unsigned count,
                  float addend);

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_INSTRUCTIONS_CARDSUMS_H
