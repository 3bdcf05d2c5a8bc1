//===- FindFamily.cpp - the family of a config.json -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/FindFamily.h"

#include "compiler/import/Vocabulary.h"
#include "dialect/catalog/Catalog.h"
#include "runtime/support/Words.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

namespace {

constexpr std::string_view kDescribeDirectly =
    "for another model describe the layer itself in a layer JSON "
    "({\"moec_layer\": 1, \"num_experts\": ..., \"top_k\": ..., "
    "\"hidden_size\": ..., \"intermediate_size\": ..., \"in_dtype\": ...}, see "
    "docs/reference/layer-json.md)";

/// Returns all names in one column of the table, sorted.
std::vector<std::string_view> namesOf(WordList ModelFamily::*column) {
  std::vector<std::string_view> names;
  for (const ModelFamily &family : modelFamilies())
    for (std::string_view name : family.*column)
      names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

const ModelFamily *rowWith(WordList ModelFamily::*column,
                           std::string_view name) {
  for (const ModelFamily &family : modelFamilies())
    if ((family.*column).contains(name))
      return &family;
  return nullptr;
}

/// Returns the family of an architecture. If several families share the
/// architecture, the model type decides.
const ModelFamily *rowOfArchitecture(std::string_view name,
                                     std::string_view type) {
  for (const ModelFamily &family : modelFamilies())
    if (family.architectures.contains(name) && family.modelTypes.contains(type))
      return &family;
  return rowWith(&ModelFamily::architectures, name);
}

/// Returns true if a key of the config, or of an object in it, concerns
/// experts.
bool speaksOfExperts(const json &object, bool isOuter = true) {
  for (auto it = object.begin(); it != object.end(); ++it) {
    if (hasPartOf(it.key(), "expert moe") ||
        (isOuter && it->is_object() && speaksOfExperts(*it, false)))
      return true;
  }
  return false;
}

/// Returns the part of an architecture's name before "For": "Qwen3Moe" for
/// "Qwen3MoeForCausalLM".
std::string_view stemOf(std::string_view name) {
  return name.substr(0, name.rfind("For"));
}

/// Reports an unknown architecture or model type, with the nearest known name
/// and a way to proceed.
void refuseUnknownModel(JsonReader &config, std::string_view key,
                        const json &name, std::string_view kind,
                        WordList ModelFamily::*column) {
  if (!speaksOfExperts(config.value()))
    return config.refuse(key,
                         "expected a model with experts, got {}, and no key of "
                         "this config speaks of experts; {}",
                         describeJson(name), kDescribeDirectly);
  const std::vector<std::string_view> known = namesOf(column);
  const auto &word = name.get_ref<const std::string &>();
  std::string_view near = nearestOf(word, known);
  // Names that end in "ForCausalLM" are all similar, so the parts before "For"
  // are compared too.
  if (stemOf(near) != stemOf(word) &&
      nearestOf(stemOf(word), std::array{stemOf(near)}).empty())
    near = {};
  config.refuse(key,
                "unknown {} \"{}\"{}; --as=FAMILY reads a config whose keys "
                "are those of a "
                "known family (`moec list families`); {}",
                kind, shortText(word),
                near.empty() ? "" : fmt::format(" (did you mean {}?)", near),
                kDescribeDirectly);
}

/// Finds the row that --as names.
void findAsked(JsonReader &config, const std::string &name,
               FoundFamily &found) {
  found.model = name;
  found.row = rowWith(&ModelFamily::modelTypes, name);
  if (!found.row)
    found.row = rowWith(&ModelFamily::architectures, name);
  if (found.row)
    return;
  std::vector<std::string_view> known = namesOf(&ModelFamily::modelTypes);
  const std::string list = listOf(known, "and", false);
  for (std::string_view each : namesOf(&ModelFamily::architectures))
    known.push_back(each);
  const std::string_view near = nearestOf(name, known);
  config.errors().add(
      fmt::format("--as={}", name),
      fmt::format("unknown family{}; known: {}",
                  near.empty() ? "" : fmt::format(" (did you mean {}?)", near),
                  list));
}

/// Checks that the model types of the config and of its part belong to no other
/// family.
void refuseOtherTypes(JsonReader &config, const ModelFamily &row,
                      std::string_view model) {
  const auto check = [&](JsonReader &reader, WordList more) {
    const json *type = reader.find("model_type");
    if (!type || !type->is_string())
      return;
    const auto &name = type->get_ref<const std::string &>();
    const ModelFamily *other = rowWith(&ModelFamily::modelTypes, name);
    if (other && other != &row && !more.contains(name) &&
        !row.otherTypes.contains(name))
      reader.expected("model_type", "a model type of {} ({})", model,
                      row.modelTypes.text());
  };
  check(config, {});
  if (std::optional<JsonReader> part = objectAt(config, row.part))
    check(*part, row.partTypes);
}

} // namespace

std::optional<JsonReader> compiler::objectAt(JsonReader &config,
                                             std::string_view path) {
  const size_t dot = path.find('.');
  const std::string_view first = path.substr(0, dot);
  if (first.empty())
    return std::nullopt;
  std::optional<JsonReader> object = config.object(first);
  return !object || dot == std::string_view::npos
             ? object
             : objectAt(*object, path.substr(dot + 1));
}

FoundFamily compiler::findFamily(JsonReader &config,
                                 const ImportOptions &options) {
  FoundFamily found;
  const json *architectures = config.find("architectures");
  const json *type = config.find("model_type");
  if (type && type->is_string())
    found.shortName = type->get<std::string>();
  if (options.as) {
    findAsked(config, *options.as, found);
    if (found.shortName.empty())
      found.shortName = *options.as;
    return found;
  }
  if (architectures) {
    if (!architectures->is_array() || architectures->empty() ||
        !std::ranges::all_of(*architectures, [](const json &name) {
          return name.is_string();
        })) {
      config.expected("architectures", "an array of names");
      return found;
    }
    if (architectures->size() > 1) {
      config.refuse("architectures", "expected one architecture, got {}",
                    architectures->size());
      return found;
    }
    found.model = architectures->front().get<std::string>();
    found.row = rowOfArchitecture(found.model, found.shortName);
    if (!found.row)
      refuseUnknownModel(config, "architectures", architectures->front(),
                         "architecture", &ModelFamily::architectures);
  } else {
    found.model = config.text("model_type");
    found.row = rowWith(&ModelFamily::modelTypes, found.model);
    if (!found.row && !config.failed())
      refuseUnknownModel(config, "model_type", *type, "model type",
                         &ModelFamily::modelTypes);
  }
  if (found.row) {
    refuseOtherTypes(config, *found.row, found.model);
    if (found.shortName.empty())
      found.shortName = found.model;
  }
  return found;
}

/// Returns true if the name of a key suggests that the key may change the
/// layer.
static bool isSuspicious(std::string_view key) {
  // Remove "factor", because its "act" does not mean activation.
  std::string other = lowerCase(key);
  for (size_t at; (at = other.find("factor")) != std::string::npos;)
    other.erase(at, std::string_view("factor").size());
  return hasPartOf(
      other, "expert moe router gate top_k topk shared quant scal act limit");
}

bool compiler::isIgnored(std::string_view key, const ImportOptions &options) {
  return std::ranges::find(options.ignoreFields, key) !=
         options.ignoreFields.end();
}

void compiler::refuseSuspicious(JsonReader &config, const ModelFamily &family,
                                std::string_view model,
                                const ImportOptions &options) {
  config.nameStrayKeys();
  for (auto it = config.value().begin(); it != config.value().end(); ++it) {
    const std::string &key = it.key();
    // null means that the feature is absent.
    if (it->is_null() || !isSuspicious(key) || config.wasAsked(key) ||
        isIrrelevantKey(key) || family.irrelevant.contains(key) ||
        isIgnored(key, options))
      continue;
    config.refuse(
        key,
        "{} has no such key that moec supports, and its name suggests that it "
        "may change the layer; if it does not, pass --ignore-field={}",
        model, key);
  }
}

/// Collects the keys of all objects in a value, at every depth.
static void addKeys(const json &value, std::vector<std::string_view> &to) {
  for (auto it = value.begin(); it != value.end(); ++it) {
    if (value.is_object())
      to.push_back(it.key());
    if (it->is_structured())
      addKeys(*it, to);
  }
}

void compiler::refuseAbsentFields(const json &config,
                                  const ImportOptions &options,
                                  JsonErrors &errors) {
  if (options.ignoreFields.empty())
    return;
  std::vector<std::string_view> keys;
  addKeys(config, keys);
  for (const std::string &field : options.ignoreFields)
    if (!std::ranges::count(keys, field))
      errors.add("--ignore-field",
                 fmt::format("the config has no key '{}'; {}expected one of "
                             "its keys",
                             field, didYouMean(field, keys)));
}
