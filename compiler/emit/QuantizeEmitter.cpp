//===- QuantizeEmitter.cpp - text and stages of quantization --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The fields and members here are those that quantize.cuh lists, those that
// route.cuh takes besides, or those of store_chunk.cuh.
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/Emitters.h"

#include "compiler/plan/ProgramValues.h"

#include <fmt/core.h>

using mlir::cast;
using mlir::RankedTensorType;
using mlir::StringRef;
using namespace moec;
using namespace moec::compiler;

/// The policy in emulated.cuh.
static std::string emulatedPolicy(moe::DescriptorAttr descriptor) {
  const std::string element(
      cppElementType(elementTypeName(descriptor.getElement())));
  const int64_t group = descriptor.getGroup()[1];
  if (descriptor.isOfTensor())
    return fmt::format("moe::quant::FloatTensor<{}, {}>", element,
                       descriptor.getDynamic());
  if (descriptor.getSecondScale())
    return fmt::format("moe::quant::TwoLevels<{}, {}, {}>", element, group,
                       descriptor.getSecondPerRow());
  if (StringRef rule = descriptor.getRule(); !rule.empty())
    return fmt::format("moe::quant::PowerGroups<{}, moe::quant::{}, {}>",
                       element,
                       rule == "even"   ? "Even"
                       : rule == "ceil" ? "Ceil"
                                        : "Floor",
                       group);
  if (group == -1)
    return fmt::format("moe::quant::FloatRows<{}>", element);
  return fmt::format("moe::quant::FloatGroups<{}, {}>", element, group);
}

std::string compiler::scalingPolicy(moe::QuantizeOp quantize) {
  if (quantize.isEmulated())
    return emulatedPolicy(quantize.getDescriptor());
  if (quantize.scalesBlocks())
    return fmt::format("moe::quant::Encoded<{}>",
                       emulatedPolicy(quantize.getDescriptor()));
  return scalingPolicy(quantize.getDescriptor()).str();
}

StringRef compiler::scalingPolicy(moe::DescriptorAttr descriptor) {
  if (descriptor.isPlain())
    return "moe::quant::Rounded";
  const bool ofBytes = descriptor.getElement().isInteger(8);
  if (descriptor.getGroup()[0] == -1)
    return !descriptor.getDynamic() ? "moe::quant::StaticTensor"
           : ofBytes                ? "moe::quant::DynamicTensorOfBytes"
                                    : "moe::quant::DynamicTensor";
  if (descriptor.getGroup()[1] == -1)
    return ofBytes ? "moe::quant::TokenOfBytes" : "moe::quant::Token";
  return descriptor.getRule().empty() ? "moe::quant::Group128"
                                      : "moe::quant::PowerGroup128";
}

int64_t compiler::scalesOf(mlir::Value scale) {
  return scale ? cast<RankedTensorType>(scale.getType()).getDimSize(0) : 1;
}

void compiler::emitQuantizedResult(
    moe::KernelOp kernel, llvm::function_ref<std::string(StringRef)> boundTo,
    EmittedKernel &out) {
  auto quantize = findStage<moe::QuantizeOp>(kernel);
  ArgumentLayout &args = out.text.arguments;
  if (mlir::Value scale = quantize.getStaticScale())
    args.pointer("static_scale", cppType(scale), boundTo("static_scale"));
  args.pointer("data", cppType(quantize.getData()), boundTo("data"), true);
  if (quantize.getScale())
    args.pointer("scale", cppType(quantize.getScale()), boundTo("scale"), true);
  ConfigPrinter &config = out.text.config;
  config.type("Scaling", scalingPolicy(quantize));
  config.number("kScales", scalesOf(quantize.getStaticScale()));
}

void compiler::emitQuantization(
    moe::KernelOp kernel, llvm::function_ref<std::string(StringRef)> boundTo,
    EmittedKernel &out) {
  // Beside routing, whose fields and members are there already.
  const bool joins = bool(findStage<moe::RouteOp>(kernel));
  auto amax = findStage<moe::AmaxOp>(kernel);
  auto quantize = findStage<moe::QuantizeOp>(kernel);
  mlir::Value input = amax ? amax.getInput() : quantize.getInput();
  mlir::Value weights = amax ? amax.getRowWeights() : quantize.getRowWeights();
  mlir::Value offsets = amax ? amax.getOffsets() : quantize.getOffsets();
  mlir::Value staticScale = amax ? mlir::Value() : quantize.getStaticScale();
  int64_t blockRows =
      amax ? int64_t(amax.getBlockRows()) : int64_t(*quantize.getBlockRows());
  int64_t columns = cast<RankedTensorType>(input.getType()).getDimSize(1);

  ArgumentLayout &args = out.text.arguments;
  moe::StageOpInterface stage =
      amax ? moe::StageOpInterface(amax) : moe::StageOpInterface(quantize);
  // Rows are of tokens, unless offsets say them.
  const auto addTokens = [&] {
    if (!offsets && !args.has("tokens"))
      args.size("tokens", Expression::symbol("tokens"));
  };
  for (mlir::OpOperand &operand : stage->getOpOperands()) {
    const StringRef name = stage.getOperandName(operand.getOperandNumber());
    if (name == "valid_tokens")
      addTokens();
    args.pointer(name, cppType(operand.get()), boundTo(name));
    if (name == "input")
      args.rowStride("input_row_stride", boundTo(name));
  }
  addTokens();
  for (mlir::OpResult result : stage->getResults()) {
    const StringRef name = stage.getResultName(result.getResultNumber());
    args.pointer(name, cppType(result), boundTo(name), /*written=*/true);
  }
  const int64_t pairs =
      weights ? cast<RankedTensorType>(weights.getType()).getDimSize(1) : 1;
  const bool secondScale = quantize && quantize.getStaticSecondScale();

  ConfigPrinter &config = out.text.config;
  config.type("Input", cppType(input));
  config.type("Scaling", !amax ? scalingPolicy(quantize)
                         : amax.getPropagatesNan()
                             ? "moe::quant::DynamicTensorOfBytes"
                             : "moe::quant::DynamicTensor");
  config.number("kColumns", columns);
  if (weights)
    config.number("kPairs", pairs);
  if (!joins) {
    config.flag("kByOffsets", bool(offsets));
    config.number("kExperts",
                  expertsOfRows(kernel, offsets,
                                amax ? amax.getExpertNumTokens()
                                     : quantize.getExpertNumTokens()));
  }
  config.number(
      "kScales",
      scalesOf(secondScale ? quantize.getStaticSecondScale() : staticScale));
  config.number("kBlockRows", blockRows);
}
