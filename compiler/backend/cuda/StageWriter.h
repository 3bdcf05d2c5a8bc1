//===- StageWriter.h - stages of a kernel for the manifest ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the manifest says of a stage, from its op. Operands and results are
// called as the stage itself calls them; a kernel whose fields have other
// names, or which keeps a value to itself ("%name"), changes them.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_BACKEND_CUDA_STAGEWRITER_H
#define MOEC_COMPILER_BACKEND_CUDA_STAGEWRITER_H

#include "dialect/Moe.h"
#include "runtime/package/Manifest.h"

namespace moec::compiler {

Stage routeStage(moe::RouteOp route, moe::LayerOp layer);
/// `counts`: what the block counts are called.
Stage countStage(moe::CountOp count, moe::LayerOp layer, std::string counts);
Stage batchStage(moe::BatchOp batch);
Stage permuteStage(moe::PermuteOp permute, moe::LayerOp layer,
                   std::string counts);
Stage matmulStage(moe::GroupedMatmulOp matmul, moe::LayerOp layer);
Stage permuteColumnsStage(moe::PermuteColumnsOp permute);
Stage activateStage(moe::ActivateOp activate);
Stage combineStage(moe::CombineOp combine, moe::LayerOp layer);

/// Sets how the rows of a weight with gate and up are packed, and were stored.
void addRowOrder(Stage &stage, int64_t interleave, llvm::StringRef gateUpOrder);

/// Sets the attributes `prefix`group_rows and group_columns: what shares a
/// scale, 0 standing for the whole extent.
void addGroup(Stage &stage, const std::string &prefix,
              moe::DescriptorAttr descriptor);

} // namespace moec::compiler

#endif // MOEC_COMPILER_BACKEND_CUDA_STAGEWRITER_H
