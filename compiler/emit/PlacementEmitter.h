//===- PlacementEmitter.h - which weights a chosen expert means -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What kernels that route are told of replicas, maps of experts and shared
// experts; nothing where a layer has none.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EMIT_PLACEMENTEMITTER_H
#define MOEC_COMPILER_EMIT_PLACEMENTEMITTER_H

#include "compiler/emit/EmittedKernel.h"

namespace moec::compiler {

/// Adds the members that templates/moe/routing/place.cuh lists, and the first
/// expert of the rank where the kernel takes it. Other fields are operands of
/// `route` (addRoutingFields).
void addPlacement(moe::KernelOp kernel, moe::RouteOp route,
                  ArgumentLayout &arguments, ConfigPrinter &config);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EMIT_PLACEMENTEMITTER_H
