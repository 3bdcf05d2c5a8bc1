//===- HuggingFace.cpp - config.json of a model ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/Formats.h"

#include "compiler/import/FindFamily.h"
#include "compiler/import/QuantizationReaders.h"
#include "compiler/import/SparseLayers.h"
#include "compiler/import/Vocabulary.h"
#include "dialect/catalog/Catalog.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <type_traits>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

namespace {

class ConfigReader {
public:
  ConfigReader(JsonReader config, const FoundFamily &found,
               const ImportOptions &options, LayerOrigin &origin)
      : outer(std::move(config)), family(*found.row), model(found.model),
        options(options), origin(origin) {
    part = objectAt(outer, family.part);
    sizes = readClassSizes();
  }

  void read(LayerDescription &layer);

private:
  /// Where one of a key's names stands.
  struct Place {
    JsonReader *reader = nullptr; ///< the object that has it, or should
    std::string_view name;
    const json *value = nullptr; ///< of this layer; none: there is no such key
    std::string path;            ///< of the value
  };

  ClassSizes readClassSizes();
  Place find(WordList names);
  Place findIn(JsonReader &reader, WordList names);
  const json *ofThisLayer(JsonReader &reader, std::string_view name,
                          std::string &path);
  JsonReader &of(std::string_view key) {
    return !part || (!part->has(key) && outer.has(key)) ? outer : *part;
  }

  /// What holds where a key has no value to read; none where it has one.
  template <typename T>
  std::optional<T> withoutValue(const Key<T> &key, const Place &place,
                                std::string_view what);
  void expected(const Place &place, std::string_view what);
  void noteRead(const Place &place);

  // The only ways to a value of a key: what they give is in `origin`.
  template <typename T, typename Parse>
  T getAs(const Key<T> &key, std::string_view what, Parse parse);
  int64_t get(const Key<int64_t> &key, int64_t min, int64_t max);
  /// The same of a size, which a class may have.
  int64_t getSize(Key<int64_t> key, int64_t ofClass, int64_t max);
  bool get(const Key<bool> &key);
  Number get(const Key<Number> &key);
  Number getPositive(const Key<Number> &key);
  std::string get(const Key<std::string_view> &key,
                  std::span<const std::string_view> names);

  void findQuantization();
  void readLayers();
  void readType(LayerDescription &layer);
  void readScheme(LayerDescription &layer);
  void readStoredWords(LayerDescription &layer);
  LayerModules modules();
  void readRouting(LayerDescription &layer);
  void readSinks(LayerDescription &layer);
  Key<int64_t> intermediateKey();
  void readGroups(RoutingDescription &routing, int64_t experts);
  void readHash(LayerDescription &layer);
  void readActivation(ActivationDescription &activation);
  Number readLimit(std::string_view key);
  void readShared(LayerDescription &layer);
  void refuseOtherValues(const FixedKey &fixed);
  void refuseReadFields();
  void refuseConstantExperts();

  JsonReader outer;
  std::optional<JsonReader> part;
  ClassSizes sizes;
  const ModelFamily &family;
  std::string model;
  const ImportOptions &options;
  LayerOrigin &origin;
  ExpertQuantization quantization;
  std::string_view quantKey = "quantization_config";
  int64_t numLayers = 0; ///< 0: not read so far
  SparseLayer chosen;
};

//===----------------------------------------------------------------------===//
// Looking a key up
//===----------------------------------------------------------------------===//

/// The sizes of the class that the model type names. A config that --as reads
/// is of another class.
ClassSizes ConfigReader::readClassSizes() {
  if (options.as || family.source.starts_with("none"))
    return {};
  for (JsonReader *reader : {part ? &*part : &outer, &outer}) {
    const json *type = reader->find("model_type");
    if (!type || !type->is_string())
      continue;
    const ClassSizes *row =
        findClassSizes(type->get_ref<const std::string &>());
    return row ? *row : ClassSizes();
  }
  // Without a type those that all classes of the family have.
  const ClassSizes *common = findClassSizes(*family.modelTypes.begin());
  for (std::string_view name : family.modelTypes)
    if (findClassSizes(name) != common)
      common = nullptr;
  return common ? *common : ClassSizes();
}

/// The element for this layer where a list has one for each.
const json *ConfigReader::ofThisLayer(JsonReader &reader, std::string_view name,
                                      std::string &path) {
  const json &value = *reader.value().find(std::string(name));
  path = reader.pathOf(name);
  if (!value.is_array() || numLayers == 0)
    return &value;
  if (int64_t(value.size()) >= numLayers) {
    path += fmt::format("[{}]", chosen.index);
    return &value[chosen.index];
  }
  reader.expected(name, "a number, or a list of one for each of {} layers",
                  numLayers);
  return nullptr;
}

/// Several names of one thing must not disagree.
ConfigReader::Place ConfigReader::findIn(JsonReader &reader, WordList names) {
  Place found{&reader, *names.begin(), nullptr, {}};
  for (std::string_view name : names) {
    reader.find(name);
    if (!reader.value().contains(std::string(name)))
      continue;
    std::string path;
    const json *value = ofThisLayer(reader, name, path);
    if (!value)
      return {&reader, name, nullptr, std::move(path)};
    if (found.value && *value != *found.value)
      reader.expected(name, "what {} says, {}", found.name,
                      describeJson(*found.value));
    if (!found.value)
      found = {&reader, name, value, std::move(path)};
  }
  if (!found.value)
    found.path = reader.pathOf(found.name);
  return found;
}

ConfigReader::Place ConfigReader::find(WordList names) {
  if (!part)
    return findIn(outer, names);
  Place inPart = findIn(*part, names);
  if (inPart.value)
    return inPart;
  Place outside = findIn(outer, names);
  return outside.value ? outside : inPart;
}

void ConfigReader::expected(const Place &place, std::string_view what) {
  if (place.value)
    outer.errors().add(place.path, fmt::format("expected {}, got {}", what,
                                               describeJson(*place.value)));
  else
    place.reader->expected(place.name, what);
}

/// A value as an origin shows it.
static std::string shown(const json &value) {
  constexpr size_t kLongest = 80;
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true);
  if (text.size() > kLongest)
    text = json(text.substr(0, kLongest) + "...").dump();
  return text;
}

void ConfigReader::noteRead(const Place &place) {
  origin.read.emplace_back(place.name, shown(*place.value));
}

static json asJson(const Number &number) {
  return number ? json(*number) : json(nullptr);
}
template <typename T> static json asJson(const T &value) { return value; }

template <typename T>
std::optional<T> ConfigReader::withoutValue(const Key<T> &key,
                                            const Place &place,
                                            std::string_view what) {
  if (!place.value && key.absent) {
    origin.assumed.emplace_back(place.name, shown(asJson(*key.absent)));
    return key.absent;
  }
  if (place.value && place.value->is_null() && key.null) {
    noteRead(place);
    return key.null;
  }
  if (place.value && !place.value->is_null()) {
    noteRead(place);
    return std::nullopt;
  }
  expected(place, what);
  return T();
}

/// `parse` gives nothing of a value that is not `what`.
template <typename T, typename Parse>
T ConfigReader::getAs(const Key<T> &key, std::string_view what, Parse parse) {
  if (key.names.empty())
    return *key.absent;
  const Place place = find(key.names);
  if (key.isFixed && place.value && isIgnored(place.name, options))
    return *key.absent;
  if (std::optional<T> settled = withoutValue(key, place, what))
    return *settled;
  const std::optional<T> value = parse(*place.value);
  if (value && (!key.isFixed || *value == *key.absent))
    return *value;
  if (key.isFixed)
    expected(place, fmt::format("{}, as these models do whatever the key says",
                                asJson(*key.absent).dump()));
  else
    expected(place, what);
  return key.isFixed ? *key.absent : T();
}

int64_t ConfigReader::get(const Key<int64_t> &key, int64_t min, int64_t max) {
  const std::string what = fmt::format("an integer from {} to {}", min, max);
  const int64_t value = getAs(
      key, what, [&](const json &said) { return integerIn(said, min, max); });
  // A default may be too large beside what the config says.
  if (value > max)
    expected(find(key.names), what);
  return std::clamp(value, min, max);
}

/// Whether some family has a size under this name, or a longer one of it.
static bool isNameOfSize(std::string_view key) {
  const auto speaks = [&](const Key<int64_t> &size) {
    return std::any_of(size.names.begin(), size.names.end(), [&](auto name) {
      return key.find(name) != std::string_view::npos;
    });
  };
  return std::ranges::any_of(modelFamilies(), [&](const ModelFamily &row) {
    return speaks(row.layers) || speaks(row.hidden) || speaks(row.experts) ||
           speaks(row.topK) || speaks(row.intermediate);
  });
}

/// A key with nearly the name of a size means that size.
int64_t ConfigReader::getSize(Key<int64_t> key, int64_t ofClass, int64_t max) {
  JsonReader &reader = part ? *part : outer;
  if (!key.absent && ofClass > 0 && !find(key.names).value) {
    std::vector<std::string_view> strays;
    for (auto it = reader.value().begin(); it != reader.value().end(); ++it)
      if (!isNameOfSize(it.key()))
        strays.push_back(it.key());
    if (nearestOf(*key.names.begin(), strays).empty())
      key.absent = ofClass;
  }
  return get(key, 1, max);
}

bool ConfigReader::get(const Key<bool> &key) {
  return getAs(key, "true or false", [](const json &value) {
    return value.is_boolean() ? std::optional(value.get<bool>()) : std::nullopt;
  });
}

Number ConfigReader::get(const Key<Number> &key) {
  return getAs(key, "a number", [](const json &value) -> std::optional<Number> {
    if (value.is_number() && std::isfinite(value.get<double>()))
      return value.get<double>();
    return std::nullopt;
  });
}

Number ConfigReader::getPositive(const Key<Number> &key) {
  const Number number = get(key);
  if (number && !catalog::isPositiveFloat(*number))
    expected(find(key.names), "a number of f32 above 0");
  return number;
}

/// Scoring functions may be said by a flag, activations by an object.
std::string ConfigReader::get(const Key<std::string_view> &key,
                              std::span<const std::string_view> names) {
  using Word = std::optional<std::string_view>;
  return std::string(getAs(key, listOf(names), [&](const json &value) -> Word {
    if (value.is_boolean() && names.data() == scoringNames().data())
      return value.get<bool>() ? "sigmoid" : "softmax";
    const json &said =
        value.is_object() && value.contains("name") ? value["name"] : value;
    if (!said.is_string())
      return std::nullopt;
    const std::string_view word = said.get_ref<const std::string &>();
    return std::ranges::find(names, word) != names.end() ? Word(word)
                                                         : std::nullopt;
  }));
}

//===----------------------------------------------------------------------===//
// The parts of a layer
//===----------------------------------------------------------------------===//

void ConfigReader::readLayers() {
  JsonReader &config = part ? *part : outer;
  std::optional<int64_t> listed;
  if (!find(family.layers.names).value)
    listed = countListedLayers(config, family.sparse);
  numLayers = listed ? std::clamp<int64_t>(*listed, 1, kMaxLayers)
                     : getSize(family.layers, sizes.layers, kMaxLayers);
  chosen =
      findSparseLayer(config, family.sparse, numLayers, options.layer, origin);
  origin.layer = chosen.index;
  origin.layers = numLayers;
  origin.isAsked = options.layer.has_value();
}

void ConfigReader::readType(LayerDescription &layer) {
  // Newer Transformers write "dtype", older ones "torch_dtype".
  JsonReader &typed =
      part && (part->has("dtype") || part->has("torch_dtype")) ? *part : outer;
  const bool both = typed.has("dtype") && typed.has("torch_dtype");
  if (both && *typed.find("dtype") != *typed.find("torch_dtype"))
    typed.expected("dtype", "what torch_dtype says, {}",
                   describeJson(*typed.find("torch_dtype")));
  const std::string_view key =
      !typed.has("dtype") && typed.has("torch_dtype") ? "torch_dtype" : "dtype";
  if (options.dtype) {
    layer.inputType = *options.dtype;
  } else {
    layer.inputType = readFloatType(typed, key, "", true);
    if (typed.has(key))
      origin.read.emplace_back(key, shown(*typed.find(key)));
  }
}

/// The layer as lists of modules name it.
LayerModules ConfigReader::modules() {
  const Place place = find(family.experts.names);
  const auto experts = place.value
                           ? integerIn(*place.value, 1, kMaxDescribedExperts)
                           : family.experts.absent;
  return {chosen.index, numLayers, experts.value_or(1),
          family.activation.gated};
}

/// compressed-tensors wrote compression_config before quantization_config.
void ConfigReader::findQuantization() {
  constexpr std::string_view kOlder = "compression_config";
  const json *newer = of(quantKey).find(quantKey);
  const json *older = of(kOlder).find(kOlder);
  const bool isLeft = (newer && !isIgnored(quantKey, options)) ||
                      (older && !isIgnored(kOlder, options));
  if ((newer || older) && !isLeft && !options.scheme)
    outer.errors().add("--ignore-field",
                       fmt::format("'{}' sets the scheme of the experts' "
                                   "weights; accepted: --scheme=NAME in place "
                                   "of --ignore-field",
                                   newer ? quantKey : kOlder));
  if (!older || isIgnored(kOlder, options))
    return;
  if (!newer || isIgnored(quantKey, options))
    quantKey = kOlder;
  else if (*newer != *older)
    of(kOlder).refuse(kOlder,
                      "differs from {}; expected one of them, or "
                      "--ignore-field={}",
                      quantKey, kOlder);
}

/// A named scheme says what integers mean; the config, how words hold them.
void ConfigReader::readStoredWords(LayerDescription &layer) {
  const std::string_view scheme = *options.scheme;
  const bool isOfWords = scheme.starts_with("int4_") ||
                         scheme == "int8_w8a16" || scheme == "int8_zp_w8a16";
  if (!isOfWords || options.weightsDtype)
    return;
  std::optional<JsonReader> quant = of(quantKey).object(quantKey);
  const auto text = [&](const char *key) {
    const json *value = quant ? quant->find(key) : nullptr;
    return value && value->is_string() ? value->get<std::string>() : "";
  };
  const std::string method = text("quant_method");
  if (method == "compressed-tensors" && text("format") == "pack-quantized")
    layer.storedLayout = "pack_quantized";
  if (method == "awq")
    layer.storedLayout = "awq";
  if (method == "gptq") {
    const std::string format = text("checkpoint_format");
    layer.storedLayout = format.empty() ? "gptq" : format;
    layer.groupIndex = quant->booleanOr("desc_act", false);
  }
  if (method == "gptq" || method == "awq")
    layer.quant.groupSize = quant->integerOr("group_size", 0, -1, kMaxBlock);
  layer.groupIndex = layer.groupIndex && layer.quant.groupSize != -1;
  if (quant)
    compiler::refuseReadFields(*quant, {modules(), options.ignoreFields});
}

void ConfigReader::readScheme(LayerDescription &layer) {
  const std::string_view typeKey = family.expertTypeKey;
  const bool hasType = !typeKey.empty() && of(typeKey).has(typeKey);
  if (isIgnored(quantKey, options))
    return;
  if (options.scheme)
    return readStoredWords(layer);
  if (hasType) {
    layer.quant.scheme = readExpertType(of(typeKey), typeKey);
    origin.read.emplace_back(typeKey, shown(*of(typeKey).find(typeKey)));
    return;
  }
  JsonReader &reader = of(quantKey);
  const json *stated = reader.find(quantKey);
  if (!typeKey.empty() && stated && stated->is_object() &&
      stated->contains(std::string(typeKey))) {
    JsonReader quant = *reader.object(quantKey);
    layer.quant.scheme = readExpertType(quant, typeKey);
    origin.read.emplace_back(typeKey, shown(*quant.find(typeKey)));
    return;
  }
  if (std::optional<JsonReader> quant = reader.object(quantKey)) {
    quantization = readQuantization(*quant, {modules(), options.ignoreFields});
    const json *method = quant->find("quant_method");
    origin.read.emplace_back(quantKey,
                             shown(method ? *method : json("an object")));
  } else {
    origin.assumed.emplace_back(quantKey, "null");
  }
  layer.quant = quantization.quant;
  layer.storedLayout = quantization.storedLayout;
  layer.groupIndex = quantization.groupIndex;
}

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

/// Sinks are experts behind the routed ones, and among those of each token.
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
  // One group is no groups.
  if (groups <= 1)
    return;
  if (topGroups < 1 || topGroups > groups)
    expected(find(row.topGroups.names),
             fmt::format("an integer from 1 to {}", groups));
  routing.groups = groups;
  routing.topGroups = topGroups;
}

/// Some layers take their ids from a table by token id, not by scores.
void ConfigReader::readHash(LayerDescription &layer) {
  const Key<int64_t> &key = family.routing.hashLayers;
  const bool isListed = !chosen.type.empty();
  bool isHash = chosen.type == kHashLayer;
  if (key.names.empty()) {
    if (isHash)
      outer.refuse(
          "mlp_layer_types",
          "calls layer {} \"{}\", which moec knows of DeepSeek-V4 alone",
          chosen.index, kHashLayer);
    return;
  }
  const Place place = find(key.names);
  if (!isListed || place.value) {
    const bool isFirst = chosen.index < get(key, 0, kMaxLayers);
    if (isListed && isFirst != isHash)
      expected(
          place,
          fmt::format("what mlp_layer_types says, which calls layer {} \"{}\"",
                      chosen.index, chosen.type));
    isHash = isFirst;
  }
  if (!isHash)
    return;
  layer.hashVocabulary =
      get(required("vocab_size"), 1, kMaxDescribedVocabulary);
  layer.routing.bias = false;
}

/// MoNE replaces experts by constant vectors, of which its config has lists by
/// layer.
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

void ConfigReader::readActivation(ActivationDescription &activation) {
  // Transformers' ACT2FN: "gelu" is exact, the others approximate by tanh
  // with the same formula.
  struct Name {
    std::string_view theirs, gated, notGated; ///< "": there is none
  };
  static constexpr Name kNames[] = {
      {"silu", "silu", "silu_no_mul"},
      {"swish", "silu", ""},
      {"gelu", "gelu", "gelu_no_mul"},
      {"gelu_new", "gelu_tanh", ""},
      {"gelu_tanh", "gelu_tanh", ""},
      {"gelu_pytorch_tanh", "gelu_tanh", "gelu_tanh_no_mul"},
      {"situ", "situ", ""},
      {"relu2", "relu2", "relu2_no_mul"},
  };
  const FamilyActivation &row = family.activation;
  if (!row.whatever.empty()) {
    find(row.function.names);
    activation.function = row.whatever;
  } else {
    std::map<std::string_view, std::string_view> ours;
    std::vector<std::string_view> theirs;
    for (const Name &name : kNames)
      if (const auto our = row.gated ? name.gated : name.notGated;
          !our.empty()) {
        theirs.push_back(name.theirs);
        ours[name.theirs] = our;
      }
    const auto word = get(row.function, theirs);
    activation.function = ours[word];
  }
  activation.alpha = get(row.alpha);
  activation.beta = get(row.beta);
  activation.linearBeta = get(row.linearBeta);
  activation.limit = get(row.limit);
  if (activation.limit && *activation.limit <= 0)
    expected(find(row.limit.names), "a number above 0, or none");
  if (row.limitsKey.empty())
    return;
  const Number limit = readLimit(row.limitsKey);
  if (limit) {
    activation.function = row.limited;
    activation.limit = limit;
  }
}

/// Of a list with one for each layer, in which 0 is none.
Number ConfigReader::readLimit(std::string_view key) {
  const Number limit = get(Key<Number>(orNone(WordList(key), Number())));
  return limit && *limit > 0 ? limit : std::nullopt;
}

void ConfigReader::readShared(LayerDescription &layer) {
  const FamilyShared &row = family.shared;
  const size_t before = outer.errors().count;
  const int64_t count = get(row.count, 0, kMaxDescribedExperts);
  const int64_t said = row.width.names.empty()
                           ? kAsRouted
                           : get(row.width, 0, kMaxDescribedIntermediate);
  int64_t width = said == kAsRouted ? layer.intermediate : said;
  const Place bias = find(WordList(row.biasKey));
  Number limit;
  const std::string_view limits = family.activation.sharedLimitsKey;
  if (!limits.empty())
    limit = readLimit(limits);
  const bool areAbsent = count == 0 || width == 0;
  if (options.noSharedExperts && options.needsSharedExperts && areAbsent &&
      layer.routing.sinks == 0 && outer.errors().count == before)
    outer.errors().add("--no-shared-experts",
                       "the config has no shared experts; leave the option "
                       "out");
  if (options.noSharedExperts || areAbsent)
    return;
  if (row.widthOfAll) {
    if (width % count != 0)
      return expected(find(row.width.names),
                      fmt::format("a multiple of {} shared experts, whose "
                                  "width it is together",
                                  count));
    width /= count;
  }
  if (quantization.sharedDiffer)
    return of(quantKey).refuse(
        quantKey, "leaves shared experts as they are, so that they cannot be "
                  "rows of the routed ones; accepted: --no-shared-experts");
  const bool isFalse =
      !bias.value || bias.value->is_null() || *bias.value == json(false);
  if (!isFalse && !isIgnored(row.biasKey, options))
    return expected(bias, "false, or --no-shared-experts (true gives shared "
                          "experts biases, which moec does not have)");
  if (!limits.empty() && limit != layer.activation.limit)
    return expected(
        find(WordList(limits)),
        fmt::format(
            "the limit of the routed experts, {}, or --no-shared-experts",
            layer.activation.limit ? json(*layer.activation.limit).dump()
                                   : std::string("none")));
  const std::string_view limited = family.activation.sharedLimited;
  if (!limited.empty() && limit)
    return expected(find(WordList(limits)),
                    fmt::format("none, or --no-shared-experts (the limit of "
                                "shared experts is that of {})",
                                limited));
  if (row.unlimited && layer.activation.limit)
    return of("swiglu_limit")
        .refuse("swiglu_limit",
                "is the limit of routed experts alone, so that shared ones "
                "cannot be rows of them; accepted: --no-shared-experts");
  layer.numSharedExperts = count;
  layer.sharedIntermediate = width == layer.intermediate ? 0 : width;
  layer.sharedExpertGate = row.gate;
}

void ConfigReader::refuseOtherValues(const FixedKey &fixed) {
  const Place place = find(WordList(fixed.key));
  if (!place.value || place.value->is_null())
    return void(origin.assumed.emplace_back(fixed.key, fixed.absent));
  if (isIgnored(fixed.key, options))
    return;
  const json &value = *place.value;
  const bool isAccepted = fixed.flag ? value == json(*fixed.flag)
                          : !fixed.word.empty()
                              ? value == json(fixed.word)
                              : value.is_number() &&
                                    value.get<double>() >= *fixed.least &&
                                    value.get<double>() <= *fixed.most;
  if (isAccepted)
    noteRead(place);
  else
    expected(place, fmt::format("{} ({})", fixed.accepted, fixed.otherwise));
}

/// A key that moec reads has an influence on the layer.
void ConfigReader::refuseReadFields() {
  for (const std::string &field : options.ignoreFields) {
    const auto said =
        std::ranges::find(origin.read, field, &LayerOrigin::Said::first);
    const bool namesFamily = field == "model_type" || field == "architectures";
    if (said != origin.read.end() || field == family.part)
      outer.errors().add(
          "--ignore-field",
          fmt::format("moec reads '{}'{}, so that the layer depends on it; "
                      "accepted: keys that moec does not read",
                      field,
                      said == origin.read.end()
                          ? ""
                          : fmt::format(", {}", said->second)));
    else if (namesFamily)
      outer.errors().add("--ignore-field",
                         fmt::format("'{}' names the family of the model; "
                                     "accepted: --as=NAME for another",
                                     field));
  }
}

/// The experts' width, whose name may depend on another key.
Key<int64_t> ConfigReader::intermediateKey() {
  const std::string_view key = family.denseIntermediateKey;
  if (key.empty())
    return family.intermediate;
  const Place dense = find(WordList(key));
  if (!dense.value || dense.value->is_null())
    return family.intermediate;
  return required("intermediate_size");
}

void ConfigReader::read(LayerDescription &layer) {
  origin.model = model;
  findQuantization();
  readType(layer);
  // Lists of modules name layers. An origin has the scheme before the layers.
  const auto read = origin.read.size(), assumed = origin.assumed.size();
  readLayers();
  const auto readBy = origin.read.size(), assumedBy = origin.assumed.size();
  readScheme(layer);
  const auto rotate = [](auto &list, size_t first, size_t middle) {
    std::rotate(list.begin() + ptrdiff_t(first),
                list.begin() + ptrdiff_t(middle), list.end());
  };
  rotate(origin.read, read, readBy);
  rotate(origin.assumed, assumed, assumedBy);
  if (quantization.plain)
    of(quantKey).refuse(quantKey,
                        "leaves all experts of layer {} as they are; accepted: "
                        "--scheme={}, or --layer of another layer",
                        chosen.index, layer.inputType);
  const size_t before = outer.errors().count;
  layer.experts = getSize(family.experts, sizes.experts, kMaxDescribedExperts);
  // Nothing is compared with a wrong number of experts.
  if (outer.errors().count != before)
    layer.experts = kMaxDescribedExperts;
  layer.topK = getSize(family.topK, sizes.topK, layer.experts);
  layer.hidden = getSize(family.hidden, sizes.hidden, kMaxDescribedHidden);
  layer.intermediate =
      getSize(intermediateKey(), sizes.intermediate, kMaxDescribedIntermediate);
  layer.latentHidden = get(family.latent, 0, kMaxDescribedHidden);
  layer.postExpertNorm = getPositive(family.postExpertNorm);
  layer.hasBias = family.hasBias;
  if (family.interleaved)
    layer.gateUpOrder = "interleaved";
  readActivation(layer.activation);
  readRouting(layer);
  readShared(layer);
  for (const FixedKey &fixed : family.fixed)
    if (!fixed.key.empty())
      refuseOtherValues(fixed);
  using Row = std::pair<std::string_view, WordList>;
  for (const auto &[word, names] :
       {Row("experts", family.experts.names), Row("top_k", family.topK.names),
        Row("hidden", family.hidden.names),
        Row("intermediate", intermediateKey().names),
        Row("groups", family.routing.groups.names),
        Row("top_groups", family.routing.topGroups.names),
        Row("function", family.activation.function.names),
        Row("limit", family.activation.limit.names),
        Row("num_shared_experts", family.shared.count.names),
        Row("zero_experts", family.routing.zeroExperts.names),
        Row("sinks", family.routing.sinks.names),
        Row("latent_hidden", family.latent.names),
        Row("quant", WordList(quantKey))})
    if (!names.empty())
      layer.origin.words.emplace(word, find(names).name);
  refuseReadFields();
  refuseConstantExperts();
  refuseSuspicious(outer, family, model, options);
  if (part)
    refuseSuspicious(*part, family, model, options);
}

} // namespace

Result<LayerDescription>
moec::compiler::readHuggingFace(const json &object, std::string_view name,
                                const ImportOptions &options) {
  JsonErrors errors{std::string(name), std::nullopt};
  JsonReader config(object, "$", errors);
  const FoundFamily found = findFamily(config, options);
  if (!found.row)
    return errors.all();

  LayerDescription layer;
  ConfigReader(std::move(config), found, options, layer.origin).read(layer);
  refuseAbsentFields(object, options, errors);
  layer.name = stemOf(name);
  if (layer.name.empty())
    layer.name = found.shortName;

  return finished(std::move(layer), errors, options);
}
