//===- Pipeline.cpp - the passes in their order ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Pipeline.h.
//
//===----------------------------------------------------------------------===//

#include "compiler/Pipeline.h"

#include "compiler/passes/Passes.h"

using namespace moec;
using namespace moec::compiler;

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
  DecomposeLayerPassOptions decompose;
  decompose.archs.assign(options.archs.begin(), options.archs.end());
  decompose.gpu = options.gpu;
  decompose.maxTokens = options.maxTokens;
  manager.addPass(createDecomposeLayerPass(decompose));
  auto &stages = manager.nest<moe::ProgramOp>();
  stages.addPass(createChooseWeightLayoutPass());
  stages.addPass(createChooseBackendPass({options.backend, options.engine}));
  stages.addPass(createMakeVariantsPass());
  if (options.checkPrograms)
    manager.addPass(createCheckProgramPass());
  if (stop == Phase::Stages)
    return;

  auto &kernels = manager.nest<moe::ProgramOp>();
  kernels.addPass(createFormKernelsPass());
  if (stop == Phase::Kernels)
    return;

  kernels.addPass(createSelectSchedulePass({options.tunedFile}));
  kernels.addPass(createPlanWorkspacePass());
  kernels.addPass(createMergeKernelsPass());
  kernels.addPass(createPlanLaunchesPass());
}
