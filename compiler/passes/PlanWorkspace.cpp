//===- PlanWorkspace.cpp - places values in the workspace -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A value lives from the launch that writes the value to the last launch that
// reads it. If the launch after the last reader overlaps with the last reader,
// the value lives until that following launch ends. Each variant has its own
// plan. A plan in the input must equal the plan made here.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"
#include "compiler/plan/KernelFacts.h"
#include "compiler/plan/Liveness.h"
#include "compiler/plan/ProgramValues.h"
#include "compiler/plan/Regions.h"
#include "compiler/plan/Window.h"
#include "runtime/package/Limits.h"

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
    moe::ProgramOp program = getOperation();
    const std::vector<WorkspaceValue> values = workspaceValues(program);
    for (auto variant : program.getBody().getOps<moe::VariantOp>())
      if (failed(plan(program, variant, values)))
        return signalPassFailure();
  }

  /// Checks that a plan in the input equals the plan of the launches.
  static LogicalResult compare(moe::VariantOp variant, StringAttr bytes,
                               ArrayRef<Attribute> regions) {
    const StringRef instead =
        "; remove 'workspace' and 'regions' so that they are planned again";
    if (variant.getWorkspaceBytesAttr() != bytes)
      return variant.emitError()
             << "the workspace's plan does not fit the launches: expected "
             << bytes << " bytes, got " << variant.getWorkspaceBytesAttr()
             << instead;
    const ArrayAttr stands = variant.getRegionsAttr();
    if (!stands || stands.size() != regions.size())
      return variant.emitError()
             << "the workspace's plan does not fit the launches: expected "
             << regions.size() << " regions, got "
             << (stands ? stands.size() : 0) << instead;
    for (auto [got, want] : llvm::zip(stands, regions))
      if (got != want)
        return variant.emitError()
               << "the workspace's plan does not fit the launches: expected "
               << want << ", got " << got << instead;
    return success();
  }

  /// Checks that pairs, and the 16-byte chunks of each matmul operand, can be
  /// counted in 32 bits, as kernels do.
  static LogicalResult checkLimits(moe::ProgramOp program,
                                   moe::VariantOp variant,
                                   const std::vector<WorkspaceValue> &values,
                                   const Symbols &largest) {
    if (*largest.rows > kMostRows)
      return refuse(program, "size_not_supported",
                    Twine(*largest.rows) + " rows of a token and an expert " +
                        "follow from max_tokens " + Twine(*largest.tokens) +
                        "; accepted: at most " + Twine(kMostRows));
    const int64_t most = program.getMaxTokens();
    int64_t ranks = windowRanks(program);
    for (auto collective : variant.getBody().getOps<moe::CollectiveOp>())
      if (collective.getKind() == "all_gather")
        ranks = collective.getRanks();
    if (ranks > most)
      return refuse(program, "size_not_supported",
                    "max_tokens " + Twine(most) + " counts the tokens of " +
                        Twine(ranks) + " ranks together; accepted: at least " +
                        Twine(ranks));
    for (auto launch : variant.getBody().getOps<moe::LaunchOp>())
      for (auto [name, value] :
           llvm::zip(launch.getKernelOp().getFields(), launch.getArguments())) {
        if (cast<StringAttr>(name).getValue() != "lhs")
          continue;
        auto type = cast<RankedTensorType>(value.getType());
        const int64_t columns = type.getDimSize(type.getRank() - 1);
        const int64_t rows = isa<BlockArgument>(value) && !isBatched(program)
                                 ? *largest.tokens
                                 : *largest.rows;
        Result<int64_t> bytes =
            rows * columns * elementBytes(elementTypeOf(value));
        for (const auto &list : {values, windowValues(program)})
          for (const WorkspaceValue &known : list)
            if (known.name == valueName(value))
              bytes = known.bytes().evaluate(largest);
        if (!bytes)
          return variant.emitError() << bytes.error().message;
        if (*bytes >= kOperandBytes)
          return refuse(program, "size_not_supported",
                        "a matmul reads '" + valueName(value) +
                            "', which has " + Twine(*bytes) +
                            " bytes with max_tokens " + Twine(*largest.tokens) +
                            "; accepted: below " + Twine(kOperandBytes));
      }
    return success();
  }

  LogicalResult plan(moe::ProgramOp program, moe::VariantOp variant,
                     const std::vector<WorkspaceValue> &values) {
    std::vector<LiveValue> live;
    int64_t index = 0;
    for (Operation &op : variant.getBody().front().without_terminator()) {
      auto launch = dyn_cast<moe::LaunchOp>(op);
      if (!launch && !isa<moe::CollectiveOp>(op))
        return op.emitError() << "expected launches only, got a stage; run "
                                 "moe-form-kernels first";
      // If the next launch starts before this launch ends, the values that this
      // launch reads must live until the next launch ends.
      auto next = dyn_cast_or_null<moe::LaunchOp>(op.getNextNode());
      int64_t last = index + (next && awaitedColumnTiles(next) > 0);
      for (Value operand : op.getOperands()) {
        std::string name = valueName(operand);
        for (LiveValue &value : live)
          if (value.name == name &&
              isa_and_nonnull<moe::LaunchOp, moe::CollectiveOp>(
                  operand.getDefiningOp()))
            value.lastLaunch = std::max(value.lastLaunch, last);
      }
      for (OpResult value : op.getResults()) {
        std::string name = valueName(value);
        auto known = llvm::find_if(
            values, [&](const WorkspaceValue &v) { return v.name == name; });
        if (isOutput(value) || known == values.end())
          continue;
        if (llvm::any_of(live, [&](LiveValue &v) { return v.name == name; }))
          return op.emitError()
                 << "two launches of variant '" << variant.getSymName()
                 << "' write the workspace value '" << name
                 << "'; each value has one writer";
        live.push_back({name, known->bytes(), index, index});
      }
      if (launch && isa_and_nonnull<moe::SlicesScheduleAttr>(
                        launch.getKernelOp().getScheduleAttr()))
        for (const WorkspaceValue &value : values)
          if (value.name == kSlices)
            live.push_back({value.name, value.bytes(), index, index});
      ++index;
    }

    Symbols largest;
    largest.tokens = largest.ownTokens = variant.getMaxTokens();
    largest.maxTokens = program.getMaxTokens();
    auto rows = rowCapacity(program).evaluate(largest);
    if (!rows)
      return variant.emitError() << rows.error().message;
    largest.rows = *rows;
    if (failed(checkLimits(program, variant, values, largest)))
      return failure();
    auto planned = planWorkspace(live, largest);
    if (!planned)
      return variant.emitError() << planned.error().message;
    MLIRContext *context = &getContext();
    std::vector<PlacedRegion> placed;
    for (auto [value, offset] : llvm::zip(live, planned->offsets))
      placed.push_back({value.name, offset.text(), value.bytes});
    const RegionEnds ends(placed);
    SmallVector<Attribute> regions;
    for (auto [value, offset] : llvm::zip(live, planned->offsets))
      regions.push_back(moe::RegionAttr::get(
          context, value.name, ends.shortened(offset), value.bytes.text(),
          value.firstLaunch, value.lastLaunch));
    const auto bytes = StringAttr::get(context, ends.shortened(planned->bytes));
    if (variant.getRegionsAttr() || variant.getWorkspaceBytesAttr())
      return compare(variant, bytes, regions);
    variant.setRegionsAttr(ArrayAttr::get(context, regions));
    variant.setWorkspaceBytesAttr(bytes);
    return success();
  }
};
} // namespace
