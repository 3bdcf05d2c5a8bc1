//===- LayerFacts.cpp - a layer's facts for the resolver ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/LayerFacts.h"

#include "compiler/plan/ProgramValues.h"

#include <fmt/core.h>

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

namespace {
/// The operand descriptors of a matmul.
struct Operands {
  moe::DescriptorAttr activation, weight;
};
} // namespace

static std::string nameOfType(Type type) {
  return type ? elementTypeName(type) : "";
}

/// Returns the facts that are the same for all realizations.
static LayerFacts commonFacts(moe::LayerOp layer) {
  LayerFacts facts;
  facts.name = layer.getSymName();
  facts.localExperts = *layer.getLocalExperts();
  facts.experts =
      layer.isBatched() ? facts.localExperts : layer.getStoredExperts();
  facts.pairs = layer.isBatched() ? 1 : layer.getPairsOfToken();
  facts.format = layer.getActivationFormat();
  facts.hidden = layer.getWidth();
  facts.intermediate = *layer.getIntermediateSizePerPartition();
  facts.sharedIntermediate =
      layer.getSharedIntermediateSizePerPartition().value_or(0);
  facts.gated = layer.isGated();
  facts.takesManyRegisters = layer.getActivation().takesManyRegisters();
  facts.function = layer.getActivation().getRow().function;
  facts.quantizesWeights = layer.quantizesWeights();
  facts.takesCodes = layer.getInputQuantized() || !layer.hasMatmul();
  return facts;
}

/// For the first quantized matmul, sets `impossible`, the reason why no engine
/// multiplies the operands without converting them. Sets `instruction` if an
/// MMA instruction for these operands exists.
static void addImpossible(LayerFacts &facts, ArrayRef<Operands> matmuls) {
  for (const Operands &operands : matmuls) {
    if (operands.activation.isPlain())
      continue;
    const std::string activation = nameOfType(operands.activation.getElement());
    const std::string weight = nameOfType(operands.weight.getElement());
    facts.impossible = fmt::format(
        "no engine multiplies {} with {} as they are with these scales",
        activation, weight);
    const ArrayRef<int64_t> a = operands.activation.getGroup();
    const ArrayRef<int64_t> w = operands.weight.getGroup();
    if (a == w && a[0] == 1 && (a[1] == 16 || a[1] == 32))
      facts.instruction = catalog::blockInstruction(
          activation, nameOfType(operands.activation.getScale()), weight,
          nameOfType(operands.weight.getScale()));
    return;
  }
}

std::vector<LayerFacts> compiler::factsOf(moe::LayerOp layer) {
  const moe::QuantAttr stored = layer.getUsersQuant();
  const Type computeType = layer.getComputeType();
  std::vector<LayerFacts> made;
  for (const std::string_view way : stored.getRealizations()) {
    // A native entry also stands for `dequantized`: realizationWith() replaces
    // `native` for engines that convert the operands.
    if (way == "dequantized" && !made.empty())
      continue;
    const moe::QuantAttr quant = way == "weight_only"
                                     ? stored.withPlainActivations(computeType)
                                     : stored;
    LayerFacts facts = commonFacts(layer);
    facts.realization = way;
    facts.bits = quant.getBits();
    facts.scheme = quant.getScheme();
    facts.emulated = way == "emulated";
    const bool codes = quant.multipliesCodes() ||
                       (way == "native" && quant.mayMultiplyCodes());
    if (way == "native")
      facts.blocks = quant.getBlockPair();
    // Only if the package quantizes x: scales from the caller are f32 and need
    // not be powers of two.
    if (way == "native" && !layer.getInputQuantized())
      facts.powerGroups = quant.getPowerGroups();
    const bool converts = quant.dequantizesWeights() && !codes && !facts.blocks;
    const Operands matmuls[] = {{quant.getA1(), quant.getW1()},
                                {quant.getA2(), quant.getW2()}};
    if (way == "native" && (converts || facts.blocks))
      addImpossible(facts, matmuls);
    facts.nativeScales = true;
    for (const auto &[activation, weight] : matmuls) {
      facts.quantized |= !activation.isPlain() || !weight.isPlain();
      facts.nativeScales &= moe::nativeScales(activation, weight) != nullptr;
      facts.elementTypes.push_back(nameOfType(converts && !activation.isPlain()
                                                  ? computeType
                                                  : activation.getElement()));
      (converts || codes ? facts.codes : facts.elementTypes)
          .push_back(nameOfType(weight.getElement()));
      if (converts || codes)
        facts.codeGroups.push_back(
            {weight.getGroup()[0], weight.getGroup()[1]});
    }
    made.push_back(std::move(facts));
  }
  return made;
}

std::string compiler::realizationOf(moe::ProgramOp program) {
  moe::LayerOp layer = program.getLayerOp();
  if (layer.getStoredQuant())
    return "weight_only";
  bool emulates = false, converts = false;
  program.walk([&](moe::GroupedMatmulOp matmul) {
    emulates |= matmul.getRealization() == moe::Realization::Emulated;
    converts |= matmul.getRealization() == moe::Realization::Dequantized;
  });
  return emulates ? "emulated" : converts ? "dequantized" : "native";
}

LayerFacts compiler::factsOf(moe::ProgramOp program) {
  std::vector<LayerFacts> ways = factsOf(program.getLayerOp());
  const std::string its = realizationOf(program);
  for (LayerFacts &facts : ways)
    if (facts.realization == its)
      return facts;
  return ways.front();
}

Choices compiler::choicesOf(moe::ReportAttr report) {
  Choices choices;
  const auto asked = [&](StringRef option) {
    const moe::ChoiceAttr choice = report.getChoice(option);
    if (choice && choice.getBy() != "option")
      choices.variables.push_back(option.str());
    return choice ? choice.getValue().str() : std::string();
  };
  choices.backend = asked("backend");
  choices.engine = asked("engine");
  choices.exclude = splitWords(asked("exclude"));
  choices.allow = splitWords(asked("allow"));
  return choices;
}
