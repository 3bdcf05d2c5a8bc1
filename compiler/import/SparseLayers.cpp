//===- SparseLayers.cpp - layers of a model with experts ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/SparseLayers.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <functional>
#include <set>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

namespace {

/// The effect of a key on the model's layers. `whyDense` returns the reason why
/// a layer has no experts, or "" if the key allows experts there. `value`
/// returns the key's value for a layer, for the origin.
struct Reading {
  std::function<std::string(int64_t layer)> whyDense;
  std::function<json(int64_t layer)> value;
};

/// A config, and the defaults for keys that it lacks.
struct SparseConfig {
  JsonReader &config;
  std::span<const SparseKey> keys;
  int64_t layers;

  /// Returns the integer of a key, which must be present or have a default.
  int64_t integer(std::string_view key, int64_t min, int64_t max) {
    const auto it = config.value().find(std::string(key));
    if (it != config.value().end())
      return config.integer(key, min, max);
    return defaultOf(key).value_or(min);
  }
  std::optional<int64_t> defaultOf(std::string_view key) const {
    for (const SparseKey &row : keys)
      if (row.key == key)
        return row.absent;
    return std::nullopt;
  }
};

/// A key of a config, and the function that interprets its value.
struct Rule {
  std::string_view key;
  Reading (*read)(SparseConfig &from, std::string_view key);
  /// True if the key alone specifies which layers have experts. If the config
  /// has such a key, other keys that it lacks get no default.
  bool decides = false;
  /// True if configs of every family may have the key.
  bool isOfAll = false;
};

std::function<json(int64_t)> same(json value) {
  return [value = std::move(value)](int64_t) { return value; };
}

/// Returns the reading of `key` if its value is a number. `isSparse` returns
/// true for layers with experts. `also` follows the value in the reason.
Reading ofNumber(std::string_view key, int64_t value,
                 std::function<bool(int64_t)> isSparse,
                 const std::string &also = "") {
  return {[=](int64_t layer) {
            return isSparse(layer)
                       ? ""
                       : fmt::format("with {} {}{} layer {} is dense", key,
                                     value, also, layer);
          },
          same(value)};
}

Reading firstAreDense(SparseConfig &from, std::string_view key) {
  const int64_t count = from.integer(key, 0, kMaxLayers);
  return ofNumber(key, count, [=](int64_t layer) { return layer >= count; });
}

/// Returns a reading in which layers up to the given one have experts; -1 means
/// the last layer.
Reading lastSparse(SparseConfig &from, std::string_view key) {
  const int64_t last = from.integer(key, -1, kMaxLayers);
  return ofNumber(key, last,
                  [=](int64_t layer) { return last < 0 || layer <= last; });
}

/// Returns a reading in which layers n - 1, 2 n - 1, ... have experts.
Reading everyNth(SparseConfig &from, std::string_view key) {
  const int64_t step = std::max<int64_t>(from.integer(key, 1, kMaxLayers), 1);
  return ofNumber(key, step,
                  [=](int64_t layer) { return (layer + 1) % step == 0; });
}

/// Returns a reading in which layers offset, offset + period, ... have experts.
Reading everyPeriod(SparseConfig &from, std::string_view key) {
  const int64_t period = std::max<int64_t>(from.integer(key, 1, kMaxLayers), 1);
  const int64_t offset = from.integer("expert_layer_offset", 0, kMaxLayers);
  if (offset >= period)
    from.config.refuse(key, "expected more than expert_layer_offset {}, got {}",
                       offset, period);
  return ofNumber(
      key, period, [=](int64_t layer) { return layer % period == offset; },
      fmt::format(" and expert_layer_offset {}", offset));
}

/// Returns a reading that excludes no layer. It is used for
/// expert_layer_offset, which everyPeriod() interprets.
Reading ofAnother(SparseConfig &from, std::string_view key) {
  return {[](int64_t) { return std::string(); },
          same(from.integer(key, 0, kMaxLayers))};
}

/// Returns the layers in a list, or by default the first ones.
std::set<int64_t> readLayers(SparseConfig &from, std::string_view key) {
  if (!from.config.value().contains(std::string(key))) {
    std::set<int64_t> first;
    for (int64_t i = 0; i < from.defaultOf(key).value_or(0); ++i)
      first.insert(i);
    return first;
  }
  const std::vector<int64_t> list =
      from.config.integersOr(key, {}, 0, kMaxLayers);
  return {list.begin(), list.end()};
}

/// Returns a summary of a list of layers for one layer: the list's length, and
/// if the layer is in it.
std::function<json(int64_t)> listed(const std::set<int64_t> &layers) {
  return [layers](int64_t layer) {
    return json(fmt::format("{} layers, {}this one", layers.size(),
                            layers.count(layer) ? "with " : "without "));
  };
}

Reading listedAreDense(SparseConfig &from, std::string_view key) {
  const std::set<int64_t> dense = readLayers(from, key);
  return {[key, dense](int64_t layer) {
            return !dense.count(layer)
                       ? ""
                       : fmt::format("layer {} stands in {}", layer, key);
          },
          listed(dense)};
}

Reading onlyThese(std::string_view key, const std::set<int64_t> &sparse) {
  return {[key, sparse](int64_t layer) {
            return sparse.count(layer)
                       ? ""
                       : fmt::format("layer {} does not stand in {}", layer,
                                     key);
          },
          listed(sparse)};
}

Reading listedAreSparse(SparseConfig &from, std::string_view key) {
  return onlyThese(key, readLayers(from, key));
}

/// Reads a string such as "3,4,5" with the layers that have experts. If the key
/// is absent, all layers except the first ones have experts.
Reading enumerated(SparseConfig &from, std::string_view key) {
  if (!from.config.has(key))
    return firstAreDense(from, key);
  std::string text = from.config.text(key);
  std::set<int64_t> sparse;
  for (const char *at = text.data(), *end = at + text.size(); at < end; ++at) {
    int64_t layer = -1;
    auto [rest, error] = std::from_chars(at, end, layer);
    if (error != std::errc() || layer < 0 || (rest != end && *rest != ',')) {
      from.config.expected(key, "numbers of layers with commas between");
      break;
    }
    sparse.insert(layer);
    at = rest;
  }
  return onlyThese(key, sparse);
}

/// Reads a list with one word per layer.
Reading typeOfEach(SparseConfig &from, std::string_view key) {
  const json *list = from.config.find(key);
  if (!list->is_array() || int64_t(list->size()) < from.layers ||
      !std::ranges::all_of(*list,
                           [](const json &type) { return type.is_string(); })) {
    from.config.expected(key, "an array of {} words", from.layers);
    return {};
  }
  const auto types = list->get<std::vector<std::string>>();
  return {[key, types](int64_t layer) {
            return types[layer] == "sparse" || types[layer] == "moe" ||
                           types[layer] == kHashLayer
                       ? ""
                       : fmt::format("{} calls layer {} \"{}\"", key, layer,
                                     types[layer]);
          },
          [types](int64_t layer) { return json(types[layer]); }};
}

/// Reads a string with one letter per layer, E for experts.
Reading letters(SparseConfig &from, std::string_view key) {
  const std::string pattern = from.config.text(key);
  if (int64_t(pattern.size()) < from.layers) {
    from.config.expected(key, "a letter for each of {} layers", from.layers);
    return {};
  }
  return {[key, pattern](int64_t layer) {
            return pattern[layer] == 'E'
                       ? ""
                       : fmt::format("{} has a '{}' for layer {}", key,
                                     pattern[layer], layer);
          },
          [pattern](int64_t layer) {
            return json(std::string(1, pattern[layer]));
          }};
}

/// Reads a step n, with experts in layers 0, n, 2 n, ..., or a list with a 0 or
/// 1 per layer.
Reading frequency(SparseConfig &from, std::string_view key) {
  const json *value = from.config.find(key);
  if (!value || !value->is_array()) {
    const int64_t step = std::max<int64_t>(from.integer(key, 1, kMaxLayers), 1);
    return ofNumber(key, step,
                    [=](int64_t layer) { return layer % step == 0; });
  }
  const std::vector<int64_t> flags = from.config.integersOr(key, {}, 0, 1);
  if (int64_t(flags.size()) < from.layers) {
    from.config.expected(key, "a 0 or 1 for each of {} layers", from.layers);
    return {};
  }
  return {[key, flags](int64_t layer) {
            return flags[layer]
                       ? ""
                       : fmt::format("{} has a 0 for layer {}", key, layer);
          },
          [flags](int64_t layer) { return json(flags[layer]); }};
}

Reading allOrNone(SparseConfig &from, std::string_view key) {
  const bool sparse =
      from.config.booleanOr(key, from.defaultOf(key).value_or(1) != 0);
  return {[=](int64_t layer) {
            return sparse ? ""
                          : fmt::format("{} is false: layer {} is dense", key,
                                        layer);
          },
          same(sparse)};
}

constexpr Rule kRules[] = {
    {"decoder_sparse_step", everyNth},
    {"dense_mlp_idx", firstAreDense},
    {"enable_moe_block", allOrNone},
    {"expert_layer_offset", ofAnother},
    {"expert_layer_period", everyPeriod},
    {"first_k_dense_replace", firstAreDense},
    {"hybrid_override_pattern", letters, true},
    {"interleave_moe_layer_step", everyNth},
    {"layers_block_type", typeOfEach, true},
    {"mlp_layer_types", typeOfEach, true, true},
    {"mlp_only_layers", listedAreDense},
    {"moe_layer_end_index", lastSparse},
    {"moe_layer_freq", frequency},
    {"moe_layer_frequency", everyNth},
    {"moe_layer_interval", everyNth},
    {"moe_layer_num_skipped", firstAreDense},
    {"moe_layer_start_index", firstAreDense},
    {"moe_layers", listedAreSparse, true},
    {"moe_layers_enum", enumerated},
    {"num_dense_layers", firstAreDense},
};

const SparseKey *rowOf(const Rule &rule, std::span<const SparseKey> keys) {
  static constexpr SparseKey kOfAll = {};
  for (const SparseKey &row : keys)
    if (row.key == rule.key)
      return &row;
  return rule.isOfAll ? &kOfAll : nullptr;
}

/// A key that applies to the model, and its reading. `isAssumed`: the config
/// lacks the key, so its default applies.
struct Given {
  const Rule *rule;
  Reading reading;
  bool isAssumed;
};

std::vector<Given> readGiven(SparseConfig &from, LayerOrigin &origin) {
  bool decided = false;
  for (const Rule &rule : kRules)
    decided |=
        rule.decides && rowOf(rule, from.keys) && from.config.has(rule.key);
  std::vector<Given> given;
  for (const Rule &rule : kRules) {
    const SparseKey *row = rowOf(rule, from.keys);
    if (!row)
      continue;
    // null means that there is no list. For a key whose value is a number, null
    // is an error.
    const bool isNumber = row->absent.has_value();
    const bool isThere =
        from.config.has(rule.key) ||
        (isNumber && from.config.value().contains(std::string(rule.key)));
    if (isThere)
      given.push_back({&rule, rule.read(from, rule.key), false});
    else if (row->absent && !decided)
      given.push_back({&rule, rule.read(from, rule.key), true});
    else if (row->needed && !decided)
      from.config.expected(rule.key, "what says which layers have experts");
    else if (!row->key.empty() && !decided)
      origin.assumed.emplace_back(rule.key, "null");
  }
  return given;
}

} // namespace

std::optional<int64_t>
compiler::countListedLayers(JsonReader &config,
                            std::span<const SparseKey> keys) {
  for (const SparseKey &row : keys) {
    const json *list = row.key.empty() ? nullptr : config.find(row.key);
    if (list && row.key == "layers_block_type" && list->is_array())
      return int64_t(list->size());
    if (list && row.key == "hybrid_override_pattern" && list->is_string())
      return int64_t(list->get_ref<const std::string &>().size());
  }
  return std::nullopt;
}

SparseLayer compiler::findSparseLayer(JsonReader &config,
                                      std::span<const SparseKey> keys,
                                      int64_t numLayers,
                                      std::optional<int64_t> asked,
                                      LayerOrigin &origin) {
  SparseConfig from{config, keys, numLayers};
  const size_t before = config.errors().count;
  const std::vector<Given> given = readGiven(from, origin);
  if (config.errors().count != before)
    return {};

  if (asked && (*asked < 0 || *asked >= numLayers)) {
    config.errors().add(
        fmt::format("--layer={}", *asked),
        fmt::format("expected an integer from 0 to {} ({} layers)",
                    numLayers - 1, numLayers));
    return {};
  }
  for (int64_t layer = asked.value_or(0); layer < numLayers; ++layer) {
    bool isSparse = true;
    for (const Given &each : given) {
      const std::string reason = each.reading.whyDense(layer);
      isSparse &= reason.empty();
      if (asked && !isSparse) {
        config.refuse(each.rule->key,
                      "expected --layer to name a layer with experts, got "
                      "--layer={}: {}{}",
                      layer, reason, each.isAssumed ? " (by default)" : "");
        return {};
      }
    }
    if (!isSparse)
      continue;
    SparseLayer found{layer, {}};
    for (const Given &each : given) {
      const json value = each.reading.value(layer);
      if (each.rule->read == typeOfEach)
        found.type = value.get<std::string>();
      (each.isAssumed ? origin.assumed : origin.read)
          .emplace_back(each.rule->key, value.dump());
    }
    return found;
  }
  std::string named;
  for (const Given &each : given)
    named += fmt::format("{}{}{}", named.empty() ? "" : ", ", each.rule->key,
                         each.isAssumed ? " by default" : "");
  config.refuse(given.front().rule->key,
                "expected a model with experts, got one whose {} layers are "
                "all dense ({})",
                numLayers, named);
  return {};
}
