//===- PlanWorkspace.cpp - where workspace values lie ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A value lives from the launch that writes it to the last that reads it, or to
// one that runs beside that. The plan is made per variant; a plan that is there
// already is left alone.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Overlap.h"
#include "compiler/passes/Passes.h"
#include "compiler/passes/ProgramValues.h"
#include "compiler/schedule/Liveness.h"

#include "mlir/IR/BuiltinOps.h"

#include <algorithm>

namespace moec::compiler {
#define GEN_PASS_DEF_PLANWORKSPACEPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

namespace {
struct PlanWorkspace : compiler::impl::PlanWorkspacePassBase<PlanWorkspace> {
  using PlanWorkspacePassBase::PlanWorkspacePassBase;

  void runOnOperation() override {
    for (auto program : getOperation().getOps<moe::ProgramOp>()) {
      std::vector<WorkspaceValue> values = workspaceValues(program);
      for (auto variant : program.getBody().getOps<moe::VariantOp>())
        if (!variant.getWorkspaceBytes() &&
            failed(plan(program, variant, values)))
          return signalPassFailure();
    }
  }

  LogicalResult plan(moe::ProgramOp program, moe::VariantOp variant,
                     const std::vector<WorkspaceValue> &values) {
    std::vector<LiveValue> live;
    int64_t index = 0;
    for (Operation &op : variant.getBody().front().without_terminator()) {
      auto launch = dyn_cast<moe::LaunchOp>(op);
      if (!launch)
        return op.emitError() << "expected launches only, got a stage; run "
                                 "moe-form-kernels first";
      // What a launch reads while the next one already runs outlives that one.
      auto next = dyn_cast_or_null<moe::LaunchOp>(launch->getNextNode());
      int64_t last = index + (next && awaitedColumnTiles(next) > 0);
      for (Value operand : launch.getArguments()) {
        std::string name = valueName(operand);
        for (LiveValue &value : live)
          if (value.name == name && operand.getDefiningOp<moe::LaunchOp>())
            value.lastLaunch = std::max(value.lastLaunch, last);
      }
      for (auto [result, value] : llvm::enumerate(launch.getValues())) {
        std::string name = valueName(value);
        auto known = llvm::find_if(
            values, [&](const WorkspaceValue &v) { return v.name == name; });
        if (isOutput(launch, result) || known == values.end())
          continue;
        if (llvm::any_of(live, [&](LiveValue &v) { return v.name == name; }))
          return launch.emitError()
                 << "two launches of variant '" << variant.getSymName()
                 << "' write the workspace value '" << name
                 << "'; each value has one writer";
        live.push_back({name, known->bytes(), index, index});
      }
      moe::ScheduleAttr schedule = launch.getKernelOp().getScheduleAttr();
      if (schedule && schedule.getBuffers() > 0)
        for (const WorkspaceValue &value : values)
          if (value.name == kSlices)
            live.push_back({value.name, value.bytes(), index, index});
      ++index;
    }

    Symbols largest;
    largest.tokens = variant.getMaxTokens();
    largest.maxTokens = program.getMaxTokens();
    auto rows = rowCapacity(program).evaluate(largest);
    if (!rows)
      return variant.emitError() << rows.error().message;
    largest.rows = *rows;
    auto planned = planWorkspace(live, largest);
    if (!planned)
      return variant.emitError() << planned.error().message;
    MLIRContext *context = &getContext();
    SmallVector<Attribute> regions;
    for (auto [value, offset] : llvm::zip(live, planned->offsets))
      regions.push_back(moe::RegionAttr::get(
          context, value.name, offset.text(), value.bytes.text(),
          value.firstLaunch, value.lastLaunch));
    variant.setRegionsAttr(ArrayAttr::get(context, regions));
    variant.setWorkspaceBytesAttr(
        StringAttr::get(context, planned->bytes.text()));
    return success();
  }
};
} // namespace
