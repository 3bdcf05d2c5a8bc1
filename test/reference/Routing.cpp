//===- Routing.cpp - the reference's routing ------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Selection and weights of every token.
//
//===----------------------------------------------------------------------===//

#include "test/reference/Reference.h"
#include "test/reference/TestData.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>

namespace moec::reference {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The settings that all tokens are routed with.
struct Router {
  const Layer &layer;
  std::vector<float> bias, factors; ///< empty: none
  int64_t groupSize() const { return layer.routedExperts() / layer.groups; }
};

/// One token's scores and keys.
struct TokenKeys {
  std::vector<float> scores;   ///< in f32; may be NaN or infinite
  std::vector<float> compared; ///< scores as the selection compares them
  std::vector<float> keys;     ///< NaN counts as -inf
  std::vector<int32_t> order;  ///< experts, best first
  std::vector<int32_t> ids;    ///< the selection, ties to the lower index
  std::vector<bool> isOpen;    ///< its group is one of the best
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

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// A score of `drawn`: bits of token and expert, mixed.
float draw(int64_t token, int64_t expert) {
  uint32_t bits = uint32_t(token) * 2654435769u + uint32_t(expert);
  const std::pair<int, uint32_t> steps[] = {
      {16, 2246822507u}, {13, 3266489909u}, {16, 1u}};
  for (auto [shift, factor] : steps)
    bits = (bits ^ bits >> shift) * factor;
  return float((double(bits >> 9) + 0.5) / 8388608);
}

/// A score of `drawn_normal`.
float drawNormal(int64_t token, int64_t expert, int64_t experts) {
  const double at = (double(expert) + 0.5) / double(experts);
  const double hill = std::pow(4 * at * (1 - at), 1.5);
  return float(hill / -std::log(double(draw(token, expert))));
}

std::vector<float> scoresOf(const Layer &layer, const std::string &function,
                            const std::vector<float> &logits) {
  if (function == "softmax")
    return softmax(logits);
  std::vector<float> scores = logits;
  for (float &score : scores) {
    // Such a logit is a number of f32, as the logit is.
    if (layer.logitScale != 1)
      score = float(double(score) * double(float(layer.logitScale)));
    if (layer.softcap > 0)
      score = float(layer.softcap * std::tanh(double(score) / layer.softcap));
    if (function == "sigmoid")
      score = float(sigmoid(score));
    if (function == "log_sigmoid")
      score = float(std::min(double(score), 0.0) -
                    std::log1p(std::exp(-std::fabs(double(score)))));
    if (function == "sqrtsoftplus")
      score = float(std::sqrt(
          score > 20 ? double(score) : std::log1p(std::exp(double(score)))));
  }
  return scores;
}

/// By how much two keys may differ that count as tied.
double toleranceOf(const Router &router, const TokenKeys &token,
                   int32_t expert) {
  if (router.layer.keysAreLogits())
    return 0;
  double most = 1;
  if (std::isfinite(token.compared[expert]))
    most = std::max(most, std::fabs(double(token.compared[expert])));
  if (!router.bias.empty())
    most = std::max(most, std::fabs(double(router.bias[expert])));
  return 1e-6 * most;
}

/// A key where it is compared with a tolerance: without a bias the score, NaN
/// and -inf as the least there is, 0, and +inf above all.
double keyOf(const Router &router, const TokenKeys &token, int32_t expert) {
  const Layer &layer = router.layer;
  if (layer.routingBias || layer.keysAreLogits() ||
      token.keys[expert] == kInfinity)
    return token.keys[expert];
  return std::isfinite(token.compared[expert]) ? token.compared[expert] : 0;
}

struct Group {
  double worth = 0, tolerance = 0;
};

/// The score of each group: its best key, with a bias the sum of its two best.
std::vector<Group> groupsOf(const Router &router, const TokenKeys &token) {
  std::vector<Group> groups(router.layer.groups);
  const size_t counted = router.bias.empty() ? 1 : 2;
  std::vector<std::vector<float>> best(groups.size());
  for (int32_t expert : token.order) {
    const int64_t g = expert / router.groupSize();
    if (best[g].size() == counted)
      continue;
    best[g].push_back(float(keyOf(router, token, expert)));
    groups[g].tolerance += toleranceOf(router, token, expert);
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    const float sum =
        std::accumulate(best[g].begin() + 1, best[g].end(), best[g][0]);
    groups[g].worth = std::isnan(sum) ? -kInfinity : sum;
  }
  return groups;
}

/// Which experts may be taken where these groups are.
void open(const Router &router, TokenKeys &token,
          const std::vector<bool> &isIn) {
  for (size_t e = 0; e < token.isOpen.size(); ++e)
    token.isOpen[e] = isIn[e / router.groupSize()];
}

/// Sinks are not selected.
void closeSinks(const Layer &layer, TokenKeys &token) {
  std::fill(token.isOpen.end() - layer.sinks, token.isOpen.end(), false);
}

void selectIds(const Router &router, TokenKeys &token) {
  const Layer &layer = router.layer;
  token.ids.clear();
  if (layer.select == "top_k_per_group") {
    for (int64_t g = 0; g < layer.groups; ++g) {
      int64_t taken = 0;
      for (int32_t expert : token.order)
        if (expert / router.groupSize() == g &&
            taken++ < layer.topK / layer.groups)
          token.ids.push_back(expert);
    }
    return;
  }
  token.isOpen.assign(token.keys.size(), true);
  if (layer.groups > 0) {
    // By the keys themselves: of two equal groups the first.
    std::vector<Group> groups(layer.groups);
    for (int64_t g = 0; g < layer.groups; ++g) {
      std::vector<float> own(token.keys.begin() + g * router.groupSize(),
                             token.keys.begin() + (g + 1) * router.groupSize());
      std::sort(own.rbegin(), own.rend());
      float worth = own[0];
      if (!router.bias.empty() && own.size() > 1)
        worth += own[1];
      groups[g].worth = std::isnan(worth) ? -kInfinity : worth;
    }
    std::vector<int64_t> order(layer.groups);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return groups[a].worth > groups[b].worth;
    });
    std::vector<bool> isIn(layer.groups, false);
    for (int64_t i = 0; i < layer.topGroups; ++i)
      isIn[order[i]] = true;
    open(router, token, isIn);
  }
  closeSinks(layer, token);
  const int64_t selected = layer.topK - layer.sinks;
  for (int32_t expert : token.order)
    if (token.isOpen[expert] && int64_t(token.ids.size()) < selected)
      token.ids.push_back(expert);
  for (int64_t i = 0; i < layer.sinks; ++i)
    token.ids.push_back(int32_t(layer.experts - layer.sinks + i));
}

void computeKeys(const Router &router, const std::vector<float> &logits,
                 TokenKeys &token) {
  token.scores = scoresOf(router.layer, router.layer.score, logits);
  // Weights are made of the logarithm, and the sigmoid is compared.
  token.compared = router.layer.score == "log_sigmoid"
                       ? scoresOf(router.layer, "sigmoid", logits)
                       : token.scores;
  token.keys = logits;
  for (size_t e = 0; e < logits.size(); ++e) {
    if (!router.bias.empty())
      token.keys[e] = token.compared[e] + router.bias[e];
    if (std::isnan(token.keys[e]))
      token.keys[e] = -kInfinity;
  }
  token.order.resize(logits.size());
  std::iota(token.order.begin(), token.order.end(), 0);
  // Selecting by logit is selecting by its score, with ties of the logits
  // alone.
  std::stable_sort(
      token.order.begin(), token.order.end(),
      [&](int32_t a, int32_t b) { return token.keys[a] > token.keys[b]; });
  selectIds(router, token);
}

/// Whether the k-th of `ids` is the best, tolerance aside, of those that are
/// open, not taken, and in group `group` if that is not -1.
bool isBest(const Router &router, const TokenKeys &token,
            const std::vector<bool> &taken, int64_t group, int32_t id,
            int64_t place, std::string *why) {
  int32_t best = -1;
  for (int32_t candidate : token.order)
    if (!taken[candidate] && token.isOpen[candidate] &&
        (group < 0 || candidate / router.groupSize() == group)) {
      best = candidate;
      break;
    }
  const std::string where = " at place " + std::to_string(place);
  if (!token.isOpen[id] || (group >= 0 && id / router.groupSize() != group)) {
    *why = "selected expert " + std::to_string(id) + where +
           ", whose group is not to be taken";
    return false;
  }
  if (router.layer.keysAreLogits()) {
    if (id == best)
      return true;
    *why = "selected expert " + std::to_string(id) + where + " where expert " +
           std::to_string(best) + " is best";
    return false;
  }
  const double bestKey = keyOf(router, token, best);
  const double ownKey = keyOf(router, token, id);
  const double tolerance = std::max(toleranceOf(router, token, best),
                                    toleranceOf(router, token, id));
  if (bestKey == ownKey || bestKey - ownKey <= tolerance)
    return true;
  *why = "selected expert " + std::to_string(id) + " (score " +
         std::to_string(ownKey) + ")" + where + " where expert " +
         std::to_string(best) + " has score " + std::to_string(bestKey);
  return false;
}

/// Opens the groups that the ids come from, and of those that tie with them as
/// many as are missing, the poorest first; whether these can be the best.
bool openGroupsOf(const Router &router, TokenKeys &token, const int32_t *ids,
                  std::string *why) {
  const Layer &layer = router.layer;
  const std::vector<Group> groups = groupsOf(router, token);
  std::vector<bool> isIn(groups.size(), false);
  for (int64_t k = 0; k < layer.topK; ++k)
    isIn[ids[k] / router.groupSize()] = true;
  const auto beats = [&](const Group &a, const Group &b) {
    return layer.keysAreLogits()
               ? a.worth > b.worth
               : a.worth - b.worth > std::max(a.tolerance, b.tolerance);
  };
  // Groups with fewer than topGroups that are better for certain may be in;
  // groups with fewer than topGroups that are not worse for certain must be.
  std::vector<bool> may(groups.size());
  int64_t count = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    int64_t better = 0, notWorse = 0;
    for (size_t h = 0; h < groups.size(); ++h) {
      better += h != g && beats(groups[h], groups[g]);
      notWorse += h != g && !beats(groups[g], groups[h]);
    }
    may[g] = better < layer.topGroups;
    if (isIn[g] && !may[g]) {
      *why = "selected from group " + std::to_string(g) +
             ", which is not one "
             "of the best " +
             std::to_string(layer.topGroups);
      return false;
    }
    if (notWorse < layer.topGroups)
      isIn[g] = true;
    count += isIn[g];
  }
  // The rest: whose best key is least in the way.
  while (count < layer.topGroups) {
    int64_t chosen = -1;
    for (auto it = token.order.rbegin(); it != token.order.rend(); ++it) {
      // From behind, the last time that a group comes up is its best key.
      const int64_t g = *it / router.groupSize();
      if (may[g] && !isIn[g]) {
        bool isLast = true;
        for (auto next = it + 1; next != token.order.rend(); ++next)
          isLast = isLast && *next / router.groupSize() != g;
        if (isLast) {
          chosen = g;
          break;
        }
      }
    }
    if (chosen < 0)
      break;
    isIn[chosen] = true;
    ++count;
  }
  if (count > layer.topGroups) {
    *why = "selected from more than " + std::to_string(layer.topGroups) +
           " groups, or not from the best";
    return false;
  }
  open(router, token, isIn);
  return true;
}

/// Whether `ids` is a right selection of one token: distinct ids in range, at
/// every place no unselected key is better by more than the tolerance.
bool acceptable(const Router &router, TokenKeys &token, const int32_t *ids,
                std::string *why) {
  const Layer &layer = router.layer;
  if (std::equal(token.ids.begin(), token.ids.end(), ids))
    return true;
  std::vector<bool> taken(token.keys.size(), false);
  for (int64_t k = 0; k < layer.topK; ++k) {
    if (ids[k] < 0 || ids[k] >= layer.routedExperts() || taken[ids[k]]) {
      *why = "selected id " + std::to_string(ids[k]) + " at place " +
             std::to_string(k) + " is out of range or a repetition";
      return false;
    }
    taken[ids[k]] = true;
  }
  const bool perGroup = layer.select == "top_k_per_group";
  token.isOpen.assign(token.keys.size(), true);
  closeSinks(layer, token);
  if (layer.groups > 0 && !perGroup && !openGroupsOf(router, token, ids, why))
    return false;
  taken.assign(token.keys.size(), false);
  for (int64_t k = layer.topK - layer.sinks; k < layer.topK; ++k)
    if (ids[k] != token.ids[k]) {
      *why = "id " + std::to_string(ids[k]) + " at place " + std::to_string(k) +
             ", which sink " + std::to_string(token.ids[k]) + " has";
      return false;
    }
  for (int64_t k = 0; k < layer.topK - layer.sinks; ++k) {
    const int64_t group = perGroup ? k / (layer.topK / layer.groups) : -1;
    if (!isBest(router, token, taken, group, ids[k], k, why))
      return false;
    taken[ids[k]] = true;
  }
  return true;
}

/// The share of the k-th among those that are left and near it.
float shareOf(const TokenKeys &token, const int32_t *ids, int64_t k) {
  const float best = token.scores[ids[k]];
  if (!std::isfinite(best))
    return best;
  double sum = 0;
  for (size_t e = 0; e < token.scores.size(); ++e) {
    const float logit = token.scores[e];
    if (!std::isfinite(logit) || std::find(ids, ids + k, int32_t(e)) != ids + k)
      continue;
    // In f32, as every implementation has it: the limit is a cliff.
    const float apart = (best - logit) / std::max(std::fabs(logit), best);
    if (!(apart > 0.02f))
      sum += expTerm(logit, best);
  }
  return float(1 / sum);
}

/// Weights of one token's selected ids.
void computeWeights(const Router &router, const TokenKeys &token,
                    const int32_t *ids, float *weights) {
  const Layer &layer = router.layer;
  const int64_t topK = layer.topK;
  std::vector<float> selected(topK, std::numeric_limits<float>::quiet_NaN());
  for (int64_t k = 0; k < topK; ++k)
    if (ids[k] >= 0)
      selected[k] = layer.score == "sparsemixer" ? shareOf(token, ids, k)
                                                 : token.scores[ids[k]];
  std::vector<double> values(topK);
  if (layer.normalize == "softmax") {
    std::vector<float> normalized = softmax(selected);
    for (int64_t k = 0; k < topK; ++k)
      values[k] = std::isfinite(normalized[k]) ? normalized[k] : 0;
  } else {
    for (int64_t k = 0; k < topK; ++k) {
      values[k] = std::isfinite(selected[k]) ? selected[k] : 0;
      if (layer.normalize == "sigmoid" && std::isfinite(selected[k]))
        values[k] = sigmoid(selected[k]);
    }
    if (layer.normalize.starts_with("sum")) {
      const double sum = std::accumulate(values.begin(), values.end(), 0.0);
      const double more =
          layer.normalize == "sum_epsilon" ? layer.sumEpsilon : 0;
      for (double &value : values)
        value = sum == 0 ? 0 : value / (sum + more);
    }
  }
  for (int64_t k = 0; k < topK; ++k) {
    const double factor =
        router.factors.empty() || ids[k] < 0 ? 1 : router.factors[ids[k]];
    weights[k] =
        ids[k] < 0 ? 0 : float(values[k] * layer.routingScale * factor);
  }
}

/// A row of f32 for all experts that the router knows.
std::vector<float> readRow(const Matrix &matrix, int64_t count) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[i] = float(load(*matrix.element, matrix.data, i));
  return values;
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
  for (const Matrix *floats : {&inputs.logits, &inputs.givenWeights})
    if (floats->data &&
        (!floats->element->isFloat || floats->element->bits() < 16))
      return Error{ErrorCode::InvalidArgument,
                   "logits and given weights are f32, f16 or bf16"};
  if (fromLogits && layer.select == "given")
    return Error{ErrorCode::InvalidArgument,
                 "this routing takes given ids and weights, not logits"};
  if (fromLogits &&
      ((layer.routingBias && !inputs.routingBias.data) ||
       (layer.expertScale && !inputs.expertScale.data) ||
       (layer.tableRows && (!inputs.tokenIds.data || !inputs.hashTable.data))))
    return Error{ErrorCode::InvalidArgument,
                 "routing needs its bias, factors, or token ids and table"};
  return {};
}

/// Shared experts of a token: their ids are those behind the others'.
static void addShared(const Layer &layer, const Inputs &inputs, int64_t token,
                      int32_t *ids, float *weights) {
  for (int64_t j = 0; j < layer.sharedRows(); ++j) {
    ids[j] = int32_t(layer.experts + j);
    weights[j] = 1;
    if (layer.sharedGate)
      weights[j] =
          float(1 / (1 + std::exp(-load(*inputs.sharedGate.element,
                                        inputs.sharedGate.data, token))));
  }
}

/// The place of the weights that an id means, as Routing::places. `choice` is
/// the place among the chosen, and -1 of a shared expert.
static int64_t placeOf(const Layer &layer, const Inputs &inputs, int64_t id,
                       int64_t choice) {
  const bool isShared = choice < 0;
  if (layer.constantExperts > 0 && id >= layer.experts)
    return -1;
  if (id >= layer.experts && id < layer.routedExperts() && !isShared)
    return -2;
  if (id < 0 || (id >= layer.experts && !isShared))
    return -1;
  if (isShared)
    return layer.physicalExperts() + id - layer.experts;
  int64_t place = id;
  if (layer.eplb)
    place = inputs.logicalToPhysical[id * (layer.redundantExperts + 1) +
                                     choice % inputs.replicaCount[id]];
  if (!layer.expertMap)
    return place;
  const int64_t local = inputs.expertMap[place];
  return local < 0 ? -1 : layer.localBegin + local;
}

static int64_t strideOf(const Matrix &matrix, int64_t columns) {
  return matrix.rowStride ? matrix.rowStride : columns;
}

static void readGiven(const Layer &layer, const Inputs &inputs, int64_t token,
                      int32_t *ids, float *weights) {
  const int64_t topK = layer.topK;
  const int64_t idRow = token * strideOf(inputs.givenIds, topK);
  const int64_t weightRow = token * strideOf(inputs.givenWeights, topK);
  for (int64_t k = 0; k < topK; ++k) {
    const double id =
        load(*inputs.givenIds.element, inputs.givenIds.data, idRow + k);
    // An id that 32 bits cannot hold names no expert.
    ids[k] = id >= -0x1p31 && id < 0x1p31 ? int32_t(id) : -1;
    weights[k] = float(load(*inputs.givenWeights.element,
                            inputs.givenWeights.data, weightRow + k));
  }
}

static void readLogits(const Layer &layer, const Inputs &inputs, int64_t token,
                       std::vector<float> &logits) {
  const int64_t experts = layer.routedExperts();
  const int64_t row = token * strideOf(inputs.logits, experts);
  for (int64_t e = 0; e < experts; ++e)
    logits[e] =
        layer.score == "drawn" ? draw(token, e)
        : layer.score == "drawn_normal"
            ? drawNormal(token, e, experts)
            : float(load(*inputs.logits.element, inputs.logits.data, row + e));
}

/// Reads the experts of a token from the table; -1 where it names none.
static void readTable(const Layer &layer, const Inputs &inputs, int64_t token,
                      int32_t *ids) {
  const int64_t entry =
      int64_t(load(*inputs.tokenIds.element, inputs.tokenIds.data, token));
  for (int64_t k = 0; k < layer.topK; ++k) {
    ids[k] = -1;
    if (entry >= 0 && entry < layer.tableRows)
      ids[k] = int32_t(load(*inputs.hashTable.element, inputs.hashTable.data,
                            entry * layer.topK + k));
    if (ids[k] < 0 || ids[k] >= layer.routedExperts())
      ids[k] = -1;
  }
}

/// Fills places, local experts and counts of the pairs of valid tokens.
static void placePairs(const Layer &layer, const Inputs &inputs, int64_t valid,
                       Routing &routing) {
  const int64_t all = layer.pairsOfToken(), topK = layer.topK;
  for (int64_t pair = 0; pair < valid * all; ++pair) {
    const int64_t k = pair % all;
    const int64_t place = placeOf(layer, inputs, routing.ids[pair],
                                  k < topK ? pair / all * topK + k : -1);
    routing.places[pair] = int32_t(place);
    const int64_t local = place - layer.localBegin;
    if (place < 0 || local < 0 || local >= layer.localExperts)
      continue;
    routing.locals[pair] = int32_t(local);
    ++routing.counts[local];
  }
}

Result<Routing> route(const Layer &layer, const Inputs &inputs,
                      const int32_t *observedIds) {
  if (layer.batched)
    return routeBatched(layer, inputs);
  if (Result<void> ok = checkInputs(layer, inputs); !ok)
    return ok.takeError();
  const int64_t tokens = inputs.tokens, topK = layer.topK;
  const int64_t all = layer.pairsOfToken();
  const int64_t valid =
      std::clamp<int64_t>(inputs.validTokens.value_or(tokens), 0, tokens);
  Routing routing;
  routing.tokens = tokens;
  routing.pairs = all;
  routing.ids.assign(tokens * all, -1);
  routing.locals.assign(tokens * all, -1);
  routing.places.assign(tokens * all, -1);
  routing.weights.assign(tokens * all, 0.0f);
  routing.counts.assign(layer.localExperts, 0);

  const int64_t experts = layer.routedExperts();
  Router router{layer, {}, {}};
  if (layer.routingBias && inputs.logits.data)
    router.bias = readRow(inputs.routingBias, experts);
  if (layer.expertScale && inputs.logits.data)
    router.factors = readRow(inputs.expertScale, experts);

  std::mutex mutex;
  int64_t firstMistake = tokens;
  auto body = [&](int64_t first, int64_t last) {
    TokenKeys keys;
    std::vector<float> logits(experts);
    for (int64_t token = first; token < last; ++token) {
      int32_t *ids = &routing.ids[token * all];
      float *weights = &routing.weights[token * all];
      addShared(layer, inputs, token, ids + topK, weights + topK);
      if (!inputs.logits.data) {
        readGiven(layer, inputs, token, ids, weights);
        continue;
      }
      readLogits(layer, inputs, token, logits);
      computeKeys(router, logits, keys);
      if (layer.tableRows)
        readTable(layer, inputs, token, ids);
      else
        std::copy_n(keys.ids.begin(), topK, ids);
      if (observedIds && !layer.tableRows) {
        std::string why;
        if (acceptable(router, keys, observedIds + token * all, &why)) {
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
      computeWeights(router, keys, ids, weights);
    }
  };
  parallelFor(valid, 64 * experts, 0, body);
  placePairs(layer, inputs, valid, routing);
  return routing;
}

} // namespace moec::reference
