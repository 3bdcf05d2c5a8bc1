//===- Route.cpp - stage route on the host ------------------------------------
//===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chooses top_k experts for each token from its logits, or takes the ids and
// weights that the caller gives. Larger logit first, then lower index; NaN
// counts as -inf; sums run over finite logits only; a selected expert whose
// logit is not finite has weight 0; a sum of 0 gives 1/top_k to each.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/KernelRun.h"
#include "runtime/host/Parallel.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

using namespace moec;
using namespace moec::host;

namespace {

struct Method {
  bool softmaxScore = false; ///< else identity
  enum { None, Softmax, Sum } normalize = None;
  int64_t experts = 0, topK = 0;
  float scale = 1;
};

/// exp(x - max) for finite x, else 0.
float expOf(float logit, float max) {
  return std::isfinite(logit) ? std::exp(logit - max) : 0.0f;
}

/// Routes one token; `ids` and `weights` have topK elements.
void routeToken(const Method &method, const std::vector<float> &logits,
                std::vector<int32_t> &order, int32_t *ids, float *weights) {
  auto key = [&](int32_t expert) {
    float logit = logits[expert];
    return std::isnan(logit) ? -INFINITY : logit;
  };
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + method.topK, order.end(),
                    [&](int32_t a, int32_t b) {
                      return key(a) != key(b) ? key(a) > key(b) : a < b;
                    });
  std::copy_n(order.begin(), method.topK, ids);

  auto finiteMax = [](const float *values, int64_t count) {
    float max = -INFINITY;
    for (int64_t i = 0; i < count; ++i)
      if (std::isfinite(values[i]))
        max = std::max(max, values[i]);
    return max;
  };
  for (int64_t k = 0; k < method.topK; ++k)
    weights[k] = logits[ids[k]];
  if (method.softmaxScore) {
    float max = finiteMax(logits.data(), method.experts);
    double sum = 0;
    for (int64_t e = 0; e < method.experts; ++e)
      sum += expOf(logits[e], max);
    for (int64_t k = 0; k < method.topK; ++k)
      weights[k] =
          sum > 0 ? static_cast<float>(expOf(weights[k], max) / sum) : 0.0f;
  }
  if (method.normalize == Method::Softmax) {
    float max = finiteMax(weights, method.topK);
    for (int64_t k = 0; k < method.topK; ++k)
      weights[k] = expOf(weights[k], max);
  }
  double sum = 0;
  for (int64_t k = 0; k < method.topK; ++k) {
    if (!std::isfinite(weights[k]))
      weights[k] = 0;
    sum += weights[k];
  }
  if (method.normalize != Method::None)
    for (int64_t k = 0; k < method.topK; ++k)
      weights[k] = sum == 0 ? 1.0f / static_cast<float>(method.topK)
                            : static_cast<float>(weights[k] / sum);
  for (int64_t k = 0; k < method.topK; ++k)
    weights[k] *= method.scale;
}

/// Which weights a chosen expert means, and what every token takes besides.
struct Placement {
  View replicas, replicaCount, map, gate;
  int64_t experts = 0, physical = 0, shared = 0, localBegin = 0;

  static Result<Placement> read(KernelRun &run, const Stage &stage,
                                int64_t experts, int64_t tokens) {
    Placement made;
    made.experts = experts;
    made.physical = run.integer(stage, "physical_experts");
    if (made.physical == 0)
      made.physical = experts;
    made.shared = run.integer(stage, "shared");
    made.localBegin = run.integer(stage, "local_begin");
    const int64_t slots = run.integer(stage, "replica_slots");
    struct Row {
      const char *name;
      int64_t rows, columns;
      View *view;
    };
    for (const Row &row :
         {Row{"logical_to_physical", experts, slots, &made.replicas},
          {"replica_count", 1, experts, &made.replicaCount},
          {"expert_map", 1, made.physical, &made.map},
          {"shared_gate", tokens, 1, &made.gate}}) {
      if (!stage.operands.count(row.name))
        continue;
      Result<View> view = run.operand(stage, row.name, row.rows, row.columns);
      if (!view)
        return view.takeError();
      if (tokens > 0 && !*view)
        return run.fail(stage, fmt::format("expected memory for {}", row.name));
      *row.view = *view;
    }
    if (made.replicas && (slots < 1 || !made.replicaCount))
      return run.fail(stage, "expected replica_count and replica_slots of at "
                             "least 1 with logical_to_physical");
    return made;
  }

  /// Of the pair-th pair of all tokens.
  int32_t placeOf(int32_t expert, int64_t pair) const {
    int64_t place = expert;
    if (place < 0 || place >= experts)
      return -1;
    if (replicas) {
      int64_t count = std::clamp<int64_t>(replicaCount.integer(0, place), 1,
                                          replicas.columns);
      place = replicas.integer(place, pair % count);
    }
    if (map && place >= 0 && place < physical) {
      place = map.integer(0, place);
      if (place >= 0)
        place += localBegin;
    }
    return place >= 0 && place < physical ? static_cast<int32_t>(place) : -1;
  }

  float sharedWeight(int64_t token) const {
    float value = 0;
    if (!gate)
      return 1.0f;
    loadFloats(gate.storage, gate.at(token), 1, &value);
    return 1.0f / (1.0f + std::exp(-value));
  }
};

} // namespace

Result<void> moec::host::runRoute(KernelRun &run, const Stage &stage) {
  Method method;
  method.experts = run.integer(stage, "experts");
  method.topK = run.integer(stage, "top_k");
  std::string score = run.word(stage, "score");
  std::string normalize = run.word(stage, "normalize");
  if (score != "softmax" && score != "identity")
    return run.fail(stage, fmt::format("expected score softmax or identity, "
                                       "got '{}'",
                                       score));
  method.softmaxScore = score == "softmax";
  if (normalize == "softmax")
    method.normalize = Method::Softmax;
  else if (normalize == "sum")
    method.normalize = Method::Sum;
  else if (normalize != "none")
    return run.fail(stage, fmt::format("expected normalize none, softmax or "
                                       "sum, got '{}'",
                                       normalize));
  if (run.word(stage, "select") != "top_k" || run.integer(stage, "groups") > 1)
    return run.fail(stage, "expected select top_k without groups");
  if (method.experts < 1 || method.topK < 1 || method.topK > method.experts)
    return run.fail(stage, fmt::format("expected 1 <= top_k <= experts, got {} "
                                       "and {}",
                                       method.topK, method.experts));
  auto scale = stage.attributes.find("scale");
  if (scale != stage.attributes.end() && scale->is_number())
    method.scale = scale->get<float>();

  Result<int64_t> size = run.size("tokens");
  if (!size)
    return size.takeError();
  // The stage that groups tokens in blocks says how many a CTA takes.
  int64_t tokens = *size;
  for (const Stage &other : run.kernel.stages)
    if (int64_t block = run.integer(other, "block_tokens"))
      tokens = run.coveredTokens(*size, block);

  Result<View> logits = run.operand(stage, "logits", tokens, method.experts);
  if (!logits)
    return logits.takeError();
  Result<View> givenIds = run.operand(stage, "given_ids", tokens, method.topK);
  if (!givenIds)
    return givenIds.takeError();
  Result<View> givenWeights =
      run.operand(stage, "given_weights", tokens, method.topK);
  if (!givenWeights)
    return givenWeights.takeError();
  Result<View> valid = run.operand(stage, "valid_tokens", 1, 1);
  if (!valid)
    return valid.takeError();
  Result<Placement> placement =
      Placement::read(run, stage, method.experts, tokens);
  if (!placement)
    return placement.takeError();
  const int64_t pairs = method.topK + placement->shared;
  Result<View> topkIds =
      run.result(stage, "topk_ids", tokens, pairs, Storage::I32);
  if (!topkIds)
    return topkIds.takeError();
  Result<View> topkWeights = run.result(stage, "topk_weights", tokens, pairs);
  if (!topkWeights)
    return topkWeights.takeError();
  Result<View> ids = run.result(stage, "ids", tokens, pairs);
  if (!ids)
    return ids.takeError();
  Result<View> weights = run.result(stage, "weights", tokens, pairs);
  if (!weights)
    return weights.takeError();
  if (!*logits && (!*givenIds || !*givenWeights))
    return Error{
        ErrorCode::InvalidArgument,
        "expected logits, or given_ids and given_weights, got neither"};
  if (!*topkIds || !*topkWeights)
    return run.fail(stage, "expected memory for topk_ids and topk_weights");
  int64_t validTokens = *valid ? valid->integer(0) : *size;

  parallelFor(run.threads, tokens, 64, [&](int64_t begin, int64_t end) {
    std::vector<float> row(method.experts), chosen(pairs);
    std::vector<int32_t> order(method.experts), selected(pairs), placed(pairs);
    for (int64_t token = begin; token < end; ++token) {
      if (token >= validTokens) {
        std::fill(selected.begin(), selected.end(), -1);
        std::fill(chosen.begin(), chosen.end(), 0.0f);
      } else if (*logits) {
        loadFloats(logits->storage, logits->at(token), method.experts,
                   row.data());
        routeToken(method, row, order, selected.data(), chosen.data());
      } else {
        for (int64_t k = 0; k < method.topK; ++k) {
          int64_t id = givenIds->integer(token, k);
          // Whatever 32 bits cannot hold names no expert.
          selected[k] =
              id == static_cast<int32_t>(id) ? static_cast<int32_t>(id) : -1;
        }
        loadFloats(givenWeights->storage, givenWeights->at(token), method.topK,
                   chosen.data());
      }
      for (int64_t k = 0; k < method.topK; ++k)
        placed[k] = placement->placeOf(selected[k], token * method.topK + k);
      for (int64_t j = 0; j < placement->shared && token < validTokens; ++j) {
        const int64_t k = method.topK + j;
        selected[k] = static_cast<int32_t>(method.experts + j);
        placed[k] = static_cast<int32_t>(placement->physical + j);
        chosen[k] = placement->sharedWeight(token);
      }
      if (token >= validTokens)
        std::fill(placed.begin(), placed.end(), -1);
      for (int64_t k = 0; k < pairs; ++k) {
        topkIds->setInteger(token, k, placed[k]);
        if (*ids)
          ids->setInteger(token, k, selected[k]);
      }
      for (const View *view : {&*topkWeights, &*weights})
        if (*view)
          storeFloats(view->storage, chosen.data(), pairs, view->at(token));
    }
  });
  return {};
}
