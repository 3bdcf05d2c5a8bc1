//===- FormKernels.cpp - groups stages into kernels -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Backend grouped fuses:
//   - routing and permutation, if a few CTAs process all tokens
//   - the quantization of x with routing
//   - the activation, and some quantizations of its result, with the first
//     matmul, in its epilogue
//   - combine with the second matmul, if the variant computes slices
// Backend unfused forms one kernel for each stage. Only counting is fused with
// routing, because it needs routing's data. A few-token variant has two
// kernels, each of which routes by itself. Stages between ranks have one kernel
// each, except that one kernel combines and sends back.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/Engine.h"
#include "compiler/passes/GroupStages.h"
#include "compiler/passes/Passes.h"
#include "compiler/plan/ProgramValues.h"
#include "dialect/catalog/Engines.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

#include <string>

namespace moec::compiler {
#define GEN_PASS_DEF_FORMKERNELSPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

/// Up to this token count, one CTA routes all tokens in less time than the CTAs
/// of a cluster need to exchange their counts.
static constexpr int64_t kTokensOfOneCta = 8;

/// Returns the number of tokens that one CTA routes. `fused`: the same launch
/// permutes. `clusters`: the launch may use a cluster of CTAs.
static int64_t blockTokensFor(int64_t maxTokens, bool fused, bool clusters) {
  if (fused)
    return clusters && maxTokens > kTokensOfOneCta
               ? llvm::divideCeil(maxTokens, kRoutingCluster)
               : maxTokens;
  // Small blocks are routed in less time, but every CTA of the permutation sums
  // the counts of all blocks.
  return maxTokens <= 2048 ? 16 : maxTokens <= 8192 ? 32 : 64;
}

/// Maximum number of token blocks. For more tokens the blocks become larger, so
/// that the number of counts that each CTA of the permutation sums stays
/// bounded.
static constexpr int64_t kMostBlocks = 256;

/// Number of rows that a CTA quantizes, unless the blocks of moe.amax determine
/// the number.
static constexpr int64_t kRowsOfCta = 16;

/// Returns the name under which the caller can request a result as an optional
/// output, else "".
static StringRef optionalName(OpResult result) {
  for (OpOperand &use : result.getUses())
    if (auto ret = dyn_cast<moe::ReturnOp>(use.getOwner()))
      if (const unsigned first = ret.getOutputs().size();
          use.getOperandNumber() >= first)
        return cast<StringAttr>(
                   (*ret.getOptionalNames())[use.getOperandNumber() - first])
            .getValue();
  return {};
}

/// Returns the name of an operand in the kernel's argument block.
static StringRef fieldName(OpOperand &operand, const StageGroup &group) {
  const StringRef name = cast<moe::StageOpInterface>(operand.getOwner())
                             .getOperandName(operand.getOperandNumber());
  // Kernels that route by themselves quantize x within the matmul, so the
  // quantization's input is the kernel's "lhs".
  return group.kind->routesItself && name == "input" ? "lhs" : name;
}

/// Returns the name of a result in the kernel's argument block.
static StringRef fieldName(OpResult result, const StageGroup &group) {
  // A kernel that routes by itself writes the results of routing only as
  // outputs for the caller.
  if (group.kind->routesItself)
    if (const StringRef name = optionalName(result); !name.empty())
      return name;
  return cast<moe::StageOpInterface>(result.getOwner())
      .getResultName(result.getResultNumber());
}

/// Returns the name under which the program returns the stage's result, or ""
/// if it does not return it.
static StringRef returnedName(OpResult result) {
  for (OpOperand &use : result.getUses())
    if (auto ret = dyn_cast<moe::ReturnOp>(use.getOwner()))
      if (use.getOperandNumber() < ret.getOutputs().size())
        return cast<StringAttr>(ret.getOutputNames()[use.getOperandNumber()])
            .getValue();
  return {};
}

/// Returns true if the result is an output with this name.
static bool isReturnedAs(OpResult result, StringRef name) {
  return llvm::any_of(result.getUses(), [&](OpOperand &use) {
    auto ret = dyn_cast<moe::ReturnOp>(use.getOwner());
    const unsigned index = use.getOperandNumber();
    return ret && index < ret.getOutputs().size() &&
           cast<StringAttr>(ret.getOutputNames()[index]).getValue() == name;
  });
}

/// Returns true if the shared experts' combine stage adds the result to its own
/// sum.
static bool isAddedToShared(OpResult result) {
  return isa<moe::CombineOp, moe::CombineNormedOp, moe::FinalizeOp>(
             result.getOwner()) &&
         llvm::any_of(result.getUsers(), llvm::IsaPred<moe::CombineOp>);
}

/// Returns the name of a result as a value of the program, without the prefix
/// for shared experts.
static std::string nameOfResult(OpResult result, const StageGroup &group) {
  StringRef inKernel = fieldName(result, group);
  // x and the intermediate are quantized: "x_q", "x_scale", "t_amax" and so on.
  if (isa<moe::AmaxOp, moe::QuantizeOp>(result.getOwner())) {
    StringRef what = inKernel == "data"         ? "q"
                     : inKernel == "block_amax" ? "amax"
                                                : inKernel;
    return ((isOfIntermediate(result.getOwner()) ? "t_" : "x_") + what).str();
  }
  if (isa<moe::DequantizeOp>(result.getOwner()))
    return "x_dequantized";
  // The gathered top-k ids and weights have the names that they have in a
  // package for one rank, so this rank's own top-k ids and weights get other
  // names.
  if (isa<moe::RouteOp>(result.getOwner()) &&
      isBeforeDispatch(result.getOwner()))
    return inKernel == "topk_ids" ? "own_ids" : "own_weights";
  if (isa<moe::CombineOp, moe::CombineNormedOp>(result.getOwner()) &&
      llvm::any_of(result.getUsers(),
                   llvm::IsaPred<moe::SendBackOp, moe::FinalizeOp>))
    return "partial";
  if (isAddedToShared(result))
    return "routed";
  // In a part of a layer that routes, the output of the ids is named "places".
  if (isa<moe::RouteOp>(result.getOwner()) && isReturnedAs(result, "places"))
    return "places";
  if (inKernel != "result")
    return inKernel.str();
  if (auto permute = dyn_cast<moe::PermuteColumnsOp>(result.getOwner()))
    return permute.getRows() ? "x_ordered" : "t_ordered";
  if (auto gather = dyn_cast<moe::GatherRowsOp>(result.getOwner()))
    return gather.getPositions() ? "intermediate" : "t_sorted";
  if (isa<moe::ActivateOp>(result.getOwner()))
    return "t";
  if (StringRef returned = returnedName(result); !returned.empty())
    return returned.str();
  // Partial results have one of two element types. The name depends on
  // the element type, so that no value has two types.
  if (StringRef(group.name).ends_with("down"))
    return fmt::format("y_{}", elementTypeOf(result));
  return "h";
}

/// Returns the name of a result as a value of the program.
static std::string launchResultName(OpResult result, const StageGroup &group) {
  const std::string name = nameOfResult(result, group);
  return isOfSharedRows(result.getOwner()) && returnedName(result) != name
             ? "shared_" + name
             : name;
}

/// Returns true if the kernel writes the result. Routing and the stages that
/// list rows write all results, unless the kernel routes by itself (as both
/// few-token kernels do). Other stages write only results that another kernel
/// or the caller uses.
static bool isWritten(OpResult result, const StageGroup &group) {
  if (!group.kind->routesItself &&
      isa<moe::RouteOp, moe::PermuteOp, moe::SharedRowsOp>(result.getOwner()))
    return true;
  return llvm::any_of(result.getUsers(), [&](Operation *user) {
    return !llvm::is_contained(group.stages, user);
  });
}

/// Sets the kernel kind (a catalog row) that supports the group's stages.
static LogicalResult findKind(StageGroup &group) {
  std::string stages;
  for (Operation *op : group.stages)
    stages.append(stages.empty() ? "" : " ")
        .append(op->getName().stripDialect().str());
  group.kind = catalog::kindOf(WordList(stages));
  if (!group.kind)
    return group.stages.front()->emitError()
           << "no kind of kernel holds the stages '" << stages << "'";
  return success();
}

/// Sets the number of rows per CTA for quantizations, unless the blocks of
/// moe.amax determine it.
static void decideRows(const StageGroup &group) {
  if (!group.kind->routesItself)
    for (Operation *stage : group.stages)
      if (auto quantize = dyn_cast<moe::QuantizeOp>(stage))
        if (!quantize.getBlockRows())
          quantize.setBlockRows(kRowsOfCta);
}

/// Sets the token blocks of counting and permutation. If the kernel also
/// permutes, its CTAs divide the variant's tokens evenly. If every CTA routes
/// by itself, its block has all tokens. Otherwise the block size depends on the
/// variant's largest token count.
static void decideBlocks(moe::ProgramOp program, moe::VariantOp variant,
                         const StageGroup &group) {
  bool fused = group.kind->name == "route_permute" || group.kind->routesItself;
  bool clusters = program.getTarget().getArchRow().has("clusters") &&
                  !group.kind->routesItself;
  int64_t tokens = blockTokensFor(variant.getMaxTokens(), fused, clusters);
  const bool many =
      !fused && int64_t(variant.getMaxTokens()) > kMostBlocks * tokens;
  const auto decide = [&](auto op, bool summed) {
    if (!fused && op.getBlockTokens() != 0)
      return;
    op.setBlockTokens(tokens);
    if (many && summed)
      op.setMostBlocks(kMostBlocks);
  };
  for (Operation *stage : group.stages) {
    // If only a part of a layer is compiled, no kernel sums the counts.
    if (auto count = dyn_cast<moe::CountOp>(stage))
      decide(count, !count.getBlockCounts().use_empty());
    if (auto permute = dyn_cast<moe::PermuteOp>(stage))
      decide(permute, true);
  }
}

/// Sets the element type of the second matmul's results, which combine adds. If
/// they are larger than the L2 cache in f32, they are written to DRAM, and half
/// the bytes justify one more rounding. Outside of slices f16 is not used,
/// because a row may overflow although the weighted sum does not.
static void decidePartials(moe::ProgramOp program, moe::VariantOp variant) {
  const catalog::Gpu *gpu = program.getTarget().getGpuRow();
  if (!gpu || variant.getEngine())
    return;
  const auto decide = [&](auto combine) {
    const Type output =
        cast<RankedTensorType>(combine.getOut().getType()).getElementType();
    const double bytes = 4.0 * double(variant.getMaxTokens()) *
                         double(combine.getPairs()) *
                         double(combine.getWidth());
    const bool inSlices = isInSlices(variant, *combine.getOperation());
    if (output.isF32() || (output.isF16() && !inSlices) ||
        (bytes <= gpu->l2 * 1024 * 1024 && !inSlices))
      return;
    Value partials = combine.getPartials();
    auto type = cast<RankedTensorType>(partials.getType());
    partials.setType(type.clone(output));
  };
  for (Operation &op : variant.getBody().front())
    if (auto combine = dyn_cast<moe::CombineOp>(op))
      decide(combine);
    else if (auto combine = dyn_cast<moe::CombineNormedOp>(op))
      decide(combine);
    else if (auto combine = dyn_cast<moe::CombineConstantsOp>(op))
      decide(combine);
}

/// Sets the offsets that activations read. An activation in its own kernel
/// needs the offsets to distinguish rows from padding and to find their
/// experts. In the matmul's kernel the tiles provide this information.
static void giveOffsets(moe::VariantOp variant, bool fuseActivation) {
  moe::PermuteOp permute;
  for (auto op : variant.getBody().getOps<moe::PermuteOp>())
    permute = op;
  for (auto activate : variant.getBody().getOps<moe::ActivateOp>()) {
    if (!fuseActivation) {
      if (!activate.getOffsets() && permute)
        activate.getOffsetsMutable().assign(permute.getOffsets());
      continue;
    }
    activate.getOffsetsMutable().clear();
    auto matmul = activate.getInput().getDefiningOp<moe::GroupedMatmulOp>();
    if (!matmul || activate.getNumbers().empty())
      continue;
    activate.getTilesMutable().assign(matmul.getTiles());
    activate.getTileCountMutable().assign(matmul.getTileCount());
  }
}

/// Replaces the offsets of a quantization in the first matmul's kernel by the
/// matmul's tiles.
static void giveTiles(const StageGroup &group) {
  for (Operation *stage : group.stages) {
    auto quantize = dyn_cast<moe::QuantizeOp>(stage);
    const auto matmul =
        llvm::find_if(group.stages, llvm::IsaPred<moe::GroupedMatmulOp>);
    if (!quantize || !isOfIntermediate(quantize) ||
        matmul == group.stages.end())
      continue;
    quantize.getOffsetsMutable().clear();
    quantize.getExpertNumTokensMutable().clear();
    auto maker = cast<moe::GroupedMatmulOp>(*matmul);
    quantize.getTilesMutable().assign(maker.getTiles());
    quantize.getTileCountMutable().assign(maker.getTileCount());
  }
}

static moe::KernelOp createKernel(OpBuilder &builder, StringRef symbol,
                                  const StageGroup &group,
                                  llvm::SetVector<Value> &operands,
                                  SmallVectorImpl<OpResult> &results) {
  Location loc = group.stages.front()->getLoc();
  SmallVector<Attribute> fields, names;
  SmallVector<Location> locations;
  SmallVector<Type> types;
  for (Operation *stage : group.stages)
    for (OpOperand &operand : stage->getOpOperands()) {
      Operation *maker = operand.get().getDefiningOp();
      if ((maker && llvm::is_contained(group.stages, maker)) ||
          !operands.insert(operand.get()))
        continue;
      fields.push_back(builder.getStringAttr(fieldName(operand, group)));
      types.push_back(operand.get().getType());
      locations.push_back(operand.get().getLoc());
    }
  for (Operation *stage : group.stages)
    for (OpResult result : stage->getResults())
      if (isWritten(result, group)) {
        results.push_back(result);
        names.push_back(builder.getStringAttr(fieldName(result, group)));
      }

  auto kernel = moe::KernelOp::create(
      builder, loc, symbol, StringRef(group.kind->name), moe::ScheduleAttr(),
      moe::PlanAttr(), builder.getArrayAttr(fields),
      builder.getArrayAttr(names));
  if (!group.apart.empty())
    kernel->setAttr(kApart, builder.getStringAttr(group.apart));
  OpBuilder::InsertionGuard guard(builder);
  Block *block = builder.createBlock(&kernel.getBody(), {}, types, locations);
  IRMapping mapping;
  for (auto [operand, argument] : llvm::zip(operands, block->getArguments()))
    mapping.map(operand, argument);
  for (Operation *stage : group.stages)
    builder.clone(*stage, mapping);
  SmallVector<Value> yielded;
  for (OpResult result : results)
    yielded.push_back(mapping.lookup(Value(result)));
  moe::YieldOp::create(builder, loc, yielded);
  return kernel;
}

namespace {
struct FormKernels : compiler::impl::FormKernelsPassBase<FormKernels> {
  using FormKernelsPassBase::FormKernelsPassBase;

  void runOnOperation() override {
    moe::ProgramOp program = getOperation();
    if (!program.isResolved()) {
      program.emitError() << "no backend is chosen; run moe-choose-backend "
                             "first";
      return signalPassFailure();
    }
    for (auto variant :
         llvm::to_vector(program.getBody().getOps<moe::VariantOp>()))
      if (failed(form(program, variant)))
        return signalPassFailure();
  }

  LogicalResult form(moe::ProgramOp program, moe::VariantOp variant) {
    Block &body = variant.getBody().front();
    if (!body.getOps<moe::LaunchOp>().empty())
      return success();
    bool fuse = !program.getReport() ||
                program.getReportAttr().getBackend() != "unfused";
    // LoRA adapters are added to the result of the first matmul before the
    // activation.
    const bool adapts = llvm::any_of(
        body.getOps<moe::ActivateOp>(),
        [](moe::ActivateOp activate) { return bool(activate.getAddend()); });
    const bool fuseActivation = fuse && !adapts;
    giveOffsets(variant, fuseActivation || variant.getEngine());
    decidePartials(program, variant);
    SmallVector<StageGroup> groups;
    StageFusion fusion;
    fusion.any = fuse, fusion.activation = fuseActivation;
    fusion.quantizesApart = quantizeApart;
    if (failed(groupStages(variant, fusion, groups)))
      return failure();

    OpBuilder builder(variant);
    for (StageGroup &group : groups) {
      if (isBetweenRanks(group.stages.front())) {
        formCollectives(builder, group.stages.front());
        continue;
      }
      if (failed(findKind(group)))
        return failure();
      decideBlocks(program, variant, group);
      decideRows(group);
      giveTiles(group);
      llvm::SetVector<Value> operands;
      SmallVector<OpResult> results;
      std::string symbol = variant.getSymName().str() + "_" + group.name;
      builder.setInsertionPoint(variant);
      createKernel(builder, symbol, group, operands, results);

      SmallVector<Type> types;
      SmallVector<Attribute> names;
      for (OpResult result : results) {
        types.push_back(result.getType());
        names.push_back(builder.getStringAttr(launchResultName(result, group)));
      }
      builder.setInsertionPointAfter(group.stages.back());
      auto launch = moe::LaunchOp::create(
          builder, group.stages.front()->getLoc(), types, symbol,
          builder.getArrayAttr(names), operands.getArrayRef());
      for (auto [old, made] : llvm::zip(results, launch.getValues()))
        Value(old).replaceUsesWithIf(made, [&](OpOperand &use) {
          return !llvm::is_contained(group.stages, use.getOwner());
        });
      for (Operation *stage : llvm::reverse(group.stages))
        stage->erase();
    }
    return success();
  }
};
} // namespace
