//===- Routing.cpp - the reference's routing ------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Selection and weights of every token, and the sample of tokens that a check
// of a large run looks at.
//
//===----------------------------------------------------------------------===//

#include "test/reference/Reference.h"
#include "test/reference/TestData.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>
#include <set>

namespace moec::reference {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// One token's scores and keys.
struct TokenKeys {
  std::vector<float> scores;  ///< in f32; may be NaN or infinite
  std::vector<float> keys;    ///< NaN counts as -inf
  std::vector<int32_t> order; ///< experts, best first
};

/// exp(x - largest) with the difference in f32.
double expTerm(float x, float largest) {
  return std::exp(double(float(x - largest)));
}

/// Softmax over the finite entries of `values`: max and sum ignore the others,
/// which become NaN (NaN and +inf) or 0 (-inf).
std::vector<float> softmax(const std::vector<float> &values) {
  float largest = -kInfinity;
  for (float value : values)
    if (std::isfinite(value))
      largest = std::max(largest, value);
  double sum = 0;
  for (float value : values)
    if (std::isfinite(value))
      sum += expTerm(value, largest);
  std::vector<float> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i]))
      result[i] = float(expTerm(values[i], largest) / sum);
    else
      result[i] = values[i] == -kInfinity
                      ? 0.0f
                      : std::numeric_limits<float>::quiet_NaN();
  }
  return result;
}

void computeKeys(const Layer &layer, const std::vector<float> &logits,
                 TokenKeys &token) {
  token.keys = logits;
  for (float &key : token.keys)
    if (std::isnan(key))
      key = -kInfinity;
  token.scores = layer.score == "softmax" ? softmax(logits) : logits;
  token.order.resize(logits.size());
  std::iota(token.order.begin(), token.order.end(), 0);
  // Selecting by logit is selecting by softmax, with ties of the logits alone.
  std::stable_sort(
      token.order.begin(), token.order.end(),
      [&](int32_t a, int32_t b) { return token.keys[a] > token.keys[b]; });
}

/// Whether `ids` is a right selection of one token: distinct ids in range, at
/// every place no unselected key is better by more than the tolerance.
bool acceptable(const Layer &layer, const TokenKeys &token, const int32_t *ids,
                std::string *why) {
  std::vector<bool> taken(layer.experts, false);
  for (int64_t k = 0; k < layer.topK; ++k) {
    if (ids[k] < 0 || ids[k] >= layer.experts || taken[ids[k]]) {
      *why = "selected id " + std::to_string(ids[k]) + " at place " +
             std::to_string(k) + " is out of range or a repetition";
      return false;
    }
    if (layer.keysAreLogits()) {
      if (ids[k] != token.order[k]) {
        *why = "selected expert " + std::to_string(ids[k]) + " at place " +
               std::to_string(k) + " where expert " +
               std::to_string(token.order[k]) + " is best";
        return false;
      }
    } else {
      int32_t best = -1;
      for (int32_t candidate : token.order)
        if (!taken[candidate]) {
          best = candidate;
          break;
        }
      // The score that counts as a key: NaN and -inf as the least score, 0;
      // +inf above all.
      auto key = [&](int32_t expert) -> double {
        if (token.keys[expert] == kInfinity)
          return kInfinity;
        return std::isfinite(token.scores[expert]) ? token.scores[expert] : 0;
      };
      const double bestKey = key(best), ownKey = key(ids[k]);
      const double tolerance = 1e-6 * std::max(1.0, std::fabs(bestKey));
      if (!(bestKey == ownKey || bestKey - ownKey <= tolerance)) {
        *why = "selected expert " + std::to_string(ids[k]) + " (score " +
               std::to_string(ownKey) + ") at place " + std::to_string(k) +
               " where expert " + std::to_string(best) + " has score " +
               std::to_string(bestKey);
        return false;
      }
    }
    taken[ids[k]] = true;
  }
  return true;
}

/// Weights of one token's selected ids.
void computeWeights(const Layer &layer, const TokenKeys &token,
                    const int32_t *ids, float *weights) {
  const int64_t topK = layer.topK;
  std::vector<double> values(topK);
  if (layer.normalize == "softmax") {
    std::vector<float> selected(topK);
    for (int64_t k = 0; k < topK; ++k)
      selected[k] = token.scores[ids[k]];
    std::vector<float> normalized = softmax(selected);
    bool any = false;
    for (int64_t k = 0; k < topK; ++k) {
      any |= std::isfinite(selected[k]);
      values[k] = std::isfinite(normalized[k]) ? normalized[k] : 0;
    }
    if (!any)
      std::fill(values.begin(), values.end(), 1.0 / double(topK));
  } else {
    for (int64_t k = 0; k < topK; ++k) {
      const float score = token.scores[ids[k]];
      values[k] = std::isfinite(score) ? score : 0;
    }
    if (layer.normalize == "sum") {
      const double sum = std::accumulate(values.begin(), values.end(), 0.0);
      for (double &value : values)
        value = sum == 0 ? 1.0 / double(topK) : value / sum;
    }
  }
  for (int64_t k = 0; k < topK; ++k)
    weights[k] = float(values[k] * layer.routingScale);
}

} // namespace

static Result<void> checkInputs(const Layer &layer, const Inputs &inputs) {
  const bool fromLogits = inputs.logits.data != nullptr;
  if (!fromLogits && inputs.tokens > 0 &&
      (!inputs.givenIds.data || !inputs.givenWeights.data))
    return Error{ErrorCode::InvalidArgument,
                 "routing needs logits, or given ids and given weights"};
  if ((layer.eplb && (int64_t(inputs.replicaCount.size()) != layer.experts ||
                      int64_t(inputs.logicalToPhysical.size()) !=
                          layer.experts * (layer.redundantExperts + 1))) ||
      (layer.expertMap &&
       int64_t(inputs.expertMap.size()) != layer.physicalExperts()) ||
      (layer.sharedGate && inputs.tokens > 0 && !inputs.sharedGate.data))
    return Error{ErrorCode::InvalidArgument,
                 "routing needs the layer's maps of experts and its gate of "
                 "shared experts"};
  if (fromLogits && inputs.logits.element != layer.logitsType)
    return Error{ErrorCode::InvalidArgument,
                 "logits are not of the layer's logits_type"};
  return {};
}

/// Shared experts of a token: their ids are those behind the others'.
static void addShared(const Layer &layer, const Inputs &inputs, int64_t token,
                      int32_t *ids, float *weights) {
  for (int64_t j = 0; j < layer.sharedExperts; ++j) {
    ids[j] = int32_t(layer.experts + j);
    weights[j] = 1;
    if (layer.sharedGate)
      weights[j] =
          float(1 / (1 + std::exp(-load(*inputs.sharedGate.element,
                                        inputs.sharedGate.data, token))));
  }
}

/// Which of this rank's weights an id means, or -1. `pair`: among the chosen,
/// -1 of a shared expert.
static int64_t localOf(const Layer &layer, const Inputs &inputs, int64_t id,
                       int64_t pair) {
  const bool isShared = pair < 0;
  if (id < 0 || (id >= layer.experts && !isShared))
    return -1;
  int64_t place = id;
  if (isShared) {
    place = layer.physicalExperts() + id - layer.experts;
  } else {
    if (layer.eplb)
      place = inputs.logicalToPhysical[id * (layer.redundantExperts + 1) +
                                       pair % inputs.replicaCount[id]];
    if (layer.expertMap)
      return inputs.expertMap[place];
  }
  const int64_t local = place - layer.localBegin;
  return local >= 0 && local < layer.localExperts ? local : -1;
}

static int64_t strideOf(const Matrix &matrix, int64_t columns) {
  return matrix.rowStride ? matrix.rowStride : columns;
}

Result<Routing> route(const Layer &layer, const Inputs &inputs,
                      const int32_t *observedIds) {
  if (Result<void> ok = checkInputs(layer, inputs); !ok)
    return ok.takeError();
  const int64_t tokens = inputs.tokens, topK = layer.topK;
  const int64_t all = layer.pairsOfToken();
  const int64_t valid =
      std::clamp<int64_t>(inputs.validTokens.value_or(tokens), 0, tokens);
  Routing routing;
  routing.tokens = tokens;
  routing.topK = all;
  routing.ids.assign(tokens * all, -1);
  routing.locals.assign(tokens * all, -1);
  routing.weights.assign(tokens * all, 0.0f);
  routing.counts.assign(layer.localExperts, 0);

  std::mutex mutex;
  int64_t firstMistake = tokens;
  auto body = [&](int64_t first, int64_t last) {
    TokenKeys keys;
    std::vector<float> logits(layer.experts);
    for (int64_t token = first; token < last; ++token) {
      int32_t *ids = &routing.ids[token * all];
      float *weights = &routing.weights[token * all];
      addShared(layer, inputs, token, ids + topK, weights + topK);
      if (!inputs.logits.data) {
        const int64_t idRow = token * strideOf(inputs.givenIds, topK);
        const int64_t weightRow = token * strideOf(inputs.givenWeights, topK);
        for (int64_t k = 0; k < topK; ++k) {
          ids[k] = int32_t(
              load(*inputs.givenIds.element, inputs.givenIds.data, idRow + k));
          weights[k] = float(load(*inputs.givenWeights.element,
                                  inputs.givenWeights.data, weightRow + k));
        }
        continue;
      }
      const int64_t row = token * strideOf(inputs.logits, layer.experts);
      for (int64_t e = 0; e < layer.experts; ++e)
        logits[e] =
            float(load(*inputs.logits.element, inputs.logits.data, row + e));
      computeKeys(layer, logits, keys);
      std::copy_n(keys.order.begin(), topK, ids);
      if (observedIds) {
        std::string why;
        if (acceptable(layer, keys, observedIds + token * all, &why)) {
          std::copy_n(observedIds + token * all, topK, ids);
        } else {
          std::lock_guard<std::mutex> lock(mutex);
          ++routing.mistakes;
          if (token < firstMistake) {
            firstMistake = token;
            routing.firstMistake = "token " + std::to_string(token) + " " + why;
          }
        }
      }
      computeWeights(layer, keys, ids, weights);
    }
  };
  parallelFor(valid, 0, body);

  for (int64_t pair = 0; pair < valid * all; ++pair) {
    const int64_t k = pair % all;
    const int64_t local = localOf(layer, inputs, routing.ids[pair],
                                  k < topK ? pair / all * topK + k : -1);
    routing.locals[pair] = int32_t(local);
    if (local >= 0)
      ++routing.counts[local];
  }
  return routing;
}

std::vector<int64_t> sampleTokens(const Layer &layer, const Routing &routing,
                                  const std::vector<int64_t> &tileRows,
                                  int64_t limit, uint64_t seed) {
  const int64_t tokens = routing.tokens;
  std::vector<int64_t> all(tokens);
  std::iota(all.begin(), all.end(), 0);
  if (tokens <= limit)
    return all;

  // Tokens of each local expert in the order of its rows.
  std::vector<std::vector<int64_t>> rows(layer.localExperts);
  for (int64_t token = 0; token < tokens; ++token)
    for (int64_t k = 0; k < routing.topK; ++k) {
      const int64_t local = routing.locals[token * routing.topK + k];
      if (local >= 0)
        rows[local].push_back(token);
    }

  std::set<int64_t> chosen = {0, tokens - 1};
  auto add = [&](const std::vector<int64_t> &candidates) {
    const int64_t room = limit - int64_t(chosen.size());
    const int64_t count = int64_t(candidates.size());
    const int64_t step =
        room > 0 ? std::max<int64_t>(1, (count + room - 1) / room) : 1;
    for (int64_t i = 0; i < count && int64_t(chosen.size()) < limit; i += step)
      chosen.insert(candidates[i]);
  };
  std::vector<int64_t> ends;
  for (const std::vector<int64_t> &expert : rows)
    if (!expert.empty()) {
      ends.push_back(expert.front());
      ends.push_back(expert.back());
    }
  add(ends);
  std::vector<int64_t> tileEnds;
  for (int64_t tile : tileRows)
    for (const std::vector<int64_t> &expert : rows)
      for (int64_t row = 0; row < int64_t(expert.size()); row += tile) {
        tileEnds.push_back(expert[row]);
        tileEnds.push_back(
            expert[std::min<int64_t>(row + tile, expert.size()) - 1]);
      }
  add(tileEnds);
  for (uint64_t i = 0; int64_t(chosen.size()) < limit; ++i)
    chosen.insert(int64_t(randomBits(seed, Stream::Other, i) % tokens));
  return {chosen.begin(), chosen.end()};
}

} // namespace moec::reference
