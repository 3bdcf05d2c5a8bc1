//===- CheckTypes.cpp - rejects unsupported element types -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rejects element types of a layer's tensors, and descriptors of dequantized
// weights and emulated activations, that no kernel supports.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"
#include "compiler/plan/ProgramValues.h"
#include "dialect/catalog/Engines.h"
#include "dialect/catalog/Schemes.h"

using namespace mlir;
using namespace moec;
using compiler::Refuse;

/// Number of codes (quantized values) that a kernel converts at a time
/// (templates/moe/quant/dequantize.cuh).
static constexpr int64_t kCodesOfChunk = 8;

/// Checks descriptor w1 or w2 of a scheme that dequantizes weights.
static void checkWeight(Refuse refuse, StringRef name,
                        moe::DescriptorAttr weight) {
  const auto because = [&](const Twine &reason) {
    refuse("scheme_not_supported", name + ": " + reason);
  };
  const auto spelled = [](Type type) {
    return compiler::elementTypeName(type);
  };
  const Type element = weight.getElement(), scale = weight.getScale();
  if (!catalog::kCodes.contains(spelled(element)))
    because(
        "weights of " + spelled(element) +
        " are not dequantized; accepted: " + StringRef(catalog::kCodes.text()));
  constexpr WordList kScales = "f32 f16 bf16 f8E4M3FN f8E8M0FNU";
  if (!kScales.contains(spelled(scale)))
    because("scales of " + spelled(scale) +
            "; accepted: " + StringRef(kScales.text()));
  const int64_t rows = weight.getGroup()[0], columns = weight.getGroup()[1];
  if (columns != -1 && columns % kCodesOfChunk != 0)
    because("groups of " + Twine(columns) +
            " along K; accepted: multiples of " + Twine(kCodesOfChunk) +
            ", or -1 for all");
  if (rows == -1 && columns != -1)
    because("groups of all rows and " + Twine(columns) +
            " along K; accepted: [-1, -1], or groups of some rows");
  if (weight.getDynamic())
    because("scales are dynamic; accepted: static ones");
  if (Type second = weight.getSecondScale(); second && !second.isF32())
    because("second scales of " + spelled(second) + "; accepted: f32");
  if (Type zero = weight.getZeroPoint(); zero && !zero.isInteger(8))
    because("zero points of " + spelled(zero) + "; accepted: i8");
}

/// Checks descriptor a1 or a2 of a scheme that emulates quantized activations
/// (templates/moe/math/emulated.cuh).
static void checkActivation(Refuse refuse, StringRef name,
                            moe::DescriptorAttr activation) {
  const auto because = [&](const Twine &reason) {
    refuse("scheme_not_supported", name + ": " + reason);
  };
  if (activation.isPlain())
    return;
  const std::string element =
      compiler::elementTypeName(activation.getElement());
  const std::string scale = compiler::elementTypeName(activation.getScale());
  constexpr WordList kElements =
      "f8E4M3FN f8E5M2 f6E3M2FN f6E2M3FN f4E2M1FN i8";
  constexpr WordList kScales = "f32 f8E8M0FNU f8E4M3FN";
  if (!kElements.contains(element))
    because("activations of " + element +
            " are not emulated; accepted: " + StringRef(kElements.text()));
  if (!kScales.contains(scale)) {
    because("scales of " + scale + "; accepted: " + StringRef(kScales.text()));
    return;
  }
  if (activation.getZeroPoint())
    because("activations have no zero points; accepted: none");
  const int64_t rows = activation.getGroup()[0];
  const int64_t columns = activation.getGroup()[1];
  const bool isGroup = rows == 1 && (columns == 16 || columns == 32 ||
                                     columns == 64 || columns == 128);
  const bool isRow = rows == 1 && columns == -1;
  if (scale == "f32") {
    if (!isGroup && !isRow && !activation.isOfTensor())
      because("groups of [" + Twine(rows) + ", " + Twine(columns) +
              "]; accepted: [-1, -1], [1, -1], or [1, 16], [1, 32], [1, 64] "
              "and [1, 128]");
    if (activation.getDynamic() && activation.isOfTensor() &&
        element != "f8E4M3FN")
      because("dynamic scales of [-1, -1] of " + element +
              "; accepted: of f8E4M3FN");
    if (!activation.getDynamic() && !activation.isOfTensor())
      because("static scales of [" + Twine(rows) + ", " + Twine(columns) +
              "]; accepted: of [-1, -1]");
  } else {
    if (!isGroup)
      because("groups of [" + Twine(rows) + ", " + Twine(columns) +
              "] with scales of " + scale +
              "; accepted: [1, 16], [1, 32], [1, 64] and [1, 128]");
    if (!activation.getDynamic())
      because("static scales of " + scale + "; accepted: dynamic ones");
    if (element == "i8")
      because("activations of i8 with scales of " + scale + "; accepted: f32");
  }
  if (activation.getSecondPerRow() && !activation.getDynamic())
    because("per-row second scales with static scales; accepted: with dynamic "
            "scales");
  const Type second = activation.getSecondScale();
  if (bool(second) != (scale == "f8E4M3FN") || (second && !second.isF32()))
    because("scales of f8E4M3FN have second scales of f32, others have none");
}

/// Rejects types of unscaled activations that kernels cannot multiply with
/// weights dequantized to 16 bits.
static void checkPlainActivations(Refuse refuse, moe::QuantAttr quant) {
  const auto nameOf = [](moe::DescriptorAttr operand) {
    return compiler::elementTypeName(operand.getElement());
  };
  // Engines that do not support f32 reject it themselves.
  const bool isOneType = quant.getA1() == quant.getA2();
  for (auto [name, activation] :
       {std::pair<StringRef, moe::DescriptorAttr>("a1", quant.getA1()),
        {"a2", quant.getA2()}})
    if (activation.isPlain() && !activation.getElement().isF16() &&
        !activation.getElement().isBF16() &&
        !(isOneType && activation.getElement().isF32()))
      refuse("scheme_not_supported",
             name + ": " + nameOf(activation) +
                 " without scales, with weights that are dequantized to 16 "
                 "bits; accepted: bf16, f16, or a descriptor with scales");
  if (quant.getA1().isPlain() && quant.getA2().isPlain() &&
      quant.getA1().getElement() != quant.getA2().getElement())
    refuse("scheme_not_supported",
           "a1 and a2 must have one element type where both have no scales, "
           "got " +
               nameOf(quant.getA1()) + " and " + nameOf(quant.getA2()));
}

/// Returns, for example, "a1 of bf16, w1 of i4, a2 of bf16, w2 of bf16".
static std::string operandsOf(moe::QuantAttr quant) {
  std::string text;
  for (auto [name, operand] :
       {std::pair<StringRef, moe::DescriptorAttr>("a1", quant.getA1()),
        {"w1", quant.getW1()},
        {"a2", quant.getA2()},
        {"w2", quant.getW2()}})
    text += ((text.empty() ? "" : ", ") + name + " of " +
             compiler::elementTypeName(operand.getElement()) +
             (operand.isPlain() ? "" : " with scales"))
                .str();
  return text;
}

void compiler::checkTypes(moe::LayerOp layer, Refuse refuse) {
  const moe::QuantAttr quant = layer.getQuant();
  if (quant.dequantizesWeights()) {
    checkPlainActivations(refuse, quant);
    checkActivation(refuse, "a1", quant.getA1());
    checkActivation(refuse, "a2", quant.getA2());
    checkWeight(refuse, "w1", quant.getW1());
    checkWeight(refuse, "w2", quant.getW2());
    if (quant.getW1().getElement() != quant.getW2().getElement())
      refuse("scheme_not_supported",
             "w1 and w2 must have one element type, got " +
                 compiler::elementTypeName(quant.getW1().getElement()) +
                 " and " +
                 compiler::elementTypeName(quant.getW2().getElement()));
  } else if (quant.getName().empty() && !quant.multipliesCodes() &&
             !quant.multipliesBytes()) {
    return refuse("scheme_not_supported",
                  "these descriptors are no scheme that a backend does: " +
                      operandsOf(quant) +
                      "; accepted: " + catalog::names(catalog::kSchemes) +
                      ", or weights that are quantized, both");
  }
  for (auto [name, type] :
       {std::pair<StringRef, Type>("in_dtype", layer.getInDtype()),
        {"out_dtype", layer.getOutDtype()},
        {"router_logits_dtype", layer.getRouterLogitsDtype()}}) {
    if (type.isF32() || type.isF16() || type.isBF16())
      continue;
    std::string text;
    llvm::raw_string_ostream(text) << type;
    refuse("dtype_not_supported",
           "'" + name + "' is " + text + "; accepted: f32, f16, bf16");
  }
}
