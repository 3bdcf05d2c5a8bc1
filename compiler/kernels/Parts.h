//===- Parts.h - parts that kinds of kernels share --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each function adds the fields and Config members that one template header
// lists.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_KERNELS_PARTS_H
#define MOEC_COMPILER_KERNELS_PARTS_H

#include "compiler/kernels/Emission.h"

namespace moec::compiler {

/// Adds one field per operand of a routing stage
/// (templates/moe/routing/token.cuh), and the number of tokens.
void addRoutingFields(moe::StageOpInterface stage, Emission &emission);

/// Adds the C++ policies for the routing method, and the parameters of these
/// policies.
void addRoutingConfig(moe::RouteOp route, KernelText &text);

/// Adds the Config members that templates/moe/routing/place.cuh lists, and the
/// field for the first local expert if the kernel needs it. The remaining
/// fields of that header are operands of `route`, which addRoutingFields()
/// adds.
void addPlacement(moe::RouteOp route, Emission &emission);

/// Returns the C++ policy that defines which values share a scale and how that
/// scale is computed.
llvm::StringRef scalingPolicy(moe::DescriptorAttr descriptor);
/// Like scalingPolicy() above, for a quantize stage, which may emulate
/// quantization.
std::string scalingPolicy(moe::QuantizeOp quantize);

/// Returns the number of elements in a static scale tensor, or 1 if `scale` is
/// null.
int64_t scalesOf(mlir::Value scale);

/// Adds the fields and Config members for a matmul kernel that quantizes its
/// own result.
void addQuantizedResult(Emission &emission);

/// Adds the fields and Config members for the kernel's moe.amax or moe.quantize
/// stage (templates/moe/kernel/quantize.cuh). The kernel may also route.
void addQuantization(Emission &emission);

/// Returns the number of CTAs that quantize. Sets `label`, for the entry's
/// name, to the block of values that a CTA (or each group of its threads)
/// quantizes.
Expression ctasToQuantize(moe::KernelOp kernel, std::string &label);

} // namespace moec::compiler

#endif // MOEC_COMPILER_KERNELS_PARTS_H
