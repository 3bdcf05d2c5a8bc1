//===- ManifestWriter.h - manifest of a program -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes the manifest except the kernels: the values that callers see, the
// workspace, the variants with their launches and regions, and the resolver's
// report.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EMIT_MANIFESTWRITER_H
#define MOEC_COMPILER_EMIT_MANIFESTWRITER_H

#include "dialect/Moe.h"
#include "runtime/package/Manifest.h"

#include <map>
#include <string>

namespace moec::compiler {

/// Returns the packed weights and the workspace values.
std::vector<Value> targetValues(moe::ProgramOp program);

/// Returns the manifest's entry of a variant. `grids` has the grid of each
/// kernel.
Result<Variant> writeVariant(moe::VariantOp variant,
                             const std::map<std::string, Grid> &grids);

/// Returns the report: the chosen candidate, refusals, degradation, and the
/// schedule of each kernel.
nlohmann::json reportJson(moe::ProgramOp program);

/// Returns a target with arch, GPU and compatibility set.
Target beginTarget(moe::ProgramOp program);

/// Adds what follows from the program's layer: its name, its description, the
/// values that the caller provides and receives, and which of them a run needs.
/// The description expands every catalog name into a structure, so that its
/// readers (the reference, an auditor) need no table of moec. After
/// moe-decompose-layer no other code reads the layer. The layer must be
/// resolved.
void describeLayer(moe::ProgramOp program, Manifest &manifest);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EMIT_MANIFESTWRITER_H
