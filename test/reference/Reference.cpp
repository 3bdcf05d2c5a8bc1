//===- Reference.cpp - the layer in double precision ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The two matmuls, the activation and the weighted sum, expert by expert, for
// the tokens in a list.
//
//===----------------------------------------------------------------------===//

#include "test/reference/Reference.h"

#include "runtime/support/Progress.h"
#include "test/reference/FirstHalf.h"

#include <algorithm>
#include <cmath>

namespace moec::reference {

/// Adds the zero experts' part of a token: its row of x, times their weights.
static void addOwn(const Layer &layer, const Inputs &inputs,
                   const Routing &routing, int64_t token, double *out) {
  double own = 0;
  for (int64_t k = 0; k < layer.topK; ++k)
    if (const int64_t pair = token * routing.pairs + k;
        routing.ids[pair] >= layer.experts &&
        routing.ids[pair] < layer.routedExperts())
      own += routing.weights[pair] * layer.outputScale;
  const int64_t stride = inputs.x.rowStride ? inputs.x.rowStride : layer.hidden;
  for (int64_t n = 0; own != 0 && n < layer.hidden; ++n)
    out[n] += own * load(*inputs.x.element, inputs.x.data, token * stride + n);
}

/// Adds the vectors of a token's constant experts, times their weights.
static void addConstants(const Layer &layer, const Inputs &inputs,
                         const Routing &routing, int64_t token, double *out) {
  for (int64_t k = 0; k < layer.topK; ++k) {
    const int64_t pair = token * routing.pairs + k;
    const int64_t constant = routing.ids[pair] - layer.experts;
    if (constant < 0 || constant >= layer.constantExperts)
      continue;
    for (int64_t n = 0; n < layer.hidden; ++n)
      out[n] += routing.weights[pair] * layer.outputScale *
                load(*inputs.constants.element, inputs.constants.data,
                     constant * layer.hidden + n);
  }
}

/// Adds what each token of `list` gets beside its experts' outputs.
static void addOthers(const Layer &layer, const Inputs &inputs,
                      const Routing &routing, const std::vector<int64_t> &list,
                      std::vector<double> &out) {
  const int64_t hidden = layer.hidden;
  for (size_t row = 0; row < list.size() && layer.addZeroExperts; ++row)
    addOwn(layer, inputs, routing, list[row], &out[row * hidden]);
  for (size_t row = 0; row < list.size() && layer.constantExperts > 0; ++row)
    addConstants(layer, inputs, routing, list[row], &out[row * hidden]);
  if (inputs.residual.data)
    for (size_t row = 0; row < list.size(); ++row)
      for (int64_t n = 0; n < hidden; ++n)
        out[row * hidden + n] +=
            load(*inputs.residual.element, inputs.residual.data,
                 list[row] * hidden + n);
}

/// Makes the row of an expert's output its RMS norm.
static void normalize(const Layer &layer, const Matrix &weight, double *row) {
  double squares = 0;
  for (int64_t n = 0; n < layer.hidden; ++n) {
    row[n] *= 1 + load(*weight.element, weight.data, n);
    squares += row[n] * row[n];
  }
  const double root =
      std::sqrt(squares / double(layer.hidden) + layer.postExpertNorm);
  for (int64_t n = 0; n < layer.hidden; ++n)
    row[n] /= root;
}

Result<std::vector<double>> finalize(const Layer &layer, const Inputs &inputs,
                                     const Routing &routing,
                                     const std::vector<int64_t> &list) {
  if (!list.empty() && !inputs.partials.data)
    return Error{ErrorCode::InvalidArgument, "partials are needed"};
  const int64_t hidden = layer.hidden;
  std::vector<double> out(list.size() * hidden, 0.0);
  for (const std::vector<Pair> &ofExpert : pairsOf(layer, routing, list))
    for (const Pair &pair : ofExpert)
      for (int64_t n = 0; n < hidden; ++n) {
        const int64_t at = pair.pair * hidden + n;
        double value = load(*inputs.partials.element, inputs.partials.data, at);
        if (const Matrix &addend = inputs.downAddend; addend.data)
          value += load(*addend.element, addend.data, at);
        out[pair.row * hidden + n] += pair.weight * value;
      }
  addOthers(layer, inputs, routing, list, out);
  return out;
}

/// Returns true if the weight is absent. A part with one matmul does not need
/// the weights of the other one.
static bool lacks(const Layer &layer, const Weight &weight, bool first) {
  return !present(weight) && layer.part != (first ? "down" : "gate_up");
}

/// Returns which scales, zero points or indices of the weights are needed and
/// absent, or "".
static std::string missingScales(const Layer &layer, const Inputs &inputs) {
  if (layer.w1Scaling.given && (lacks(layer, inputs.w13Scale, true) ||
                                lacks(layer, inputs.w2Scale, false)))
    return "w13_scale and w2_scale are needed: the layer is quantized";
  if ((layer.w1Scaling.second && lacks(layer, inputs.w13SecondScale, true)) ||
      (layer.w2Scaling.second && lacks(layer, inputs.w2SecondScale, false)))
    return "w13_second_scale and w2_second_scale are needed: scales are scaled";
  if ((layer.w1Scaling.zeroPoint && lacks(layer, inputs.w13ZeroPoint, true)) ||
      (layer.w2Scaling.zeroPoint && lacks(layer, inputs.w2ZeroPoint, false)))
    return "w13_zero_point and w2_zero_point are needed: the weights have zero "
           "points";
  if (layer.groupIndex && (lacks(layer, inputs.w13GroupIndex, true) ||
                           lacks(layer, inputs.w2GroupIndex, false)))
    return "w13_group_index and w2_group_index are needed: columns say their "
           "groups";
  for (auto [scaling, scale] : {std::pair(&layer.a1Scaling, &inputs.a1Scale),
                                std::pair(&layer.a2Scaling, &inputs.a2Scale)})
    if (scaling->storesNumber() &&
        lacks(layer, *scale, scaling == &layer.a1Scaling) &&
        !(layer.inputQuantized && scaling == &layer.a1Scaling))
      return scaling->dynamic
                 ? "a1_second_scale and a2_second_scale are needed: they are "
                   "stored"
                 : "a1_scale and a2_scale are needed: they are static";
  return "";
}

/// Returns which weight is needed and absent, or "".
static std::string missingWeights(const Layer &layer, const Inputs &inputs) {
  if (lacks(layer, inputs.w13, true) || lacks(layer, inputs.w2, false))
    return "w13 and w2 are needed";
  if (layer.hasBias &&
      (lacks(layer, inputs.b13, true) || lacks(layer, inputs.b2, false)))
    return "b13 and b2 are needed: the layer has biases";
  const bool onlyFirst = layer.part == "gate_up";
  if (layer.postExpertNorm > 0 && !inputs.normWeight.data && !onlyFirst)
    return "post_expert_norm is needed: outputs are normalized";
  if (layer.constantExperts > 0 && !inputs.constants.data && !onlyFirst)
    return "constant_experts is needed: experts are vectors";
  for (size_t i = 0; i < kActivationNumbers.size(); ++i)
    if (layer.ofExperts[i] && !inputs.numbers[i].data && layer.part != "down")
      return std::string("activation_") + kActivationNumbers[i] +
             " is needed: each expert has its own";
  return missingScales(layer, inputs);
}

/// Returns what is wrong with the tensors of tokens, or "". None is read if no
/// token is computed.
static std::string wrongActivations(const Layer &layer, const Inputs &inputs,
                                    bool computesTokens) {
  if (computesTokens &&
      (!inputs.x.data ||
       inputs.x.element != (layer.inputQuantized ? layer.a1 : layer.inputType)))
    return "x is missing or not of the layer's in_dtype";
  if ((inputs.gateUpAddend.data || inputs.downAddend.data) && !layer.lora)
    return "the layer has no adapters";
  if (layer.inputQuantized && computesTokens && !inputs.xScale.data)
    return "x_scale is needed: x comes quantized";
  if (layer.inputQuantized && computesTokens && layer.a1Scaling.second &&
      !inputs.xSecondScale.data)
    return "x_second_scale is needed: scales of x are scaled";
  if (inputs.residual.data && !layer.residual)
    return "the layer adds no residual";
  return "";
}

/// Quantizes or rounds a row of the intermediate.
static void roundIntermediate(const Layer &layer, float scale, double *row) {
  if (layer.a2Scaling.given && layer.computeType)
    emulateRow(*layer.a2, layer.a2Scaling, scale, *layer.computeType, row,
               layer.intermediate);
  else if (layer.a2Scaling.given)
    quantizeRow(*layer.a2, layer.a2Scaling, scale, row, layer.intermediate);
  else
    for (int64_t i = 0; i < layer.intermediate; ++i)
      row[i] = roundTo(*layer.a2, row[i]);
}

/// Adds the outputs of all local experts to `out`.
static void addExperts(const Layer &layer, const Inputs &inputs,
                       const Routing &routing, const std::vector<int64_t> &list,
                       unsigned threads, std::vector<double> &out) {
  const int64_t hidden = layer.hidden, intermediate = layer.intermediate;
  const std::vector<std::vector<Pair>> pairs = pairsOf(layer, routing, list);
  FirstHalf firstHalf(layer, inputs, routing, threads);
  const float tScale = scaleOfT(layer, inputs, routing, firstHalf).scale;
  const WeightScales scales = scalesOfW2(layer, inputs);
  std::vector<double> t, y;
  std::vector<int64_t> ofExpert;
  Progress progress("reference: experts", layer.localExperts);
  for (int64_t expert = 0; expert < layer.localExperts;
       ++expert, progress.advance()) {
    const std::vector<Pair> &mine = pairs[expert];
    const int64_t count = int64_t(mine.size());
    if (count == 0)
      continue;
    ofExpert.clear();
    for (const Pair &pair : mine)
      ofExpert.push_back(pair.pair);
    firstHalf.run(expert, ofExpert, t);
    for (int64_t p = 0; p < count; ++p)
      roundIntermediate(layer, tScale, &t[p * intermediate]);
    multiply(t, count, intermediate, inputs.w2, scales,
             layer.hasBias && layer.addW2Bias ? &inputs.b2 : nullptr, expert,
             hidden, threads, y);
    if (const Matrix &addend = inputs.downAddend; addend.data)
      for (int64_t p = 0; p < count; ++p)
        for (int64_t n = 0; n < hidden; ++n)
          y[p * hidden + n] +=
              load(*addend.element, addend.data, mine[p].pair * hidden + n);
    for (int64_t p = 0; layer.postExpertNorm > 0 && p < count; ++p)
      normalize(layer, inputs.normWeight, &y[p * hidden]);
    for (int64_t p = 0; p < count; ++p)
      for (int64_t n = 0; n < hidden; ++n)
        out[mine[p].row * hidden + n] += mine[p].weight * y[p * hidden + n];
  }
}

Result<std::vector<double>> compute(const Layer &layer, const Inputs &inputs,
                                    const Routing &routing,
                                    const std::vector<int64_t> &list,
                                    unsigned threads) {
  auto invalid = [](std::string text) {
    return Error{ErrorCode::InvalidArgument, std::move(text)};
  };
  for (int64_t token : list)
    if (token < 0 || token >= inputs.tokens || token >= routing.tokens)
      return invalid("token " + std::to_string(token) + " does not exist");
  if (std::string wrong = wrongActivations(layer, inputs, !list.empty());
      !wrong.empty())
    return invalid(std::move(wrong));
  if (std::string missing = missingWeights(layer, inputs); !missing.empty())
    return invalid(std::move(missing));

  std::vector<double> out(list.size() * layer.hidden, 0.0);
  addExperts(layer, inputs, routing, list, threads, out);
  addOthers(layer, inputs, routing, list, out);
  if (layer.sharedIntermediate == 0)
    return out;
  Result<std::vector<double>> shared =
      computeShared(layer, inputs, list, threads);
  if (!shared)
    return shared;
  for (size_t i = 0; i < out.size(); ++i)
    out[i] += (*shared)[i];
  return out;
}

Result<std::vector<double>> intermediate(const Layer &layer,
                                         const Inputs &inputs,
                                         const Routing &routing,
                                         const std::vector<int64_t> &list) {
  for (std::string wrong : {wrongActivations(layer, inputs, !list.empty()),
                            missingWeights(layer, inputs)})
    if (!wrong.empty())
      return Error{ErrorCode::InvalidArgument, std::move(wrong)};
  const int64_t columns = layer.intermediate, pairs = routing.pairs;
  std::vector<double> out(list.size() * pairs * columns, 0.0);
  FirstHalf firstHalf(layer, inputs, routing, 0);
  const std::vector<std::vector<Pair>> ofExperts =
      pairsOf(layer, routing, list);
  std::vector<double> t;
  for (int64_t expert = 0; expert < layer.localExperts; ++expert) {
    std::vector<int64_t> mine;
    for (const Pair &pair : ofExperts[expert])
      mine.push_back(pair.pair);
    if (mine.empty())
      continue;
    firstHalf.run(expert, mine, t);
    for (size_t p = 0; p < mine.size(); ++p)
      std::copy_n(
          &t[p * columns], columns,
          &out[(ofExperts[expert][p].row * pairs + mine[p] % pairs) * columns]);
  }
  return out;
}

std::vector<double> roundOutput(const Layer &layer, std::vector<double> rows) {
  for (double &value : rows)
    value = roundTo(*layer.outputType, value);
  return rows;
}

} // namespace moec::reference
