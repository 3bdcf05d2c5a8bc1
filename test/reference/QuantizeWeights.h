//===- QuantizeWeights.h - codes and scales of float weights ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Quantizes a weight that is stored as floats, by the layer's descriptor
// and the rules of docs/reference/checkpoints.md: each number is what exact
// arithmetic gives, rounded to f32 once for each step that the rule names.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_REFERENCE_QUANTIZEWEIGHTS_H
#define MOEC_TEST_REFERENCE_QUANTIZEWEIGHTS_H

#include "test/reference/Reference.h"

namespace moec::reference {

/// One expert's, as they would be stored; empty what the layer has none of.
struct QuantizedWeight {
  std::vector<std::byte> codes, scales, secondScales, zeroPoints;
};

/// Quantizes w13 or w2; `floats` are rows of Layer::storedWeightType.
QuantizedWeight quantizeWeight(const Layer &layer, bool first,
                               const void *floats);

} // namespace moec::reference

#endif // MOEC_TEST_REFERENCE_QUANTIZEWEIGHTS_H
