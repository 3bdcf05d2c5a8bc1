//===- Pipeline.h - the passes in their order ------------------*- C++ -*--===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Defines which passes run, with which options, up to which phase. Compiler.cpp
// runs the pipeline. Tests may add it to their own pass manager.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PASSES_PIPELINE_H
#define MOEC_COMPILER_PASSES_PIPELINE_H

#include "compiler/CompileOptions.h"

#include "mlir/Pass/PassManager.h"

namespace moec::compiler {

/// Adds the passes up to and including phase `stop` to a module pass manager.
/// Phases after Scheduled add no further passes.
void buildPipeline(mlir::OpPassManager &manager, const PipelineOptions &options,
                   Phase stop);

/// Registers every pass under its name for textual pipelines.
void registerPasses();

/// Registers the pipeline as moe-pipeline for textual pipelines.
void registerPipeline();

} // namespace moec::compiler

#endif // MOEC_COMPILER_PASSES_PIPELINE_H
