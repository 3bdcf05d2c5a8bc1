//===- HostInputs.cpp - inputs of a run on the host -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All cores fill the arrays. The values depend only on the seed and the
// position.
//
//===----------------------------------------------------------------------===//

#include "tools/moec-run/HostInputs.h"

#include "test/reference/Check.h"
#include "test/reference/TestData.h"

#include <algorithm>

using namespace moec;
using namespace moec::run;
using reference::Element;
using reference::Layer;

namespace {
/// Creates the inputs of one run.
class InputMaker {
public:
  InputMaker(const Layer &layer, uint64_t seed, const InputOptions &options,
             const std::string &pattern)
      : layer(layer), seed(seed), options(options), pattern(pattern),
        xType(layer.inputQuantized ? layer.a1 : layer.inputType),
        logitsType(options.logitsType.empty()
                       ? layer.logitsType
                       : reference::findElement(options.logitsType)) {}

  Result<HostInputs> make(int64_t slots) &&;

private:
  void makeX();
  void makeQuantizedX(int64_t stride);
  void spoilInvalidX();
  void makeSharedGate();
  Result<void> makeLogits();
  void makeGivenExperts();
  void makeAddends();
  void makeResidual();
  /// Creates `array`, which has a row of `columns` elements for each pair. Rows
  /// of pairs whose expert is not on this rank are poisoned.
  using FillPairs = void (*)(const Layer &layer, uint64_t seed, int64_t pair,
                             int64_t pairs, void *destination);
  Result<void> makeRowsOfPairs(FillPairs fill, int64_t columns,
                               const Element *type, HostArray &array,
                               reference::Matrix &described);

  /// Describes an array with contiguous rows, whose number of columns is known
  /// from the layer.
  static reference::Matrix matrixOf(const HostArray &array,
                                    const Element *element) {
    return {array.data.get(), element, 0};
  }

  const Layer &layer;
  const uint64_t seed;
  const InputOptions &options;
  const std::string &pattern;
  const Element *const xType;
  const Element *const logitsType;
  int64_t tokens = 0;
  HostInputs inputs;
};
} // namespace

Result<HostInputs> InputMaker::make(int64_t slots) && {
  reference::Inputs &described = inputs.described;
  tokens = layer.rowsOf(slots);
  if (layer.batched)
    described.expertCounts =
        reference::makeExpertCounts(layer, seed, pattern, slots);
  described.tokens = tokens;
  makeX();
  reference::fillMaps(layer, seed, described);
  if (layer.sharedGate)
    makeSharedGate();
  spoilInvalidX();
  if (layer.batched)
    return std::move(inputs);

  const bool given = layer.select == "given";
  if (options.routeBy == RoutingInput::Logits && !given)
    TRY(makeLogits());
  else
    makeGivenExperts();
  if (layer.lora)
    makeAddends();
  if (layer.residual)
    makeResidual();
  if (options.validTokens >= 0) {
    inputs.validTokens = static_cast<int32_t>(options.validTokens);
    described.validTokens = options.validTokens;
  }
  if (layer.part == "finalize")
    TRY(makeRowsOfPairs(reference::fillPartials, layer.hidden, layer.outputType,
                        inputs.partials, described.partials));
  if (layer.part == "down")
    TRY(makeRowsOfPairs(reference::fillIntermediate, layer.intermediate,
                        layer.inputType, inputs.intermediate,
                        described.intermediate));
  return std::move(inputs);
}

void InputMaker::makeX() {
  const int64_t stride = layer.hidden + options.rowStride;
  inputs.x = HostArray(xType->bytesOf(tokens * stride));
  inputs.described.x = {inputs.x.data.get(), xType, stride};
  // The bytes between rows must not affect the result.
  reference::poison(inputs.x.data.get(), inputs.x.bytes);
  if (layer.inputQuantized)
    return makeQuantizedX(stride);
  reference::parallelFor("tokens made", tokens,
                         layer.hidden * reference::kStepsOfDraw, 0,
                         [&](int64_t first, int64_t last) {
                           reference::fillX(layer, seed, first, last - first,
                                            inputs.x.data.get(), stride);
                         });
}

void InputMaker::makeQuantizedX(int64_t stride) {
  const int64_t group = layer.a1Scaling.columns;
  const int64_t groups = group == -1 ? 1 : (layer.hidden + group - 1) / group;
  const Element &scale = *layer.a1Scaling.scaleType;
  const int64_t least = std::max<int64_t>(tokens, 1);
  inputs.xScale = HostArray(scale.bytesOf(least * groups));
  inputs.described.xScale = matrixOf(inputs.xScale, &scale);
  float *second = nullptr;
  if (layer.a1Scaling.second) {
    inputs.xSecondScale = HostArray(least * 4);
    inputs.described.xSecondScale =
        matrixOf(inputs.xSecondScale, reference::findElement("f32"));
    second = reinterpret_cast<float *>(inputs.xSecondScale.data.get());
  }
  reference::fillQuantizedX(layer, seed, 0, tokens, inputs.x.data.get(), stride,
                            inputs.xScale.data.get(), second);
}

/// Fills invalid tokens and unused slots with large values, so that a scale
/// that wrongly includes them in its maximum differs.
void InputMaker::spoilInvalidX() {
  constexpr double kInvalid = 10000;
  const int64_t stride = inputs.described.x.rowStride;
  for (int64_t token = 0; token < tokens; ++token) {
    if (reference::isRow(layer, inputs.described, token) &&
        (options.validTokens < 0 || token < options.validTokens))
      continue;
    for (int64_t c = 0; c < layer.hidden; ++c)
      reference::store(*xType, inputs.x.data.get(), token * stride + c,
                       kInvalid);
  }
}

void InputMaker::makeSharedGate() {
  inputs.sharedGate = HostArray(tokens * logitsType->bytes);
  inputs.described.sharedGate = matrixOf(inputs.sharedGate, logitsType);
  for (int64_t token = 0; token < tokens; ++token)
    reference::store(*logitsType, inputs.sharedGate.data.get(), token,
                     reference::randomNormal(
                         seed, reference::Stream::SharedGate, uint64_t(token)));
}

Result<void> InputMaker::makeLogits() {
  inputs.logits = HostArray(tokens * layer.routedExperts() * logitsType->bytes);
  TRY(reference::fillLogits(layer, seed, pattern, 0, tokens, *logitsType,
                            inputs.logits.data.get()));
  inputs.described.logits = matrixOf(inputs.logits, logitsType);
  if (layer.tableRows) {
    const Element *element = reference::findElement(options.tokenIds);
    inputs.tokenIds = HostArray(tokens * element->bytes);
    reference::fillTokenIds(layer, seed, 0, tokens, *element,
                            inputs.tokenIds.data.get());
    inputs.described.tokenIds = matrixOf(inputs.tokenIds, element);
  }
  return {};
}

void InputMaker::makeGivenExperts() {
  const Element *element = reference::findElement(
      options.routeBy == RoutingInput::Ids64 ? "i64" : "i32");
  inputs.ids = HostArray(tokens * layer.topK * element->bytes);
  const Element *weightElement = reference::findElement(
      options.weightsType.empty() ? "f32" : options.weightsType);
  inputs.weights = HostArray(tokens * layer.topK * weightElement->bytes);
  reference::fillGiven(layer, seed, 0, tokens, *element, inputs.ids.data.get(),
                       *weightElement, inputs.weights.data.get());
  inputs.described.givenIds = matrixOf(inputs.ids, element);
  inputs.described.givenWeights = matrixOf(inputs.weights, weightElement);
}

void InputMaker::makeAddends() {
  const int64_t pairs = tokens * layer.pairsOfToken();
  const Element &element = *layer.inputType;
  inputs.gateUpAddend = HostArray(pairs * layer.gateUpRows() * element.bytes);
  inputs.downAddend = HostArray(pairs * layer.hidden * element.bytes);
  reference::parallelFor(
      "adapters' addends made", pairs,
      (layer.gateUpRows() + layer.hidden) * reference::kStepsOfDraw, 0,
      [&](int64_t first, int64_t last) {
        reference::fillAddends(layer, seed, first, last - first,
                               inputs.gateUpAddend.data.get(),
                               inputs.downAddend.data.get());
      });
  inputs.described.gateUpAddend = matrixOf(inputs.gateUpAddend, &element);
  inputs.described.downAddend = matrixOf(inputs.downAddend, &element);
}

void InputMaker::makeResidual() {
  inputs.residual = HostArray(tokens * layer.hidden * layer.outputType->bytes);
  reference::fillResidual(layer, seed, 0, tokens, inputs.residual.data.get());
  inputs.described.residual = matrixOf(inputs.residual, layer.outputType);
}

Result<void> InputMaker::makeRowsOfPairs(FillPairs fill, int64_t columns,
                                         const Element *type, HostArray &array,
                                         reference::Matrix &described) {
  const reference::Routing routing =
      TRY(reference::route(layer, inputs.described));
  const int64_t pairs = routing.tokens * routing.pairs;
  const int64_t rowBytes = type->bytesOf(columns);
  array = HostArray(pairs * rowBytes);
  described = matrixOf(array, type);
  reference::parallelFor(
      "rows of pairs made", pairs, columns * reference::kStepsOfDraw, 0,
      [&](int64_t first, int64_t last) {
        fill(layer, seed, first, last - first, array.data.get());
        for (int64_t pair = first; pair < last; ++pair)
          if (routing.locals[size_t(pair)] < 0)
            reference::poison(array.data.get() + pair * rowBytes, rowBytes);
      });
  return {};
}

Result<HostInputs> moec::run::makeInputs(const Layer &layer, uint64_t seed,
                                         const InputOptions &options,
                                         int64_t slots,
                                         const std::string &pattern) {
  return InputMaker(layer, seed, options, pattern).make(slots);
}
