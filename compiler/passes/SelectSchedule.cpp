//===- SelectSchedule.cpp - selects a schedule for each kernel ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// compiler/kernels makes the schedule of each kind of kernel. Schedules in the
// input are checked by the same rules, whatever their source.
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/KernelPlan.h"
#include "compiler/passes/Passes.h"
#include "compiler/plan/MeasuredSchedules.h"

#include "mlir/IR/BuiltinOps.h"

namespace moec::compiler {
#define GEN_PASS_DEF_SELECTSCHEDULEPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

static LogicalResult select(moe::KernelOp kernel, MeasuredSchedules &measured) {
  if (kernel.getSchedule())
    return verifySchedule(kernel, measured);
  const FailureOr<moe::ScheduleAttr> made = makeSchedule(kernel, measured);
  if (failed(made))
    return failure();
  kernel.setScheduleAttr(*made);
  return success();
}

namespace {
struct SelectSchedule : compiler::impl::SelectSchedulePassBase<SelectSchedule> {
  using SelectSchedulePassBase::SelectSchedulePassBase;

  void runOnOperation() override {
    moe::ProgramOp program = getOperation();
    if (!measured)
      measured.emplace(std::vector<std::string>(tuned.begin(), tuned.end()));
    measured->beginProgram();
    for (auto kernel : program.getBody().getOps<moe::KernelOp>()) {
      if (!program.isResolved()) {
        program.emitError()
            << "no backend is chosen; run moe-choose-backend first";
        return signalPassFailure();
      }
      if (failed(select(kernel, *measured)))
        return signalPassFailure();
    }
  }

  std::optional<MeasuredSchedules> measured;
};
} // namespace
