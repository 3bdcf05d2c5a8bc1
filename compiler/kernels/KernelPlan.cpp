//===- KernelPlan.cpp - schedule and plan of a kernel ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/KernelPlan.h"

#include "compiler/kernels/Kind.h"
#include "compiler/plan/KernelFacts.h"
#include "compiler/plan/ProgramValues.h"

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

FailureOr<moe::ScheduleAttr>
compiler::makeSchedule(moe::KernelOp kernel, MeasuredSchedules &measured) {
  if (const auto schedule = kindOf(kernel).schedule)
    return schedule(kernel, measured);
  return blockSchedule(kernel, 256);
}

LogicalResult compiler::verifySchedule(moe::KernelOp kernel,
                                       MeasuredSchedules &measured) {
  const auto accepts = kindOf(kernel).accepts;
  const FailureOr<moe::ScheduleAttr> wanted =
      accepts ? accepts(kernel) : makeSchedule(kernel, measured);
  if (failed(wanted))
    return failure();
  if (kernel.getScheduleAttr() == *wanted)
    return success();
  return kernel.emitError()
         << "the existing schedule does not fit this kernel: expected "
         << *wanted << ", got " << kernel.getScheduleAttr();
}

FailureOr<moe::PlanAttr> compiler::makePlan(moe::KernelOp kernel) {
  const moe::ScheduleAttr schedule = kernel.getScheduleAttr();
  if (!schedule)
    return kernel.emitError()
           << "kernel has no schedule; run moe-select-schedule first";
  const catalog::KernelKind &row = kernel.getRow();
  LaunchPlan made;
  if (const auto plan = kindOf(kernel).plan) {
    plan(kernel, made);
  } else {
    auto parsed = Expression::parse(withFacts(kernel, row.grid));
    if (!parsed)
      return kernel.emitError() << parsed.error().message;
    made.grid = *parsed;
  }
  if (!row.label.empty())
    made.label = withFacts(kernel, row.label);
  made.grid = sizeIn(kernel, made.grid);
  const bool early = schedule.getProgrammatic() && !row.early.empty() &&
                     areOlder(kernel, row.early);
  return moe::PlanAttr::get(kernel.getContext(), StringRef(made.grid.text()),
                            made.sharedBytes, early, made.cursor, made.counts,
                            made.awaits, made.splitTiles, made.columnBlocks,
                            StringRef(made.label));
}
