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

/// Returns the manifest entry for a variant. `grids` maps each kernel's name to
/// its grid.
Result<Variant> writeVariant(moe::VariantOp variant,
                             const std::map<std::string, Grid> &grids);

/// Returns the report as JSON: the chosen candidate, the rejected candidates,
/// the degradation, and each kernel's schedule.
nlohmann::json reportJson(moe::ProgramOp program);

/// Returns a target with arch, GPU and compatibility set.
Target beginTarget(moe::ProgramOp program);

/// Adds the parts of the manifest that follow from the program's layer: its
/// name, its description, the values that the caller provides and receives, and
/// which inputs a run needs. The description expands every catalog name into a
/// structure, so that its readers (such as the reference implementation) need
/// no tables. After moe-decompose-layer no other code reads the layer. The
/// layer must be resolved.
void describeLayer(moe::ProgramOp program, Manifest &manifest);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EMIT_MANIFESTWRITER_H
