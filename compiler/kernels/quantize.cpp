//===- quantize.cpp - kernels that quantize -------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One of these headers lists the fields and Config members:
// templates/moe/kernel/quantize.cuh, route.cuh (for quantization fused with
// routing), or store_chunk.cuh (for quantized matmul results).
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/Kind.h"
#include "compiler/kernels/Parts.h"

#include "compiler/plan/ProgramValues.h"

#include "llvm/Support/MathExtras.h"

#include <fmt/core.h>

#include <algorithm>

using mlir::cast;
using mlir::RankedTensorType;
using mlir::StringRef;
using namespace moec;
using namespace moec::compiler;

/// Returns the C++ policy of templates/moe/math/emulated.cuh that emulates
/// quantization by the descriptor.
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

void compiler::addQuantizedResult(Emission &emission) {
  auto quantize = findStage<moe::QuantizeOp>(emission.kernel);
  if (mlir::Value scale = quantize.getStaticScale())
    emission.pointer("static_scale", cppType(scale));
  emission.pointer("data", cppType(quantize.getData()), true);
  if (quantize.getScale())
    emission.pointer("scale", cppType(quantize.getScale()), true);
  ConfigPrinter &config = emission.config();
  config.type("Scaling", scalingPolicy(quantize));
  config.number("kScales", scalesOf(quantize.getStaticScale()));
}

static int64_t columnsOf(mlir::Value value) {
  return cast<RankedTensorType>(value.getType()).getDimSize(1);
}

void compiler::addQuantization(Emission &emission) {
  moe::KernelOp kernel = emission.kernel;
  // If the kernel also routes, the fields and Config members for routing have
  // already been added.
  const bool joins = bool(findStage<moe::RouteOp>(kernel));
  auto amax = findStage<moe::AmaxOp>(kernel);
  auto quantize = findStage<moe::QuantizeOp>(kernel);
  mlir::Value input = amax ? amax.getInput() : quantize.getInput();
  mlir::Value weights = amax ? amax.getRowWeights() : quantize.getRowWeights();
  mlir::Value offsets = amax ? amax.getOffsets() : quantize.getOffsets();
  mlir::Value staticScale = amax ? mlir::Value() : quantize.getStaticScale();
  const int64_t blockRows =
      amax ? int64_t(amax.getBlockRows()) : int64_t(*quantize.getBlockRows());

  ArgumentLayout &args = emission.args();
  moe::StageOpInterface stage =
      amax ? moe::StageOpInterface(amax) : moe::StageOpInterface(quantize);
  // If `offsets` is null, the rows are tokens, so the kernel needs the number
  // of tokens.
  const auto addTokens = [&] {
    if (!offsets && !args.has("tokens"))
      args.size("tokens", Expression::symbol("tokens"));
  };
  for (mlir::OpOperand &operand : stage->getOpOperands()) {
    const StringRef name = stage.getOperandName(operand.getOperandNumber());
    if (name == "valid_tokens")
      addTokens();
    emission.pointer(name, cppType(operand.get()));
    if (name == "input")
      args.rowStride("input_row_stride", emission.boundTo(name));
  }
  addTokens();
  for (mlir::OpResult result : stage->getResults())
    emission.pointer(stage.getResultName(result.getResultNumber()),
                     cppType(result), /*written=*/true);
  const bool secondScale = quantize && quantize.getStaticSecondScale();

  ConfigPrinter &config = emission.config();
  config.type("Input", cppType(input));
  config.type("Scaling", !amax ? scalingPolicy(quantize)
                         : amax.getPropagatesNan()
                             ? "moe::quant::DynamicTensorOfBytes"
                             : "moe::quant::DynamicTensor");
  config.number("kColumns", columnsOf(input));
  if (weights)
    config.number("kPairs", columnsOf(weights));
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

Expression compiler::ctasToQuantize(moe::KernelOp kernel, std::string &label) {
  // kWidth: columns that a thread emulates. kLanesOfGroup: threads that share a
  // group of 128 columns.
  constexpr int64_t kWidth = 8, kLanesOfGroup = 16;
  auto quantize = findStage<moe::QuantizeOp>(kernel);
  const int64_t threads = kernel.getScheduleAttr().getThreads();
  const moe::DescriptorAttr descriptor = quantize.getDescriptor();
  const int64_t columns = columnsOf(quantize.getInput());
  const Expression rows = Expression::symbol(
      quantize.getOffsets() || quantize.getExpertNumTokens() ||
              quantize.getRowWeights()
          ? "rows"
          : "tokens");
  const bool ofTensor = descriptor.isOfTensor();
  int64_t group = descriptor.isPlain() ? 0 : descriptor.getGroup()[1];
  const bool wholeRows =
      descriptor.getSecondPerRow() || (!ofTensor && group == -1);
  if (descriptor.isPlain() || (ofTensor && !quantize.isEmulated())) {
    label = std::to_string(*quantize.getBlockRows());
    return ceilDiv(rows, Expression(int64_t(*quantize.getBlockRows())));
  }
  if (wholeRows) {
    // A row is handled by 32 to 256 threads. Each has at most 16 columns unless
    // the row has more than 4096.
    const int64_t threadsOfRow = std::clamp<int64_t>(
        llvm::PowerOf2Ceil(llvm::divideCeil(columns, 16)), 32, 256);
    const int64_t rowsOfCta = std::max<int64_t>(threads / threadsOfRow, 1);
    label = fmt::format("{}x{}", rowsOfCta, columns);
    return ceilDiv(rows, Expression(rowsOfCta));
  }
  // A group never spans two rows.
  const bool emulated = quantize.isEmulated() || quantize.scalesBlocks();
  group = emulated ? std::max(group, kWidth) : group;
  const int64_t lanes = emulated ? group / kWidth : kLanesOfGroup;
  label = fmt::format("1x{}", group);
  return ceilDiv(rows * Expression(int64_t(llvm::divideCeil(columns, group))),
                 Expression(threads / lanes));
}

static void planQuantize(moe::KernelOp kernel, LaunchPlan &plan) {
  auto amax = findStage<moe::AmaxOp>(kernel);
  if (!amax) {
    plan.grid = ctasToQuantize(kernel, plan.label);
    return;
  }
  const bool ofRows =
      amax.getOffsets() || amax.getExpertNumTokens() || amax.getRowWeights();
  plan.label = std::to_string(amax.getBlockRows());
  plan.grid = ceilDiv(Expression::symbol(ofRows ? "rows" : "tokens"),
                      Expression(int64_t(amax.getBlockRows())));
}

constexpr Kind compiler::kernels::quantize = {
    .names = "amax quantize", .plan = planQuantize, .emit = addQuantization};
