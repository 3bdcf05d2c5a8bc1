//===- Parts.h - parts that kinds of kernels share --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each function adds the fields and Config members that one header of the
// templates lists.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_KERNELS_PARTS_H
#define MOEC_COMPILER_KERNELS_PARTS_H

#include "compiler/kernels/Emission.h"

namespace moec::compiler {

/// Adds a field for each operand of a routing stage
/// (templates/moe/routing/token.cuh), and the number of tokens.
void addRoutingFields(moe::StageOpInterface stage, Emission &emission);

/// Adds the C++ policies of the routing method and their parameters.
void addRoutingConfig(moe::RouteOp route, KernelText &text);

/// Adds the members that templates/moe/routing/place.cuh lists, and the first
/// expert of the rank if the kernel needs it. Other fields are operands of
/// `route` (addRoutingFields).
void addPlacement(moe::RouteOp route, Emission &emission);

/// Returns the C++ policy that defines which values share a scale and how the
/// scale is computed.
llvm::StringRef scalingPolicy(moe::DescriptorAttr descriptor);
/// Returns the policy of a quantize stage, which may emulate quantization.
std::string scalingPolicy(moe::QuantizeOp quantize);

/// Returns the number of elements of a given scale tensor, or 1 for null.
int64_t scalesOf(mlir::Value scale);

/// Adds what quantizes the result of a matmul in its kernel.
void addQuantizedResult(Emission &emission);

/// Adds the kernel's one moe.amax or moe.quantize stage, with or without
/// routing (templates/moe/kernel/quantize.cuh).
void addQuantization(Emission &emission);

/// Returns the number of CTAs that quantize. Sets `label` to the values that a
/// CTA, or each part of it, quantizes.
Expression ctasToQuantize(moe::KernelOp kernel, std::string &label);

} // namespace moec::compiler

#endif // MOEC_COMPILER_KERNELS_PARTS_H
