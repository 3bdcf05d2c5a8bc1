//===- Quantization.cpp - reads quantization_config -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Spellings and defaults follow Transformers' classes (GPTQConfig, AwqConfig,
// FineGrainedFP8Config, Mxfp4Config) and ModelOpt. If vLLM interprets an absent
// key differently, the key is required.
//
//===----------------------------------------------------------------------===//

#include "compiler/import/QuantizationReaders.h"

#include "compiler/import/ModuleNames.h"
#include "compiler/import/Vocabulary.h"
#include "dialect/catalog/Schemes.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

namespace {

//===----------------------------------------------------------------------===//
// Modules that are not quantized, or are quantized in another way
//===----------------------------------------------------------------------===//

/// Returns the entries of a list of modules, or null if it is absent or after
/// an error.
const json *listOfModules(JsonReader &quant, std::string_view key) {
  const json *list = quant.find(key);
  if (!list)
    return nullptr;
  const bool isList =
      list->is_array() && std::ranges::all_of(*list, [](const json &name) {
        return name.is_string();
      });
  if (!isList) {
    quant.expected(key, "an array of module names");
    return nullptr;
  }
  const auto patterns = std::ranges::count_if(*list, [](const json &entry) {
    const auto &name = entry.get_ref<const std::string &>();
    return name.starts_with("re:") || name.find('*') != std::string::npos;
  });
  if (size_t(patterns) > kMaxPatterns) {
    quant.refuse(key, "expected at most {} patterns", kMaxPatterns);
    return nullptr;
  }
  return list;
}

/// Reads GPTQModel's rules for single modules. A rule is a regular expression;
/// "-:" excludes modules from quantization, and "+:" or no prefix changes their
/// parameters. Returns the config of the layer's experts if a rule changes it.
std::optional<json> readDynamic(JsonReader &quant,
                                const QuantizationContext &context,
                                ExpertQuantization &result) {
  if (context.ignores("dynamic")) {
    (void)quant.find("dynamic");
    return std::nullopt;
  }
  std::optional<JsonReader> rules = quant.object("dynamic");
  if (!rules)
    return std::nullopt;
  if (rules->value().size() > kMaxPatterns) {
    quant.refuse("dynamic", "expected at most {} patterns", kMaxPatterns);
    return std::nullopt;
  }
  std::optional<json> merged;
  bool isKept = false; // by a rule that repeats the values of all modules
  for (const auto &[rule, changes] : rules->value().items()) {
    std::string_view pattern = rule;
    const bool isMinus = pattern.starts_with("-:");
    if (isMinus || pattern.starts_with("+:"))
      pattern.remove_prefix(2);
    const ModuleMeaning meaning =
        meaningOfModules(pattern, context.layer, /*isRegex=*/true);
    if (!meaning.understood) {
      rules->refuse(rule, "cannot be compared with names of experts; {}",
                    orIgnore("dynamic", context));
      continue;
    }
    result.sharedDiffer |= meaning.shared;
    if (meaning.routed.none())
      continue;
    json own = quant.value();
    if (changes.is_object())
      own.update(changes);
    // GPTQModel applies the first rule that matches a name, but a JSON object
    // does not preserve the order of its rules. Two different rules for the
    // experts are therefore an error.
    const bool isFirst = !merged && !result.plain && !isKept;
    if (!isMinus && own == quant.value() && isFirst) {
      isKept = true;
      continue;
    }
    if (!meaning.routed.all() || !isFirst)
      rules->refuse(rule,
                    "quantizes some routed experts of layer {} in another way "
                    "than others, or is one of two rules for them; expected "
                    "one rule for all of them",
                    context.layer.layer);
    else if (isMinus)
      result.plain = true;
    else
      merged = std::move(own);
  }
  return merged;
}

/// Reads Optimum's list of quantized modules. If it is absent, all modules are
/// quantized.
void readQuantizedModules(JsonReader &quant, std::string_view key,
                          const QuantizationContext &context) {
  const json *lists = quant.find(key);
  if (!lists || context.ignores(key))
    return;
  ExpertParts parts(context.layer);
  size_t names = 0;
  const auto add = [&](const json &name) {
    if (!name.is_string() || ++names > kMaxPatterns)
      return false;
    parts.add(
        meaningOfModules(name.get_ref<const std::string &>(), context.layer)
            .routed);
    return true;
  };
  bool isList = lists->is_array();
  for (const json &list : *lists)
    isList &= isList &&
              (list.is_array() ? std::ranges::all_of(list, add) : add(list));
  if (!isList)
    return quant.expected(key, "lists of module names");
  if (!parts.all())
    refuseScheme(quant, key,
                 "does not name gate, up and down of the experts, which are "
                 "not quantized then");
}

//===----------------------------------------------------------------------===//
// Keys that no reader has read
//===----------------------------------------------------------------------===//

/// Keys that do not affect the experts' weights. They describe how the
/// checkpoint was created, other tensors, or execution by other software.
constexpr WordList kIrrelevantQuantKeys =
    "quant_method lm_head meta version quantizer backend producer "
    "softmax_quant_spec quantization_status global_compression_ratio "
    "run_compressed modules_to_convert export quant_mode log_severity_level "
    "damp_percent damp_auto_increment true_sequential mse static_groups "
    "act_group_aware tokenizer dataset model_seqlen block_name_to_quantize "
    "module_name_preceding_first_block batch_size pad_token_id "
    "max_input_length cache_block_outputs use_cuda_fp16 use_exllama "
    "exllama_config disable_exllama model_name_or_path model_file_base_name "
    "autoround_version to_quant_block_names enable_quanted_input "
    "enable_minmax_tuning enable_norm_bias_tuning offload_to_disk "
    "offload_to_disk_path is_checkpoint_fp8_serialized use_optimized_inference";

/// Lists of modules and rules for modules, which --ignore-field can disable.
constexpr WordList kModuleLists =
    "modules_to_not_convert ignored_layers ignore exclude_modules exclude "
    "dynamic modules_in_block_to_quantize inside_layer_modules";

/// Substrings of key names that suggest an effect on the meaning of weights.
constexpr WordList kSuspicious =
    "bit group sym zero scal type format pack rotat transf hadamar dynamic "
    "over adapt lora spars outl expert moe block layer weigh act quant codebo "
    "smooth algo config";

} // namespace

void moec::compiler::readExceptions(JsonReader &quant, WordList keys,
                                    const QuantizationContext &context,
                                    ExpertQuantization &result) {
  ExpertParts plain(context.layer);
  std::string_view first;
  json entryOfFirst;
  for (std::string_view key : keys) {
    const json *list = listOfModules(quant, key);
    if (!list || context.ignores(key))
      continue;
    for (const json &entry : *list) {
      const auto &name = entry.get_ref<const std::string &>();
      ModuleMeaning meaning = meaningOfModules(name, context.layer);
      if (name == "Linear")
        meaning.routed.addAll(ExpertParts::All);
      if (!meaning.understood) {
        quant.refuse(key, "{} cannot be compared with names of experts; {}",
                     describeJson(entry), orIgnore(key, context));
        continue;
      }
      result.sharedDiffer |= meaning.shared;
      if (meaning.routed.none())
        continue;
      plain.add(meaning.routed);
      if (first.empty()) {
        first = key;
        entryOfFirst = entry;
      }
    }
  }
  if (plain.all())
    result.plain = true;
  else if (!first.empty())
    quant.refuse(first,
                 "{} names some routed experts of layer {}, or parts of them, "
                 "which would differ from the others; accepted: names of all "
                 "of them, or of none",
                 describeJson(entryOfFirst), context.layer.layer);
}

void moec::compiler::refuseReadFields(JsonReader &quant,
                                      const QuantizationContext &context) {
  for (const auto &[key, value] : quant.value().items())
    if (context.ignores(key) && quant.wasAsked(key) && !saysNothing(value) &&
        !kModuleLists.contains(key))
      quant.errors().add("--ignore-field",
                         fmt::format("moec reads '{}', so that the "
                                     "quantization of the experts depends on "
                                     "it; accepted: keys that moec does not "
                                     "read",
                                     key));
}

void moec::compiler::refuseSuspicious(JsonReader &quant,
                                      const QuantizationContext &context) {
  quant.nameStrayKeys();
  for (const auto &[key, value] : quant.value().items()) {
    // The format of the KV cache does not matter here.
    if (!hasPartOf(key, kSuspicious) || key.starts_with("kv_cache") ||
        saysNothing(value) || quant.wasAsked(key) ||
        kIrrelevantQuantKeys.contains(key) || context.ignores(key))
      continue;
    quant.refuse(
        key,
        "moec supports no such key, and its name suggests that it may change "
        "the experts' weights; if it does not, pass --ignore-field={}",
        key);
  }
}

namespace {

//===----------------------------------------------------------------------===//
// Formats
//===----------------------------------------------------------------------===//

/// Reads configs of Transformers' FineGrainedFP8Config and of vLLM's Fp8Config.
void readFp8(JsonReader &quant, ExpertQuantization &result) {
  readWord(quant, "fmt", "e4m3 float8_e4m3fn", "e4m3");
  expectNothing(quant, "dequantize", "false");
  const bool isStatic = readWord(quant, "activation_scheme", "dynamic static",
                                 "dynamic") == "static";
  const bool powers =
      readWord(quant, "scale_fmt", "float ue8m0", "float") == "ue8m0";
  // If weight_block_size is absent, Transformers assumes 128 x 128 and vLLM one
  // scale per weight. The key is therefore required.
  if (!quant.value().contains("weight_block_size"))
    quant.expected(
        "weight_block_size",
        "rows and columns that share a scale, such as [128, 128], or "
        "null for one scale a weight");
  const auto block = readBlockShape(quant, "weight_block_size");
  if (readWord(quant, "expert_dtype", "fp8 fp4", "fp8") == "fp4") {
    result.quant.scheme = readExpertType(quant, "expert_dtype");
    return;
  }
  // In Ling 3 the routed experts are MXFP4; the shared experts have fp8 blocks.
  constexpr std::string_view kRouted = "routed_experts_quant_method";
  if (quant.has(kRouted)) {
    readWord(quant, kRouted, "mxfp4", "mxfp4");
    result.quant.scheme = knownScheme(quant, kRouted, "mxfp4_w4a16");
    result.sharedDiffer = true;
    return;
  }
  if (powers && quant.value().contains("weight_block_size") &&
      !quant.has("weight_block_size"))
    quant.expected("scale_fmt", "\"float\" without weight_block_size");
  const std::string_view scale = powers ? "f8E8M0FNU" : "f32";
  const auto [rows, columns] =
      block.value_or(std::pair<int64_t, int64_t>(-1, -1));
  const bool ofTensor = isStatic || !block;
  result.quant = describeQuantization(
      scaledOperand("f8E4M3FN", ofTensor ? -1 : 1, ofTensor ? -1 : columns,
                    ofTensor ? "f32" : scale, !isStatic),
      scaledOperand("f8E4M3FN", rows, columns, scale));
}

/// Reads configs of GPTQModel and AutoGPTQ, with the defaults of GPTQConfig.
void readGptq(JsonReader &quant, const QuantizationContext &context,
              ExpertQuantization &result);

/// Reads `changed`, the config that a rule in "dynamic" specifies for the
/// layer's experts.
void readChangedGptq(JsonReader &quant, const json &changed,
                     const QuantizationContext &context,
                     ExpertQuantization &result) {
  json own = changed;
  own.erase("dynamic");
  std::string path = quant.pathOf("bits");
  path.resize(path.rfind('.'));
  JsonReader reader(own, path, quant.errors());
  readGptq(reader, context, result);
  refuseSuspicious(reader, context);
  for (const auto &[key, value] : own.items())
    if (reader.wasAsked(key))
      (void)quant.find(key);
}

void readGptq(JsonReader &quant, const QuantizationContext &context,
              ExpertQuantization &result) {
  if (const std::optional<json> changed = readDynamic(quant, context, result))
    return readChangedGptq(quant, *changed, context, result);
  // The format, not the number of bits, determines the stored layout.
  const std::string format = readWord(quant, "format", "gptq gptq_v2", "gptq");
  result.storedLayout =
      readWord(quant, "checkpoint_format", "gptq gptq_v2", format);
  if (quant.has("format") && result.storedLayout != format)
    quant.expected("checkpoint_format", "the value of format, \"{}\"", format);
  readWord(quant, "pack_dtype", "int32 torch.int32", "int32");
  expectNothing(quant, "is_marlin_format", "false");
  expectNothing(quant, "adapter", "null");
  expectNothing(quant, "rotation", "null");
  const int64_t bits = quant.integer("bits", 1, 64);
  if (bits != 4 && bits != 8)
    quant.expected("bits", "4 or 8");
  const bool isSymmetric = quant.booleanOr("sym", true);
  result.quant.groupSize = quant.integer("group_size", -1, kMaxBlock);
  if (result.quant.groupSize == 0)
    quant.expected("group_size", "-1 (all of K) or at least 1");
  // The default is false in GPTQConfig and true in AutoGPTQ, and vLLM has no
  // default, so the key is required. For a single group over all of K, the
  // order of columns has no effect.
  if (result.quant.groupSize != -1 && !quant.has("desc_act"))
    quant.expected("desc_act", "true or false");
  result.groupIndex =
      quant.booleanOr("desc_act", false) && result.quant.groupSize != -1;
  readQuantizedModules(quant, "modules_in_block_to_quantize", context);
  readQuantizedModules(quant, "inside_layer_modules", context);
  // AutoRound also writes this format, and can quantize activations.
  if (quant.integerOr("act_bits", 16, 1, 64) < 16)
    quant.expected("act_bits", "16");
  result.quant.scheme = knownScheme(
      quant, "bits",
      fmt::format("int{}{}_w{}a16", bits, isSymmetric ? "" : "_zp", bits));
}

/// Returns the one of two equivalent keys that the config has. `older` is the
/// name in AutoAWQ's own config file.
std::string_view keyOf(JsonReader &quant, std::string_view key,
                       std::string_view older) {
  if (quant.has(key) && quant.has(older))
    quant.refuse(older, "expected either {} or {}, got both", key, older);
  return quant.has(older) ? older : key;
}

/// Reads configs of AutoAWQ, with the defaults of AwqConfig.
void readAwq(JsonReader &quant, ExpertQuantization &result) {
  for (std::string_view key : {"version", "format", "checkpoint_format"})
    if (lowerCase(quant.textOr(key, "gemm")) != "gemm")
      quant.expected(
          key, "\"gemm\", whose order of weights is stored_layout \"awq\"");
  if (quant.textOr("backend", "") == "llm-awq")
    quant.expected("backend",
                   "one whose weights are stored as AutoAWQ stores them");
  expectNothing(quant, "desc_act", "false: AWQ has no order of groups");
  const std::string_view bitsKey = keyOf(quant, "bits", "w_bit");
  if (quant.integerOr(bitsKey, 4, 1, 64) != 4)
    quant.expected(bitsKey, "4");
  const std::string_view sizeKey = keyOf(quant, "group_size", "q_group_size");
  result.quant.groupSize = quant.integerOr(sizeKey, 128, -1, kMaxBlock);
  if (result.quant.groupSize == 0)
    quant.expected(sizeKey, "-1 (all of K) or at least 1");
  // Transformers also writes keys of GPTQConfig, which have no meaning here.
  (void)quant.find("sym");
  result.storedLayout = "awq";
  result.quant.scheme = knownScheme(
      quant, "quant_method",
      quant.booleanOr("zero_point", true) ? "int4_zp_w4a16" : "int4_w4a16");
}

/// Reads configs with an OCP microscaling (MX) format. Their quant_method is
/// the name of a scheme.
void readMx(JsonReader &quant, std::string_view scheme,
            ExpertQuantization &result) {
  expectNothing(quant, "dequantize", "false");
  // Transformers reads mxfp8 with FineGrainedFP8Config.
  if (scheme == "mxfp8") {
    const auto block = readBlockShape(quant, "weight_block_size");
    if (block && *block != std::pair<int64_t, int64_t>(1, 32))
      quant.expected("weight_block_size", "[1, 32]");
    if (quant.textOr("scale_fmt", "ue8m0") != "ue8m0")
      quant.expected("scale_fmt", "\"ue8m0\"");
    if (quant.textOr("activation_scheme", "dynamic") != "dynamic")
      quant.expected("activation_scheme", "\"dynamic\"");
  }
  result.quant.scheme = knownScheme(quant, "quant_method", scheme);
}

} // namespace

ExpertQuantization
moec::compiler::readQuantization(JsonReader &quant,
                                 const QuantizationContext &context) {
  const std::string method = quant.textOr("quant_method", "");
  ExpertQuantization result;
  readExceptions(quant,
                 "modules_to_not_convert ignored_layers ignore exclude_modules "
                 "exclude",
                 context, result);
  if (method == "fp8")
    readFp8(quant, result);
  else if (method == "compressed-tensors" || method == "compressed_tensors")
    readCompressedTensors(quant, context, result);
  else if (method == "awq")
    readAwq(quant, result);
  else if (method == "gptq")
    readGptq(quant, context, result);
  else if (method.starts_with("modelopt"))
    readModelOpt(quant, context, result);
  else if (method == "quark")
    result.quant.scheme = readQuark(quant, context);
  else if (method == "mxfp4")
    readMx(quant, "mxfp4_w4a16", result);
  else if (method == "mxfp8")
    readMx(quant, "mxfp8", result);
  else {
    refuseScheme(
        quant, "quant_method",
        "no importer for quant_method \"{}\"; known: awq, compressed-tensors, "
        "fp8, gptq, modelopt, mxfp4, mxfp8 and quark",
        method);
    return result;
  }
  refuseReadFields(quant, context);
  refuseSuspicious(quant, context);
  return result;
}

std::string moec::compiler::readExpertType(JsonReader &config,
                                           std::string_view key) {
  const std::string type = readWord(config, key, "fp4 fp8", "fp8");
  // Experts of both types have power-of-two scales: fp4 per group of 32 along
  // K, fp8 per block.
  return knownScheme(config, key,
                     type == "fp4" ? "mxfp4_w4a16" : "fp8_block_ue8m0");
}
