//===- Emitters.h - how each kind of kernel is emitted ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The row of a kernel's kind says its template, and where it can its argument
// block and Config. There is one function for each other kind, and one for each
// part that several kinds share.
//
// `boundTo`: the program's name for what is bound to a field of the kernel.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EMIT_EMITTERS_H
#define MOEC_COMPILER_EMIT_EMITTERS_H

#include "compiler/emit/EmittedKernel.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <string>
#include <vector>

namespace moec::compiler {

using BoundTo = llvm::function_ref<std::string(llvm::StringRef)>;

/// Emits a kernel with the values that `launch` binds to its fields. All
/// launches of a kernel bind the same values: moe-merge-kernels requires it.
Result<EmittedKernel> emitKernel(moe::KernelOp kernel, moe::LaunchOp launch);

/// The stages in a kernel that `launch` runs, as its argument block calls what
/// they read and write.
std::vector<Stage> stagesOf(moe::KernelOp kernel, moe::LaunchOp launch,
                            const ArgumentLayout &arguments);

// Kinds of kernels. Each completes `out`, whose common parts are set.

/// A kernel of a few tokens: route_gate_up or down_combine.
void emitFewTokens(moe::KernelOp kernel, BoundTo boundTo, EmittedKernel &out);

/// The kernel that makes the result in slices of its columns and sums each over
/// a token's experts (matmul/Slices.h).
void emitSlices(moe::KernelOp kernel, BoundTo boundTo, EmittedKernel &out);

/// Emits a kernel with one moe.amax or moe.quantize, with or without routing
/// (templates/moe/kernel/quantize.cuh).
void emitQuantization(moe::KernelOp kernel, BoundTo boundTo,
                      EmittedKernel &out);

// Parts of kernels.

/// The part of a matmul's kernel that quantizes its result.
void emitQuantizedResult(moe::KernelOp kernel, BoundTo boundTo,
                         EmittedKernel &out);

/// The C++ policy: which values share a scale, and where it comes from.
llvm::StringRef scalingPolicy(moe::DescriptorAttr descriptor);
/// Returns the policy of a stage, which may emulate its data.
std::string scalingPolicy(moe::QuantizeOp quantize);

/// The numbers in a scale that is given; 1 for null.
int64_t scalesOf(mlir::Value scale);

/// Adds a field for each operand of a stage that routes
/// (templates/moe/routing/token.cuh), and the number of tokens.
void addRoutingFields(moe::StageOpInterface stage, BoundTo boundTo,
                      ArgumentLayout &arguments);

/// Adds the policies, and what a method has besides them.
void addRoutingConfig(moe::RouteOp route, KernelText &text);

/// Adds the members that templates/moe/routing/place.cuh lists, and the first
/// expert of the rank where the kernel takes it. Other fields are operands of
/// `route` (addRoutingFields).
void addPlacement(moe::KernelOp kernel, moe::RouteOp route,
                  ArgumentLayout &arguments, ConfigPrinter &config);

// Kernels that run once, when a layer is made.

/// An entry of the manifest's `pack`.
struct EmittedPack {
  std::string name; ///< prefix of its kernels' names
  std::string result;
  std::vector<std::string> from;
  bool inPlace = false;
  int64_t scratchBytes = 0; ///< bytes per expert; 0 if none are needed
  std::vector<EmittedKernel> kernels;
};

/// The two kernels of a packing step: stored experts to `scratch`, and from
/// there interleaved to the packed weight.
EmittedPack emitPack(moe::PackOp pack, const std::string &scratch);

/// The one kernel that orders columns by their groups, without scratch.
EmittedPack emitPackOrder(moe::PackOrderOp order);

/// The first of those, of a weight of whole elements.
EmittedKernel emitPackCopy(moe::ProgramOp program,
                           const std::string &elementType, int64_t rows,
                           int64_t columns, const std::string &source,
                           const std::string &scratch);

/// The launches that quantize a weight, in their order.
std::vector<EmittedPack> emitQuantizeWeights(moe::QuantizeWeightsOp op,
                                             const std::string &scratch);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EMIT_EMITTERS_H
