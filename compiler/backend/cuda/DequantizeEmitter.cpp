//===- DequantizeEmitter.cpp - text and stage of a dequantization ---------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The fields and members here are those that dequantize.cuh lists.
//
//===----------------------------------------------------------------------===//

#include "compiler/backend/cuda/DequantizeEmitter.h"

#include "compiler/backend/cuda/StageWriter.h"
#include "compiler/passes/ProgramValues.h"

#include <fmt/format.h>

#include <algorithm>

using mlir::cast;
using mlir::RankedTensorType;
using mlir::StringRef;
using namespace moec;
using namespace moec::compiler;

/// Columns of a thread.
static constexpr int64_t kWidth = 8;

void compiler::emitDequantization(
    moe::KernelOp kernel, llvm::function_ref<std::string(StringRef)> boundTo,
    EmittedKernel &out) {
  auto dequantize = findStage<moe::DequantizeOp>(kernel);
  moe::LayerOp layer = kernel->getParentOfType<moe::ProgramOp>().getLayerOp();
  const moe::DescriptorAttr descriptor = dequantize.getDescriptor();
  out.stages.emplace_back();
  Stage &stage = out.stages.back();
  stage.op = "dequantize";
  ArgumentLayout &args = out.text.arguments;
  const auto operand = [&](StringRef field, mlir::Value value) {
    if (!value)
      return;
    args.pointer(field, cppElementType(elementTypeOf(value)), boundTo(field));
    stage.operands[field.str()] = field.str();
  };
  operand("input", dequantize.getInput());
  args.rowStride("input_row_stride", boundTo("input"));
  operand("scale", dequantize.getScale());
  operand("second_scale", dequantize.getSecondScale());
  operand("expert_num_tokens", dequantize.getCounts());
  args.size("tokens", Expression::symbol("tokens"));
  args.pointer("data", cppElementType(elementTypeOf(dequantize.getData())),
               boundTo("data"), /*written=*/true);
  stage.results["data"] = "data";
  addGroup(stage, "", descriptor);
  if (dequantize.getSecondScale())
    stage.attributes["second_per_token"] = descriptor.getSecondPerToken();

  const int64_t columns =
      cast<RankedTensorType>(dequantize.getInput().getType()).getDimSize(1);
  ConfigPrinter &config = out.text.config;
  config.number("kColumns", columns);
  config.number("kScaleRows", descriptor.isOfTensor() ? 0 : 1);
  config.number("kScaleColumns",
                std::max<int64_t>(descriptor.getGroup()[1], 0));
  config.flag("kSecondPerToken", descriptor.getSecondPerToken());
  config.number("kExperts",
                layer.getLocalExperts().value_or(layer.getExperts()));

  out.tile = fmt::format("1x{}", kWidth);
  const Expression rows =
      Expression::symbol(dequantize.getCounts() ? "rows" : "tokens");
  out.grid.ctas[0] = ceilDiv(rows * Expression(columns / kWidth),
                             Expression(out.text.threads));
}
