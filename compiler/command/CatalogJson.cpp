//===- CatalogJson.cpp - the catalog as JSON ------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/command/Commands.h"

#include "compiler/import/Families.h"
#include "dialect/catalog/Activations.h"
#include "dialect/catalog/Architectures.h"
#include "dialect/catalog/Backends.h"
#include "dialect/catalog/Catalog.h"
#include "dialect/catalog/Engines.h"
#include "dialect/catalog/Gpus.h"
#include "dialect/catalog/Realizations.h"
#include "dialect/catalog/RoutingMethods.h"
#include "dialect/catalog/Schemes.h"
#include "runtime/support/NvrtcVersions.h"

#include <nlohmann/json.hpp>

using namespace moec;
using namespace moec::compiler;
using nlohmann::ordered_json;

static ordered_json words(WordList list) {
  ordered_json made = ordered_json::array();
  for (std::string_view word : list)
    made.push_back(word);
  return made;
}

/// Returns the word, or null for "".
static ordered_json wordOrNull(std::string_view word) {
  return word.empty() ? ordered_json() : ordered_json(word);
}

static ordered_json operandJson(const catalog::SchemeDescriptor &operand) {
  const bool hasScale = !operand.scale.empty();
  return {{"element", operand.element},
          {"scale", wordOrNull(operand.scale)},
          {"group",
           hasScale ? ordered_json{operand.group.rows, operand.group.columns}
                    : ordered_json()},
          {"dynamic", operand.dynamic},
          {"second_scale", wordOrNull(operand.secondScale)},
          {"second_per_row", operand.secondPerRow},
          {"zero_point", wordOrNull(operand.zeroPoint)},
          {"scale_rule", wordOrNull(operand.scaleRule)}};
}

/// Returns the parameters that an activation has, with their defaults.
static ordered_json parametersJson(const catalog::Activation &activation) {
  ordered_json made = ordered_json::array();
  const double defaults[] = {activation.alpha, activation.beta,
                             activation.linearBeta, activation.limit};
  for (size_t i = 0; i < std::size(catalog::kActivationParameters); ++i) {
    const std::string_view name = catalog::kActivationParameters[i].name;
    if (!activation.parameters.contains(name))
      continue;
    const bool isNeeded = activation.needs.contains(name);
    const bool isNone = name == "limit" && defaults[i] == 0;
    made.push_back(
        {{"name", name},
         {"required", isNeeded},
         {"default",
          isNeeded || isNone ? ordered_json() : ordered_json(defaults[i])}});
  }
  return made;
}

ordered_json compiler::catalogJson() {
  ordered_json made;
  for (const auto &row : catalog::kSchemes)
    made["schemes"].push_back({{"name", row.name},
                               {"a1", operandJson(row.activations)},
                               {"a2", operandJson(row.activations)},
                               {"w1", operandJson(row.weights)},
                               {"w2", operandJson(row.weights)},
                               {"realizations", words(row.realizations)}});
  for (const auto &row : catalog::kRoutingMethods)
    made["routing"].push_back({{"name", row.name},
                               {"score", row.score},
                               {"select", row.select},
                               {"normalize", row.normalize},
                               {"options", words(row.options)},
                               {"needs", words(row.needs)}});
  for (const auto &row : catalog::kActivations)
    made["activations"].push_back({{"name", row.name},
                                   {"function", row.function},
                                   {"gated", row.gated},
                                   {"parameters", parametersJson(row)}});
  for (const auto &row : catalog::kEngines)
    made["engines"].push_back({{"name", row.name},
                               {"elements", words(row.elements)},
                               {"weights", words(row.weights)},
                               {"features", words(row.features)}});
  for (const auto &row : catalog::kRealizations)
    made["realizations"].push_back({{"name", row.name},
                                    {"another_layer", row.isAnotherLayer},
                                    {"summary", row.summary}});
  for (const auto &row : catalog::kBackends)
    made["backends"].push_back({{"name", row.name},
                                {"engines", words(row.engines)},
                                {"few_tokens", wordOrNull(row.fewTokens)},
                                {"format", row.format},
                                {"summary", row.summary}});
  for (const auto &row : catalog::kArchitectures)
    made["archs"].push_back({{"name", row.name},
                             {"nvrtc", nvrtcText(row.name)},
                             {"serves", row.compatibility},
                             {"shared_memory", row.sharedPerBlock},
                             {"gpu", wordOrNull(row.gpu)},
                             {"features", words(row.features)}});
  for (const auto &row : catalog::kGpus) {
    catalog::FloorRates floor = catalog::floorRates(row);
    made["gpus"].push_back({{"name", row.name},
                            {"arch", row.arch},
                            {"sms", row.sms},
                            {"gb_per_s", row.bandwidth},
                            {"tflop_per_s", row.matmulRate},
                            {"floor",
                             {{"gb_per_s", floor.bandwidth},
                              {"tflop_per_s", floor.matmulRate},
                              {"fp8_tflop_per_s", floor.fp8Rate},
                              {"measured", floor.measured}}},
                            {"source", row.source}});
  }
  return made;
}

ordered_json compiler::familiesJson() {
  ordered_json made = ordered_json::array();
  for (const ModelFamily &family : modelFamilies())
    made.push_back({{"model_types", words(family.modelTypes)},
                    {"architectures", words(family.architectures)},
                    {"source", family.source}});
  return made;
}
