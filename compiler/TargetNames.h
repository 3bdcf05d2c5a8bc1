//===- TargetNames.h - names of archs and GPUs ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The command and the C ABI call resolveTargets(). Functions that they call
// later do not query the machine, so that passes depend only on the layer and
// the target.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_TARGETNAMES_H
#define MOEC_COMPILER_TARGETNAMES_H

#include "compiler/CompileOptions.h"
#include "dialect/catalog/Architectures.h"
#include "dialect/catalog/Gpus.h"
#include "runtime/support/Result.h"

namespace moec::compiler {

/// Replaces each word of `archs` by a row of the architecture table, and `gpu`
/// by a row of the GPU table. An arch may be `native`, the first GPU that the
/// driver reports, or the name of a GPU, which then also sets `gpu`. An empty
/// `gpu` becomes the local GPU if it runs one of the archs. Warns about an arch
/// if the arch-specific variant of the same compute capability supports more
/// engines.
Result<void> resolveTargets(CompileOptions &options);

/// Returns the arch with the most features that runs on a device of this
/// compute capability. The highest minor version has precedence, then an
/// arch-specific variant such as sm_90a. Returns null if no arch runs on the
/// device.
const catalog::Architecture *bestArchOf(int major, int minor);

/// Returns the error for a word that names neither an arch nor a GPU.
Error unknownArch(const std::string &word);

/// Returns the GPU that a user's word names: the name of a row, a prefix of a
/// name ("h200"), or the driver's name of a device. If several rows have the
/// prefix, the default GPU of its arch has precedence. Returns null for any
/// other word.
const catalog::Gpu *findGpuByWord(std::string_view word);

} // namespace moec::compiler

#endif // MOEC_COMPILER_TARGETNAMES_H
