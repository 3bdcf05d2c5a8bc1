//===- Pipeline.h - the passes in their order ------------------*- C++ -*--===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which passes run, with which options, up to which phase. Compiler.cpp runs
// the pipeline; tests may build their own pass manager from it.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PASSES_PIPELINE_H
#define MOEC_COMPILER_PASSES_PIPELINE_H

#include "compiler/CompileOptions.h"

#include "mlir/Pass/PassManager.h"

namespace moec::compiler {

/// Adds the passes up to and with phase `stop` to a manager of modules.
/// Phases after Scheduled add nothing more.
void buildPipeline(mlir::OpPassManager &manager, const PipelineOptions &options,
                   Phase stop);

/// Makes every pass known by its name to pipelines in text.
void registerPasses();

/// Makes the pipeline known as moe-pipeline to pipelines in text.
void registerPipeline();

} // namespace moec::compiler

#endif // MOEC_COMPILER_PASSES_PIPELINE_H
