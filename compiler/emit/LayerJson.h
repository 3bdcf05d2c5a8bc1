//===- LayerJson.h - the resolved layer for the reference -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// manifest.layer: every name of the catalog expanded into structure, so that
// whoever reads it (the reference, an auditor) needs no table of moec's.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EMIT_LAYERJSON_H
#define MOEC_COMPILER_EMIT_LAYERJSON_H

#include "dialect/Moe.h"
#include "runtime/package/Manifest.h"

namespace moec::compiler {

/// Adds what the program's layer says: its name, its description, the values
/// between caller and layer, and which of them a run needs. Nothing else behind
/// moe-decompose-layer reads the layer. It must be resolved.
void describeLayer(moe::ProgramOp program, Manifest &manifest);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EMIT_LAYERJSON_H
