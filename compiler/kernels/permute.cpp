//===- permute.cpp - kernel that sorts rows by expert ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/Kind.h"
#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/ProgramValues.h"

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

static FailureOr<moe::ScheduleAttr> selectPermute(moe::KernelOp kernel,
                                                  MeasuredSchedules &) {
  auto permute = findStage<moe::PermuteOp>(kernel);
  BlockSchedule fields;
  fields.blockTokens = permute.getBlockTokens();
  const bool isLarge =
      tokenRange(kernel).second > 512 || permute.getNumLocal() > 512;
  fields.threads = isLarge ? 1024 : 512;
  return scheduleAttr<moe::BlockScheduleAttr>(
      kernel->getParentOfType<moe::ProgramOp>(), fields);
}

static void planPermute(moe::KernelOp kernel, LaunchPlan &plan) {
  auto permute = findStage<moe::PermuteOp>(kernel);
  plan.grid = tokenBlocks(permute.getBlockTokens(), permute.getMostBlocks());
}

constexpr Kind compiler::kernels::permute = {
    .names = "permute", .schedule = selectPermute, .plan = planPermute};
