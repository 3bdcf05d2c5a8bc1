//===- CompressedTensors.cpp - quant_method compressed-tensors ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads compressed_tensors' QuantizationConfig, QuantizationScheme (a group)
// and QuantizationArgs (its weights or activations). A group is converted to
// four descriptors, or to the name of a scheme of the catalog if they match
// one.
//
//===----------------------------------------------------------------------===//

#include "compiler/import/ModuleNames.h"
#include "compiler/import/QuantizationReaders.h"
#include "compiler/import/Vocabulary.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <tuple>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

namespace {

/// A CompressionFormat and the weights that it can store.
struct StoredFormat {
  std::string_view name;
  /// Element types of weights, in the words of elementOf().
  std::string_view elements;
  std::string_view strategy; ///< required weight strategy; "": any
  int64_t groupSize = 0;     ///< required weight group size; 0: any
};

constexpr StoredFormat kFormats[] = {
    {"float-quantized", "float8", ""},
    {"int-quantized", "int4 or int8", ""},
    {"naive-quantized", "float8, int4 or int8", ""},
    {"pack-quantized", "int4 or int8", ""},
    {"mxfp4-pack-quantized", "float4", "group", 32},
    {"mxfp6-pack-quantized", "float6", "group", 32},
    {"mxfp8-quantized", "float8", "group", 32},
    {"nvfp4-pack-quantized", "float4", "tensor_group", 16}};

/// The contents of a QuantizationArgs object.
struct Args {
  std::string word; ///< element type, "float8", "int4", ...
  std::string strategy;
  int64_t rows = 0, columns = 0; ///< block of one scale; -1: all
  bool isDynamic = false, isSymmetric = true;
  bool powers = false; ///< scales are powers of two
};

std::string_view elementOf(std::string_view word) {
  return word == "float8"   ? "f8E4M3FN"
         : word == "float6" ? "f6E2M3FN"
         : word == "float4" ? "f4E2M1FN"
         : word == "int8"   ? "i8"
                            : "i4";
}

/// Parses "128x128", an alternative form of block_structure.
std::optional<std::pair<int64_t, int64_t>> parseBlock(std::string_view text) {
  const size_t by = text.find('x');
  if (by == std::string_view::npos)
    return std::nullopt;
  const auto number = [](std::string_view part) {
    int64_t value = 0;
    const char *begin = part.data(), *end = begin + part.size();
    const auto [last, error] = std::from_chars(begin, end, value);
    const bool isNumber = error == std::errc() && last == end;
    return isNumber && value <= kMaxBlock ? value : 0;
  };
  const std::pair shape(number(text.substr(0, by)),
                        number(text.substr(by + 1)));
  return shape.first >= 1 && shape.second >= 1 ? std::optional(shape)
                                               : std::nullopt;
}

/// Reads the strategy, and how many rows and columns share a scale. If the
/// strategy is absent, it is inferred from the group size as in
/// QuantizationArgs.
void readStrategy(JsonReader &part, bool isWeight, Args &args) {
  const int64_t size = part.integerOr("group_size", 0, -1, kMaxBlock);
  const std::string_view inferred = size > 0    ? "group"
                                    : size == 0 ? "tensor"
                                                : "channel";
  if (isWeight)
    args.strategy = readWord(
        part, "strategy", "tensor channel group block tensor_group", inferred);
  else
    args.strategy =
        readWord(part, "strategy", "tensor token group tensor_group", inferred);
  args.rows = args.strategy == "tensor" ? -1 : 1;
  args.columns = -1;
  if (args.strategy == "group" || args.strategy == "tensor_group") {
    args.columns = size;
    if (size <= 0)
      part.expected("group_size", "an integer from 1, with groups");
  } else if (size > 0) {
    part.refuse("group_size", "expected none with strategy \"{}\", got {}",
                args.strategy, size);
  }
  const json *block = part.find("block_structure");
  if (args.strategy != "block") {
    if (block)
      part.refuse("block_structure",
                  "expected none with strategy \"{}\", got {}", args.strategy,
                  describeJson(*block));
    return;
  }
  const auto shape = block && block->is_string()
                         ? parseBlock(block->get_ref<const std::string &>())
                         : readBlockShape(part, "block_structure");
  if (shape)
    std::tie(args.rows, args.columns) = *shape;
  else
    part.expected("block_structure",
                  "rows and columns that share a scale, such as [128, 128]");
}

/// Reads the element type of stored scales. Without scale_dtype, the format
/// determines it.
void readScaleType(JsonReader &part, const StoredFormat &format, Args &args) {
  const bool isNested = args.strategy == "tensor_group";
  // In an MX format, an operand has MX scales only if it has the format's group
  // size. Other operands have scales of an ordinary type.
  const bool isMx = format.name.starts_with("mx") && args.strategy == "group" &&
                    args.columns == format.groupSize &&
                    args.word.starts_with("float");
  if (!part.has("scale_dtype")) {
    args.powers = isMx;
    return;
  }
  std::string spelled = part.text("scale_dtype");
  if (spelled.starts_with("torch."))
    spelled.erase(0, 6);
  // A uint8 scale is an exponent.
  args.powers = spelled == "uint8" || spelled == "float8_e8m0fnu";
  const std::string element = elementTypeOf(spelled);
  const bool isFloat =
      element == "f32" || element == "f16" || element == "bf16";
  if (args.powers ? isNested
      : isNested  ? element != "f8E4M3FN"
      : isMx      ? true
                  : !isFloat)
    part.expected(
        "scale_dtype",
        isNested ? "\"torch.float8_e4m3fn\" or none"
        : isMx   ? "\"torch.uint8\" or none"
                 : "a float type of 16 or 32 bits, \"torch.uint8\" or none");
}

/// Reads the weights or activations of a group. Returns nullopt if they are not
/// quantized. Defaults are taken from class QuantizationArgs.
std::optional<Args> readArgs(JsonReader &group, std::string_view key,
                             bool isWeight, const StoredFormat *format) {
  std::optional<JsonReader> part = group.object(key);
  if (!part)
    return std::nullopt;
  Args args;
  const std::string type = readWord(*part, "type", "float int", "int");
  const int64_t bits = part->integerOr("num_bits", 8, 1, 64);
  if (bits != 4 && bits != 8 && (bits != 6 || type == "int"))
    part->expected("num_bits", type == "int" ? "4 or 8" : "4, 6 or 8");
  args.word = fmt::format("{}{}", type, bits);
  readStrategy(*part, isWeight, args);
  // The format determines which scale types are accepted.
  if (format)
    readScaleType(*part, *format, args);
  else
    (void)part->find("scale_dtype");
  const json *dynamic = part->find("dynamic");
  // "local": dynamic scales per group, multiplied by a static scale of the
  // tensor.
  const bool isLocal = dynamic && *dynamic == "local";
  args.isDynamic = isLocal || part->booleanOr("dynamic", false);
  args.isSymmetric = part->booleanOr("symmetric", true);
  if (isWeight && args.isDynamic)
    part->expected("dynamic", "false for weights");
  if (isLocal && args.strategy != "tensor_group")
    part->expected("dynamic", "true or false with strategy \"{}\"",
                   args.strategy);
  if (!isWeight && args.strategy == "token" && !args.isDynamic)
    part->expected("dynamic", "true with strategy \"token\"");
  if (!isWeight && args.strategy == "tensor_group" && !args.isDynamic)
    part->expected("dynamic", "\"local\" or true with \"tensor_group\"");
  if (!args.isSymmetric && (!isWeight || type == "float"))
    part->expected("symmetric",
                   isWeight ? "true for floats" : "true for activations");
  // The calibration has no effect on the layer, and zp_dtype follows from the
  // type.
  for (std::string_view without : {"observer", "observer_kwargs", "zp_dtype"})
    (void)part->find(without);
  if (isWeight)
    (void)part->find("actorder"); // readOrder reads it
  part->refuseUnknown();
  return args;
}

/// Returns true if the checkpoint has a g_idx tensor that maps each column of K
/// to its scale group. With the order "weight" or "static", consecutive columns
/// still form a group, so there is no g_idx.
bool readOrder(JsonReader &group) {
  std::optional<JsonReader> part = group.object("weights");
  if (!part || !part->has("actorder"))
    return false;
  if (part->find("actorder")->is_boolean())
    return part->booleanOr("actorder", false);
  const std::string order =
      readWord(*part, "actorder", "group dynamic weight static", "weight");
  return order == "group" || order == "dynamic";
}

/// The expert weights that the targets of a config group name.
struct Targets {
  ExpertParts parts;
  bool byClass = false;   ///< the targets include the class Linear
  bool isUnclear = false; ///< a target is a class or unsupported pattern
};

Targets readTargets(JsonReader &group, const LayerModules &layer) {
  Targets result{ExpertParts(layer)};
  const json *list = group.find("targets");
  const bool isList = list && list->is_array() &&
                      std::ranges::all_of(*list, [](const json &target) {
                        return target.is_string();
                      });
  if (!isList || list->size() > kMaxPatterns) {
    group.expected(
        "targets",
        "an array of at most {} names of modules or of their classes",
        kMaxPatterns);
    return result;
  }
  for (const json &entry : *list) {
    const auto &target = entry.get_ref<const std::string &>();
    if (target == "Linear") {
      result.byClass = true;
      continue;
    }
    const ModuleMeaning meaning = meaningOfModules(target, layer);
    // True if the target is the class of a model's experts. Models use various
    // names for this class.
    const bool isClass = target.find('.') == std::string::npos &&
                         (target.find("Expert") != std::string::npos ||
                          target.find("MoE") != std::string::npos ||
                          target.find("Moe") != std::string::npos);
    result.parts.add(meaning.routed);
    result.isUnclear |= !meaning.understood || isClass;
  }
  return result;
}

/// Returns the name of the config group that contains the experts. As in vLLM,
/// targets that are module names have precedence over classes.
std::optional<std::string> groupOfExperts(JsonReader &quant, JsonReader &groups,
                                          const LayerModules &layer) {
  std::vector<std::string> byName, byClass;
  for (const auto &[name, value] : groups.value().items()) {
    std::optional<JsonReader> group = groups.object(name);
    if (!group)
      continue;
    const Targets targets = readTargets(*group, layer);
    const bool isPart = !targets.parts.none() && !targets.parts.all();
    if (targets.isUnclear || isPart)
      refuseScheme(
          *group, "targets",
          "names some experts or parts of them, or cannot be told from that; "
          "accepted: \"Linear\", or names of all routed experts");
    if (targets.parts.all())
      byName.push_back(name);
    else if (targets.byClass)
      byClass.push_back(name);
  }
  if (groups.failed())
    return std::nullopt;
  const std::vector<std::string> &found = byName.empty() ? byClass : byName;
  if (found.size() == 1)
    return found.front();
  refuseScheme(quant, "config_groups",
               "expected one group whose targets are the experts (\"Linear\", "
               "or their names), got {} of {} groups",
               found.size(), groups.value().size());
  return std::nullopt;
}

/// Returns the storage format that the config group specifies, or else the
/// format of the whole config.
const StoredFormat *readFormat(JsonReader &quant, JsonReader &group) {
  JsonReader &reader = group.has("format") ? group : quant;
  const std::string name = reader.textOr("format", "");
  std::vector<std::string_view> names;
  for (const StoredFormat &format : kFormats) {
    if (format.name == name)
      return &format;
    names.push_back(format.name);
  }
  reader.expected("format", listOf(names));
  return nullptr;
}

DescriptorDescription operandOf(const Args &args) {
  const bool isNested = args.strategy == "tensor_group";
  DescriptorDescription operand =
      scaledOperand(elementOf(args.word), args.rows, args.columns,
                    isNested      ? "f8E4M3FN"
                    : args.powers ? "f8E8M0FNU"
                                  : "f32",
                    args.isDynamic);
  if (isNested)
    operand.secondScale = "f32";
  if (!args.isSymmetric)
    operand.zeroPoint = "i8";
  return operand;
}

/// Returns the descriptor of weights. Formats other than pack-quantized store
/// each 4-bit integer in a byte.
DescriptorDescription storedWeights(const Args &args,
                                    const StoredFormat &format) {
  DescriptorDescription operand = operandOf(args);
  if (args.word == "int4" && format.name != "pack-quantized")
    operand.element = "i8";
  return operand;
}

/// Returns the catalog scheme for integers packed into 32-bit words, or "" if
/// no scheme matches. These schemes accept any group size, and their scales
/// have the model's element type.
std::string packedScheme(const Args &weights,
                         const std::optional<Args> &activations) {
  if (!activations)
    return weights.word == "int8"
               ? (weights.isSymmetric ? "int8_w8a16" : "int8_zp_w8a16")
               : (weights.isSymmetric ? "int4_w4a16" : "int4_zp_w4a16");
  const bool isToken = activations->strategy == "token";
  if (!isToken || weights.word != "int4" || !weights.isSymmetric ||
      activations->powers)
    return "";
  return activations->word == "int8"     ? "int4_w4aint8"
         : activations->word == "float8" ? "int4_w4afp8"
                                         : "";
}

/// Rejects keys of QuantizationConfig that change the meaning of weights and
/// that no layer supports.
void refuseTransforms(JsonReader &quant) {
  expectNothing(quant, "dequantize", "false");
  if (std::optional<JsonReader> sparse = quant.object("sparsity_config"))
    if (sparse->textOr("format", "dense") != "dense")
      sparse->expected("format", "\"dense\"");
  if (std::optional<JsonReader> turned = quant.object("transform_config")) {
    expectNothing(
        *turned, "config_groups",
        "none: rotations of weights and activations are no part of a layer");
    // vLLM reads MoNE's experts from this key and from approximate_experts.
    const nlohmann::json *constants = turned->find("expert_substitution");
    if (constants && !constants->empty())
      turned->refuse("expert_substitution",
                     "experts are constant vectors (MoNE), which no importer "
                     "makes; accepted: a layer JSON with num_constant_experts, "
                     "for a router whose constant experts are the last");
    turned->refuseUnknown();
  }
}

} // namespace

void moec::compiler::readCompressedTensors(JsonReader &quant,
                                           const QuantizationContext &context,
                                           ExpertQuantization &result) {
  refuseTransforms(quant);
  (void)quant.find("format"); // read by readFormat() if the group has no format
  std::optional<JsonReader> groups = quant.object("config_groups");
  if (!groups)
    return quant.expected("config_groups", "an object with groups");
  const std::optional<std::string> name =
      groupOfExperts(quant, *groups, context.layer);
  if (!name)
    return;
  std::optional<JsonReader> group = groups->object(*name);
  (void)group->find("targets");
  const StoredFormat *format = readFormat(quant, *group);
  const std::optional<Args> weights = readArgs(*group, "weights", true, format);
  const std::optional<Args> activations =
      readArgs(*group, "input_activations", false, format);
  expectNothing(*group, "output_activations",
                "null: outputs of experts are not quantized");
  group->refuseUnknown();
  if (!format || group->failed())
    return;
  if (!weights)
    return group->expected("weights", "an object: experts are quantized");
  if (format->elements.find(weights->word) == std::string_view::npos ||
      (!format->strategy.empty() && weights->strategy != format->strategy) ||
      (format->groupSize && weights->columns != format->groupSize)) {
    const std::string groupsOf =
        format->groupSize
            ? fmt::format(" by {} of {}", format->strategy, format->groupSize)
            : "";
    return refuseScheme(*group, "weights",
                        "expected {}{} in format \"{}\", got {} by {} of {}",
                        format->elements, groupsOf, format->name, weights->word,
                        weights->strategy, weights->columns);
  }
  const bool isPacked = format->name == "pack-quantized";
  // A channel has one scale for all of K, so the order of columns has no
  // effect.
  result.groupIndex = readOrder(*group) && weights->strategy == "group";
  if (!isPacked) {
    result.quant = describeQuantization(activations ? operandOf(*activations)
                                                    : DescriptorDescription(),
                                        storedWeights(*weights, *format));
    return;
  }
  result.storedLayout = "pack_quantized";
  const bool hasGroups =
      weights->strategy == "group" || weights->strategy == "channel";
  const std::string scheme =
      hasGroups && !weights->powers ? packedScheme(*weights, activations) : "";
  if (scheme.empty()) {
    result.quant = describeQuantization(activations ? operandOf(*activations)
                                                    : DescriptorDescription(),
                                        storedWeights(*weights, *format));
    return;
  }
  result.quant.scheme = knownScheme(quant, "config_groups", scheme);
  result.quant.groupSize = weights->columns;
}
