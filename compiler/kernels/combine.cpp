//===- combine.cpp - kernels that sum over experts ------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/Kind.h"
#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/ProgramValues.h"

#include "llvm/Support/MathExtras.h"

#include <fmt/core.h>

#include <algorithm>

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

namespace {
/// The sum over each token's experts that a kernel computes: a row of `out` is
/// the sum of the token's rows in `partials`. `tokens`: maximum token count.
struct Sum {
  mlir::Value partials, out;
  int64_t hidden = 0, tokens = 0;
};
} // namespace

static Sum sumOf(moe::KernelOp kernel) {
  const int64_t tokens = tokenRange(kernel).second;
  if (auto combine = findStage<moe::CombineOp>(kernel))
    return {combine.getPartials(), combine.getOut(),
            int64_t(combine.getWidth()), tokens};
  if (auto combine = findStage<moe::CombineConstantsOp>(kernel))
    return {combine.getPartials(), combine.getOut(),
            int64_t(combine.getWidth()), tokens};
  auto finalize = findStage<moe::FinalizeOp>(kernel);
  return {finalize.getPartials(), finalize.getOut(),
          int64_t(finalize.getWidth()), tokens / int64_t(finalize.getRanks())};
}

/// Makes a schedule with one CTA per token. For at most 128 tokens, a token is
/// split into blocks of about 512 columns with one CTA each.
static FailureOr<moe::ScheduleAttr> selectCombine(moe::KernelOp kernel,
                                                  MeasuredSchedules &) {
  const Sum sum = sumOf(kernel);
  const int64_t hidden =
      cast<RankedTensorType>(sum.out.getType()).getShape().back();
  const int64_t width =
      16 / std::min(elementBytes(elementTypeOf(sum.out)),
                    elementBytes(elementTypeOf(sum.partials)));
  const int64_t vectors = llvm::divideCeil(hidden, width);
  const int64_t blocks =
      sum.tokens <= 128 ? std::max<int64_t>(hidden / 512, 1) : 1;
  const int64_t share = llvm::divideCeil(vectors, blocks);
  return scheduleAttr<moe::CombineScheduleAttr>(
      kernel->getParentOfType<moe::ProgramOp>(),
      {{},
       share * width,
       std::clamp<int64_t>(llvm::alignTo(share, 32), 32, 256)});
}

static void planCombine(moe::KernelOp kernel, LaunchPlan &plan) {
  const int64_t columns =
      cast<moe::CombineScheduleAttr>(kernel.getScheduleAttr())
          .getFields()
          .columns;
  plan.columnBlocks = llvm::divideCeil(sumOf(kernel).hidden, columns);
  plan.label = fmt::format("1x{}", columns);
  plan.grid = Expression::symbol("tokens") * Expression(plan.columnBlocks);
  // Each CTA waits for its stores to other ranks before it exits. A small grid
  // limits the total time of these waits.
  constexpr int64_t kCtasPerSm = 4;
  if (findStage<moe::SendBackOp>(kernel))
    plan.grid =
        min(plan.grid, Expression::symbol("sm_count") * Expression(kCtasPerSm));
}

constexpr Kind compiler::kernels::combine = {
    .names = "combine combine_constants combine_send_back finalize",
    .schedule = selectCombine,
    .plan = planCombine};
