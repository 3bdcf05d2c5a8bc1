//===- CatalogRows.cpp - the catalog as JSON ------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Prints the tables of dialect/catalog, so that the row-driven tests pick up
// each new row by themselves. Built from the tables alone, without MLIR.
//
//===----------------------------------------------------------------------===//

#include "dialect/catalog/Activations.h"
#include "dialect/catalog/Architectures.h"
#include "dialect/catalog/Backends.h"
#include "dialect/catalog/Engines.h"
#include "dialect/catalog/Evidence.h"
#include "dialect/catalog/RoutingMethods.h"
#include "dialect/catalog/Schemes.h"
#include "runtime/support/NvrtcVersions.h"

#include <nlohmann/json.hpp>

#include <cstdio>

using namespace moec::catalog;
using nlohmann::json;

static json words(moec::WordList list) {
  json result = json::array();
  for (std::string_view word : list)
    result.push_back(word);
  return result;
}

/// The engines that multiply both operands with the scales of their blocks.
static moec::WordList blockEngines(const Scheme &row) {
  const SchemeDescriptor &a = row.activations, &w = row.weights;
  const BlockPair *pair = a.group.columns == w.group.columns &&
                                  a.scale == w.scale && a.group.rows == 1
                              ? blockPair(a.element, w.element, a.scale,
                                          a.group.columns, a.secondPerRow)
                              : nullptr;
  return pair ? pair->engines : moec::WordList();
}

int main() {
  json rows;
  for (const Scheme &row : kSchemes)
    rows["schemes"].push_back({{"name", row.name},
                               {"a1", row.activations.element},
                               {"a1_columns", row.activations.group.columns},
                               {"a2", row.activations.element},
                               {"a2_rows", row.activations.group.rows},
                               {"w1", row.weights.element},
                               {"w1_columns", row.weights.group.columns},
                               {"w2", row.weights.element},
                               {"block_engines", words(blockEngines(row))},
                               {"dequantizes", row.policy == kWeightOnly}});
  for (const RoutingMethod &row : kRoutingMethods)
    rows["routing"].push_back({{"name", row.name},
                               {"score", row.score},
                               {"select", row.select},
                               {"normalize", row.normalize},
                               {"options", words(row.options)},
                               {"needs", words(row.needs)}});
  for (const Activation &row : kActivations)
    rows["activations"].push_back({{"name", row.name},
                                   {"function", row.function},
                                   {"gated", row.gated},
                                   {"parameters", words(row.parameters)},
                                   {"needs", words(row.needs)}});
  for (const Engine &row : kEngines)
    rows["engines"].push_back({{"name", row.name},
                               {"elements", words(row.elements)},
                               {"weights", words(row.weights)},
                               {"features", words(row.features)},
                               {"orders", words(row.orders)},
                               {"multiplies_plain", row.multipliesPlain},
                               {"priority", row.priority},
                               {"most_tokens", row.mostTokens}});
  for (const Backend &row : kBackends)
    rows["backends"].push_back({{"name", row.name},
                                {"engines", words(row.engines)},
                                {"few_tokens", row.fewTokens},
                                {"format", row.format}});
  for (const Architecture &row : kArchitectures)
    rows["archs"].push_back({{"name", row.name},
                             {"major", row.major},
                             {"minor", row.minor},
                             {"nvrtc", moec::nvrtcText(row.name)},
                             {"ran_on_gpu", kArchsOfGpus.contains(row.name)},
                             {"emulated", kEmulatedArchs.contains(row.name)},
                             {"features", words(row.features)}});
  std::puts(rows.dump(2).c_str());
  return 0;
}
