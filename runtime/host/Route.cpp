//===- Route.cpp - stage route on the host --------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Selects top_k experts for each token from its logits, or uses the caller's
// ids and weights. Scores, keys and weights are computed by the functions of
// the kernels (templates/moe/math). Rules:
// - Experts are ordered by key, from large to small, then by index. A key is
//   the logit, or with a bias the score plus the bias. NaN is ordered like
//   -inf.
// - Sums include only finite logits.
// - A selected expert whose score is not finite has weight 0.
// - If the sum of the weights is 0, each weight is 0.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/KernelRun.h"
#include "runtime/host/Parallel.h"
#include "templates/moe/math/host.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>

using namespace moec;
using namespace moec::host;
namespace routing = moe::routing;

namespace {

/// A score function of the kernels, by name.
struct ScoreRow {
  std::string_view name;
  bool needsSum, isByRound;
  float (*score)(float logit, float maximum, float sum) = nullptr;
  /// Returns the score plus a bias. Experts are selected by this value.
  float (*biased)(float logit, float maximum, float sum, float bias) = nullptr;
  /// Computes random logits; null unless the method uses random logits.
  float (*draw)(int token, int expert, int experts) = nullptr;
};

template <class Score> constexpr ScoreRow scoreRow(std::string_view name) {
  ScoreRow row = {name, Score::kNeedsSum, routing::kIsByRound<Score>};
  row.score = [](float logit, float maximum, float sum) -> float {
    return Score::score(logit, maximum, sum);
  };
  row.biased = [](float logit, float maximum, float sum, float bias) -> float {
    return Score::score(logit, maximum, sum) + bias;
  };
  if constexpr (routing::kIsDrawn<Score>)
    row.draw = Score::draw;
  return row;
}

constexpr ScoreRow kScores[] = {
#define MOEC_SCORE(name, policy) scoreRow<policy>(name),
#include "runtime/host/Policies.inc"
#undef MOEC_SCORE
};

/// A normalization function of the kernels, by name.
struct NormalizeRow {
  std::string_view name;
  float (*term)(float score, float best);
  float (*weight)(float term, float sum); ///< null: the weight is the term
};

template <class Normalize>
constexpr NormalizeRow normalizeRow(std::string_view name) {
  NormalizeRow row = {name, Normalize::term, nullptr};
  if constexpr (Normalize::kSums)
    row.weight = Normalize::weight;
  return row;
}

constexpr NormalizeRow kNormalizes[] = {
#define MOEC_NORMALIZE(name, policy) normalizeRow<policy>(name),
#include "runtime/host/Policies.inc"
#undef MOEC_NORMALIZE
};

struct SelectRow {
  std::string_view name;
};
constexpr SelectRow kSelects[] = {
    {"top_k"}, {"top_k_per_group"}, {"table"}, {"given"}};

struct Method {
  ScoreRow score;
  NormalizeRow normalize;
  std::string_view select;
  int64_t experts = 0, topK = 0, groups = 0, topGroups = 0;
  float scale = 1, outputScale = 1;
  float softcap = 0; ///< softcap of logits; 0: no softcap
  /// Scale of logits; epsilon of the weight sum (0: the normalization's
  /// default).
  float logitScale = 1, epsilon = 0;
  /// Number of experts, the last ones, that are always selected.
  int64_t sinks = 0;
  std::vector<float> bias, expertScale; ///< empty: none
  int64_t groupSize() const { return experts / groups; }
};

/// Returns the largest finite value, or the lowest float if there is none.
float finiteMax(const std::vector<float> &values) {
  float max = -std::numeric_limits<float>::max();
  for (float value : values)
    if (routing::isFinite(value))
      max = std::max(max, value);
  return max;
}

/// Routes one token at a time, with reusable buffers.
class TokenRouter {
public:
  explicit TokenRouter(const Method &method)
      : method(method), keys(method.experts), order(method.experts) {}

  /// `table`: the table that maps a token id to its expert ids, or null.
  void route(std::vector<float> &logits, int64_t token, const View *table,
             int64_t row, int32_t *ids, float *weights) {
    if (method.score.draw)
      for (int64_t e = 0; e < method.experts; ++e)
        logits[e] = method.score.draw(int(token), int(e), int(method.experts));
    sumUp(logits);
    for (int64_t e = 0; e < method.experts; ++e)
      keys[e] = routing::keyOfLogit(
          method.bias.empty() ? logits[e] : biased(logits[e], method.bias[e]));
    if (table)
      look(*table, row, ids);
    else
      select(ids);
    weigh(logits, ids, weights);
  }

private:
  void sumUp(const std::vector<float> &logits) {
    if (!method.score.needsSum)
      return;
    maximum = finiteMax(logits);
    double all = 0;
    for (float logit : logits)
      if (routing::isFinite(logit))
        all += std::exp(logit - maximum);
    // Without any finite logit, the sum is 1, so all scores are 0.
    sum = std::max(static_cast<float>(all), 1.0f);
  }

  /// Returns the logit after scaling and softcap. Scores are computed from this
  /// value.
  float adjusted(float logit) const {
    logit *= method.logitScale;
    return method.softcap > 0 ? routing::softcapped(logit, method.softcap)
                              : logit;
  }

  float score(float logit) const {
    return method.score.score(adjusted(logit), maximum, sum);
  }

  float biased(float logit, float bias) const {
    return method.score.biased(adjusted(logit), maximum, sum, bias);
  }

  /// Finds the `count` experts with the best keys in [begin, end), without the
  /// excluded experts.
  void best(int64_t begin, int64_t end, const std::vector<bool> &isOut,
            int64_t count, int32_t *ids) {
    order.clear();
    for (int64_t e = begin; e < end; ++e)
      if (isOut.empty() || !isOut[e])
        order.push_back(static_cast<int32_t>(e));
    std::partial_sort(order.begin(), order.begin() + count, order.end(),
                      [&](int32_t a, int32_t b) {
                        return keys[a] != keys[b] ? keys[a] > keys[b] : a < b;
                      });
    std::copy_n(order.begin(), count, ids);
  }

  void select(int32_t *ids) {
    if (method.select == "top_k_per_group") {
      const int64_t each = method.topK / method.groups;
      for (int64_t g = 0; g < method.groups; ++g)
        best(g * method.groupSize(), (g + 1) * method.groupSize(), {}, each,
             ids + g * each);
      return;
    }
    std::vector<bool> isOut;
    if (method.groups > 0) {
      // A group is ranked by its best key, or with a bias by the sum of its two
      // best keys.
      std::vector<uint32_t> worth(method.groups);
      for (int64_t g = 0; g < method.groups; ++g) {
        std::vector<uint32_t> own(keys.begin() + g * method.groupSize(),
                                  keys.begin() + (g + 1) * method.groupSize());
        std::ranges::sort(own, std::greater<>());
        worth[g] = own[0];
        if (!method.bias.empty() && own.size() > 1)
          worth[g] = routing::keyOfLogit(routing::logitOfKey(own[0]) +
                                         routing::logitOfKey(own[1]));
      }
      isOut.assign(method.experts, false);
      for (int64_t g = 0; g < method.groups; ++g) {
        int64_t better = 0;
        for (int64_t h = 0; h < method.groups; ++h)
          better += worth[h] > worth[g] || (worth[h] == worth[g] && h < g);
        if (better >= method.topGroups)
          std::fill_n(isOut.begin() + g * method.groupSize(),
                      method.groupSize(), true);
      }
    }
    const int64_t selected = method.experts - method.sinks;
    best(0, selected, isOut, method.topK - method.sinks, ids);
    std::iota(ids + method.topK - method.sinks, ids + method.topK,
              static_cast<int32_t>(selected));
  }

  void look(const View &table, int64_t row, int32_t *ids) {
    for (int64_t k = 0; k < method.topK; ++k) {
      const bool known = row >= 0 && row < table.rows;
      const int64_t id = known ? table.integer(row, k) : -1;
      ids[k] = id >= 0 && id < method.experts ? static_cast<int32_t>(id) : -1;
    }
  }

  /// Returns the weight of the k-th selected expert of a sparse mixer. This is
  /// the expert's softmax weight among the experts that are not yet selected
  /// and whose logits are near its own logit.
  float share(const std::vector<float> &logits, const int32_t *ids, int64_t k) {
    const float best = logits[ids[k]];
    if (!routing::isFinite(best))
      return best;
    double left = 0;
    for (int64_t e = 0; e < method.experts; ++e) {
      const bool isGone = std::find(ids, ids + k, e) != ids + k;
      if (!isGone && routing::isFinite(logits[e]) &&
          routing::SparseMixer::isNear(logits[e], best))
        left += std::exp(logits[e] - best);
    }
    return 1.0f / static_cast<float>(left);
  }

  void weigh(const std::vector<float> &logits, const int32_t *ids,
             float *weights) {
    std::vector<float> chosen(method.topK, NAN);
    for (int64_t k = 0; k < method.topK; ++k)
      if (ids[k] >= 0)
        chosen[k] = method.score.isByRound ? share(logits, ids, k)
                                           : score(logits[ids[k]]);
    const float max = finiteMax(chosen);
    double terms = 0;
    for (int64_t k = 0; k < method.topK; ++k) {
      weights[k] = routing::isFinite(chosen[k])
                       ? method.normalize.term(chosen[k], max)
                       : 0;
      terms += weights[k];
    }
    for (int64_t k = 0; k < method.topK; ++k) {
      if (method.epsilon > 0)
        weights[k] = routing::overSumWith(weights[k], static_cast<float>(terms),
                                          method.epsilon);
      else if (method.normalize.weight)
        weights[k] =
            method.normalize.weight(weights[k], static_cast<float>(terms));
      weights[k] *= method.scale;
      if (ids[k] < 0)
        weights[k] = 0;
      else if (!method.expertScale.empty())
        weights[k] *= method.expertScale[ids[k]];
    }
  }

  const Method &method;
  float maximum = 0, sum = 1; ///< of the finite logits
  std::vector<uint32_t> keys;
  std::vector<int32_t> order;
};

/// Returns the table row whose name equals the stage's attribute `word`.
template <typename Row, size_t N>
Result<Row> methodRowOf(KernelRun &run, const char *word,
                        const Row (&rows)[N]) {
  std::string value = run.word(word), known;
  for (const Row &row : rows) {
    if (row.name == value)
      return row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return run.fail("expected {} {}, got '{}'", word, known, value);
}

Result<Method> readMethod(KernelRun &run) {
  Method method;
  method.experts = run.integer("experts");
  method.topK = run.integer("top_k");
  method.groups = run.integer("groups");
  method.topGroups = run.integer("top_groups");
  method.score = TRY(methodRowOf(run, "score", kScores));
  SelectRow select = TRY(methodRowOf(run, "select", kSelects));
  method.select = select.name;
  method.normalize = TRY(methodRowOf(run, "normalize", kNormalizes));
  if (method.experts < 1 || method.topK < 1 || method.topK > method.experts)
    return run.fail("expected 1 <= top_k <= experts, got {} and {}",
                    method.topK, method.experts);
  method.sinks = run.integer("sinks");
  if (method.sinks < 0 || method.sinks >= method.topK ||
      (method.sinks > 0 && (method.select != "top_k" || method.groups > 0)))
    return run.fail("expected sinks of at least 0 and below top_k = {}, and "
                    "none with groups or select {}, got {}",
                    method.topK, method.select, method.sinks);
  const bool perGroup = method.select == "top_k_per_group";
  if (method.groups < 0 || (perGroup && method.groups == 0) ||
      (method.groups > 0 &&
       (method.experts % method.groups || method.topGroups < 1 ||
        method.topGroups > method.groups ||
        method.topK > method.groupSize() * method.topGroups ||
        (perGroup && method.topK % method.groups))))
    return run.fail("expected groups that divide the experts and hold top_k of "
                    "them, got {} of {} for {} experts",
                    method.topGroups, method.groups, method.experts);
  auto factor = [&](const char *name, float &value) {
    value = run.number(name).value_or(value);
  };
  factor("scale", method.scale);
  factor("output_scale", method.outputScale);
  factor("softcap", method.softcap);
  if (method.softcap < 0 || (method.softcap > 0 && method.score.needsSum))
    return run.fail("expected a softcap of at least 0, and none with score {}, "
                    "got {}",
                    method.score.name, method.softcap);
  factor("logit_scale", method.logitScale);
  if (!(method.logitScale > 0) ||
      (method.logitScale != 1 && method.score.needsSum))
    return run.fail("expected a logit_scale above 0, and none with score {}, "
                    "got {}",
                    method.score.name, method.logitScale);
  factor("epsilon", method.epsilon);
  if (method.epsilon < 0 ||
      (method.epsilon > 0 && method.normalize.name != "sum_epsilon"))
    return run.fail("expected an epsilon of at least 0, and none with "
                    "normalize {}, got {}",
                    method.normalize.name, method.epsilon);
  for (auto [name, values] : {std::pair{"routing_bias", &method.bias},
                              std::pair{"expert_scale", &method.expertScale}}) {
    if (!run.has(name))
      continue;
    View view = TRY(run.needed(name, 1, method.experts));
    values->resize(method.experts);
    loadFloats(view.storage, view.at(0), method.experts, values->data());
  }
  return method;
}

/// Maps a selected (logical) expert id to the physical expert that holds its
/// weights, and computes the weights of shared experts.
struct Placement {
  View replicas, replicaCount, map, gate;
  int64_t experts = 0, physical = 0, shared = 0, zero = 0, localBegin = 0;

  static Result<Placement> read(KernelRun &run, int64_t experts,
                                int64_t tokens) {
    Placement made;
    made.experts = experts;
    made.physical = run.integer("physical_experts");
    made.zero = run.integer("zero");
    if (made.zero < 0 || made.zero >= experts)
      return run.fail(
          "expected zero of at least 0 and below the {} experts, got {}",
          experts, made.zero);
    if (made.physical == 0)
      made.physical = experts - made.zero;
    made.shared = run.integer("shared");
    made.localBegin = TRY(run.ofRank("local_begin", 0));
    const int64_t slots = run.integer("replica_slots");
    struct Row {
      const char *name;
      int64_t rows, columns;
      View *view;
    };
    for (const Row &row :
         {Row{"logical_to_physical", experts, slots, &made.replicas},
          {"replica_count", 1, experts, &made.replicaCount},
          {"expert_map", 1, made.physical, &made.map},
          {"shared_gate", tokens, 1, &made.gate}})
      *row.view = TRY(run.neededIfNamed(row.name, row.rows, row.columns));
    if (made.replicas && (slots < 1 || !made.replicaCount))
      return run.fail("expected replica_count and replica_slots of at least 1 "
                      "with logical_to_physical");
    return made;
  }

  /// Returns the id of the physical expert, kIdentityPlace for a zero expert,
  /// or -1 if there is no such expert or expert_map does not contain it.
  /// `choice`: token * top_k + k, which selects a replica of the expert.
  int32_t placeOf(int32_t expert, int64_t choice) const {
    int64_t place = expert;
    if (place < 0 || place >= experts)
      return -1;
    if (place >= experts - zero)
      return kIdentityPlace;
    if (replicas) {
      int64_t count = std::clamp<int64_t>(replicaCount.integer(0, place), 1,
                                          replicas.columns);
      place = replicas.integer(place, choice % count);
    }
    if (map && place >= 0 && place < physical) {
      place = map.integer(0, place);
      if (place >= 0)
        place += localBegin;
    }
    return place >= 0 && place < physical ? static_cast<int32_t>(place) : -1;
  }

  float sharedWeight(int64_t token) const {
    return gate ? routing::weightOfGate(gate.number(token)) : 1.0f;
  }
};

} // namespace

Result<void> stages::route(KernelRun &run) {
  const Method method = TRY(readMethod(run));

  const int64_t size = TRY(run.size("tokens"));
  const int64_t tokens = TRY(tokensOfBlocks(run));

  View logits = TRY(run.operand("logits", tokens, method.experts));
  View givenIds = TRY(run.operand("given_ids", tokens, method.topK));
  View givenWeights = TRY(run.operand("given_weights", tokens, method.topK));
  View valid = TRY(run.operand("valid_tokens", 1, 1));
  Placement placement = TRY(Placement::read(run, method.experts, tokens));
  const int64_t pairs = method.topK + placement.shared;
  // Token ids, and the table of experts that they index.
  View tokenIds, table;
  if (method.select == "table") {
    const int64_t known = run.integer("table_rows");
    tokenIds = TRY(run.operand("token_ids", 1, tokens));
    table = TRY(run.operand("hash_table", known, method.topK));
    if (logits && (!tokenIds || !table))
      return run.fail("expected memory for token_ids and hash_table");
  }
  View topkIds = TRY(run.neededResult("topk_ids", tokens, pairs, Storage::I32));
  View topkWeights = TRY(run.neededResult("topk_weights", tokens, pairs));
  View ids = TRY(run.result("ids", tokens, pairs));
  View weights = TRY(run.result("weights", tokens, pairs));
  if (!logits && (!givenIds || !givenWeights))
    return invalidArgument(
        "expected logits, or given_ids and given_weights, got neither");
  int64_t validTokens = valid ? valid.integer(0) : size;

  parallelFor(run.threads, tokens, 64, [&](int64_t begin, int64_t end) {
    std::vector<float> row(method.experts), chosen(pairs);
    std::vector<int32_t> selected(pairs), placed(pairs);
    TokenRouter router(method);
    for (int64_t token = begin; token < end; ++token) {
      if (token >= validTokens) {
        std::ranges::fill(selected, -1);
        std::ranges::fill(chosen, 0.0f);
      } else if (logits) {
        loadFloats(logits.storage, logits.at(token), method.experts,
                   row.data());
        router.route(row, token, table ? &table : nullptr,
                     tokenIds ? tokenIds.integer(0, token) : 0, selected.data(),
                     chosen.data());
      } else {
        for (int64_t k = 0; k < method.topK; ++k) {
          int64_t id = givenIds.integer(token, k);
          // An id that does not fit into 32 bits is not an expert's id.
          selected[k] =
              id == static_cast<int32_t>(id) ? static_cast<int32_t>(id) : -1;
        }
        loadFloats(givenWeights.storage, givenWeights.at(token), method.topK,
                   chosen.data());
      }
      for (int64_t k = 0; k < method.topK; ++k)
        placed[k] = placement.placeOf(selected[k], token * method.topK + k);
      for (int64_t j = 0; j < placement.shared && token < validTokens; ++j) {
        const int64_t k = method.topK + j;
        selected[k] = static_cast<int32_t>(method.experts + j);
        placed[k] = static_cast<int32_t>(placement.physical + j);
        chosen[k] = placement.sharedWeight(token);
      }
      if (token >= validTokens)
        std::ranges::fill(placed, -1);
      for (int64_t k = 0; k < pairs; ++k) {
        topkIds.setInteger(token, k, placed[k]);
        if (ids)
          ids.setInteger(token, k, selected[k]);
      }
      if (weights)
        storeFloats(weights.storage, chosen.data(), pairs, weights.at(token));
      for (int64_t k = 0; k < method.topK; ++k)
        chosen[k] *= method.outputScale;
      storeFloats(topkWeights.storage, chosen.data(), pairs,
                  topkWeights.at(token));
    }
  });
  return {};
}
