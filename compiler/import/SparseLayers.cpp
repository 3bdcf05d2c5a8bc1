//===- SparseLayers.cpp - which layers of a model have experts ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/SparseLayers.h"

#include "dialect/catalog/Catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <set>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

namespace {

/// Why a layer has no experts; "" if it may have some.
using WhyDense = std::function<std::string(int64_t layer)>;

/// A key of a config, and what its value says.
struct Rule {
  std::string_view key;
  WhyDense (*read)(JsonReader &config, std::string_view key, int64_t layers);
};

WhyDense firstAreDense(JsonReader &config, std::string_view key, int64_t) {
  const int64_t count = config.integer(key, 0, kMaxLayers);
  return [=](int64_t layer) {
    return layer >= count
               ? ""
               : fmt::format("with {} {} layer {} is dense", key, count, layer);
  };
}

/// -1 means the last.
WhyDense lastSparse(JsonReader &config, std::string_view key, int64_t) {
  const int64_t last = config.integer(key, -1, kMaxLayers);
  return [=](int64_t layer) {
    return last < 0 || layer <= last
               ? ""
               : fmt::format("with {} {} layer {} is dense", key, last, layer);
  };
}

/// Layers n - 1, 2 n - 1, ... are sparse.
WhyDense everyNth(JsonReader &config, std::string_view key, int64_t) {
  const int64_t step = config.integer(key, 1, kMaxLayers);
  return [=](int64_t layer) {
    return (layer + 1) % step == 0
               ? ""
               : fmt::format("with {} {} layer {} is dense", key, step, layer);
  };
}

/// Layers offset, offset + period, ...
WhyDense everyPeriod(JsonReader &config, std::string_view key, int64_t) {
  const int64_t period = config.integer(key, 1, kMaxLayers);
  const int64_t offset =
      config.integerOr("expert_layer_offset", 0, 0, period - 1);
  return [=](int64_t layer) {
    return layer % period == offset
               ? ""
               : fmt::format("with {} {} and expert_layer_offset {} layer {} "
                             "is dense",
                             key, period, offset, layer);
  };
}

std::set<int64_t> readLayers(JsonReader &config, std::string_view key) {
  const std::vector<int64_t> list = config.integersOr(key, {}, 0, kMaxLayers);
  return {list.begin(), list.end()};
}

WhyDense listedAreDense(JsonReader &config, std::string_view key, int64_t) {
  return [key, dense = readLayers(config, key)](int64_t layer) {
    return !dense.count(layer)
               ? ""
               : fmt::format("layer {} stands in {}", layer, key);
  };
}

WhyDense listedAreSparse(JsonReader &config, std::string_view key, int64_t) {
  return [key, sparse = readLayers(config, key)](int64_t layer) {
    return sparse.count(layer)
               ? ""
               : fmt::format("layer {} does not stand in {}", layer, key);
  };
}

/// "3,4,5".
WhyDense enumerated(JsonReader &config, std::string_view key, int64_t) {
  std::string text = config.text(key);
  std::set<int64_t> sparse;
  for (const char *at = text.data(), *end = at + text.size(); at < end; ++at) {
    int64_t layer = -1;
    auto [rest, error] = std::from_chars(at, end, layer);
    if (error != std::errc() || layer < 0 || (rest != end && *rest != ',')) {
      config.expected(key, "numbers of layers with commas between");
      break;
    }
    sparse.insert(layer);
    at = rest;
  }
  return [key, sparse = std::move(sparse)](int64_t layer) {
    return sparse.count(layer)
               ? ""
               : fmt::format("layer {} does not stand in {}", layer, key);
  };
}

/// A word for each layer.
WhyDense typeOfEach(JsonReader &config, std::string_view key, int64_t layers,
                    std::string_view sparse) {
  const json *list = config.find(key);
  if (!list->is_array() || int64_t(list->size()) < layers ||
      !std::all_of(list->begin(), list->end(),
                   [](const json &type) { return type.is_string(); })) {
    config.expected(key, fmt::format("an array of {} words", layers));
    return {};
  }
  std::vector<std::string> types = list->get<std::vector<std::string>>();
  return [key, sparse, types = std::move(types)](int64_t layer) {
    return types[layer] == sparse ? ""
                                  : fmt::format("{} calls layer {} \"{}\"", key,
                                                layer, types[layer]);
  };
}

WhyDense sparseTypes(JsonReader &config, std::string_view key, int64_t layers) {
  return typeOfEach(config, key, layers, "sparse");
}

WhyDense moeTypes(JsonReader &config, std::string_view key, int64_t layers) {
  return typeOfEach(config, key, layers, "moe");
}

/// A letter for each layer, E for experts.
WhyDense letters(JsonReader &config, std::string_view key, int64_t layers) {
  std::string pattern = config.text(key);
  if (int64_t(pattern.size()) < layers) {
    config.expected(key, fmt::format("a letter for each of {} layers", layers));
    return {};
  }
  return [key, pattern = std::move(pattern)](int64_t layer) {
    return pattern[layer] == 'E' ? ""
                                 : fmt::format("{} has a '{}' for layer {}",
                                               key, pattern[layer], layer);
  };
}

/// Layers 0, n, 2 n, ...; or a 0 or 1 for each.
WhyDense frequency(JsonReader &config, std::string_view key, int64_t layers) {
  if (!config.find(key)->is_array()) {
    const int64_t step = config.integer(key, 1, kMaxLayers);
    return [=](int64_t layer) {
      return layer % step == 0 ? ""
                               : fmt::format("with {} {} layer {} is dense",
                                             key, step, layer);
    };
  }
  std::vector<int64_t> flags = config.integersOr(key, {}, 0, 1);
  if (int64_t(flags.size()) < layers) {
    config.expected(key, fmt::format("a 0 or 1 for each of {} layers", layers));
    return {};
  }
  return [key, flags = std::move(flags)](int64_t layer) {
    return flags[layer] ? ""
                        : fmt::format("{} has a 0 for layer {}", key, layer);
  };
}

WhyDense allOrNone(JsonReader &config, std::string_view key, int64_t) {
  const bool sparse = config.booleanOr(key, true);
  return [=](int64_t layer) {
    return sparse ? ""
                  : fmt::format("{} is false: layer {} is dense", key, layer);
  };
}

constexpr Rule kRules[] = {
    {"decoder_sparse_step", everyNth},
    {"enable_moe_block", allOrNone},
    {"expert_layer_period", everyPeriod},
    {"first_k_dense_replace", firstAreDense},
    {"hybrid_override_pattern", letters},
    {"interleave_moe_layer_step", everyNth},
    {"layers_block_type", moeTypes},
    {"mlp_layer_types", sparseTypes},
    {"mlp_only_layers", listedAreDense},
    {"moe_layer_end_index", lastSparse},
    {"moe_layer_freq", frequency},
    {"moe_layer_frequency", everyNth},
    {"moe_layer_interval", everyNth},
    {"moe_layer_num_skipped", firstAreDense},
    {"moe_layer_start_index", firstAreDense},
    {"moe_layers", listedAreSparse},
    {"moe_layers_enum", enumerated},
    {"num_dense_layers", firstAreDense},
};

} // namespace

int64_t compiler::findSparseLayer(JsonReader &config, std::string_view keys,
                                  int64_t numLayers,
                                  std::optional<int64_t> asked) {
  std::vector<std::pair<std::string_view, WhyDense>> given;
  for (const Rule &rule : kRules)
    if (catalog::hasWord(keys, rule.key) && config.has(rule.key))
      given.push_back({rule.key, rule.read(config, rule.key, numLayers)});
  if (config.failed())
    return 0;

  if (asked && (*asked < 0 || *asked >= numLayers)) {
    config.errors().add(fmt::format("--layer={}", *asked),
                        fmt::format("expected an integer from 0 to {} ({} "
                                    "layers)",
                                    numLayers - 1, numLayers));
    return 0;
  }
  for (int64_t layer = asked.value_or(0); layer < numLayers; ++layer) {
    bool sparse = true;
    for (const auto &[key, whyDense] : given) {
      const std::string reason = whyDense(layer);
      sparse &= reason.empty();
      if (asked && !sparse) {
        config.refuse(key, fmt::format("expected --layer to name a layer with "
                                       "experts, got --layer={}: {}",
                                       layer, reason));
        return layer;
      }
    }
    if (sparse)
      return layer;
  }
  std::string named;
  for (const auto &[key, whyDense] : given)
    named += fmt::format("{}{}", named.empty() ? "" : ", ", key);
  config.refuse(given.front().first,
                fmt::format("expected a model with experts, got one whose {} "
                            "layers are all dense ({})",
                            numLayers, named));
  return 0;
}
