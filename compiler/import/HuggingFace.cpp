//===- HuggingFace.cpp - config.json of a model ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/HuggingFace.h"

#include "compiler/import/Quantization.h"
#include "compiler/import/Vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

namespace {

const ModelFamily *const kFamilies[] = {&kMixtral, &kQwen3Moe};

/// Parts of a key (lower case) that make it one that may change the layer.
/// "top_k" stands for top_?k: "topk" is looked for as well.
constexpr std::string_view kSuspicious[] = {"expert", "moe",  "router", "gate",
                                            "top_k",  "topk", "shared", "quant",
                                            "scal",   "act",  "limit"};

/// Read here, for every family.
constexpr std::string_view kReadForAll[] = {"architectures", "model_type",
                                            "torch_dtype", "dtype",
                                            "quantization_config"};

bool isOneOf(std::string_view key, std::span<const std::string_view> keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

bool isSuspicious(std::string_view key) {
  std::string lower(key);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return std::any_of(std::begin(kSuspicious), std::end(kSuspicious),
                     [&](std::string_view part) {
                       return lower.find(part) != std::string::npos;
                     });
}

std::string knownArchitectures() {
  std::vector<std::string_view> names;
  for (const ModelFamily *family : kFamilies)
    names.push_back(family->architecture);
  return listOf(names, "and", false);
}

constexpr std::string_view kDescribeDirectly =
    "describe the layer itself in a layer JSON ({\"moec_layer\": 1, "
    "\"num_experts\": ..., \"experts_per_token\": ..., \"hidden_dim\": ..., "
    "\"intermediate_size\": ..., \"in_dtype\": ...}, see docs/layer-json.md)";

const ModelFamily *findFamily(JsonReader &config) {
  const json *architectures = config.find("architectures");
  std::string named;
  if (architectures) {
    if (!architectures->is_array() || architectures->empty() ||
        !std::all_of(architectures->begin(), architectures->end(),
                     [](const json &name) { return name.is_string(); })) {
      config.expected("architectures", "an array of names");
      return nullptr;
    }
    if (architectures->size() > 1) {
      config.refuse("architectures",
                    fmt::format("expected one architecture, got {}",
                                architectures->size()));
      return nullptr;
    }
    named = architectures->front().get<std::string>();
    for (const ModelFamily *family : kFamilies)
      if (named == family->architecture)
        return family;
    config.refuse("architectures",
                  fmt::format("unknown architecture {}; known: {}; for another "
                              "model {}",
                              describeJson(architectures->front()),
                              knownArchitectures(), kDescribeDirectly));
    return nullptr;
  }
  named = config.text("model_type");
  for (const ModelFamily *family : kFamilies)
    if (named == family->modelType)
      return family;
  if (!config.failed())
    config.refuse(
        "model_type",
        fmt::format("unknown model type {}, and no \"architectures\"; "
                    "known: {}; for another model {}",
                    describeJson(*config.find("model_type")),
                    knownArchitectures(), kDescribeDirectly));
  return nullptr;
}

/// Refuses keys that may change the layer and that nobody reads.
void refuseSuspicious(JsonReader &config, const ModelFamily &family,
                      const ImportOptions &options) {
  for (auto it = config.value().begin(); it != config.value().end(); ++it) {
    const std::string &key = it.key();
    if (!isSuspicious(key) || isOneOf(key, kReadForAll) ||
        isOneOf(key, family.reads) || isOneOf(key, family.irrelevant))
      continue;
    if (std::find(options.ignoreFields.begin(), options.ignoreFields.end(),
                  key) != options.ignoreFields.end())
      continue;
    config.refuse(
        key,
        fmt::format("{} has no such key that moec knows, and its name says "
                    "that it may change the layer; if it does not, pass "
                    "--ignore-field={}",
                    family.architecture, key));
  }
}

void readTypeAndScheme(JsonReader &config, const ImportOptions &options,
                       LayerDescription &layer) {
  // Newer Transformers write "dtype", older ones "torch_dtype".
  bool both = config.has("dtype") && config.has("torch_dtype");
  if (both && *config.find("dtype") != *config.find("torch_dtype"))
    config.expected("dtype",
                    fmt::format("what torch_dtype says, {}",
                                describeJson(*config.find("torch_dtype"))));
  std::string_view key = config.has("dtype") ? "dtype" : "torch_dtype";
  if (options.dtype)
    layer.inputType = *options.dtype;
  else
    layer.inputType = readFloatType(config, key, "", true);

  bool ignored =
      isOneOf("quantization_config",
              std::vector<std::string_view>(options.ignoreFields.begin(),
                                            options.ignoreFields.end()));
  if (config.has("quantization_config") && !options.scheme && !ignored) {
    if (auto quant = config.object("quantization_config"))
      layer.quant.scheme = readQuantization(*quant);
  }
}

} // namespace

std::string moec::compiler::readHiddenActivation(JsonReader &config) {
  // Transformers' ACT2FN: "gelu" is exact, the others approximate by tanh
  // with the same formula.
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"silu", "silu"},
      {"swish", "silu"},
      {"gelu", "gelu"},
      {"gelu_new", "gelu_tanh"},
      {"gelu_pytorch_tanh", "gelu_tanh"},
  };
  std::string name = config.textOr("hidden_act", "silu");
  std::vector<std::string_view> known;
  for (auto [theirs, ours] : kNames) {
    if (name == theirs)
      return std::string(ours);
    known.push_back(theirs);
  }
  config.expected("hidden_act", listOf(known));
  return "silu";
}

std::optional<int64_t>
moec::compiler::readLayerIndex(JsonReader &config, const ImportOptions &options,
                               int64_t numLayers) {
  if (options.layer && (*options.layer < 0 || *options.layer >= numLayers))
    config.refuse("num_hidden_layers",
                  fmt::format("expected --layer from 0 to {} ({} layers), got "
                              "--layer={}",
                              numLayers - 1, numLayers, *options.layer));
  return options.layer;
}

Result<LayerDescription>
moec::compiler::readHuggingFace(const json &object, std::string_view name,
                                const ImportOptions &options) {
  JsonErrors errors{std::string(name), std::nullopt};
  JsonReader config(object, "$", errors);
  const ModelFamily *family = findFamily(config);
  if (!family)
    return *errors.first;

  LayerDescription layer;
  refuseSuspicious(config, *family, options);
  readTypeAndScheme(config, options, layer);
  family->read(config, options, layer);
  layer.name = stemOf(name);
  if (layer.name.empty())
    layer.name = family->modelType;

  if (errors.first)
    return *errors.first;
  if (Result<void> applied = applyOptions(layer, options); !applied)
    return Error{applied.error().code,
                 fmt::format("{}: {}", name, applied.error().message)};
  return layer;
}
