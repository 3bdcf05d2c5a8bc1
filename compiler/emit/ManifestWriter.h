//===- ManifestWriter.h - the manifest of a program -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The manifest besides kernels: the values that callers see, the workspace, the
// variants with their launches and regions, and the resolver's report.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EMIT_MANIFESTWRITER_H
#define MOEC_COMPILER_EMIT_MANIFESTWRITER_H

#include "dialect/Moe.h"
#include "runtime/package/Manifest.h"

#include <map>
#include <string>

namespace moec::compiler {

/// Packed weights and workspace.
std::vector<Value> targetValues(moe::ProgramOp program);

/// A variant whose launches have these grids, by kernel.
Result<Variant> writeVariant(moe::VariantOp variant,
                             const std::map<std::string, Grid> &grids);

/// Winner, refusals, degradation, and the schedule of each kernel.
nlohmann::json reportJson(moe::ProgramOp program);

/// Fills arch, GPU and compatibility.
Target beginTarget(moe::ProgramOp program);

/// Adds what the program's layer says: its name, its description, the values
/// between caller and layer, and which of them a run needs. The description has
/// every name of the catalog expanded into structure, so that its readers (the
/// reference, an auditor) need no table of moec's. Nothing else behind
/// moe-decompose-layer reads the layer. It must be resolved.
void describeLayer(moe::ProgramOp program, Manifest &manifest);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EMIT_MANIFESTWRITER_H
