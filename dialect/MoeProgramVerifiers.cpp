//===- MoeProgramVerifiers.cpp - verifiers of programs --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers of programs, variants, kernels and launches. They check names,
// token ranges, that each weight has one packed copy, and that types match on
// both sides of a launch.
//
//===----------------------------------------------------------------------===//

#include "dialect/Expect.h"
#include "dialect/Moe.h"
#include "dialect/catalog/Engines.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace moec;
using namespace moec::moe;

/// Checks that there is one name for each of `count` items and that names are
/// unique.
static LogicalResult verifyNames(Operation *op, StringRef what, ArrayAttr names,
                                 size_t count, StringRef things) {
  if (names.size() != count)
    return op->emitOpError() << "'" << what << "' has " << names.size()
                             << " names for " << count << ' ' << things;
  llvm::StringSet<> seen;
  for (Attribute name : names)
    if (!seen.insert(text(name)).second)
      return op->emitOpError()
             << "'" << what << "' holds '" << text(name) << "' twice";
  return success();
}

//===----------------------------------------------------------------------===//
// ProgramOp
//===----------------------------------------------------------------------===//

LogicalResult ProgramOp::verify() {
  if (getMaxTokens() <= 0)
    return emitOpError() << "'max_tokens' must be positive, got "
                         << getMaxTokens();
  return verifyNames(*this, "inputs", getInputs(), getBody().getNumArguments(),
                     "arguments");
}

/// Checks that token ranges ascend from 1 to max_tokens without a gap. Variants
/// that only some GPUs run do not count, because a later variant handles their
/// token counts on all GPUs.
static LogicalResult verifyRanges(ProgramOp program) {
  int64_t next = 1;
  bool any = false;
  for (auto variant : program.getBody().getOps<VariantOp>()) {
    const bool ofSome = bool(variant.getMultiprocessors());
    if (ofSome && variant.getMinTokens() < next)
      return variant.emitOpError()
             << "is for some GPUs only and covers tokens from "
             << variant.getMinTokens() << ", but earlier variants cover up to "
             << next - 1 << " on all";
    if (!ofSome && variant.getMinTokens() != next)
      return variant.emitOpError()
             << "covers tokens from " << variant.getMinTokens() << ", but "
             << next << " is the first that no earlier variant covers";
    if (variant.getMaxTokens() > program.getMaxTokens())
      return variant.emitOpError()
             << "covers tokens up to " << variant.getMaxTokens()
             << ", but the program's max_tokens is " << program.getMaxTokens();
    if (ofSome)
      continue;
    next = variant.getMaxTokens() + 1;
    any = true;
  }
  if (any && next <= program.getMaxTokens())
    return program.emitOpError()
           << "no variant covers tokens from " << next << " to max_tokens, "
           << program.getMaxTokens();
  return success();
}

/// Checks that each weight is packed at most once, and that only packing ops
/// read the unpacked copy of a packed weight.
static LogicalResult verifyPacking(ProgramOp program) {
  llvm::SmallPtrSet<void *, 4> packed;
  const auto nameOf = [&](BlockArgument weight) {
    return text(program.getInputs()[weight.getArgNumber()]);
  };
  for (Operation &pack : program.getBody().front()) {
    if (!isa<PackOp, PackOrderOp, QuantizeWeightsOp>(pack))
      continue;
    const auto weight = dyn_cast<BlockArgument>(pack.getOperand(0));
    if (!weight)
      continue; // produced by an op that does not belong here; reported
                // elsewhere
    if (!packed.insert(weight.getAsOpaquePointer()).second)
      return pack.emitOpError()
             << "weight '" << nameOf(weight)
             << "' is packed twice; all kernels read one packed copy";
    for (Operation *user : weight.getUsers())
      if (!isa<PackOp, PackOrderOp, QuantizeWeightsOp>(user))
        return user->emitOpError()
               << "reads weight '" << nameOf(weight)
               << "' as stored, but it is packed; all kernels read the packed "
                  "copy";
  }
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  for (Operation &op : getBody().front())
    if (!isa<VariantOp, KernelOp, PackOp, PackOrderOp, QuantizeWeightsOp>(op))
      return op.emitOpError()
             << "does not belong into a program; it holds moe.pack, "
                "moe.pack_order, moe.quantize_weights, moe.kernel and "
                "moe.variant";
  if (failed(verifyRanges(*this)))
    return failure();
  return verifyPacking(*this);
}

/// Checks that `type` is the type of the layer's tensor `name`. `what` is
/// "input" or "output".
static LogicalResult verifyTensor(Operation *op, LayerOp layer,
                                  ArrayRef<LayerTensor> tensors, StringRef what,
                                  StringRef name, Type type) {
  const bool isOutput = what == "output";
  const auto isAsked = [&](const LayerTensor &tensor) {
    return isOutput == (tensor.role == TensorRole::Output ||
                        tensor.role == TensorRole::OptionalOutput);
  };
  const LayerTensor *tensor = findTensor(tensors, name);
  if (!tensor || !isAsked(*tensor)) {
    auto error = op->emitOpError()
                 << what << " '" << name << "' is no tensor of layer @"
                 << layer.getSymName() << "; it has ";
    llvm::interleaveComma(llvm::make_filter_range(tensors, isAsked), error,
                          [&](const LayerTensor &its) { error << its.name; });
    return error;
  }
  if (type == tensor->type)
    return success();
  return op->emitOpError() << what << " '" << name << "' must be "
                           << tensor->type << " as layer @"
                           << layer.getSymName() << " says ("
                           << (layer.isGated() ? "gated" : "not gated")
                           << "), got " << type;
}

/// Checks that a program's inputs and the values that its variants return are
/// tensors of the layer.
static LogicalResult verifyTensors(ProgramOp program, LayerOp layer) {
  const SmallVector<LayerTensor> tensors = layer.getTensors();
  for (auto [name, argument] :
       llvm::zip(program.getInputs(), program.getBody().getArguments()))
    if (failed(verifyTensor(program, layer, tensors, "input", text(name),
                            argument.getType())))
      return failure();
  for (auto variant : program.getBody().getOps<VariantOp>()) {
    auto ret = cast<ReturnOp>(variant.getBody().front().getTerminator());
    for (auto [name, value] : llvm::zip(ret.getOutputNames(), ret.getOutputs()))
      if (failed(verifyTensor(ret, layer, tensors, "output", text(name),
                              value.getType())))
        return failure();
    const ArrayAttr optional =
        ret.getOptionalNames().value_or(ArrayAttr::get(ret.getContext(), {}));
    for (auto [name, value] : llvm::zip(optional, ret.getOptionalOutputs()))
      if (failed(verifyTensor(ret, layer, tensors, "output", text(name),
                              value.getType())))
        return failure();
  }
  return success();
}

LogicalResult ProgramOp::verifySymbolUses(SymbolTableCollection &symbols) {
  Operation *found =
      symbols.lookupNearestSymbolFrom((*this)->getParentOp(), getLayerAttr());
  auto layer = dyn_cast_or_null<LayerOp>(found);
  if (!layer)
    return emitOpError() << "there is no layer @" << getLayer();
  return layer.isResolved() ? verifyTensors(*this, layer) : success();
}

//===----------------------------------------------------------------------===//
// VariantOp and ReturnOp
//===----------------------------------------------------------------------===//

/// Checks that no two regions with constant offset and size overlap in bytes
/// while both are live.
static LogicalResult verifyPlan(VariantOp variant, ArrayAttr regions) {
  struct Known {
    RegionAttr region;
    int64_t begin, end;
  };
  const int64_t launches =
      llvm::count_if(variant.getBody().front(), [](Operation &op) {
        return isa<LaunchOp, CollectiveOp>(op);
      });
  SmallVector<Known> earlier;
  for (RegionAttr region : regions.getAsRange<RegionAttr>()) {
    if (region.getLast() >= launches)
      return variant.emitOpError()
             << "region of '" << region.getValue() << "' ends with launch "
             << region.getLast() << ", but there are only " << launches;
    int64_t offset = 0, bytes = 0;
    if (region.getOffset().getAsInteger(10, offset) ||
        region.getBytes().getAsInteger(10, bytes))
      continue;
    for (const Known &other : earlier)
      if (region.getFirst() <= other.region.getLast() &&
          other.region.getFirst() <= region.getLast() && offset < other.end &&
          other.begin < offset + bytes)
        return variant.emitOpError()
               << "regions of '" << other.region.getValue() << "' and '"
               << region.getValue() << "' share bytes "
               << std::max(offset, other.begin) << " to "
               << std::min(offset + bytes, other.end) << " during launch "
               << std::max(region.getFirst(), other.region.getFirst());
    earlier.push_back({region, offset, offset + bytes});
  }
  return success();
}

/// Checks that the engine of a variant, if it differs from the program's
/// engine, is a few-token engine that supports the variant's token counts.
static LogicalResult verifyEngine(VariantOp variant, StringRef name) {
  const catalog::Engine *engine = catalog::find(catalog::kEngines, name);
  if (!engine || engine->mostTokens == 0) {
    std::string known;
    for (const catalog::Engine &row : catalog::kEngines)
      if (row.mostTokens)
        known.append(known.empty() ? "" : ", ").append(row.name);
    return variant.emitOpError() << "'engine' must be one for few tokens ("
                                 << known << "), got '" << name << "'";
  }
  if (int64_t(variant.getMaxTokens()) > engine->mostTokens)
    return variant.emitOpError()
           << "engine '" << name << "' supports at most " << engine->mostTokens
           << " tokens, got " << variant.getMaxTokens();
  return success();
}

LogicalResult VariantOp::verify() {
  if (getMinTokens() < 1 || getMaxTokens() < getMinTokens())
    return emitOpError() << "tokens must be [min, max] with 1 <= min <= max, "
                            "got ["
                         << getMinTokens() << ", " << getMaxTokens() << "]";
  if (getBody().front().empty() || !isa<ReturnOp>(getBody().front().back()))
    return emitOpError() << "must end in moe.return";
  if (getEngine() && failed(verifyEngine(*this, *getEngine())))
    return failure();
  if (getMultiprocessors() && int64_t(*getMultiprocessors()) < 1)
    return emitOpError() << "'multiprocessors' must be positive, got "
                         << int64_t(*getMultiprocessors());
  return getRegions() ? verifyPlan(*this, *getRegions()) : success();
}

LogicalResult ReturnOp::verify() {
  if (failed(verifyNames(*this, "outputs", getOutputNames(),
                         getOutputs().size(), "values")))
    return failure();
  const ArrayAttr names =
      getOptionalNames().value_or(ArrayAttr::get(getContext(), {}));
  return verifyNames(*this, "optional", names, getOptionalOutputs().size(),
                     "values");
}

//===----------------------------------------------------------------------===//
// KernelOp, LaunchOp and CollectiveOp
//===----------------------------------------------------------------------===//

LogicalResult KernelOp::verify() {
  if (failed(detail::expectSymbol(*this, getSymName())))
    return failure();
  if (verifyWord([&] { return emitOpError(); }, catalog::kKernelKinds,
                 getKind(), "kind of kernel"))
    return failure();
  return verifyNames(*this, "fields", getFields(), getBody().getNumArguments(),
                     "arguments");
}

LogicalResult KernelOp::verifyRegions() {
  if (getBody().front().empty() || !isa<YieldOp>(getBody().front().back()))
    return emitOpError() << "must end in moe.yield";
  std::string stages;
  for (Operation &op : getBody().front().without_terminator())
    stages.append(stages.empty() ? "" : " ")
        .append(op.getName().stripDialect().str());
  if (!catalog::holds(getRow(), WordList(stages)))
    return emitOpError() << "of kind '" << getKind() << "' holds the stages '"
                         << getRow().stages << "', got '" << stages << "'";
  if (getResultNames())
    return verifyNames(*this, "results", *getResultNames(),
                       getYield().getValues().size(), "yielded values");
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>(
      (*this)->getParentOfType<ProgramOp>(), getKernelAttr());
  if (!kernel)
    return emitOpError() << "there is no kernel @" << getKernel()
                         << " in this program";
  if (failed(verifyNames(*this, "results", getResultNames(), getValues().size(),
                         "values")))
    return failure();
  const auto check = [&](StringRef what, TypeRange mine,
                         TypeRange its) -> LogicalResult {
    if (mine.size() != its.size())
      return emitOpError() << "has " << mine.size() << ' ' << what
                           << "s, but kernel @" << getKernel() << " has "
                           << its.size();
    for (size_t i = 0; i < mine.size(); ++i)
      if (mine[i] != its[i])
        return emitOpError()
               << what << ' ' << i << " is " << mine[i] << ", but kernel @"
               << getKernel() << " has " << its[i];
    return success();
  };
  if (failed(check("operand", getArguments().getTypes(),
                   kernel.getBody().getArgumentTypes())))
    return failure();
  return check("result", getValues().getTypes(),
               kernel.getYield().getValues().getTypes());
}

LogicalResult CollectiveOp::verify() {
  if (getKind() != "all_gather" && getKind() != "reduce_scatter" &&
      getKind() != "all_reduce")
    return emitOpError() << "unknown collective '" << getKind()
                         << "'; known: all_gather, reduce_scatter, all_reduce";
  if (int64_t(getRanks()) < 2 || int64_t(getStride()) < 1)
    return emitOpError() << "'ranks' must be at least 2 and 'stride' positive, "
                            "got "
                         << int64_t(getRanks()) << " and "
                         << int64_t(getStride());
  if (getArguments().empty() ||
      getArguments().getTypes() != getValues().getTypes())
    return emitOpError() << "must have results of the types of its operands";
  return verifyNames(*this, "results", getResultNames(), getValues().size(),
                     "values");
}
