//===- HuggingFace.cpp - config.json of a model ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/HuggingFace.h"

#include "compiler/import/Families.h"
#include "compiler/import/Quantization.h"
#include "compiler/import/SparseLayers.h"
#include "compiler/import/Vocabulary.h"
#include "dialect/catalog/Catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

namespace {

//===----------------------------------------------------------------------===//
// Which family
//===----------------------------------------------------------------------===//

/// The first of the words in a list.
std::string_view firstWord(std::string_view words) {
  return words.substr(0, words.find(' '));
}

std::string knownArchitectures() {
  std::vector<std::string_view> names;
  for (const ModelFamily &family : modelFamilies())
    for (std::string_view rest = family.architectures; !rest.empty();) {
      names.push_back(firstWord(rest));
      rest.remove_prefix(std::min(rest.size(), names.back().size() + 1));
    }
  std::sort(names.begin(), names.end());
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
    for (const ModelFamily &family : modelFamilies())
      if (catalog::hasWord(family.architectures, named))
        return &family;
    config.refuse("architectures",
                  fmt::format("unknown architecture {}; known: {}; for another "
                              "model {}",
                              describeJson(architectures->front()),
                              knownArchitectures(), kDescribeDirectly));
    return nullptr;
  }
  named = config.text("model_type");
  for (const ModelFamily &family : modelFamilies())
    if (catalog::hasWord(family.modelTypes, named))
      return &family;
  if (!config.failed())
    config.refuse(
        "model_type",
        fmt::format("unknown model type {}, and no \"architectures\"; "
                    "known: {}; for another model {}",
                    describeJson(*config.find("model_type")),
                    knownArchitectures(), kDescribeDirectly));
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Keys that nobody read
//===----------------------------------------------------------------------===//

/// Parts of a key (lower case) that make it one that may change the layer.
/// "top_k" stands for top_?k: "topk" is looked for as well.
constexpr std::string_view kSuspicious[] = {"expert", "moe",  "router", "gate",
                                            "top_k",  "topk", "shared", "quant",
                                            "scal",   "act",  "limit"};

bool isSuspicious(std::string_view key) {
  std::string lower(key);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return std::any_of(std::begin(kSuspicious), std::end(kSuspicious),
                     [&](std::string_view part) {
                       return lower.find(part) != std::string::npos;
                     });
}

bool isIgnored(std::string_view key, const ImportOptions &options) {
  return std::find(options.ignoreFields.begin(), options.ignoreFields.end(),
                   key) != options.ignoreFields.end();
}

/// Refuses keys that may change the layer and that nobody looked for.
void refuseSuspicious(JsonReader &config, const ModelFamily &family,
                      const ImportOptions &options) {
  for (auto it = config.value().begin(); it != config.value().end(); ++it) {
    const std::string &key = it.key();
    // null says that there is no such thing.
    if (it->is_null() || !isSuspicious(key) || config.wasAsked(key) ||
        isIrrelevantKey(key) || catalog::hasWord(family.irrelevant, key) ||
        isIgnored(key, options))
      continue;
    config.refuse(
        key,
        fmt::format("{} has no such key that moec knows, and its name says "
                    "that it may change the layer; if it does not, pass "
                    "--ignore-field={}",
                    firstWord(family.architectures), key));
  }
}

//===----------------------------------------------------------------------===//
// One config
//===----------------------------------------------------------------------===//

class ConfigReader {
public:
  ConfigReader(JsonReader config, const ModelFamily &family,
               const ImportOptions &options)
      : outer(std::move(config)), family(family), options(options) {
    if (!family.part.empty())
      part = outer.object(family.part);
  }

  void read(LayerDescription &layer);

private:
  /// The object that has one of the names, the part first; where none has, the
  /// one that should.
  JsonReader &of(std::string_view keys) {
    if (part && part->has(nameOf(*part, keys)))
      return *part;
    return !part || outer.has(nameOf(outer, keys)) ? outer : *part;
  }
  static std::string_view nameOf(JsonReader &reader, std::string_view keys);
  /// The value of a key, or of this layer in a list with one for each layer.
  const json *find(std::string_view key);

  int64_t size(std::string_view keys, int64_t min, int64_t max);
  int64_t sizeOr(std::string_view key, int64_t otherwise, int64_t max);
  bool flag(std::string_view key, bool otherwise);
  std::optional<double> number(std::string_view key,
                               std::optional<double> otherwise);

  void readTypeAndScheme(LayerDescription &layer);
  void readRouting(LayerDescription &layer);
  std::string readScoring();
  void readActivation(ActivationDescription &activation);
  void readShared(LayerDescription &layer);

  JsonReader outer;
  std::optional<JsonReader> part;
  const ModelFamily &family;
  const ImportOptions &options;
  ExpertQuantization quantization;
  int64_t numLayers = 1, index = 0;
};

/// Several names of one number must not disagree.
std::string_view ConfigReader::nameOf(JsonReader &reader,
                                      std::string_view keys) {
  std::string_view found;
  for (std::string_view rest = keys; !rest.empty();) {
    const std::string_view key = firstWord(rest);
    rest.remove_prefix(std::min(rest.size(), key.size() + 1));
    const json *value = reader.find(key);
    if (value && !found.empty() && *value != *reader.find(found))
      reader.expected(key, fmt::format("what {} says, {}", found,
                                       describeJson(*reader.find(found))));
    if (value && found.empty())
      found = key;
  }
  return found.empty() ? firstWord(keys) : found;
}

const json *ConfigReader::find(std::string_view key) {
  JsonReader &reader = of(key);
  const json *value = reader.find(nameOf(reader, key));
  if (!value || !value->is_array())
    return value;
  if (int64_t(value->size()) >= numLayers)
    return &(*value)[index];
  reader.expected(nameOf(reader, key),
                  fmt::format("a number, or a list of one for each of {} "
                              "layers",
                              numLayers));
  return nullptr;
}

int64_t ConfigReader::size(std::string_view keys, int64_t min, int64_t max) {
  JsonReader &reader = of(keys);
  const std::string_view key = nameOf(reader, keys);
  const json *plain = reader.find(key);
  if (!plain || !plain->is_array())
    return reader.integer(key, min, max);
  const json *value = find(keys);
  if (value && value->is_number_integer() && value->get<int64_t>() >= min &&
      value->get<int64_t>() <= max)
    return value->get<int64_t>();
  if (value)
    reader.errors().add(fmt::format("{}[{}]", reader.pathOf(key), index),
                        fmt::format("expected an integer from {} to {}, got {}",
                                    min, max, describeJson(*value)));
  return min;
}

int64_t ConfigReader::sizeOr(std::string_view key, int64_t otherwise,
                             int64_t max) {
  return key.empty() || !find(key) ? otherwise : size(key, 0, max);
}

bool ConfigReader::flag(std::string_view key, bool otherwise) {
  return key.empty() ? otherwise : of(key).booleanOr(key, otherwise);
}

std::optional<double> ConfigReader::number(std::string_view key,
                                           std::optional<double> otherwise) {
  if (key.empty() || !of(key).has(key))
    return otherwise;
  return of(key).number(key);
}

void ConfigReader::readTypeAndScheme(LayerDescription &layer) {
  // Newer Transformers write "dtype", older ones "torch_dtype".
  JsonReader &typed =
      part && (part->has("dtype") || part->has("torch_dtype")) ? *part : outer;
  const bool both = typed.has("dtype") && typed.has("torch_dtype");
  if (both && *typed.find("dtype") != *typed.find("torch_dtype"))
    typed.expected("dtype",
                   fmt::format("what torch_dtype says, {}",
                               describeJson(*typed.find("torch_dtype"))));
  if (options.dtype)
    layer.inputType = *options.dtype;
  else
    layer.inputType = readFloatType(
        typed, typed.has("dtype") ? "dtype" : "torch_dtype", "", true);

  const std::string_view typeKey = family.expertTypeKey;
  const bool hasType = !typeKey.empty() && of(typeKey).has(typeKey);
  if (options.scheme || isIgnored("quantization_config", options))
    return;
  if (hasType) {
    layer.quant.scheme = readExpertType(of(typeKey), typeKey);
    return;
  }
  JsonReader &reader = of("quantization_config");
  if (std::optional<JsonReader> quant = reader.object("quantization_config"))
    quantization = readQuantization(*quant);
  layer.quant.scheme = quantization.scheme;
  layer.quant.groupSize = quantization.groupSize;
  layer.storedLayout = quantization.storedLayout;
  layer.groupIndex = quantization.groupIndex;
}

std::string ConfigReader::readScoring() {
  const std::string_view key = family.routing.scoringKey;
  if (key.empty() || !of(key).has(key))
    return std::string(family.routing.scoring);
  if (of(key).find(key)->is_boolean())
    return flag(key, true) ? "sigmoid" : "softmax";
  return readName(of(key), key, scoringNames(), family.routing.scoring);
}

void ConfigReader::readRouting(LayerDescription &layer) {
  const FamilyRouting &row = family.routing;
  RoutingDescription &routing = layer.routing;
  routing.scale = number(row.scaleKey, std::nullopt);
  if (!row.weightOnInputKey.empty())
    layer.applyRouterWeightOnInput = flag(row.weightOnInputKey, false);
  layer.perExpertScale = row.perExpertScale;
  layer.zeroExperts = sizeOr(row.zeroExpertsKey, 0, kMaxExperts);
  if (!row.jitterKey.empty() &&
      number(row.jitterKey, kSparsemixerJitter) != kSparsemixerJitter)
    of(row.jitterKey)
        .expected(row.jitterKey, fmt::format("{}, the threshold of routing "
                                             "method {}",
                                             kSparsemixerJitter, row.method));
  if (!row.method.empty()) {
    routing.method = row.method;
    return;
  }
  routing.scoring = readScoring();
  routing.renormalize = flag(row.renormalizeKey, row.renormalize);
  if (!row.normKey.empty()) {
    const std::optional<double> norm = number(row.normKey, std::nullopt);
    routing.renormalize = norm.has_value();
    if (norm && *norm != 1)
      of(row.normKey)
          .expected(row.normKey,
                    "1 (weights are divided by their sum) or null");
  }
  routing.bias = flag(row.biasKey, row.bias);
  int64_t groups = sizeOr(row.groupsKey, row.groups, layer.numExperts);
  int64_t topGroups = sizeOr(row.topGroupsKey, row.topGroups, groups);
  if (!row.topkMethod.empty()) {
    static constexpr std::array<std::string_view, 3> kMethods = {
        "noaux_tc", "group_limited_greedy", "greedy"};
    const std::string method =
        readName(of("topk_method"), "topk_method", kMethods, row.topkMethod);
    routing.bias |= method == "noaux_tc";
    if (method == "greedy")
      groups = 0;
  }
  // One group is no groups.
  if (groups > 1) {
    routing.groups = groups;
    routing.topGroups = topGroups;
  }
  // The first layers take ids from a table by token id, not by scores.
  if (index < sizeOr(row.hashLayersKey, 0, kMaxLayers)) {
    layer.hashVocabulary = size("vocab_size", 1, kMaxVocabulary);
    routing.bias = false;
  }
}

void ConfigReader::readActivation(ActivationDescription &activation) {
  // Transformers' ACT2FN: "gelu" is exact, the others approximate by tanh
  // with the same formula.
  struct Name {
    std::string_view theirs, ours;
  };
  static constexpr Name kGated[] = {
      {"silu", "silu"},           {"swish", "silu"},
      {"gelu", "gelu"},           {"gelu_new", "gelu_tanh"},
      {"gelu_tanh", "gelu_tanh"}, {"gelu_pytorch_tanh", "gelu_tanh"},
      {"situ", "situ"},
  };
  static constexpr Name kNotGated[] = {
      {"relu2", "relu2_no_mul"},
      {"silu", "silu_no_mul"},
      {"gelu", "gelu_no_mul"},
      {"gelu_pytorch_tanh", "gelu_tanh_no_mul"},
  };
  const FamilyActivation &row = family.activation;
  const std::span<const Name> names = row.gated
                                          ? std::span<const Name>(kGated)
                                          : std::span<const Name>(kNotGated);
  std::string name(row.function);
  if (const json *value =
          row.key.empty() ? nullptr : of(row.key).find(row.key)) {
    // DBRX: {"name": "silu"}.
    if (value->is_object())
      name = of(row.key).object(row.key)->textOr("name", row.function);
    else
      name = of(row.key).textOr(row.key, row.function);
  }
  if (!row.always.empty()) {
    activation.function = row.always;
  } else {
    const auto *found =
        std::find_if(names.data(), names.data() + names.size(),
                     [&](const Name &entry) { return entry.theirs == name; });
    if (found == names.data() + names.size()) {
      std::vector<std::string_view> known;
      for (const Name &entry : names)
        known.push_back(entry.theirs);
      of(row.key).expected(row.key, listOf(known));
      return;
    }
    activation.function = found->ours;
  }
  activation.alpha = number(row.alphaKey, row.alpha);
  activation.beta = number(row.betaKey, row.beta);
  activation.linearBeta = number(row.linearBetaKey, row.linearBeta);
  activation.limit = number(row.limitKey, row.limit);
  if (activation.limit && *activation.limit <= 0)
    of(row.limitKey).expected(row.limitKey, "a number above 0, or none");
  if (row.limitsKey.empty())
    return;
  const json *limit = find(row.limitsKey);
  if (!limit || limit->is_null())
    return;
  if (!limit->is_number())
    return outer.errors().add(
        fmt::format("{}[{}]", of(row.limitsKey).pathOf(row.limitsKey), index),
        fmt::format("expected a number, got {}", describeJson(*limit)));
  if (limit->get<double>() > 0) {
    activation.function = row.limited;
    activation.limit = limit->get<double>();
  }
}

void ConfigReader::readShared(LayerDescription &layer) {
  const FamilyShared &row = family.shared;
  const int64_t count = sizeOr(row.countKey, row.count, kMaxExperts);
  const int64_t width = sizeOr(
      row.widthKey,
      row.countKey.empty() && !row.widthKey.empty() ? 0 : layer.intermediate,
      kMaxIntermediate);
  if (options.noSharedExperts || count == 0 || width == 0)
    return;
  if (quantization.sharedDiffer)
    return of("quantization_config")
        .refuse("quantization_config",
                "leaves shared experts as they are, so that they cannot be "
                "rows of the routed ones; accepted: --no-shared-experts");
  layer.numSharedExperts = count;
  layer.sharedIntermediate = width == layer.intermediate ? 0 : width;
  layer.sharedExpertGate = row.gate;
}

void ConfigReader::read(LayerDescription &layer) {
  readTypeAndScheme(layer);
  numLayers = of(family.layersKey).integer(family.layersKey, 1, kMaxLayers);
  index = findSparseLayer(part ? *part : outer, family.sparseKeys, numLayers,
                          options.layer);
  layer.numExperts = size(family.expertsKey, 1, kMaxExperts);
  layer.topK = size(family.topKKey, 1, layer.numExperts);
  layer.hidden = size(family.hiddenKey, 1, kMaxHidden);
  layer.intermediate = size(family.intermediateKey, 1, kMaxIntermediate);
  layer.latentHidden = sizeOr(family.latentKey, 0, kMaxHidden);
  layer.hasBias = family.hasBias;
  if (family.interleaved)
    layer.gateUpOrder = "interleaved";
  readActivation(layer.activation);
  readRouting(layer);
  readShared(layer);
  refuseSuspicious(outer, family, options);
  if (part)
    refuseSuspicious(*part, family, options);
}

} // namespace

Result<LayerDescription>
moec::compiler::readHuggingFace(const json &object, std::string_view name,
                                const ImportOptions &options) {
  JsonErrors errors{std::string(name), std::nullopt};
  JsonReader config(object, "$", errors);
  const ModelFamily *family = findFamily(config);
  if (!family)
    return *errors.first;

  LayerDescription layer;
  ConfigReader(std::move(config), *family, options).read(layer);
  layer.name = stemOf(name);
  if (layer.name.empty())
    layer.name = firstWord(family->modelTypes);

  if (errors.first)
    return *errors.first;
  if (Result<void> applied = applyOptions(layer, options); !applied)
    return Error{applied.error().code,
                 fmt::format("{}: {}", name, applied.error().message)};
  return layer;
}
