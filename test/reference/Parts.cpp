//===- Parts.cpp - parts of a layer ---------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The quantization of x alone, and what parts down and finalize are given.
// Their sums are in Reference.cpp.
//
//===----------------------------------------------------------------------===//

#include "test/reference/FirstHalf.h"
#include "test/reference/TestData.h"

namespace moec::reference {

Result<QuantizedX> quantizeX(const Layer &layer, const Inputs &inputs,
                             const Routing &routing) {
  if (!layer.a1Scaling.given || layer.computeType)
    return Error{ErrorCode::InvalidArgument,
                 "x becomes no codes in this layer"};
  FirstHalf firstHalf(layer, inputs, routing, 0);
  QuantizedX made;
  const int64_t pairs = layer.pairsOfToken();
  const int64_t step = layer.weightOnInput ? 1 : pairs;
  for (int64_t pair = 0; pair < inputs.tokens * pairs; pair += step)
    firstHalf.quantize(pair, made);
  // Every pair has the same scale.
  if (layer.a1Scaling.ofTensor() && !made.scales.empty())
    made.scales.erase(made.scales.begin() + 1, made.scales.end());
  return made;
}

void fillIntermediate(const Layer &layer, uint64_t seed, int64_t pair,
                      int64_t pairs, void *destination) {
  const int64_t columns = layer.intermediate;
  for (int64_t p = pair; p < pair + pairs; ++p) {
    const double scale = tokenScale(seed, p / layer.pairsOfToken());
    for (int64_t i = p * columns; i < (p + 1) * columns; ++i)
      store(*layer.inputType, destination, i,
            0.5 * scale * scale *
                randomNormal(seed, Stream::Intermediate, uint64_t(i)));
  }
}

void fillPartials(const Layer &layer, uint64_t seed, int64_t pair,
                  int64_t pairs, void *destination) {
  const int64_t hidden = layer.hidden;
  for (int64_t p = pair; p < pair + pairs; ++p) {
    const double scale = tokenScale(seed, p / layer.pairsOfToken());
    for (int64_t i = p * hidden; i < (p + 1) * hidden; ++i)
      store(*layer.outputType, destination, i,
            0.1 * scale * scale *
                randomNormal(seed, Stream::Partials, uint64_t(i)));
  }
}

} // namespace moec::reference
