//===- SharedMlp.cpp - shared experts with weights of their own -----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A layer of one expert, which every token takes with a weight of 1, or with
// that of its gate.
//
//===----------------------------------------------------------------------===//

#include "test/reference/Reference.h"

#include <algorithm>
#include <cmath>

namespace moec::reference {

Layer Layer::sharedMlp() const {
  Layer mlp = *this;
  mlp.experts = mlp.topK = mlp.localExperts = 1;
  mlp.localBegin = mlp.redundantExperts = mlp.zeroExperts =
      mlp.constantExperts = 0;
  mlp.sharedExperts = mlp.sharedIntermediate = 0;
  mlp.intermediate = sharedIntermediate;
  mlp.select = "given";
  mlp.groups = mlp.topGroups = mlp.tableRows = 0;
  mlp.routingScale = mlp.outputScale = 1;
  mlp.routingBias = mlp.expertScale = mlp.sharedGate = false;
  mlp.addZeroExperts = mlp.weightOnInput = mlp.eplb = mlp.expertMap = false;
  mlp.residual = false;
  return mlp;
}

Result<std::vector<double>> computeShared(const Layer &layer,
                                          const Inputs &inputs,
                                          const std::vector<int64_t> &list,
                                          unsigned threads) {
  if (!inputs.shared || (layer.sharedGate && !inputs.sharedGate.data))
    return Error{ErrorCode::InvalidArgument,
                 "the weights of shared experts are needed, and their gate if "
                 "they have one"};
  Inputs own = *inputs.shared;
  own.tokens = inputs.tokens;
  own.validTokens = inputs.validTokens;
  own.x = inputs.x;
  own.xScale = inputs.xScale;
  own.xSecondScale = inputs.xSecondScale;
  Routing routing;
  routing.tokens = inputs.tokens;
  routing.pairs = 1;
  const int64_t valid = inputs.validTokens.value_or(inputs.tokens);
  for (int64_t token = 0; token < inputs.tokens; ++token) {
    const bool isTaken = token < valid;
    float weight = isTaken ? 1 : 0;
    if (isTaken && layer.sharedGate)
      weight = float(1 / (1 + std::exp(-load(*inputs.sharedGate.element,
                                             inputs.sharedGate.data, token))));
    routing.ids.push_back(isTaken ? 0 : -1);
    routing.locals.push_back(isTaken ? 0 : -1);
    routing.places.push_back(isTaken ? 0 : -1);
    routing.weights.push_back(weight);
  }
  routing.counts = {std::clamp<int64_t>(valid, 0, inputs.tokens)};
  return compute(layer.sharedMlp(), own, routing, list, threads);
}

} // namespace moec::reference
