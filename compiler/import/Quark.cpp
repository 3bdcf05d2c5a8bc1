//===- Quark.cpp - quant_method quark -------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads configs of AMD's Quark. They specify weights and activations for all
// modules, or for patterns of modules.
//
//===----------------------------------------------------------------------===//

#include "compiler/import/ModuleNames.h"
#include "compiler/import/QuantizationReaders.h"
#include "compiler/import/Vocabulary.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

namespace {

/// A combination of weights and activations as readQuarkSpec() spells them, and
/// its scheme.
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

/// Returns Quark's description of one tensor as text: the element type, the
/// granularity of scales, the scale type if it is not floating-point, then
/// "dynamic" and "asymmetric" if they apply.
std::string readQuarkSpec(JsonReader &spec, bool ofWeights) {
  std::string text = spec.text("dtype");
  const std::string shared =
      readWord(spec, "qscheme", "per_tensor per_channel per_group", "");
  if (shared.empty() && !spec.failed())
    spec.expected("qscheme",
                  listOf(vectorOf("per_tensor per_channel per_group")));
  text += " " + shared;
  if (shared == "per_group")
    text += fmt::format(" {}", spec.integer("group_size", 1, kMaxBlock));
  const bool powers = spec.textOr("scale_format", "") == "e8m0";
  if (powers)
    text += " e8m0";
  const bool isDynamic = spec.booleanOr("is_dynamic", false);
  if (isDynamic)
    text += " dynamic";
  // Only integers can have zero points. Quark's class has no default for
  // "symmetric", so integers require it.
  if (text.starts_with("int") && !spec.has("symmetric"))
    spec.expected("symmetric", "true or false for integers");
  if (text.starts_with("int") && !spec.booleanOr("symmetric", true))
    text += " asymmetric";
  // With per_channel, scales are per row of weights, or per row of activations
  // (per token).
  const int64_t axis = spec.integerOr("ch_axis", ofWeights ? 0 : -1, -1, 1);
  if (shared == "per_channel" && (ofWeights ? axis != 0 : axis == 0))
    spec.expected("ch_axis", ofWeights ? "0 with per_channel"
                                       : "1, -1 or null with per_channel");
  // The rule for power-of-two scales: moec's default is ceil for 8-bit elements
  // and even for others.
  const std::string_view ours = text.starts_with("fp8") ? "ceil" : "even";
  if (powers && isDynamic && spec.has("scale_calculation_mode") &&
      readWord(spec, "scale_calculation_mode", "even ceil floor", ours) != ours)
    spec.refuse("scale_calculation_mode",
                "expected \"{}\" for scales of {}, got {}; a layer JSON can "
                "say another (scale_rule)",
                ours, spec.text("dtype"),
                describeJson(*spec.find("scale_calculation_mode")));
  return text;
}

/// Reads the description of "weight" or "input_tensors". If the description is
/// a list, the second element describes the second-level scales.
std::string readQuarkTensor(JsonReader &config, std::string_view key) {
  const json *value = config.find(key);
  if (!value)
    return "";
  const bool ofWeights = key == "weight";
  if (!value->is_array()) {
    std::optional<JsonReader> spec = config.object(key);
    return spec ? readQuarkSpec(*spec, ofWeights) : "";
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
    text += fmt::format("{}{}", i ? ", " : "", readQuarkSpec(spec, ofWeights));
  }
  return text;
}

/// Reports algorithms that require additional computation at run time.
void refuseRotations(JsonReader &quant) {
  const json *list = quant.find("algo_config");
  if (!list || !list->is_array())
    return;
  for (const json &entry : *list) {
    const auto name = entry.is_object() ? entry.find("name") : entry.end();
    if (entry.is_object() && name != entry.end() && name->is_string() &&
        name->get_ref<const std::string &>().find("rotation") !=
            std::string::npos)
      refuseScheme(quant, "algo_config",
                   "{} may rotate activations, which is no part of a layer",
                   describeJson(*name));
  }
}

/// Returns the config that applies to all routed experts: the config of the
/// patterns that match them, or else the global config.
std::optional<JsonReader>
quarkConfigOfExperts(JsonReader &quant, const QuantizationContext &context) {
  std::optional<JsonReader> result = quant.object("global_quant_config");
  if (!result && !quant.failed())
    quant.expected("global_quant_config", "an object");
  std::optional<JsonReader> layers = quant.object("layer_quant_config");
  if (!result || !layers)
    return result;
  ExpertParts covered(context.layer);
  std::optional<JsonReader> chosen;
  for (const auto &[pattern, config] : layers->value().items()) {
    const ModuleMeaning meaning = meaningOfModules(pattern, context.layer);
    if (!meaning.understood)
      layers->refuse(pattern, "cannot be compared with names of experts");
    if (meaning.routed.none())
      continue;
    std::optional<JsonReader> own = layers->object(pattern);
    if (!own)
      return std::nullopt;
    // Quark applies the first pattern that matches a name, but a JSON object
    // does not preserve the order of its patterns. Patterns for the experts
    // must therefore agree.
    const bool differs = chosen && own->value() != chosen->value();
    covered.add(meaning.routed);
    if (differs || (!meaning.routed.all() && own->value() != result->value())) {
      refuseScheme(*layers, pattern,
                   "quantizes some experts in another way than others");
      return std::nullopt;
    }
    chosen = std::move(own);
  }
  if (chosen && covered.all())
    return chosen;
  return result;
}

} // namespace

std::string moec::compiler::readQuark(JsonReader &quant,
                                      const QuantizationContext &context) {
  // Transforms that are folded into weights are allowed; rotations of
  // activations are not.
  expectNothing(quant, "layer_type_quant_config",
                "none: modules are identified by layer_quant_config");
  refuseRotations(quant);
  std::optional<JsonReader> config = quarkConfigOfExperts(quant, context);
  if (!config)
    return "";
  for (std::string_view key : {"output_tensors", "bias"})
    if (config->has(key))
      refuseScheme(*config, key,
                   "expected null: outputs and biases of experts are not "
                   "quantized, got {}",
                   describeJson(*config->find(key)));
  const std::string weights = readQuarkTensor(*config, "weight");
  const std::string activations = readQuarkTensor(*config, "input_tensors");
  if (quant.failed())
    return "";
  std::string accepted;
  for (const QuarkRow &row : kQuarkRows) {
    if (row.weights == weights && row.activations == activations)
      return knownScheme(*config, "weight", row.scheme);
    accepted += fmt::format(
        "{}{} with {}", accepted.empty() ? "" : "; ", row.weights,
        row.activations.empty() ? "no activations" : row.activations);
  }
  refuseScheme(*config, "weight",
               "no scheme has weights of \"{}\" with activations of \"{}\"; "
               "accepted: {}",
               weights, activations, accepted);
  return "";
}
