//===- Pipeline.cpp - the passes in their order ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Pipeline.h"

#include "compiler/passes/Passes.h"

#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"

using namespace moec;
using namespace moec::compiler;

namespace moec::compiler {
#define GEN_PASS_REGISTRATION
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

void compiler::registerPasses() { registerMoePasses(); }

void compiler::buildPipeline(mlir::OpPassManager &manager,
                             const PipelineOptions &options, Phase stop) {
  manager.addPass(createResolveParallelPass());
  manager.addPass(createInferRoutingPass());
  if (stop == Phase::Layer)
    return;

  CheckTargetPassOptions check;
  check.archs.assign(options.archs.begin(), options.archs.end());
  check.gpu = options.gpu;
  manager.addPass(createCheckTargetPass(check));
  ChooseRealizationPassOptions realization;
  realization.archs.assign(options.archs.begin(), options.archs.end());
  realization.gpu = options.gpu;
  realization.backend = options.backend;
  realization.engine = options.engine;
  realization.exclude.assign(options.exclude.begin(), options.exclude.end());
  realization.allow.assign(options.allow.begin(), options.allow.end());
  realization.variables.assign(options.variables.begin(),
                               options.variables.end());
  manager.addPass(createChooseRealizationPass(realization));
  DecomposeLayerPassOptions decompose;
  decompose.archs.assign(options.archs.begin(), options.archs.end());
  decompose.gpu = options.gpu;
  decompose.maxTokens = options.maxTokens;
  manager.addPass(createDecomposeLayerPass(decompose));
  auto &stages = manager.nest<moe::ProgramOp>();
  stages.addPass(createChooseBackendPass(
      {options.backend, options.engine, realization.exclude, realization.allow,
       realization.variables}));
  stages.addPass(createChooseWeightLayoutPass());
  MakeVariantsPassOptions variants;
  variants.tuned.assign(options.tunedFiles.begin(), options.tunedFiles.end());
  variants.ranges.assign(options.tunedRanges.begin(),
                         options.tunedRanges.end());
  stages.addPass(createMakeVariantsPass(variants));
  if (options.checkPrograms)
    manager.addPass(createCheckProgramPass());
  if (stop == Phase::Stages)
    return;

  auto &kernels = manager.nest<moe::ProgramOp>();
  kernels.addPass(createFormKernelsPass());
  if (stop == Phase::Kernels)
    return;

  SelectSchedulePassOptions select;
  select.tuned.assign(options.tunedFiles.begin(), options.tunedFiles.end());
  kernels.addPass(createSelectSchedulePass(select));
  kernels.addPass(createPlanWorkspacePass());
  kernels.addPass(createMergeKernelsPass());
  kernels.addPass(createPlanLaunchesPass());
}

namespace {
/// The members of PipelineOptions and the phase, for textual pipelines.
struct TextOptions : mlir::PassPipelineOptions<TextOptions> {
  ListOption<std::string> archs{
      *this, "archs", llvm::cl::desc("what to compile for, such as sm_90a")};
  Option<std::string> gpu{*this, "gpu",
                          llvm::cl::desc("the GPU that schedules assume")};
  Option<int64_t> maxTokens{
      *this, "max-tokens",
      llvm::cl::desc("the maximum number of tokens of a run"),
      llvm::cl::init(PipelineOptions().maxTokens)};
  Option<std::string> backend{*this, "backend",
                              llvm::cl::desc("forces a backend")};
  Option<std::string> engine{*this, "engine",
                             llvm::cl::desc("forces an engine")};
  ListOption<std::string> tuned{*this, "tuned",
                                llvm::cl::desc("files of measured schedules")};
  ListOption<std::string> exclude{
      *this, "exclude",
      llvm::cl::desc("backends, engines and realizations that are not used")};
  ListOption<std::string> allow{
      *this, "allow",
      llvm::cl::desc("realizations that are another layer, and may be taken")};
  Option<bool> checkPrograms{
      *this, "check-programs",
      llvm::cl::desc("compares programs of the input with their layers")};
  Option<Phase> emit{
      *this, "emit", llvm::cl::desc("where to stop"),
      llvm::cl::init(Phase::Scheduled),
      llvm::cl::values(clEnumValN(Phase::Layer, "layer", "layers"),
                       clEnumValN(Phase::Stages, "stages", "programs"),
                       clEnumValN(Phase::Kernels, "kernels", "kernels"),
                       clEnumValN(Phase::Scheduled, "scheduled", "schedules"))};
};
} // namespace

void compiler::registerPipeline() {
  mlir::PassPipelineRegistration<TextOptions>(
      "moe-pipeline", "All passes of moec in their order",
      [](mlir::OpPassManager &manager, const TextOptions &text) {
        PipelineOptions options;
        options.archs = {text.archs.begin(), text.archs.end()};
        options.gpu = text.gpu;
        options.maxTokens = text.maxTokens;
        options.backend = text.backend;
        options.engine = text.engine;
        options.tunedFiles = {text.tuned.begin(), text.tuned.end()};
        options.exclude = {text.exclude.begin(), text.exclude.end()};
        options.allow = {text.allow.begin(), text.allow.end()};
        options.checkPrograms = text.checkPrograms;
        buildPipeline(manager, options, text.emit);
      });
}
