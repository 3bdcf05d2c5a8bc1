//===- GroupStages.cpp - groups stages into kernels -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/GroupStages.h"

#include "compiler/matmul/Engine.h"
#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/ProgramValues.h"
#include "dialect/catalog/Engines.h"

#include "mlir/IR/IRMapping.h"

#include <fmt/core.h>

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

/// Maximum token count for which one kernel routes and permutes. Each of the 32
/// warps of one CTA then has four tokens, and the kernel takes about as long as
/// a second launch would.
static constexpr int64_t kFusedTokens = 128;
/// Maximum token count for which the kernel that routes also quantizes x. Up to
/// this count, saving a launch saves 0.3 to 4 us; with 8192 tokens, sharing a
/// kernel would cost up to 40 us.
static constexpr int64_t kQuantizedBesideRouting = 512;

bool compiler::isOfIntermediate(Operation *op) {
  auto quantize = dyn_cast<moe::QuantizeOp>(op);
  auto amax = dyn_cast<moe::AmaxOp>(op);
  // x is an argument of the program, even if its rows have counts; the
  // intermediate is not.
  const Value input = quantize ? quantize.getInput() : amax.getInput();
  const bool areCounted =
      quantize ? quantize.getOffsets() || quantize.getExpertNumTokens() ||
                     quantize.getTiles()
               : amax.getOffsets() || amax.getExpertNumTokens();
  return areCounted && !isa<BlockArgument>(input);
}

/// Returns the reason why the first matmul's kernel does not quantize the
/// intermediate, or "" if that kernel quantizes it.
///
/// The kernel quantizes the intermediate if its scale is static, or if one CTA
/// computes all columns that share a scale and `asked` is false. `asked`:
/// StageFusion::quantizesApart. No CTA has all columns of a row, so scales
/// per row or per tensor need a separate launch. Letting the last CTA of a row
/// read the columns back was measured and is slower
/// (bench/notes/quantize-h100.md).
///
/// There are two exceptions. Warp-specialized engines never emulate their
/// result. Emulated and block-scaled operands without a static scale are
/// quantized here only if their descriptor has a rounding rule, so that their
/// scales are powers of two: dividing by other scales is faster in a separate
/// launch.
static std::string whyApart(moe::VariantOp variant, moe::QuantizeOp quantize,
                            bool asked) {
  const moe::DescriptorAttr descriptor = quantize.getDescriptor();
  auto program = variant->getParentOfType<moe::ProgramOp>();
  const StringRef engine = program.getReportAttr().getEngine();
  const catalog::Engine *row = catalog::find(catalog::kEngines, engine);
  if (quantize.isEmulated() && row && row->warpSpecialized)
    return fmt::format("engine '{}' does not emulate its result", engine.str());
  if (quantize.getStaticScale())
    return "";
  if (descriptor.getGroup()[1] < 1 || descriptor.getSecondPerRow())
    return "a scale follows from more values than a CTA has";
  // Several divisions per value delay the end of each CTA by more than the time
  // of a separate launch (docs/decisions.md, 020).
  if ((quantize.isEmulated() || quantize.scalesBlocks()) &&
      descriptor.getRule().empty())
    return "scales that are no powers of two are divided by, which a launch of "
           "its own does faster";
  const bool isShared = isOfSharedRows(quantize);
  MatmulProblem problem;
  for (auto matmul : matmulsOf(variant, isShared))
    if (matmul.isFirst())
      problem = problemOfStages(matmul);
  for (auto permute : variant.getBody().getOps<moe::PermuteOp>())
    problem.tileRows = permute.getTileRows();
  for (auto batch : variant.getBody().getOps<moe::BatchOp>())
    problem.tileRows = batch.getTileRows();
  if (isShared)
    for (auto shared : variant.getBody().getOps<moe::SharedRowsOp>())
      problem.tileRows = shared.getTileRows();
  problem.maxTokens = variant.getMaxTokens();
  problem.groupColumns = descriptor.getGroup()[1];
  return findEngine(engine)->whyGroupsApart(problem).value_or(
      asked ? "as asked for" : "");
}

/// Returns true if the kernel that routes also quantizes x. The two stages do
/// not depend on each other.
static bool joinsRouting(moe::VariantOp variant, moe::QuantizeOp quantize) {
  // Batched rows, which have counts, are not routed.
  return !quantize.getBlockAmax() && !quantize.getRowWeights() &&
         !quantize.getExpertNumTokens() && !quantize.getOffsets() &&
         int64_t(variant.getMaxTokens()) <= kQuantizedBesideRouting;
}

/// If a quantization of x shares a kernel with routing, moves it after the
/// routing stages.
static void moveToRouting(moe::VariantOp variant) {
  Operation *last = nullptr;
  moe::QuantizeOp joining;
  for (Operation &op : variant.getBody().front().without_terminator()) {
    if (isa<moe::CountOp>(op) ||
        (isa<moe::PermuteOp>(op) &&
         int64_t(variant.getMaxTokens()) <= kFusedTokens))
      last = &op;
    if (auto quantize = dyn_cast<moe::QuantizeOp>(op))
      if (!isOfIntermediate(quantize) && joinsRouting(variant, quantize))
        joining = quantize;
    // A quantization before the dispatch shares the kernel that routes before
    // it.
    if (isa<moe::DispatchOp>(op) && joining)
      break;
  }
  if (last && joining)
    joining->moveAfter(last);
}

/// Returns true if a few-token kernel contains the stage. Other stages move
/// tokens between ranks, run before the dispatch, or compute shared rows.
static bool isOfFewTokens(Operation &op) {
  return !isOfSharedRows(&op) && !isBeforeDispatch(&op) &&
         !isa<moe::DispatchOp, moe::SendBackOp, moe::FinalizeOp>(op);
}

/// Inserts copies of the routing stages after the activation, so that the
/// second few-token kernel routes by itself. The first copy reads what the
/// first routing stage reads: inputs of the layer, or data received from other
/// ranks.
static void repeatRouting(moe::VariantOp variant) {
  Operation *activate = nullptr;
  SmallVector<Operation *> routing;
  for (Operation &op : variant.getBody().front()) {
    if (isa<moe::RouteOp, moe::CountOp, moe::PermuteOp>(op) &&
        isOfFewTokens(op))
      routing.push_back(&op);
    if (isa<moe::ActivateOp>(op) && !isOfSharedRows(&op))
      activate = &op;
  }
  if (!activate)
    return;
  OpBuilder builder(variant.getContext());
  builder.setInsertionPointAfter(activate);
  IRMapping mapping;
  Operation *last = activate;
  for (Operation *op : routing)
    last = builder.clone(*op, mapping);
  for (Operation *op : routing)
    for (OpResult result : op->getResults())
      Value(result).replaceUsesWithIf(
          mapping.lookup(Value(result)), [&](OpOperand &use) {
            return last->isBeforeInBlock(use.getOwner()) &&
                   !isa<moe::ReturnOp>(use.getOwner());
          });
}

/// Duplicates the quantization of x for shared experts if the routed experts'
/// kernels do not write their quantized x.
static void repeatQuantization(moe::VariantOp variant) {
  for (auto shared : variant.getBody().getOps<moe::SharedRowsOp>())
    for (moe::GroupedMatmulOp matmul : matmulsOf(variant, true)) {
      auto quantize = matmul.getLhs().getDefiningOp<moe::QuantizeOp>();
      if (!quantize || isOfSharedRows(quantize))
        continue;
      OpBuilder builder(matmul);
      const auto repeat = [&](auto op) {
        auto made = cast<decltype(op)>(builder.clone(*op));
        made.getValidTokensMutable().clear();
        made.getOffsetsMutable().assign(shared.getOffsets());
        return made;
      };
      auto amax = quantize.getBlockAmax()
                      ? quantize.getBlockAmax().getDefiningOp<moe::AmaxOp>()
                      : moe::AmaxOp();
      if (amax)
        amax = repeat(amax);
      quantize = repeat(quantize);
      if (amax)
        quantize.getBlockAmaxMutable().assign(amax.getBlockAmax());
      matmul.getLhsMutable().assign(quantize.getData());
      if (matmul.getLhsScale())
        matmul.getLhsScaleMutable().assign(quantize.getScale());
      if (const Value second = quantize.getSecondScale())
        matmul.getLhsSecondScaleMutable().assign(second);
    }
}

bool compiler::isInSlices(moe::VariantOp variant, Operation &op) {
  return variant.getMultiprocessors() && !isOfSharedRows(&op);
}

/// Returns the name of a kernel whose first stage is `op`. A variant may have
/// several stages of the same kind.
static std::string nameOfStage(moe::VariantOp variant, Operation &op) {
  const std::string stage = op.getName().stripDialect().str();
  if (isa<moe::RouteOp>(op) && isBeforeDispatch(&op))
    return "route_own";
  if (auto matmul = dyn_cast<moe::GroupedMatmulOp>(op)) {
    const bool last =
        llvm::any_of(matmul.getResult().getUsers(), [](Operation *user) {
          return isa<moe::CombineOp, moe::CombineNormedOp,
                     moe::CombineConstantsOp, moe::ReturnOp>(user);
        });
    return !last ? "gate_up" : isInSlices(variant, op) ? "down_slices" : "down";
  }
  if (auto columns = dyn_cast<moe::PermuteColumnsOp>(op))
    return columns.getRows() ? "order_x" : "order_t";
  if (isa<moe::AmaxOp, moe::QuantizeOp>(op))
    return stage + (isOfIntermediate(&op) ? "_t" : "_x");
  return isa<moe::DequantizeOp>(op) ? stage + "_x" : stage;
}

/// Returns nameOfStage() with the prefix "shared_" for stages of shared
/// experts. The kernel's name is this name after the variant's name.
static std::string nameOf(moe::VariantOp variant, Operation &op) {
  const std::string name = nameOfStage(variant, op);
  return isOfSharedRows(&op) && !isa<moe::SharedRowsOp>(op) ? "shared_" + name
                                                            : name;
}

/// Adds a stage to the last group or to a new one.
static void addStage(moe::VariantOp variant, Operation &op,
                     const StageFusion &fusion,
                     SmallVectorImpl<StageGroup> &groups) {
  std::string name = nameOf(variant, op), apart;
  bool joins = isa<moe::CountOp, moe::PairRowsOp>(op) ||
               (isa<moe::PermuteOp>(op) && fusion.routing) ||
               (isa<moe::ActivateOp>(op) && fusion.activation) ||
               (isa<moe::CombineOp>(op) && isInSlices(variant, op));
  if (isa<moe::RouteOp>(op) && fusion.routing && !isBeforeDispatch(&op))
    name = "route_permute";
  if (auto quantize = dyn_cast<moe::QuantizeOp>(op)) {
    const bool sorted = isOfIntermediate(&op);
    // The caller may have given the intermediate, so that no matmul makes it.
    const bool isGiven =
        isa_and_present<moe::GatherRowsOp>(quantize.getInput().getDefiningOp());
    if (sorted && fusion.activation && !isGiven) {
      apart = whyApart(variant, quantize, fusion.quantizesApart);
      joins = apart.empty();
    } else if (!sorted) {
      joins = fusion.any && joinsRouting(variant, quantize);
    }
  }
  // A combine that sends its partial sums to other ranks needs no buffer on
  // this rank.
  if (isa<moe::SendBackOp>(op) && fusion.any && !groups.empty() &&
      groups.back().stages.size() == 1 &&
      isa<moe::CombineOp>(groups.back().stages.front())) {
    joins = true;
    groups.back().name += "_send_back";
  }
  if (!joins || groups.empty())
    groups.push_back({name, {}, apart});
  groups.back().stages.push_back(&op);
}

/// Groups the stages of the two few-token kernels, and all other stages.
static void groupFewTokens(moe::VariantOp variant, const StageFusion &fusion,
                           SmallVectorImpl<StageGroup> &groups) {
  repeatRouting(variant);
  repeatQuantization(variant);
  StringRef next = "route_gate_up";
  for (Operation &op : variant.getBody().front().without_terminator()) {
    if (!isOfFewTokens(op)) {
      addStage(variant, op, fusion, groups);
      continue;
    }
    if (isa<moe::RouteOp>(op)) {
      groups.push_back({next.str(), {}, {}});
      next = "down_combine";
    }
    groups.back().stages.push_back(&op);
  }
}

LogicalResult compiler::groupStages(moe::VariantOp variant, StageFusion fusion,
                                    SmallVectorImpl<StageGroup> &groups) {
  for (Operation &op : variant.getBody().front().without_terminator())
    if (!isa<moe::StageOpInterface>(op) && !isBetweenRanks(&op))
      return op.emitError()
             << "no backend forms a kernel of '" << op.getName() << "'";
  if (variant.getEngine()) {
    groupFewTokens(variant, fusion, groups);
    return success();
  }
  fusion.routing = fusion.any &&
                   int64_t(variant.getMaxTokens()) <= kFusedTokens &&
                   !variant.getBody().getOps<moe::PermuteOp>().empty();
  if (fusion.any)
    moveToRouting(variant);
  for (Operation &op : variant.getBody().front().without_terminator())
    addStage(variant, op, fusion, groups);
  return success();
}
