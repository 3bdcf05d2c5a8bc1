//===- Quantization.cpp - quantization_config of a config.json ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Spellings and defaults are those of Transformers' classes (GPTQConfig,
// AwqConfig, FineGrainedFP8Config, Mxfp4Config) and of ModelOpt. Where vLLM
// reads an absent key in another way, the key is required.
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
// Modules that are quantized in another way, or not
//===----------------------------------------------------------------------===//

/// Modules that stay unquantized may be anything but experts: then the layer
/// would not have one scheme.
void readExceptions(JsonReader &quant, std::string_view key,
                    ExpertQuantization &result) {
  const json *list = quant.find(key);
  if (!list)
    return;
  const bool isList =
      list->is_array() && std::ranges::all_of(*list, [](const json &name) {
        return name.is_string();
      });
  if (!isList)
    return quant.expected(key, "an array of module names");
  size_t patterns = 0;
  for (const json &entry : *list) {
    const auto &name = entry.get_ref<const std::string &>();
    const bool isPattern =
        name.starts_with("re:") || name.find('*') != std::string::npos;
    if (isPattern && ++patterns > kMaxPatterns)
      return quant.refuse(key, "expected at most {} patterns", kMaxPatterns);
    const ModuleMeaning meaning = meaningOfModules(name);
    // A name of shared experts alone, in whatever words; their gate is the
    // router's business.
    if (name.find("shared_expert") != std::string::npos && !meaning.routed) {
      result.sharedDiffer |=
          name.find("shared_expert_gate") == std::string::npos;
      continue;
    }
    const bool namesRouted = name.find("experts") != std::string::npos &&
                             (meaning.routed || !meaning.shared);
    if (name == "Linear" || namesRouted || (meaning.routed && !meaning.layer))
      return refuseScheme(
          quant, key,
          "{} names experts, whose layers would differ from the others",
          describeJson(entry));
    if (meaning.routed)
      result.plainLayers.push_back(*meaning.layer);
    else
      result.sharedDiffer |= meaning.shared;
  }
}

/// GPTQModel's rules for single modules: expressions, "-:" for those that stay
/// as they are, "+:" or nothing for those with other numbers.
void readDynamic(JsonReader &quant, ExpertQuantization &result) {
  std::optional<JsonReader> rules = quant.object("dynamic");
  if (!rules)
    return;
  if (rules->value().size() > kMaxPatterns)
    return quant.refuse("dynamic", "expected at most {} patterns",
                        kMaxPatterns);
  for (const auto &[rule, changes] : rules->value().items()) {
    std::string_view pattern = rule;
    const bool isMinus = pattern.starts_with("-:");
    if (isMinus || pattern.starts_with("+:"))
      pattern.remove_prefix(2);
    const ModuleMeaning meaning = meaningOfModules(pattern, /*isRegex=*/true);
    if (meaning.routed || !meaning.understood)
      return refuseScheme(*rules, rule,
                          "may quantize experts in another way than others");
    result.sharedDiffer |= meaning.shared;
  }
}

/// Optimum's list of what is quantized at all; absent is everything.
void readQuantizedModules(JsonReader &quant, std::string_view key) {
  const json *lists = quant.find(key);
  if (!lists)
    return;
  unsigned parts = 0;
  size_t names = 0;
  const auto add = [&](const json &name) {
    if (!name.is_string() || ++names > kMaxPatterns)
      return false;
    parts |= meaningOfModules(name.get_ref<const std::string &>()).routed;
    return true;
  };
  bool isList = lists->is_array();
  for (const json &list : *lists)
    isList &= isList &&
              (list.is_array() ? std::ranges::all_of(list, add) : add(list));
  if (!isList)
    return quant.expected(key, "lists of module names");
  if (parts != ModuleMeaning::All)
    refuseScheme(quant, key,
                 "does not name gate, up and down of the experts, which are "
                 "not quantized then");
}

//===----------------------------------------------------------------------===//
// Keys that nobody read
//===----------------------------------------------------------------------===//

/// How a checkpoint was made, which tensors other than experts' it has, and
/// how it is run elsewhere.
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

/// Parts of a key that make it one that may change what weights mean.
constexpr WordList kSuspicious =
    "bit group sym zero scal type format pack rotat transf hadamar dynamic "
    "over adapt lora spars outl expert moe block layer weigh act quant codebo "
    "smooth algo config";

void refuseSuspicious(JsonReader &quant,
                      const std::vector<std::string> &ignored) {
  quant.nameStrayKeys();
  for (const auto &[key, value] : quant.value().items()) {
    // What a cache of keys and values is made of is nobody's business here.
    if (!hasPartOf(key, kSuspicious) || key.starts_with("kv_cache") ||
        saysNothing(value) || quant.wasAsked(key) ||
        kIrrelevantQuantKeys.contains(key) ||
        std::ranges::find(ignored, key) != ignored.end())
      continue;
    quant.refuse(key,
                 "moec knows no such key, and its name says that it may change "
                 "the experts' weights; if it does not, pass --ignore-field={}",
                 key);
  }
}

//===----------------------------------------------------------------------===//
// Formats
//===----------------------------------------------------------------------===//

/// FineGrainedFP8Config, and files of vLLM's Fp8Config.
void readFp8(JsonReader &quant, ExpertQuantization &result) {
  readWord(quant, "fmt", "e4m3 float8_e4m3fn", "e4m3");
  expectNothing(quant, "dequantize", "false");
  const bool isStatic = readWord(quant, "activation_scheme", "dynamic static",
                                 "dynamic") == "static";
  const bool powers =
      readWord(quant, "scale_fmt", "float ue8m0", "float") == "ue8m0";
  // Transformers takes an absent one as 128 x 128, vLLM as one scale a weight.
  if (!quant.value().contains("weight_block_size"))
    quant.expected("weight_block_size",
                   "rows and columns that share a scale, [128, 128] say, or "
                   "null for one scale a weight");
  const auto block = readBlockShape(quant, "weight_block_size");
  if (readWord(quant, "expert_dtype", "fp8 fp4", "fp8") == "fp4") {
    result.quant.scheme = readExpertType(quant, "expert_dtype");
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

/// GPTQModel's and AutoGPTQ's, with the defaults of GPTQConfig.
void readGptq(JsonReader &quant, ExpertQuantization &result) {
  // What is stored is named by a format, not by the bits.
  const std::string format = readWord(quant, "format", "gptq gptq_v2", "gptq");
  result.storedLayout =
      readWord(quant, "checkpoint_format", "gptq gptq_v2", format);
  if (quant.has("format") && result.storedLayout != format)
    quant.expected("checkpoint_format", "what format says, \"{}\"", format);
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
  // GPTQConfig has false, AutoGPTQ true, and vLLM none. One group has no order.
  if (result.quant.groupSize != -1 && !quant.has("desc_act"))
    quant.expected("desc_act", "true or false");
  result.groupIndex =
      quant.booleanOr("desc_act", false) && result.quant.groupSize != -1;
  readDynamic(quant, result);
  readQuantizedModules(quant, "modules_in_block_to_quantize");
  readQuantizedModules(quant, "inside_layer_modules");
  // AutoRound, which writes this format, too.
  if (quant.integerOr("act_bits", 16, 1, 64) < 16)
    quant.expected("act_bits", "16");
  result.quant.scheme = knownScheme(
      quant, "bits",
      fmt::format("int{}{}_w{}a16", bits, isSymmetric ? "" : "_zp", bits));
}

/// One of two keys for the same; AutoAWQ's own file has the second.
std::string_view keyOf(JsonReader &quant, std::string_view key,
                       std::string_view older) {
  if (quant.has(key) && quant.has(older))
    quant.refuse(older, "expected either {} or {}, got both", key, older);
  return quant.has(older) ? older : key;
}

/// AutoAWQ's, with the defaults of AwqConfig.
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
  // Transformers writes GPTQConfig's keys, too; they say nothing here.
  (void)quant.find("sym");
  result.storedLayout = "awq";
  result.quant.scheme = knownScheme(
      quant, "quant_method",
      quant.booleanOr("zero_point", true) ? "int4_zp_w4a16" : "int4_w4a16");
}

/// NVIDIA's ModelOpt.
void readModelOpt(JsonReader &outer, const std::vector<std::string> &ignored,
                  ExpertQuantization &result) {
  // hf_quant_config.json has it one level deeper.
  std::optional<JsonReader> inner = outer.object("quantization");
  JsonReader &quant = inner ? *inner : outer;
  if (inner)
    readExceptions(quant, "exclude_modules", result);
  struct Row {
    std::string_view algorithm, scheme;
    int64_t groupSize;
  };
  static constexpr Row kRows[] = {
      {"FP8", "fp8_tensor", 0},
      {"FP8_PER_CHANNEL_PER_TOKEN", "fp8_channel", 0},
      {"NVFP4", "nvfp4", 16},
      {"W4A16_NVFP4", "nvfp4_w4a16", 16},
      {"W4A8_NVFP4_FP8", "nvfp4_fp8", 16},
      {"MXFP8", "mxfp8", 32},
  };
  std::string algorithm = quant.textOr("quant_algo", "");
  std::transform(algorithm.begin(), algorithm.end(), algorithm.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  std::vector<std::string_view> names;
  const Row *found = nullptr;
  for (const Row &row : kRows) {
    names.push_back(row.algorithm);
    if (row.algorithm == algorithm)
      found = &row;
  }
  const int64_t size =
      quant.integerOr("group_size", found ? found->groupSize : 0, 0, kMaxBlock);
  if (!found)
    quant.expected("quant_algo", listOf(names));
  else if (size != found->groupSize)
    quant.expected("group_size",
                   found->groupSize
                       ? fmt::format("{} with {}", found->groupSize, algorithm)
                       : fmt::format("none with {}", algorithm));
  // The algorithm says what its groups say again, if it is one group.
  if (std::optional<JsonReader> groups = quant.object("config_groups");
      groups && groups->value().size() > 1)
    refuseScheme(quant, "config_groups", "expected one group, got {}",
                 groups->value().size());
  expectNothing(quant, "quantized_layers", "none beside one quant_algo");
  expectNothing(quant, "has_zero_point", "false");
  expectNothing(quant, "pre_quant_scale", "false");
  if (found)
    result.quant.scheme = knownScheme(quant, "quant_algo", found->scheme);
  if (inner)
    refuseSuspicious(*inner, ignored);
}

/// OCP's formats, whose quant_method is a scheme.
void readMx(JsonReader &quant, std::string_view scheme,
            ExpertQuantization &result) {
  expectNothing(quant, "dequantize", "false");
  // Transformers reads mxfp8 by FineGrainedFP8Config.
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
                                 const std::vector<std::string> &ignored) {
  const std::string method = quant.textOr("quant_method", "");
  ExpertQuantization result;
  for (std::string_view key : {"modules_to_not_convert", "ignored_layers",
                               "ignore", "exclude_modules", "exclude"})
    readExceptions(quant, key, result);
  if (method == "fp8")
    readFp8(quant, result);
  else if (method == "compressed-tensors")
    readCompressedTensors(quant, result);
  else if (method == "awq")
    readAwq(quant, result);
  else if (method == "gptq")
    readGptq(quant, result);
  else if (method == "modelopt" || method == "modelopt_fp4")
    readModelOpt(quant, ignored, result);
  else if (method == "quark")
    result.quant.scheme = readQuark(quant);
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
  refuseSuspicious(quant, ignored);
  return result;
}

std::string moec::compiler::readExpertType(JsonReader &config,
                                           std::string_view key) {
  const std::string type = readWord(config, key, "fp4 fp8", "fp8");
  // Powers of two as scales, both: of 32 along k, or of blocks.
  return knownScheme(config, key,
                     type == "fp4" ? "mxfp4_w4a16" : "fp8_block_ue8m0");
}
