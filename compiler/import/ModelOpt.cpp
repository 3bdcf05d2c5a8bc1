//===- ModelOpt.cpp - quant_method modelopt -------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads configs of NVIDIA's ModelOpt. They specify one algorithm for all
// modules or, with MIXED_PRECISION, a list of modules with one algorithm each.
//
//===----------------------------------------------------------------------===//

#include "compiler/import/QuantizationReaders.h"
#include "compiler/import/Vocabulary.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

namespace {

struct Algorithm {
  std::string_view name, scheme; ///< scheme "": weight-only, with fp8 blocks
  int64_t groupSize = 0;
  bool blocks = false; ///< scales are per 128 x 128 block
};

constexpr Algorithm kAlgorithms[] = {
    {"FP8", "fp8_tensor"},
    {"FP8_PER_CHANNEL_PER_TOKEN", "fp8_channel"},
    {"FP8_PB_WO", "", 0, true},
    {"FP8_BLOCK_SCALES", "fp8_block", 0, true},
    {"NVFP4", "nvfp4", 16},
    {"W4A16_NVFP4", "nvfp4_w4a16", 16},
    {"W4A8_NVFP4_FP8", "nvfp4_fp8", 16},
    {"MXFP8", "mxfp8", 32},
    {"MXFP4", "mxfp4", 32},
    {"W4A16_MXFP4", "mxfp4_w4a16", 32},
    {"W4A8_MXFP4_FP8", "mxfp4_fp8", 32},
    {"W4A8_MXFP4_MXFP8", "mxfp4_mxfp8", 32},
};

/// Algorithms that moec rejects, with the reason and with an alternative that
/// some checkpoints allow ("" if there is none).
struct OtherAlgorithm {
  std::string_view ending, why, accepted;
};

constexpr OtherAlgorithm kRefusedAlgorithms[] = {
    {"NVFP4_AWQ",
     "multiplies x by a vector (pre_quant_scale), which is no part of a layer",
     "pre_quant_scale false; --scheme=nvfp4 if no expert has a tensor of that "
     "name, else the loader refuses it; "},
    {"_AWQ",
     "multiplies x by a vector (pre_quant_scale), and a byte holds codes of "
     "two rows; a layer has neither",
     ""},
    {"_SVD",
     "multiplies x by a vector (pre_quant_scale) and adds a product of two "
     "narrow matrices (svdquant_lora_a and svdquant_lora_b); a layer has "
     "neither",
     ""},
};

constexpr std::string_view kMixed = "MIXED_PRECISION";

std::string upperCase(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return char(std::toupper(c)); });
  return text;
}

/// Reads the algorithm of all modules, or of one entry of quantized_layers.
void readAlgorithm(JsonReader &quant, bool mayBeMixed,
                   ExpertQuantization &result) {
  std::string word = upperCase(quant.textOr("quant_algo", ""));
  // ModelOpt writes pre_quant_scale true even if it has folded all of these
  // vectors into layer norms. Only the value false is therefore reliable.
  const json *vector = quant.find("pre_quant_scale");
  if (word == "NVFP4_AWQ" && vector && *vector == false)
    word = "NVFP4";
  std::vector<std::string_view> names;
  const Algorithm *found = nullptr;
  for (const Algorithm &row : kAlgorithms) {
    names.push_back(row.name);
    if (row.name == word)
      found = &row;
  }
  if (mayBeMixed)
    names.push_back(kMixed);
  const int64_t ofBlocks = found && found->blocks ? 128 : 0;
  const int64_t size =
      quant.integerOr("group_size", found ? found->groupSize : 0, 0, kMaxBlock);
  const auto block = readBlockShape(quant, "weight_block_size");
  const auto *other =
      std::ranges::find_if(kRefusedAlgorithms, [&](const OtherAlgorithm &row) {
        return word.ends_with(row.ending);
      });
  if (!found && other != std::end(kRefusedAlgorithms))
    quant.refuse("quant_algo", "{} {}; accepted: {}{}", word, other->why,
                 other->accepted, listOf(names));
  else if (!found)
    quant.expected("quant_algo", listOf(names));
  else if (size != found->groupSize && size != ofBlocks)
    quant.expected("group_size",
                   found->groupSize
                       ? fmt::format("{} with {}", found->groupSize, word)
                       : fmt::format("none with {}", word));
  constexpr std::pair<int64_t, int64_t> kBlock(128, 128);
  if (found && block && (!found->blocks || *block != kBlock))
    quant.expected("weight_block_size", "{} with {}",
                   found->blocks ? "[128, 128]" : "none", found->name);
  expectNothing(quant, "has_zero_point", "false");
  if (found)
    expectNothing(quant, "pre_quant_scale", "false");
  if (!found)
    return;
  if (!found->scheme.empty())
    result.quant.scheme = knownScheme(quant, "quant_algo", found->scheme);
  else
    result.quant = describeQuantization(
        DescriptorDescription(), scaledOperand("f8E4M3FN", 128, 128, "f32"));
}

/// Reads the algorithm that quantized_layers specifies for the layer's routed
/// experts. All routed experts must have the same algorithm.
void readMixed(JsonReader &quant, const QuantizationContext &context,
               ExpertQuantization &result) {
  std::optional<JsonReader> layers = quant.object("quantized_layers");
  if (!layers)
    return quant.expected("quantized_layers",
                          "an object with the algorithm of each module");
  ExpertParts covered(context.layer);
  std::string chosen;
  size_t patterns = 0;
  for (const auto &[name, value] : layers->value().items())
    patterns += name.find('*') != std::string::npos;
  if (patterns > kMaxPatterns)
    return quant.refuse("quantized_layers", "expected at most {} patterns",
                        kMaxPatterns);
  for (const auto &[name, value] : layers->value().items()) {
    const ModuleMeaning meaning = meaningOfModules(name, context.layer);
    if (!meaning.understood)
      return layers->refuse(name, "cannot be compared with names of experts");
    if (meaning.routed.none())
      continue;
    if (!chosen.empty() && layers->value()[chosen] != value)
      return layers->refuse(
          name,
          "quantizes some routed experts of layer {} in another way "
          "than {} does; expected one algorithm for all of them",
          context.layer.layer, shortText(chosen));
    chosen = name;
    covered.add(meaning.routed);
  }
  if (covered.none()) {
    result.plain = true;
    return;
  }
  if (!covered.all())
    return layers->refuse(chosen,
                          "names some routed experts of layer {}, or parts of "
                          "them; expected all of them, or none",
                          context.layer.layer);
  if (std::optional<JsonReader> own = layers->object(chosen)) {
    readAlgorithm(*own, /*mayBeMixed=*/false, result);
    refuseSuspicious(*own, context);
  }
}

} // namespace

void moec::compiler::readModelOpt(JsonReader &outer,
                                  const QuantizationContext &context,
                                  ExpertQuantization &result) {
  // hf_quant_config.json nests the fields one level deeper.
  std::optional<JsonReader> inner = outer.object("quantization");
  JsonReader &quant = inner ? *inner : outer;
  if (inner)
    readExceptions(quant, "exclude_modules", context, result);
  const bool isMixed = upperCase(quant.textOr("quant_algo", "")) == kMixed;
  std::optional<JsonReader> groups = quant.object("config_groups");
  if (isMixed) {
    readMixed(quant, context, result);
  } else {
    // A single group only repeats quant_algo.
    if (groups && groups->value().size() > 1)
      refuseScheme(quant, "config_groups", "expected one group, got {}",
                   groups->value().size());
    expectNothing(quant, "quantized_layers", "none for one quant_algo");
    readAlgorithm(quant, /*mayBeMixed=*/true, result);
  }
  if (inner)
    refuseSuspicious(*inner, context);
}
