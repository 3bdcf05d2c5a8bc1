//===- DefaultsTest.cpp - an absent key means what its class says ---------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Inputs/class-defaults.json has for each configuration class of Transformers
// the config.json that says all its defaults, written by a program from the
// classes themselves (test/oracle/defaults.py). A config without one of these
// keys means the same layer, or moec asks for the key.
//
//===----------------------------------------------------------------------===//

#include "test/import/ImportTesting.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace moec;
using namespace moec::compiler;
using namespace moec::compiler::testing;
using nlohmann::json;

namespace {

json classes() {
  std::ifstream file(MOEC_DEFAULTS);
  return json::parse(file)["classes"];
}

/// The layer of a config; none if it is refused.
std::optional<LayerDescription> meaning(const json &config) {
  Result<LayerDescription> layer =
      readDescription(config.dump(), "in.json", {});
  return layer ? std::optional(*layer) : std::nullopt;
}

/// The same, whatever was read and assumed; which layer it is still counts.
LayerDescription bare(LayerDescription layer) {
  layer.origin.read.clear();
  layer.origin.assumed.clear();
  layer.origin.words.clear();
  return layer;
}

bool lists(const std::vector<LayerOrigin::Said> &said, const std::string &key) {
  return std::any_of(said.begin(), said.end(),
                     [&](const auto &entry) { return entry.first == key; });
}

/// Calls `visit` with each key of a class, and the object that has it.
template <typename Visit> void eachKey(const json &entry, Visit visit) {
  const std::string part = entry["part"];
  const json &config = entry["config"];
  for (auto it = config.begin(); it != config.end(); ++it)
    if (it.key() != part && it.key() != "architectures")
      visit(json::json_pointer(""), it.key());
  if (!part.empty())
    for (auto it = config[part].begin(); it != config[part].end(); ++it)
      visit(json::json_pointer("/" + part), it.key());
}

TEST(Defaults, EachClassIsReadAsItIsWritten) {
  for (const json &entry : classes())
    EXPECT_EQ(refusalOf(entry["config"].dump()), "") << entry["class"];
}

TEST(Defaults, AnAbsentKeyMeansTheClassesDefault) {
  int taken = 0;
  for (const json &entry : classes()) {
    const auto whole = meaning(entry["config"]);
    ASSERT_TRUE(whole) << entry["class"];
    eachKey(
        entry, [&](const json::json_pointer &where, const std::string &key) {
          json config = entry["config"];
          config[where].erase(key);
          const auto layer = meaning(config);
          const json &needed = entry["needed"];
          if (std::find(needed.begin(), needed.end(), key) != needed.end()) {
            EXPECT_FALSE(layer) << entry["class"] << " without " << key
                                << ", of which the class has no default";
            return;
          }
          if (!layer)
            return;
          EXPECT_EQ(bare(*layer), bare(*whole))
              << entry["class"] << " without " << key;
          if (!lists(whole->origin.read, key))
            return;
          ++taken;
          // A list of layers stands for the keys that say less of them.
          const bool isOfList = key == "mlp_layer_types" || key == "moe_layers";
          const bool isListed = lists(layer->origin.read, "mlp_layer_types") ||
                                lists(layer->origin.read, "moe_layers");
          const bool saysLayers = key == "first_k_dense_replace" ||
                                  key == "interleave_moe_layer_step";
          if (!isOfList && !(isListed && saysLayers)) {
            EXPECT_TRUE(lists(layer->origin.assumed, key))
                << entry["class"] << " without " << key;
          }
        });
  }
  // The test would be empty if all were required.
  EXPECT_GT(taken, 100);
}

TEST(Defaults, AllThatMayBeAbsentAtOnce) {
  for (const json &entry : classes()) {
    const auto whole = meaning(entry["config"]);
    ASSERT_TRUE(whole) << entry["class"];
    json least = entry["config"];
    eachKey(entry,
            [&](const json::json_pointer &where, const std::string &key) {
              json config = entry["config"];
              config[where].erase(key);
              if (meaning(config))
                least[where].erase(key);
            });
    const auto layer = meaning(least);
    ASSERT_TRUE(layer) << entry["class"] << ": " << least << ": "
                       << refusalOf(least.dump());
    EXPECT_EQ(bare(*layer), bare(*whole)) << entry["class"] << ": " << least;
  }
}

TEST(Defaults, OtherNamesOfAKey) {
  for (const json &entry : classes()) {
    const auto whole = meaning(entry["config"]);
    ASSERT_TRUE(whole) << entry["class"];
    for (auto it = entry["aliases"].begin(); it != entry["aliases"].end();
         ++it) {
      const std::string part = entry["part"], key = it.value();
      json config = entry["config"];
      json &object =
          !part.empty() && config[part].contains(key) ? config[part] : config;
      if (!object.contains(key))
        continue;
      object[it.key()] = object[key];
      object.erase(key);
      if (const auto layer = meaning(config)) {
        EXPECT_EQ(bare(*layer), bare(*whole))
            << entry["class"] << " with " << it.key() << " for " << key;
      }
    }
  }
}

} // namespace
