//===- MoeOps.td - the operations of the moe dialect -------*- tablegen -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The three levels: the layer, programs of stages, kernels.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_MOEOPS_TD
#define MOEC_DIALECT_MOEOPS_TD

include "dialect/MoeLayerOps.td"
include "dialect/MoeRoutingOps.td"
include "dialect/MoeStageOps.td"
include "dialect/MoePackOps.td"
include "dialect/MoeProgramOps.td"

#endif // MOEC_DIALECT_MOEOPS_TD
