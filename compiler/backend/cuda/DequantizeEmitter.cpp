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
  const moe::DescriptorAttr descriptor = dequantize.getDescriptor();
  ArgumentLayout &args = out.text.arguments;
  const auto operand = [&](StringRef field, mlir::Value value) {
    if (!value)
      return;
    args.pointer(field, cppElementType(elementTypeOf(value)), boundTo(field));
  };
  operand("input", dequantize.getInput());
  args.rowStride("input_row_stride", boundTo("input"));
  operand("scale", dequantize.getScale());
  operand("second_scale", dequantize.getSecondScale());
  operand("expert_num_tokens", dequantize.getExpertNumTokens());
  args.size("tokens", Expression::symbol("tokens"));
  args.pointer("data", cppElementType(elementTypeOf(dequantize.getData())),
               boundTo("data"), /*written=*/true);

  const int64_t columns =
      cast<RankedTensorType>(dequantize.getInput().getType()).getDimSize(1);
  ConfigPrinter &config = out.text.config;
  config.number("kColumns", columns);
  config.number("kScaleRows", descriptor.isOfTensor() ? 0 : 1);
  config.number("kScaleColumns",
                std::max<int64_t>(descriptor.getGroup()[1], 0));
  config.flag("kSecondPerToken", descriptor.getSecondPerToken());
  config.number("kExperts",
                localExperts(kernel->getParentOfType<moe::ProgramOp>()));

  out.tile = fmt::format("1x{}", kWidth);
  const Expression rows =
      Expression::symbol(dequantize.getExpertNumTokens() ? "rows" : "tokens");
  out.grid.ctas[0] = ceilDiv(rows * Expression(columns / kWidth),
                             Expression(out.text.threads));
}
