//===- dequantize.cpp - kernel that dequantizes x -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/Kind.h"
#include "compiler/plan/ProgramValues.h"

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

static void planDequantize(moe::KernelOp kernel, LaunchPlan &plan) {
  auto dequantize = findStage<moe::DequantizeOp>(kernel);
  constexpr int64_t kWidth = 8; // columns per thread
  const int64_t columns =
      cast<RankedTensorType>(dequantize.getInput().getType()).getDimSize(1);
  plan.grid = ceilDiv(
      Expression::symbol(dequantize.getExpertNumTokens() ? "rows" : "tokens") *
          Expression(columns / kWidth),
      Expression(int64_t(kernel.getScheduleAttr().getThreads())));
}

constexpr Kind compiler::kernels::dequantize = {.names = "dequantize",
                                                .plan = planDequantize};
