//===- HuggingFace.cpp - reads a model's config.json ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/ConfigReader.h"

#include "compiler/import/Vocabulary.h"
#include "dialect/catalog/Catalog.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

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
  // Newer versions of Transformers write "dtype", older ones "torch_dtype".
  JsonReader &typed =
      part && (part->has("dtype") || part->has("torch_dtype")) ? *part : outer;
  const bool both = typed.has("dtype") && typed.has("torch_dtype");
  if (both && *typed.find("dtype") != *typed.find("torch_dtype"))
    typed.expected("dtype", "the value of torch_dtype, {}",
                   describeJson(*typed.find("torch_dtype")));
  const std::string_view key =
      !typed.has("dtype") && typed.has("torch_dtype") ? "torch_dtype" : "dtype";
  if (options.dtype) {
    layer.inputType = *options.dtype;
  } else {
    layer.inputType = readFloatType(typed, key, "", true);
    if (typed.has(key))
      origin.read.emplace_back(key, shownInOrigin(*typed.find(key)));
  }
}

/// Returns the properties of the layer that determine its module names.
LayerModules ConfigReader::modules() {
  const Place place = find(family.experts.names);
  const auto experts = place.value
                           ? integerIn(*place.value, 1, kMaxDescribedExperts)
                           : family.experts.absent;
  return {chosen.index, numLayers, experts.value_or(1),
          family.activation.gated};
}

/// Finds the quantization config. Older versions of compressed-tensors wrote
/// compression_config instead of quantization_config.
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

/// Reads how the checkpoint packs its integers if --scheme names the scheme. In
/// this case --scheme defines the integers, and the quantization config only
/// their packing: stored layout, group size and g_idx.
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
    origin.read.emplace_back(typeKey,
                             shownInOrigin(*of(typeKey).find(typeKey)));
    return;
  }
  JsonReader &reader = of(quantKey);
  const json *stated = reader.find(quantKey);
  if (!typeKey.empty() && stated && stated->is_object() &&
      stated->contains(std::string(typeKey))) {
    JsonReader quant = *reader.object(quantKey);
    layer.quant.scheme = readExpertType(quant, typeKey);
    origin.read.emplace_back(typeKey, shownInOrigin(*quant.find(typeKey)));
    return;
  }
  if (std::optional<JsonReader> quant = reader.object(quantKey)) {
    quantization = readQuantization(*quant, {modules(), options.ignoreFields});
    const json *method = quant->find("quant_method");
    origin.read.emplace_back(
        quantKey, shownInOrigin(method ? *method : json("an object")));
  } else {
    origin.assumed.emplace_back(quantKey, "null");
  }
  layer.quant = quantization.quant;
  layer.storedLayout = quantization.storedLayout;
  layer.groupIndex = quantization.groupIndex;
}

void ConfigReader::readActivation(ActivationDescription &activation) {
  // In Transformers' ACT2FN, "gelu" is exact; the other names that begin with
  // "gelu" use the same tanh approximation.
  struct Name {
    std::string_view theirs, gated, notGated; ///< "": not available
  };
  static constexpr Name kNames[] = {
      {"silu", "silu", "silu_no_mul"},
      {"swish", "silu", ""},
      {"gelu", "gelu", "gelu_no_mul"},
      {"gelu_new", "gelu_tanh", ""},
      {"gelu_tanh", "gelu_tanh", ""},
      {"gelu_pytorch_tanh", "gelu_tanh", "gelu_tanh_no_mul"},
      {"situ", "situ", ""},
      {"relu", "relu", "relu_no_mul"},
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

/// Reads the limit of this layer from a list with one entry per layer, in which
/// 0 means no limit.
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
                "is the limit of routed experts only, so that shared experts "
                "cannot be computed with them; accepted: --no-shared-experts");
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

/// Reports an error for each --ignore-field key that moec reads, because such a
/// key affects the layer.
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

/// Returns the key of the experts' width. Its name may depend on another key.
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
  // Module lists in the quantization config name layers by index, so the layers
  // are read first. The origin lists the scheme's entries before the layers'
  // entries, so the two groups of entries are swapped afterwards.
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
  // An invalid number of experts is replaced by the largest accepted number, so
  // that later checks do not report consequences of the first error.
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
       {Row("num_experts", family.experts.names),
        Row("top_k", family.topK.names),
        Row("hidden_size", family.hidden.names),
        Row("intermediate_size", intermediateKey().names),
        Row("groups", family.routing.groups.names),
        Row("top_groups", family.routing.topGroups.names),
        Row("function", family.activation.function.names),
        Row("limit", family.activation.limit.names),
        Row("n_shared_experts", family.shared.count.names),
        Row("num_zero_experts", family.routing.zeroExperts.names),
        Row("sinks", family.routing.sinks.names),
        Row("latent_hidden_size", family.latent.names),
        Row("quant", WordList(quantKey))})
    if (!names.empty())
      layer.origin.words.emplace(word, find(names).name);
  refuseReadFields();
  refuseConstantExperts();
  refuseSuspicious(outer, family, model, options);
  if (part)
    refuseSuspicious(*part, family, model, options);
}

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
