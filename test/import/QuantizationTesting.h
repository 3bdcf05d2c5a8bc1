//===- QuantizationTesting.h - what a quantization means --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A quantization_config as one line: the scheme, or the descriptors.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_IMPORT_QUANTIZATIONTESTING_H
#define MOEC_TEST_IMPORT_QUANTIZATIONTESTING_H

#include "compiler/import/Vocabulary.h"
#include "test/import/ImportTesting.h"

#include <gtest/gtest.h>

namespace moec::compiler::testing {

using nlohmann::json;

inline std::string textOf(const DescriptorDescription &operand) {
  if (operand.group.empty())
    return operand.element;
  return operand.element + " [" + std::to_string(operand.group[0]) + ", " +
         std::to_string(operand.group[1]) + "] " + operand.scale +
         (operand.secondScale.empty() ? "" : " " + operand.secondScale) +
         (operand.zeroPoint.empty() ? "" : " zero " + operand.zeroPoint) +
         (operand.dynamic ? " dynamic" : "");
}

/// The scheme, or the activations and weights that are spelled out; then the
/// size of groups, the layout and the order. A refusal is its message.
inline std::string read(const json &quantization,
                        const ImportOptions &options = {},
                        const std::string &model = "qwen3-30b-a3b") {
  Result<LayerDescription> layer =
      readDescription(changed(model, {{"quantization_config", quantization}}),
                      "in.json", options);
  if (!layer)
    return layer.error().message;
  const QuantDescription &quant = layer->quant;
  if (quant.scheme.empty()) {
    EXPECT_EQ(textOf(quant.a1), textOf(quant.a2));
    EXPECT_EQ(textOf(quant.w1), textOf(quant.w2));
  }
  return (quant.scheme.empty() ? textOf(quant.a1) + " x " + textOf(quant.w1)
                               : quant.scheme) +
         (quant.groupSize ? " " + std::to_string(quant.groupSize) : "") +
         (layer->storedLayout == "rows" ? "" : " " + layer->storedLayout) +
         (layer->groupIndex ? " index" : "");
}

/// `base` with `changes` laid over it; null stays there.
inline json with(json base, const json &changes) {
  for (const auto &[key, value] : changes.items())
    base[key] = value;
  return base;
}

inline json without(json base, const char *key) {
  base.erase(key);
  return base;
}

inline const std::string kPath = "in.json: $.quantization_config.";

inline std::string schemes() {
  return "another scheme of the expert weights is named with --scheme= "
         "(`moec list schemes` has all)";
}

} // namespace moec::compiler::testing

#endif // MOEC_TEST_IMPORT_QUANTIZATIONTESTING_H
