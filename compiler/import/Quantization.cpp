//===- Quantization.cpp - quantization_config of a config.json ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Spellings are those of Transformers, vLLM and llm-compressor.
//
//===----------------------------------------------------------------------===//

#include "compiler/import/Quantization.h"

#include "compiler/import/Vocabulary.h"
#include "dialect/catalog/Schemes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

namespace {

constexpr int64_t kBlock = 128;
constexpr int64_t kMaxBlock = 1 << 20;

std::string orScheme() {
  return fmt::format("another scheme of the expert weights is named with "
                     "--scheme= (known: {})",
                     listOf(schemeNames(), "and", false));
}

/// The name of a scheme, if it has a row already.
std::string known(JsonReader &reader, std::string_view key,
                  std::string_view scheme) {
  if (catalog::find(catalog::kSchemes, scheme))
    return std::string(scheme);
  reader.refuse(key, fmt::format("means scheme {}, which has no row in "
                                 "dialect/catalog/Schemes.h; {}",
                                 scheme, orScheme()));
  return "";
}

/// Modules that stay unquantized may be anything but experts: then the layer
/// would not have one scheme. Returns whether shared experts are among them.
bool readExceptions(JsonReader &quant, std::string_view key) {
  const json *list = quant.find(key);
  if (!list)
    return false;
  const bool isList =
      list->is_array() &&
      std::all_of(list->begin(), list->end(),
                  [](const json &name) { return name.is_string(); });
  if (!isList) {
    quant.expected(key, "an array of module names");
    return false;
  }
  bool shared = false;
  for (const json &entry : *list) {
    const auto &name = entry.get_ref<const std::string &>();
    if (name.find("shared_expert") != std::string::npos) {
      // The shared expert's gate is the router's business.
      shared |= name.find("shared_expert_gate") == std::string::npos;
    } else if (name.find("experts") != std::string::npos) {
      quant.refuse(key, fmt::format("{} names experts, whose layers "
                                    "would differ from the others; {}",
                                    describeJson(entry), orScheme()));
      return shared;
    }
  }
  return shared;
}

/// 128 x 128 or nothing.
bool readBlock(JsonReader &reader, std::string_view key) {
  std::vector<int64_t> block = reader.integersOr(key, {}, 1, kMaxBlock);
  if (!block.empty() && block != std::vector<int64_t>{kBlock, kBlock})
    reader.expected(key, "[128, 128]");
  return !block.empty();
}

std::string readFp8(JsonReader &quant) {
  static constexpr std::array<std::string_view, 2> kFormats = {"e4m3",
                                                               "float8_e4m3fn"};
  static constexpr std::array<std::string_view, 2> kScales = {"float", "ue8m0"};
  static constexpr std::array<std::string_view, 2> kActivations = {"dynamic",
                                                                   "static"};
  readName(quant, "fmt", kFormats, "e4m3");
  if (!quant.has("activation_scheme"))
    quant.expected("activation_scheme", listOf(kActivations));
  bool isStatic =
      readName(quant, "activation_scheme", kActivations, "dynamic") == "static";
  bool byBlock = readBlock(quant, "weight_block_size");
  if (byBlock && isStatic)
    quant.expected("activation_scheme", "\"dynamic\" with weight_block_size");
  const bool powers = readName(quant, "scale_fmt", kScales, "float") == "ue8m0";
  if (byBlock && powers)
    return known(quant, "scale_fmt", "fp8_block_ue8m0");
  if (byBlock)
    return "fp8_block";
  return isStatic ? "fp8_tensor" : "fp8_tensor_dynamic";
}

/// How compressed-tensors quantizes weights or activations: the type and its
/// bits, "channel", "token", "tensor", "block" or "group", then "dynamic" and
/// "asymmetric" where they apply. "" where it does not. Of integers groupSize
/// gets the size of groups, of which any is possible, -1 for channels.
std::string readStrategy(JsonReader &group, std::string_view key,
                         int64_t *groupSize) {
  std::optional<JsonReader> part = group.object(key);
  if (!part)
    return "";
  static constexpr std::array<std::string_view, 2> kTypes = {"float", "int"};
  const std::string type = readName(*part, "type", kTypes, "float");
  std::string text =
      fmt::format("{}{} ", type, part->integer("num_bits", 4, 8));
  const std::string strategy = part->text("strategy");
  text += strategy;
  if (strategy == "block")
    readBlock(*part, "block_structure");
  const bool anySize = groupSize && type == "int";
  if (anySize)
    *groupSize = -1;
  if (strategy == "group" || strategy == "tensor_group") {
    const int64_t size = part->integer("group_size", 1, kMaxBlock);
    if (anySize)
      *groupSize = size;
    else
      text += fmt::format(" {}", size);
  }
  if (part->has("dynamic") && *part->find("dynamic") == "local")
    text += " dynamic"; // by group, below a static scale of the tensor
  else if (part->booleanOr("dynamic", false))
    text += " dynamic";
  if (!part->booleanOr("symmetric", true))
    text += " asymmetric";
  return text;
}

/// Whether rows of k are in the groups that g_idx says: those of "weight" (or
/// "static") were chosen in the order of activations, and stand in k's.
bool readOrder(JsonReader &group) {
  std::optional<JsonReader> part = group.object("weights");
  if (!part || !part->has("actorder"))
    return false;
  if (part->find("actorder")->is_boolean())
    return part->booleanOr("actorder", false);
  static constexpr std::array<std::string_view, 4> kOrders = {
      "group", "dynamic", "weight", "static"};
  const std::string order = readName(*part, "actorder", kOrders, "weight");
  return order == "group" || order == "dynamic";
}

std::string readCompressedTensors(JsonReader &quant,
                                  ExpertQuantization &result) {
  if (!quant.has("format"))
    quant.expected("format", "a string");
  const std::string format = quant.textOr("format", "");
  std::optional<JsonReader> groups = quant.object("config_groups");
  if (!groups) {
    quant.expected("config_groups", "an object with one group");
    return "";
  }
  if (groups->value().size() != 1) {
    quant.refuse("config_groups",
                 fmt::format("expected one group, got {}; {}",
                             groups->value().size(), orScheme()));
    return "";
  }
  const std::string name = groups->value().begin().key();
  std::optional<JsonReader> group = groups->object(name);
  if (!group)
    return "";
  const std::string weights =
      readStrategy(*group, "weights", &result.groupSize);
  // One group of all of k has no order.
  result.groupIndex =
      readOrder(*group) && weights.find(" group") != std::string::npos;
  const std::string activations =
      readStrategy(*group, "input_activations", nullptr);
  if (quant.failed())
    return "";
  struct Row {
    std::string_view format, weights, activations, scheme;
  };
  static constexpr Row kRows[] = {
      {"float-quantized", "float8 channel", "float8 token dynamic",
       "fp8_channel"},
      {"float-quantized", "float8 tensor", "float8 tensor", "fp8_tensor"},
      {"float-quantized", "float8 tensor", "float8 tensor dynamic",
       "fp8_tensor_dynamic"},
      {"float-quantized", "float8 block", "float8 group 128 dynamic",
       "fp8_block"},
      {"int-quantized", "int8 channel", "int8 token dynamic", "int8_channel"},
      {"int-quantized", "int8 tensor", "int8 tensor", "int8_tensor"},
      {"int-quantized", "int8 tensor", "int8 tensor dynamic",
       "int8_tensor_dynamic"},
      {"float-quantized", "float8 channel", "", "fp8_w8a16"},
      {"pack-quantized", "int4 group", "", "int4_w4a16"},
      {"pack-quantized", "int4 channel", "", "int4_w4a16"},
      {"pack-quantized", "int4 group asymmetric", "", "int4_zp_w4a16"},
      {"pack-quantized", "int4 channel asymmetric", "", "int4_zp_w4a16"},
      {"pack-quantized", "int4 group", "int8 token dynamic", "int4_w4aint8"},
      {"pack-quantized", "int4 group", "float8 token dynamic", "int4_w4afp8"},
      {"pack-quantized", "int4 channel", "int8 token dynamic", "int4_w4aint8"},
      {"pack-quantized", "int4 channel", "float8 token dynamic", "int4_w4afp8"},
      {"pack-quantized", "int8 group", "", "int8_w8a16"},
      {"pack-quantized", "int8 channel", "", "int8_w8a16"},
      {"mxfp4-pack-quantized", "float4 group 32", "", "mxfp4_w4a16"},
      {"mxfp4-pack-quantized", "float4 group 32", "float4 group 32 dynamic",
       "mxfp4"},
      {"nvfp4-pack-quantized", "float4 tensor_group 16", "", "nvfp4_w4a16"},
      {"nvfp4-pack-quantized", "float4 tensor_group 16",
       "float4 tensor_group 16 dynamic", "nvfp4"},
  };
  for (const Row &row : kRows)
    if (row.format == format && row.weights == weights &&
        row.activations == activations)
      return known(quant, "config_groups", row.scheme);
  std::string accepted;
  for (const Row &row : kRows)
    if (row.format == format)
      accepted += fmt::format(
          "{}{} with {}", accepted.empty() ? "" : ", ", row.weights,
          row.activations.empty() ? "no activations" : row.activations);
  quant.refuse(
      "config_groups",
      fmt::format("no scheme of format \"{}\" has weights of \"{}\" with "
                  "activations of \"{}\"; accepted: {}; {}",
                  format, weights, activations,
                  accepted.empty() ? "another format" : accepted, orScheme()));
  return "";
}

/// Integers with scales of groups along k, of AutoGPTQ and AutoAWQ.
std::string readGrouped(JsonReader &quant, bool symmetric,
                        ExpertQuantization &result) {
  const int64_t bits = quant.integer("bits", 4, 8);
  result.groupSize = quant.integer("group_size", -1, kMaxBlock);
  // One group of all of k has no order.
  result.groupIndex =
      quant.booleanOr("desc_act", false) && result.groupSize != -1;
  return known(quant, "bits",
               bits == 8   ? "int8_w8a16"
               : symmetric ? "int4_w4a16"
                           : "int4_zp_w4a16");
}

/// One row of what Quark says of weights and activations, as readQuarkSpec
/// spells it.
struct QuarkRow {
  std::string_view weights, activations, scheme;
};

constexpr QuarkRow kQuarkRows[] = {
    {"fp8_e4m3 per_tensor", "fp8_e4m3 per_tensor", "fp8_tensor"},
    {"fp8_e4m3 per_tensor", "fp8_e4m3 per_tensor dynamic",
     "fp8_tensor_dynamic"},
    {"fp8_e4m3 per_channel", "fp8_e4m3 per_channel dynamic", "fp8_channel"},
    {"fp8_e4m3 per_channel", "", "fp8_w8a16"},
    {"fp8_e4m3 per_group 32 e8m0", "fp8_e4m3 per_group 32 e8m0 dynamic",
     "mxfp8"},
    {"int8 per_channel", "int8 per_channel dynamic", "int8_channel"},
    {"int8 per_tensor", "int8 per_tensor", "int8_tensor"},
    {"int8 per_tensor", "int8 per_tensor dynamic", "int8_tensor_dynamic"},
    {"fp4 per_group 32 e8m0", "", "mxfp4_w4a16"},
    {"fp4 per_group 32 e8m0", "fp4 per_group 32 e8m0 dynamic", "mxfp4"},
    {"fp4 per_group 32 e8m0", "fp8_e4m3 per_group 32 e8m0 dynamic",
     "mxfp4_mxfp8"},
    {"fp4 per_group 32 e8m0", "fp8_e4m3 per_tensor", "mxfp4_fp8"},
    {"fp6_e3m2 per_group 32 e8m0", "fp6_e3m2 per_group 32 e8m0 dynamic",
     "mxfp6_e3m2"},
    {"fp6_e2m3 per_group 32 e8m0", "fp6_e2m3 per_group 32 e8m0 dynamic",
     "mxfp6_e2m3"},
    {"fp4 per_group 16, fp8_e4m3 per_tensor", "", "nvfp4_w4a16"},
    {"fp4 per_group 16, fp8_e4m3 per_tensor",
     "fp4 per_group 16 dynamic, fp8_e4m3 per_tensor", "nvfp4"},
};

/// What Quark says of one tensor: the type, what shares a scale, the type of
/// that where it is no float, then "dynamic" and "asymmetric" where they apply.
std::string readQuarkSpec(JsonReader &spec) {
  static constexpr std::array<std::string_view, 3> kSchemes = {
      "per_tensor", "per_channel", "per_group"};
  std::string text = spec.text("dtype");
  const std::string shared = readName(spec, "qscheme", kSchemes, "");
  if (shared.empty() && !spec.failed())
    spec.expected("qscheme", listOf(kSchemes));
  text += " " + shared;
  if (shared == "per_group")
    text += fmt::format(" {}", spec.integer("group_size", 1, kMaxBlock));
  const bool powers = spec.textOr("scale_format", "") == "e8m0";
  if (powers)
    text += " e8m0";
  const bool isDynamic = spec.booleanOr("is_dynamic", false);
  if (isDynamic)
    text += " dynamic";
  // Integers alone could have zero points.
  if (text.starts_with("int") && !spec.booleanOr("symmetric", true))
    text += " asymmetric";
  // How powers of two follow from a maximum: of 8-bit elements ours is ceil.
  static constexpr std::array<std::string_view, 3> kRules = {"even", "ceil",
                                                             "floor"};
  const std::string_view ours = text.starts_with("fp8") ? "ceil" : "even";
  if (powers && isDynamic && spec.has("scale_calculation_mode") &&
      readName(spec, "scale_calculation_mode", kRules, ours) != ours)
    spec.refuse(
        "scale_calculation_mode",
        fmt::format("expected \"{}\" for scales of {}, got {}; a layer "
                    "JSON can say another (scale_rule)",
                    ours, spec.text("dtype"),
                    describeJson(*spec.find("scale_calculation_mode"))));
  return text;
}

/// Of weights or input_tensors; a list has the scales of scales behind them.
std::string readQuarkTensor(JsonReader &config, std::string_view key) {
  const json *value = config.find(key);
  if (!value)
    return "";
  if (!value->is_array()) {
    std::optional<JsonReader> spec = config.object(key);
    return spec ? readQuarkSpec(*spec) : "";
  }
  std::string text;
  for (size_t i = 0; i < value->size(); ++i) {
    const std::string path = fmt::format("{}[{}]", config.pathOf(key), i);
    if (!(*value)[i].is_object()) {
      config.errors().add(path, fmt::format("expected an object, got {}",
                                            describeJson((*value)[i])));
      return "";
    }
    JsonReader spec((*value)[i], path, config.errors());
    text += fmt::format("{}{}", i ? ", " : "", readQuarkSpec(spec));
  }
  return text;
}

/// Whether a name fits a pattern in which a star stands for anything.
bool fitsPattern(std::string_view name, std::string_view pattern) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos)
    return name == pattern;
  if (!name.starts_with(pattern.substr(0, star)))
    return false;
  pattern.remove_prefix(star + 1);
  for (size_t begin = star; begin <= name.size(); ++begin)
    if (fitsPattern(name.substr(begin), pattern))
      return true;
  return false;
}

/// Whether a pattern of modules may mean experts.
bool mayMeanExperts(std::string_view pattern) {
  if (pattern.find("shared_expert") != std::string_view::npos)
    return false;
  if (pattern.find("experts") != std::string_view::npos)
    return true;
  constexpr std::string_view kNames[] = {
      "model.layers.1.mlp.experts.1.gate_proj",
      "model.layers.1.mlp.experts.1.up_proj",
      "model.layers.1.mlp.experts.1.down_proj",
      "model.layers.1.block_sparse_moe.experts.1.w1",
      "model.layers.1.block_sparse_moe.experts.1.w2",
      "model.layers.1.block_sparse_moe.experts.1.w3"};
  return std::any_of(
      std::begin(kNames), std::end(kNames),
      [&](std::string_view name) { return fitsPattern(name, pattern); });
}

/// The one configuration of all experts: that of all modules, or what patterns
/// say instead.
std::optional<JsonReader> quarkConfigOfExperts(JsonReader &quant) {
  std::optional<JsonReader> result = quant.object("global_quant_config");
  if (!result && !quant.failed())
    quant.expected("global_quant_config", "an object");
  std::optional<JsonReader> layers = quant.object("layer_quant_config");
  if (!result || !layers)
    return result;
  bool taken = false;
  for (const auto &[pattern, config] : layers->value().items()) {
    if (!mayMeanExperts(pattern))
      continue;
    std::optional<JsonReader> own = layers->object(pattern);
    if (!own)
      return std::nullopt;
    // A pattern without a number is of all layers and experts.
    const bool ofAll = pattern.find_first_of("0123456789") == std::string::npos;
    if ((taken || !ofAll) && own->value() != result->value()) {
      layers->refuse(pattern, fmt::format("quantizes some experts in another "
                                          "way than others; {}",
                                          orScheme()));
      return std::nullopt;
    }
    result = std::move(own);
    taken = true;
  }
  return result;
}

/// AMD's Quark.
std::string readQuark(JsonReader &quant) {
  std::optional<JsonReader> config = quarkConfigOfExperts(quant);
  if (!config)
    return "";
  for (std::string_view key : {"output_tensors", "bias"})
    if (config->has(key)) {
      config->refuse(key,
                     fmt::format("expected null: outputs and biases of "
                                 "experts are not quantized, got {}; {}",
                                 describeJson(*config->find(key)), orScheme()));
      return "";
    }
  const std::string weights = readQuarkTensor(*config, "weight");
  const std::string activations = readQuarkTensor(*config, "input_tensors");
  if (quant.failed())
    return "";
  std::string accepted;
  for (const QuarkRow &row : kQuarkRows) {
    if (row.weights == weights && row.activations == activations)
      return known(*config, "weight", row.scheme);
    accepted += fmt::format(
        "{}{} with {}", accepted.empty() ? "" : "; ", row.weights,
        row.activations.empty() ? "no activations" : row.activations);
  }
  config->refuse("weight",
                 fmt::format("no scheme has weights of \"{}\" with activations "
                             "of \"{}\"; accepted: {}; {}",
                             weights, activations, accepted, orScheme()));
  return "";
}

/// NVIDIA's ModelOpt.
std::string readModelOpt(JsonReader &quant) {
  struct Row {
    std::string_view algorithm, scheme;
  };
  static constexpr Row kRows[] = {
      {"FP8", "fp8_tensor"}, {"FP8_PER_CHANNEL_PER_TOKEN", "fp8_channel"},
      {"NVFP4", "nvfp4"},    {"W4A8_NVFP4_FP8", "nvfp4_fp8"},
      {"MXFP8", "mxfp8"},
  };
  std::vector<std::string_view> names;
  for (const Row &row : kRows) {
    if (quant.textOr("quant_algo", "") == row.algorithm)
      return known(quant, "quant_algo", row.scheme);
    names.push_back(row.algorithm);
  }
  quant.expected("quant_algo", listOf(names));
  return "";
}

} // namespace

ExpertQuantization moec::compiler::readQuantization(JsonReader &quant) {
  const std::string method = quant.textOr("quant_method", "");
  ExpertQuantization result;
  for (std::string_view key : {"modules_to_not_convert", "ignored_layers",
                               "ignore", "exclude_modules", "exclude"})
    result.sharedDiffer |= readExceptions(quant, key);
  // What gptq stores is named by its checkpoint_format, not by its bits.
  static constexpr std::array<std::string_view, 2> kFormats = {"gptq",
                                                               "gptq_v2"};
  if (method == "gptq")
    result.storedLayout =
        readName(quant, "checkpoint_format", kFormats, "gptq");
  else if (method == "awq")
    result.storedLayout = "awq";
  else if (method == "compressed-tensors" &&
           quant.textOr("format", "") == "pack-quantized")
    result.storedLayout = "pack_quantized";
  if (method == "fp8")
    result.scheme = readFp8(quant);
  else if (method == "compressed-tensors")
    result.scheme = readCompressedTensors(quant, result);
  else if (method == "awq")
    result.scheme =
        readGrouped(quant, !quant.booleanOr("zero_point", true), result);
  else if (method == "gptq")
    result.scheme = readGrouped(quant, quant.booleanOr("sym", true), result);
  else if (method == "modelopt" || method == "modelopt_fp4")
    result.scheme = readModelOpt(quant);
  else if (method == "quark")
    result.scheme = readQuark(quant);
  else if (method == "mxfp4")
    result.scheme = known(quant, "quant_method", "mxfp4_w4a16");
  else if (method == "mxfp8")
    result.scheme = known(quant, "quant_method", "mxfp8");
  else
    quant.refuse("quant_method",
                 fmt::format("no importer for quant_method \"{}\"; known: awq, "
                             "compressed-tensors, fp8, gptq, modelopt, mxfp4, "
                             "mxfp8 and quark; {}",
                             method, orScheme()));
  return result;
}

std::string moec::compiler::readExpertType(JsonReader &config,
                                           std::string_view key) {
  static constexpr std::array<std::string_view, 2> kTypes = {"fp4", "fp8"};
  const std::string type = readName(config, key, kTypes, "fp8");
  // Powers of two as scales, both: of 32 along k, or of blocks.
  return known(config, key, type == "fp4" ? "mxfp4_w4a16" : "fp8_block_ue8m0");
}
