//===- CheckProgram.cpp - checks an input program -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program in the input, or its layer, may have been edited, but the manifest
// describes the layer. The pass therefore compiles the layer again and reports
// every difference at the op that differs. Schedules and workspace plans are
// checked by the passes that make them.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"
#include "compiler/passes/Pipeline.h"
#include "compiler/plan/LayerFacts.h"
#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/ProgramValues.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSet.h"

namespace moec::compiler {
#define GEN_PASS_DEF_CHECKPROGRAMPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

namespace {
/// The program that the compiler derives from a layer, in its own module.
struct Derived {
  OwningOpRef<ModuleOp> module;
  moe::ProgramOp program() { return *module->getOps<moe::ProgramOp>().begin(); }
};

/// Compares an input program with the two programs that the compiler derives
/// from its layer: one before and one after kernels are formed.
class Comparison {
public:
  Comparison(moe::ProgramOp stands, moe::ProgramOp stages,
             moe::ProgramOp kernels)
      : stands(stands), stages(stages), kernels(kernels) {}
  LogicalResult run();

private:
  using Values = llvm::DenseMap<mlir::Value, mlir::Value>;

  /// Starts an error at `where`, an op that differs from the derived program.
  InFlightDiagnostic differs(Operation *where) {
    return where->emitError()
           << "this is not what layer @" << stands.getLayer() << " becomes: ";
  }
  LogicalResult compareHead();
  LogicalResult compareVariant(moe::VariantOp got, moe::VariantOp want);
  LogicalResult compareOps(Block &got, Block &want, Values &same);
  LogicalResult compareOp(Operation *got, Operation *want, Values &same);
  LogicalResult compareKernel(moe::LaunchOp got, moe::LaunchOp want);
  LogicalResult compareAttribute(Operation *where, StringRef name,
                                 Attribute got, Attribute want);

  moe::ProgramOp stands, stages, kernels;
  Values fromStages, fromKernels; ///< input value -> derived value
  llvm::StringSet<> launched;
};
} // namespace

LogicalResult Comparison::compareAttribute(Operation *where, StringRef name,
                                           Attribute got, Attribute want) {
  if (got == want)
    return success();
  InFlightDiagnostic error = differs(where);
  error << "expected " << name << " = ";
  want ? error << want : error << "none";
  error << ", got ";
  got ? error << got : error << "none";
  return error;
}

LogicalResult Comparison::compareOp(Operation *got, Operation *want,
                                    Values &same) {
  if (got->getName() != want->getName())
    return differs(got) << "expected '" << want->getName() << "', got '"
                        << got->getName() << "'";
  const DictionaryAttr mine = got->getAttrDictionary();
  const DictionaryAttr its = want->getAttrDictionary();
  for (NamedAttribute attribute : its)
    if (!isa<moe::LaunchOp>(got) || attribute.getName() != "kernel")
      if (failed(compareAttribute(got, attribute.getName(),
                                  mine.get(attribute.getName()),
                                  attribute.getValue())))
        return failure();
  for (NamedAttribute attribute : mine)
    if (!its.contains(attribute.getName()))
      return compareAttribute(got, attribute.getName(), attribute.getValue(),
                              Attribute());
  if (!llvm::equal(got->getOperands(), want->getOperands(),
                   [&](mlir::Value mine, mlir::Value its) {
                     return same.lookup(mine) == its;
                   }))
    return differs(got) << "its operands are other values";
  if (got->getResultTypes() != want->getResultTypes())
    return differs(got) << "expected results of " << want->getResultTypes()
                        << ", got " << got->getResultTypes();
  for (auto [mine, its] : llvm::zip(got->getResults(), want->getResults()))
    same[mine] = its;
  return success();
}

LogicalResult Comparison::compareOps(Block &got, Block &want, Values &same) {
  // Both blocks end with a terminator, so zip() pairs a missing or additional
  // op with a different op, which is reported.
  for (auto [mine, its] : llvm::zip(got, want)) {
    if (failed(compareOp(&mine, &its, same)))
      return failure();
    if (auto launch = dyn_cast<moe::LaunchOp>(mine))
      if (failed(compareKernel(launch, cast<moe::LaunchOp>(its))))
        return failure();
  }
  return success();
}

LogicalResult Comparison::compareKernel(moe::LaunchOp got, moe::LaunchOp want) {
  moe::KernelOp mine = got.getKernelOp(), its = want.getKernelOp();
  launched.insert(mine.getSymName());
  // Several variants may launch the same kernel, which is named after the first
  // variant that does.
  if (!SymbolTable::lookupSymbolIn(kernels, mine.getSymName()))
    return differs(mine) << "expected kernel @" << its.getSymName()
                         << " or that of another variant, got @"
                         << mine.getSymName();
  if (failed(compareAttribute(mine, "fields", mine.getFieldsAttr(),
                              its.getFieldsAttr())) ||
      failed(compareAttribute(mine, "results", mine.getResultNamesAttr(),
                              its.getResultNamesAttr())))
    return failure();
  Values same;
  Block &block = mine.getBody().front(), &other = its.getBody().front();
  for (auto [argument, expected] :
       llvm::zip(block.getArguments(), other.getArguments()))
    same[argument] = expected;
  return compareOps(block, other, same);
}

LogicalResult Comparison::compareVariant(moe::VariantOp got,
                                         moe::VariantOp want) {
  const std::pair<Attribute, Attribute> attributes[] = {
      {got.getSymNameAttr(), want.getSymNameAttr()},
      {got.getMinTokensAttr(), want.getMinTokensAttr()},
      {got.getMaxTokensAttr(), want.getMaxTokensAttr()},
      {got.getEngineAttr(), want.getEngineAttr()},
      {got.getMultiprocessorsAttr(), want.getMultiprocessorsAttr()},
      {got.getTunedAttr(), want.getTunedAttr()}};
  const StringRef names[] = {"name",   "min_tokens",      "max_tokens",
                             "engine", "multiprocessors", "tuned"};
  for (auto [name, pair] : llvm::zip(names, attributes))
    if (failed(compareAttribute(got, name, pair.first, pair.second)))
      return failure();
  Values same = want->getParentOp() == stages ? fromStages : fromKernels;
  return compareOps(got.getBody().front(), want.getBody().front(), same);
}

LogicalResult Comparison::compareHead() {
  if (failed(compareAttribute(stands, "name", stands.getSymNameAttr(),
                              stages.getSymNameAttr())) ||
      failed(compareAttribute(stands, "scheme", stands.getSchemeAttr(),
                              stages.getSchemeAttr())) ||
      failed(compareAttribute(stands, "batch_invariant",
                              stands.getBatchInvariantAttr(),
                              stages.getBatchInvariantAttr())) ||
      failed(compareAttribute(stands, "part", stands.getPartAttr(),
                              stages.getPartAttr())) ||
      failed(compareAttribute(stands, "inputs", stands.getInputsAttr(),
                              stages.getInputsAttr())))
    return failure();
  for (moe::ProgramOp derived : {stages, kernels}) {
    Values &same = derived == stages ? fromStages : fromKernels;
    // The verifier has checked that the arguments have the layer's types.
    for (auto [mine, its] : llvm::zip(stands.getBody().getArguments(),
                                      derived.getBody().getArguments()))
      same[mine] = its;
    const auto packing = [](moe::ProgramOp program) {
      return llvm::to_vector(llvm::make_filter_range(
          llvm::make_pointer_range(program.getBody().front()),
          [](Operation *op) {
            return !isa<moe::KernelOp, moe::VariantOp>(op);
          }));
    };
    const auto mine = packing(stands), its = packing(derived);
    if (mine.size() != its.size())
      return differs(stands)
             << "expected " << its.size() << " packings, got " << mine.size();
    for (auto [got, want] : llvm::zip(mine, its))
      if (failed(compareOp(got, want, same)))
        return failure();
  }
  return success();
}

LogicalResult Comparison::run() {
  if (failed(compareHead()))
    return failure();
  const auto variants = [](moe::ProgramOp program) {
    return llvm::to_vector(program.getBody().getOps<moe::VariantOp>());
  };
  auto got = variants(stands), ofStages = variants(stages),
       ofKernels = variants(kernels);
  if (got.size() != ofStages.size())
    return differs(stands) << "expected " << ofStages.size()
                           << " variants, got " << got.size();
  for (auto [variant, early, late] : llvm::zip(got, ofStages, ofKernels)) {
    const bool isFormed =
        !variant.getBody().front().getOps<moe::LaunchOp>().empty();
    if (failed(compareVariant(variant, isFormed ? late : early)))
      return failure();
  }
  for (auto kernel : stands.getBody().getOps<moe::KernelOp>())
    if (!launched.contains(kernel.getSymName()))
      return differs(kernel)
             << "no variant launches kernel @" << kernel.getSymName();
  return success();
}

namespace {
struct CheckProgram : compiler::impl::CheckProgramPassBase<CheckProgram> {
  using CheckProgramPassBase::CheckProgramPassBase;

  void runOnOperation() override {
    for (auto program : getOperation().getOps<moe::ProgramOp>())
      if (failed(check(program)))
        return signalPassFailure();
  }

  LogicalResult check(moe::ProgramOp program) {
    if (!program.isResolved())
      return program.emitError() << "no backend is chosen; run "
                                    "moe-choose-backend first";
    // The report contains the choices of the original compilation.
    const moe::ReportAttr report = program.getReportAttr();
    const Choices choices = report ? choicesOf(report) : Choices();
    Derived stages = derive(program, choices, Phase::Stages);
    if (!stages.module)
      return failure();
    if (stages.program().getReportAttr() == report) {
      Derived kernels = derive(program, choices, Phase::Kernels);
      if (!kernels.module)
        return failure();
      return Comparison(program, stages.program(), kernels.program()).run();
    }
    return program.emitError()
           << "this is not what layer @" << program.getLayer()
           << " becomes: its report is of another layer or target; compile the "
              "layer again";
  }

  /// Compiles the layer for the program's target. The module is null if that
  /// fails.
  Derived derive(moe::ProgramOp program, const Choices &choices, Phase phase) {
    Derived derived{ModuleOp::create(program.getLoc())};
    OpBuilder::atBlockEnd(derived.module->getBody())
        .clone(*program.getLayerOp());
    PipelineOptions options;
    options.archs = {program.getTarget().getArch().str()};
    options.gpu = program.getTarget().getGpu().str();
    options.maxTokens = program.getMaxTokens();
    static_cast<Choices &>(options) = choices;
    // The files with the measurements may not be available, so the ranges are
    // taken from the program's variants.
    for (auto variant : program.getBody().getOps<moe::VariantOp>())
      if (variant.getTuned())
        options.tunedRanges.push_back(printGivenRange(givenRangeOf(variant)));
    if (options.tunedRanges.empty())
      options.tunedRanges.emplace_back(kNoGivenRanges);
    PassManager manager(&getContext(), ModuleOp::getOperationName());
    buildPipeline(manager, options, phase);
    if (failed(manager.run(*derived.module)))
      derived.module = nullptr;
    return derived;
  }
};
} // namespace
