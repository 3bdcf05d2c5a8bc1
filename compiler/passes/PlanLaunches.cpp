//===- PlanLaunches.cpp - plans the launches of kernels -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decides shared memory, grids, and how a kernel overlaps with adjacent
// launches. compiler/kernels makes these decisions for each kind of kernel, and
// the emitters print them. A plan in the input must equal the plan made here.
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/KernelPlan.h"
#include "compiler/passes/Passes.h"

namespace moec::compiler {
#define GEN_PASS_DEF_PLANLAUNCHESPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

namespace {
struct PlanLaunches : compiler::impl::PlanLaunchesPassBase<PlanLaunches> {
  using PlanLaunchesPassBase::PlanLaunchesPassBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getBody().getOps<moe::KernelOp>())
      if (failed(plan(kernel)))
        return signalPassFailure();
  }

  static LogicalResult plan(moe::KernelOp kernel) {
    const FailureOr<moe::PlanAttr> made = makePlan(kernel);
    if (failed(made))
      return failure();
    const moe::PlanAttr stands = kernel.getPlanAttr();
    if (stands && stands != *made)
      return kernel.emitError()
             << "the existing plan does not fit this kernel: expected " << *made
             << ", got " << stands
             << "; remove 'plan' so that it is planned again";
    kernel.setPlanAttr(*made);
    return success();
  }
};
} // namespace
