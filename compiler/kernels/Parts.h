//===- Parts.h - parts that kinds of kernel share ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each adds the fields and the members of Config that one header of the
// templates lists.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_KERNELS_PARTS_H
#define MOEC_COMPILER_KERNELS_PARTS_H

#include "compiler/kernels/Emission.h"

namespace moec::compiler {

/// Adds a field for each operand of a stage that routes
/// (templates/moe/routing/token.cuh), and the number of tokens.
void addRoutingFields(moe::StageOpInterface stage, Emission &emission);

/// Adds the policies, and what a method has besides them.
void addRoutingConfig(moe::RouteOp route, KernelText &text);

/// Adds the members that templates/moe/routing/place.cuh lists, and the first
/// expert of the rank where the kernel takes it. Other fields are operands of
/// `route` (addRoutingFields).
void addPlacement(moe::RouteOp route, Emission &emission);

/// The C++ policy: which values share a scale, and where it comes from.
llvm::StringRef scalingPolicy(moe::DescriptorAttr descriptor);
/// Returns the policy of a stage, which may emulate its data.
std::string scalingPolicy(moe::QuantizeOp quantize);

/// The numbers in a scale that is given; 1 for null.
int64_t scalesOf(mlir::Value scale);

/// Adds the part of a matmul's kernel that quantizes its result.
void addQuantizedResult(Emission &emission);

/// Adds a kernel's one moe.amax or moe.quantize, with or without routing
/// (templates/moe/kernel/quantize.cuh).
void addQuantization(Emission &emission);

/// The CTAs that quantize. `label` takes the values of one, or of each of its
/// parts.
Expression ctasToQuantize(moe::KernelOp kernel, std::string &label);

} // namespace moec::compiler

#endif // MOEC_COMPILER_KERNELS_PARTS_H
