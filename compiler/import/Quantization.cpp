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
  return fmt::format("else name the scheme of the expert weights with "
                     "--scheme= (known: {})",
                     listOf(schemeNames(), "and", false));
}

/// Modules that stay unquantized may be anything but experts: then the layer
/// would not have one scheme.
void readExceptions(JsonReader &quant, std::string_view key) {
  const json *list = quant.find(key);
  if (!list)
    return;
  const bool isList =
      list->is_array() &&
      std::all_of(list->begin(), list->end(),
                  [](const json &name) { return name.is_string(); });
  if (!isList) {
    quant.expected(key, "an array of module names");
    return;
  }
  for (const json &name : *list)
    if (name.get_ref<const std::string &>().find("experts") !=
        std::string::npos)
      return quant.refuse(key, fmt::format("{} names experts, whose layers "
                                           "would differ from the others; {}",
                                           describeJson(name), orScheme()));
}

/// 128 x 128 or nothing.
bool readBlock(JsonReader &reader, std::string_view key) {
  std::vector<int64_t> block = reader.integersOr(key, {}, 1, kMaxBlock);
  if (!block.empty() && block != std::vector<int64_t>{kBlock, kBlock})
    reader.expected(key, "[128, 128]");
  return !block.empty();
}

std::string readFp8(JsonReader &quant) {
  static constexpr std::array<std::string_view, 1> kFormats = {"e4m3"};
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
  if (const json *format = quant.find("scale_fmt"))
    if (!format->is_string() || *format != "float")
      quant.refuse("scale_fmt",
                   fmt::format("expected f32 scales (no scale_fmt), got {}; {}",
                               describeJson(*format), orScheme()));
  readExceptions(quant, "modules_to_not_convert");
  readExceptions(quant, "ignored_layers");
  if (byBlock)
    return "fp8_block";
  return isStatic ? "fp8_tensor" : "fp8_tensor_dynamic";
}

/// How compressed-tensors quantizes weights or activations: "channel", "token",
/// "tensor", "block" or "group", with " dynamic" behind it; "" after an error.
std::string readStrategy(JsonReader &group, std::string_view key) {
  std::optional<JsonReader> part = group.object(key);
  if (!part) {
    if (!group.failed())
      group.expected(key, "an object: both weights and activations in fp8");
    return "";
  }
  static constexpr std::array<std::string_view, 1> kTypes = {"float"};
  readName(*part, "type", kTypes, "float");
  part->integer("num_bits", 8, 8);
  if (!part->booleanOr("symmetric", true))
    part->expected("symmetric", "true");
  std::string strategy = part->text("strategy");
  if (strategy == "block")
    readBlock(*part, "block_structure");
  if (strategy == "group")
    part->integer("group_size", kBlock, kBlock);
  if (part->booleanOr("dynamic", false))
    strategy += " dynamic";
  return strategy;
}

std::string readCompressedTensors(JsonReader &quant) {
  static constexpr std::array<std::string_view, 1> kFormats = {
      "float-quantized"};
  readName(quant, "format", kFormats, "float-quantized");
  if (!quant.has("format"))
    quant.expected("format", listOf(kFormats));
  readExceptions(quant, "ignore");
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
  std::string weights = readStrategy(*group, "weights");
  std::string activations = readStrategy(*group, "input_activations");
  if (quant.failed())
    return "";
  struct Row {
    std::string_view weights, activations, scheme;
  };
  static constexpr Row kRows[] = {
      {"channel", "token dynamic", "fp8_channel"},
      {"tensor", "tensor", "fp8_tensor"},
      {"tensor", "tensor dynamic", "fp8_tensor_dynamic"},
      {"block", "group dynamic", "fp8_block"},
  };
  for (const Row &row : kRows)
    if (row.weights == weights && row.activations == activations)
      return std::string(row.scheme);
  quant.refuse("config_groups",
               fmt::format("no scheme has weights of strategy \"{}\" with "
                           "activations of \"{}\"; accepted: channel with "
                           "token dynamic, tensor with tensor (dynamic or "
                           "not), block with group dynamic; {}",
                           weights, activations, orScheme()));
  return "";
}

} // namespace

std::string moec::compiler::readQuantization(JsonReader &quant) {
  std::string method = quant.textOr("quant_method", "");
  if (method == "fp8")
    return readFp8(quant);
  if (method == "compressed-tensors")
    return readCompressedTensors(quant);
  quant.refuse("quant_method",
               fmt::format("no importer for quant_method \"{}\"; known: "
                           "compressed-tensors and fp8; {}",
                           method, orScheme()));
  return "";
}
