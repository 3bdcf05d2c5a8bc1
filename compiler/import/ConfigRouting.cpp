//===- ConfigRouting.cpp - reads the router in config.json ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/ConfigReader.h"

#include "compiler/import/Vocabulary.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

void ConfigReader::readRouting(LayerDescription &layer) {
  const FamilyRouting &row = family.routing;
  RoutingDescription &routing = layer.routing;
  routing.scale = get(row.scale);
  layer.routedScaleOnOutput = row.scaleOnOutput;
  layer.applyRouterWeightOnInput = get(row.weightOnInput);
  layer.perExpertScale = get(row.perExpertScale);
  if (const Number softcap = get(row.softcap); softcap && *softcap > 0)
    routing.softcap = softcap;
  routing.logitScale = getPositive(row.logitScale);
  routing.epsilon = getPositive(row.epsilon);
  layer.zeroExperts = get(row.zeroExperts, 0, kMaxDescribedExperts);
  if (get(row.f32Logits))
    layer.logitsType = "f32";
  readSinks(layer);
  if (!row.method.empty()) {
    routing.method = row.method;
    routing.bias = get(row.bias);
    return;
  }
  routing.scoring = get(row.scoring, scoringNames());
  routing.renormalize = get(row.renormalize);
  if (!row.norm.names.empty()) {
    const Number norm = get(row.norm);
    routing.renormalize = norm.has_value();
    if (norm && *norm != 1)
      expected(find(row.norm.names),
               "1 (weights are divided by their sum) or null");
  }
  routing.bias = get(row.bias);
  readGroups(routing, layer.experts);
  readHash(layer);
}

/// Reads the number of sinks: shared experts that the router scores and that
/// every token selects. They become the last experts of the layer.
void ConfigReader::readSinks(LayerDescription &layer) {
  const Key<int64_t> &key = family.routing.sinks;
  if (key.names.empty())
    return;
  const int64_t sinks = get(key, 1, kMaxDescribedExperts);
  if (options.noSharedExperts)
    outer.errors().add(
        "--no-shared-experts",
        fmt::format("the scores of shared experts are in the sum that divides "
                    "all weights of {}, so that the layer computes them; "
                    "expected no --no-shared-experts",
                    model));
  if (quantization.sharedDiffer)
    of(quantKey).refuse(
        quantKey, "leaves shared experts as they are, so that they cannot be "
                  "rows of the routed ones; expected one scheme of both");
  layer.routing.sinks = sinks;
  layer.experts += sinks;
  layer.topK += sinks;
}

void ConfigReader::readGroups(RoutingDescription &routing, int64_t experts) {
  const FamilyRouting &row = family.routing;
  const std::string method =
      get(row.topkMethod, vectorOf("noaux_tc group_limited_greedy greedy"));
  const int64_t groups = get(row.groups, 0, experts);
  const int64_t topGroups = get(row.topGroups, 0, experts);
  routing.bias |= method == "noaux_tc";
  if (method == "greedy")
    return;
  if (method == "group_limited_greedy" && groups == 0)
    return expected(find(row.groups.names),
                    "groups, which group_limited_greedy takes experts from");
  // A single group that contains all experts has no effect.
  if (groups <= 1)
    return;
  if (topGroups < 1 || topGroups > groups)
    expected(find(row.topGroups.names),
             fmt::format("an integer from 1 to {}", groups));
  routing.groups = groups;
  routing.topGroups = topGroups;
}

/// Determines whether the layer reads its expert ids from a table indexed by
/// token id instead of computing them from scores.
void ConfigReader::readHash(LayerDescription &layer) {
  const Key<int64_t> &key = family.routing.hashLayers;
  const bool isListed = !chosen.type.empty();
  bool isHash = chosen.type == kHashLayer;
  if (key.names.empty()) {
    if (isHash)
      outer.refuse(
          "mlp_layer_types",
          "calls layer {} \"{}\", which moec supports for DeepSeek-V4 only",
          chosen.index, kHashLayer);
    return;
  }
  const Place place = find(key.names);
  if (!isListed || place.value) {
    const bool isFirst = chosen.index < get(key, 0, kMaxLayers);
    if (isListed && isFirst != isHash)
      expected(place,
               fmt::format(
                   "the value of mlp_layer_types, which calls layer {} \"{}\"",
                   chosen.index, chosen.type));
    isHash = isFirst;
  }
  if (!isHash)
    return;
  layer.hashVocabulary =
      get(required("vocab_size"), 1, kMaxDescribedVocabulary);
  layer.routing.bias = false;
}

/// Rejects layers with constant experts. MoNE replaces experts by constant
/// vectors, and its config lists these experts by layer.
void ConfigReader::refuseConstantExperts() {
  constexpr std::string_view kKey = "approximate_experts";
  JsonReader &reader = of(kKey);
  const json *layers = reader.find(kKey);
  if (!layers || layers->is_null() || isIgnored(kKey, options))
    return;
  if (!layers->is_object())
    return reader.expected(kKey, "null, or an object with a list of experts "
                                 "for each layer");
  const auto own = layers->find(std::to_string(chosen.index));
  if (own == layers->end() || own->empty())
    return;
  reader.refuse(kKey,
                "{} experts of layer {} are constant vectors (MoNE), which no "
                "importer makes; accepted: --layer of a layer without any, or "
                "a layer JSON with num_constant_experts, for a router whose "
                "constant experts are the last",
                own->size(), chosen.index);
}
