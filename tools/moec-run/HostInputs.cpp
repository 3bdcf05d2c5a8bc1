//===- HostInputs.cpp - the tensors that a run reads ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Filled by all cores; what is filled depends on seed and position alone.
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

/// The experts' outputs. Rows of pairs that this rank does not sum are poison.
static Result<void> makePartials(const Layer &layer, uint64_t seed,
                                 HostInputs &inputs) {
  reference::Inputs &described = inputs.described;
  const reference::Routing routing = TRY(reference::route(layer, described));
  const int64_t pairs = routing.tokens * routing.pairs;
  const int64_t rowBytes = layer.outputType->bytesOf(layer.hidden);
  inputs.partials = HostArray(pairs * rowBytes);
  described.partials = {inputs.partials.data.get(), layer.outputType, 0};
  reference::parallelFor(
      "experts' outputs made", pairs, layer.hidden * reference::kStepsOfDraw, 0,
      [&](int64_t first, int64_t last) {
        reference::fillPartials(layer, seed, first, last - first,
                                inputs.partials.data.get());
        for (int64_t pair = first; pair < last; ++pair)
          if (routing.locals[size_t(pair)] < 0)
            reference::poison(inputs.partials.data.get() + pair * rowBytes,
                              rowBytes);
      });
  return {};
}

Result<HostInputs> moec::run::makeInputs(const Layer &layer, uint64_t seed,
                                         const InputOptions &options,
                                         int64_t slots,
                                         const std::string &pattern) {
  HostInputs inputs;
  reference::Inputs &described = inputs.described;
  const int64_t tokens = layer.rowsOf(slots);
  if (layer.batched)
    described.expertCounts =
        reference::makeExpertCounts(layer, seed, pattern, slots);
  described.tokens = tokens;
  int64_t stride = layer.hidden + options.rowStride;
  const Element *type = layer.inputQuantized ? layer.a1 : layer.inputType;
  inputs.x = HostArray(type->bytesOf(tokens * stride));
  // Bytes between rows must not matter.
  reference::poison(inputs.x.data.get(), inputs.x.bytes);
  if (layer.inputQuantized) {
    const int64_t group = layer.a1Scaling.columns;
    const int64_t groups = group == -1 ? 1 : (layer.hidden + group - 1) / group;
    const Element &scale = *layer.a1Scaling.scaleType;
    const int64_t least = std::max<int64_t>(tokens, 1);
    inputs.xScale = HostArray(scale.bytesOf(least * groups));
    described.xScale = {inputs.xScale.data.get(), &scale, 0};
    float *second = nullptr;
    if (layer.a1Scaling.second) {
      inputs.xSecondScale = HostArray(least * 4);
      described.xSecondScale = {inputs.xSecondScale.data.get(),
                                reference::findElement("f32"), 0};
      second = reinterpret_cast<float *>(inputs.xSecondScale.data.get());
    }
    reference::fillQuantizedX(layer, seed, 0, tokens, inputs.x.data.get(),
                              stride, inputs.xScale.data.get(), second);
  } else {
    reference::parallelFor("tokens made", tokens,
                           layer.hidden * reference::kStepsOfDraw, 0,
                           [&](int64_t first, int64_t last) {
                             reference::fillX(layer, seed, first, last - first,
                                              inputs.x.data.get(), stride);
                           });
  }
  reference::fillMaps(layer, seed, described);
  const Element *logitsType = options.logitsType.empty()
                                  ? layer.logitsType
                                  : reference::findElement(options.logitsType);
  if (layer.sharedGate) {
    inputs.sharedGate = HostArray(tokens * logitsType->bytes);
    described.sharedGate = {inputs.sharedGate.data.get(), logitsType, 0};
    for (int64_t token = 0; token < tokens; ++token)
      reference::store(*logitsType, inputs.sharedGate.data.get(), token,
                       reference::randomNormal(seed,
                                               reference::Stream::SharedGate,
                                               uint64_t(token)));
  }
  // Tokens that are not valid, and slots that are not taken, are larger than
  // all others: a scale that took them for its maximum would be another.
  constexpr double kInvalid = 10000;
  for (int64_t token = 0; token < tokens; ++token) {
    if (reference::isRow(layer, described, token) &&
        (options.validTokens < 0 || token < options.validTokens))
      continue;
    for (int64_t c = 0; c < layer.hidden; ++c)
      reference::store(*type, inputs.x.data.get(), token * stride + c,
                       kInvalid);
  }
  described.x = {inputs.x.data.get(), type, stride};
  if (layer.batched)
    return inputs;

  const bool given = layer.select == "given";
  if (options.routeBy == RoutingInput::Logits && !given) {
    inputs.logits =
        HostArray(tokens * layer.routedExperts() * logitsType->bytes);
    TRY(reference::fillLogits(layer, seed, pattern, 0, tokens, *logitsType,
                              inputs.logits.data.get()));
    described.logits = {inputs.logits.data.get(), logitsType, 0};
    if (layer.tableRows) {
      const Element *element = reference::findElement(options.tokenIds);
      inputs.tokenIds = HostArray(tokens * element->bytes);
      reference::fillTokenIds(layer, seed, 0, tokens, *element,
                              inputs.tokenIds.data.get());
      described.tokenIds = {inputs.tokenIds.data.get(), element, 0};
    }
  } else {
    const Element *element = reference::findElement(
        options.routeBy == RoutingInput::Ids64 ? "i64" : "i32");
    inputs.ids = HostArray(tokens * layer.topK * element->bytes);
    const Element *weightElement = reference::findElement(
        options.weightsType.empty() ? "f32" : options.weightsType);
    inputs.weights = HostArray(tokens * layer.topK * weightElement->bytes);
    reference::fillGiven(layer, seed, 0, tokens, *element,
                         inputs.ids.data.get(), *weightElement,
                         inputs.weights.data.get());
    described.givenIds = {inputs.ids.data.get(), element, 0};
    described.givenWeights = {inputs.weights.data.get(), weightElement, 0};
  }
  if (layer.lora) {
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
    described.gateUpAddend = {inputs.gateUpAddend.data.get(), &element, 0};
    described.downAddend = {inputs.downAddend.data.get(), &element, 0};
  }
  if (layer.residual) {
    inputs.residual =
        HostArray(tokens * layer.hidden * layer.outputType->bytes);
    reference::fillResidual(layer, seed, 0, tokens, inputs.residual.data.get());
    described.residual = {inputs.residual.data.get(), layer.outputType, 0};
  }
  if (options.validTokens >= 0) {
    inputs.validTokens = static_cast<int32_t>(options.validTokens);
    described.validTokens = options.validTokens;
  }
  if (layer.part == "finalize")
    TRY(makePartials(layer, seed, inputs));
  return inputs;
}
