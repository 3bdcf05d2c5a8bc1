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

#include "compiler/import/Families.h"
#include "test/import/ImportTesting.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

using namespace moec;
using namespace moec::compiler;
using namespace moec::compiler::testing;
using nlohmann::json;

namespace {

json classes() {
  std::ifstream file(sourcePath("test/import/Inputs/class-defaults.json"));
  return json::parse(file)["classes"];
}

/// The options that a class needs for its layer: some have shared experts that
/// moec has no rows for.
ImportOptions optionsOf(const json &entry) {
  ImportOptions options;
  options.noSharedExperts =
      refusalOf(entry["config"].dump()).find("--no-shared-experts") !=
      std::string::npos;
  return options;
}

/// The layer of a config; none if it is refused.
std::optional<LayerDescription> meaning(const json &config,
                                        const ImportOptions &options) {
  Result<LayerDescription> layer =
      readDescription(config.dump(), "in.json", options);
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

/// The same of a key or another name of it.
bool listsOneOf(const std::vector<LayerOrigin::Said> &said,
                const std::string &key, const json &entry) {
  const json &aliases = entry["aliases"];
  for (auto it = aliases.begin(); it != aliases.end(); ++it)
    if (it.value() == key && lists(said, it.key()))
      return true;
  return lists(said, key);
}

/// The place in an entry of the object with the class's keys.
json::json_pointer partOf(const json &entry) {
  const std::string part = entry["part"];
  return json::json_pointer(part.empty() ? "" : "/" + part);
}

/// Calls `visit` with each key of a class, and the object that has it.
template <typename Visit> void eachKey(const json &entry, Visit visit) {
  const json::json_pointer part = partOf(entry);
  const json &config = entry["config"];
  for (auto it = config.begin(); it != config.end(); ++it)
    if (!part.to_string().starts_with("/" + it.key()) &&
        it.key() != "architectures")
      visit(json::json_pointer(""), it.key());
  if (!part.empty())
    for (auto it = config[part].begin(); it != config[part].end(); ++it)
      visit(part, it.key());
}

TEST(Defaults, EachClassIsReadAsItIsWritten) {
  for (const json &entry : classes())
    EXPECT_EQ(refusalOf(entry["config"].dump(), optionsOf(entry)), "")
        << entry["class"];
}

TEST(Defaults, AnAbsentKeyMeansTheClassesDefault) {
  int taken = 0;
  for (const json &entry : classes()) {
    const ImportOptions options = optionsOf(entry);
    const auto whole = meaning(entry["config"], options);
    ASSERT_TRUE(whole) << entry["class"];
    eachKey(
        entry, [&](const json::json_pointer &where, const std::string &key) {
          json config = entry["config"];
          config[where].erase(key);
          const auto layer = meaning(config, options);
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
            EXPECT_TRUE(listsOneOf(layer->origin.assumed, key, entry))
                << entry["class"] << " without " << key;
          }
        });
  }
  // The test would be empty if all were required.
  EXPECT_GT(taken, 100);
}

TEST(Defaults, AllThatMayBeAbsentAtOnce) {
  for (const json &entry : classes()) {
    const ImportOptions options = optionsOf(entry);
    const auto whole = meaning(entry["config"], options);
    ASSERT_TRUE(whole) << entry["class"];
    json least = entry["config"];
    eachKey(entry,
            [&](const json::json_pointer &where, const std::string &key) {
              // Without it the sizes of a class are not known.
              if (key == "model_type")
                return;
              json config = entry["config"];
              config[where].erase(key);
              if (meaning(config, options))
                least[where].erase(key);
            });
    const auto layer = meaning(least, options);
    ASSERT_TRUE(layer) << entry["class"] << ": " << least << ": "
                       << refusalOf(least.dump());
    EXPECT_EQ(bare(*layer), bare(*whole)) << entry["class"] << ": " << least;
  }
}

/// Every name under which some family has something, but those that say which
/// layers have experts: of them a layer needs the word of all.
std::set<std::string> namesOfAllFamilies() {
  std::set<std::string> names;
  const auto add = [&](const auto &key) {
    for (std::string_view name : key.names)
      names.emplace(name);
  };
  for (const ModelFamily &row : modelFamilies()) {
    const FamilyRouting &routing = row.routing;
    const FamilyActivation &activation = row.activation;
    for (const Key<int64_t> *key :
         {&row.layers, &row.hidden, &row.experts, &row.topK, &row.intermediate,
          &row.latent, &row.shared.count, &row.shared.width, &routing.groups,
          &routing.topGroups, &routing.hashLayers, &routing.zeroExperts})
      add(*key);
    for (const Key<bool> *key : {&routing.renormalize, &routing.bias,
                                 &routing.weightOnInput, &routing.f32Logits})
      add(*key);
    for (const Key<Number> *key :
         {&routing.norm, &routing.scale, &activation.alpha, &activation.beta,
          &activation.linearBeta, &activation.limit})
      add(*key);
    for (const Key<std::string_view> *key :
         {&routing.scoring, &routing.topkMethod, &activation.function})
      add(*key);
    for (const FixedKey &fixed : row.fixed)
      names.emplace(fixed.key);
    for (std::string_view key :
         {row.expertTypeKey, activation.limitsKey, activation.sharedLimitsKey})
      names.emplace(key);
    for (std::string_view key : row.irrelevant)
      names.emplace(key);
  }
  // need_fp32_gate says the type of the logits, which each run may change.
  for (const char *key :
       {"", "num_hidden_layers", "num_layers", "n_layers", "need_fp32_gate"})
    names.erase(key);
  return names;
}

TEST(Defaults, AKeyThatAClassDoesNotHaveIsRefusedOrChangesNothing) {
  const json values = {0,       1,        2,          0.5,       4.0,
                       false,   true,     "gelu",     "sigmoid", "softmax",
                       nullptr, "greedy", "noaux_tc", {0.0, 7.0}};
  const std::set<std::string> names = namesOfAllFamilies();
  int refusedKeys = 0;
  std::set<std::string> seen;
  for (const json &entry : classes()) {
    if (!seen.insert(entry["class"]).second)
      continue;
    const ImportOptions options = optionsOf(entry);
    const auto whole = meaning(entry["config"], options);
    ASSERT_TRUE(whole) << entry["class"];
    const json::json_pointer where = partOf(entry);
    const json &reads = entry["reads"];
    for (const std::string &key : names) {
      if (entry["config"].contains(key) ||
          entry["config"][where].contains(key) ||
          entry["aliases"].contains(key) ||
          std::find(reads.begin(), reads.end(), key) != reads.end())
        continue;
      for (const json &value : values) {
        json config = entry["config"];
        config[where][key] = value;
        const Result<LayerDescription> layer =
            readDescription(config.dump(), "in.json", options);
        if (layer) {
          EXPECT_EQ(bare(*layer), bare(*whole))
              << entry["class"] << " with " << key << " " << value;
          continue;
        }
        ++refusedKeys;
        // Any value would be.
        if (layer.error().message.find("no such key") != std::string::npos)
          break;
      }
    }
  }
  EXPECT_GT(refusedKeys, 1000);
}

TEST(Defaults, OtherNamesOfAKey) {
  for (const json &entry : classes()) {
    const ImportOptions options = optionsOf(entry);
    const auto whole = meaning(entry["config"], options);
    ASSERT_TRUE(whole) << entry["class"];
    for (auto it = entry["aliases"].begin(); it != entry["aliases"].end();
         ++it) {
      const std::string key = it.value();
      const json::json_pointer part = partOf(entry);
      json config = entry["config"];
      json &object =
          !part.empty() && config[part].contains(key) ? config[part] : config;
      if (!object.contains(key))
        continue;
      object[it.key()] = object[key];
      object.erase(key);
      if (const auto layer = meaning(config, options)) {
        EXPECT_EQ(bare(*layer), bare(*whole))
            << entry["class"] << " with " << it.key() << " for " << key;
      }
    }
  }
}

} // namespace
