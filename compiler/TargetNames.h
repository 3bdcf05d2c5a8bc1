//===- TargetNames.h - archs and GPUs as users name them --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The command and the C ABI call resolveTargets(). Nothing that they call
// afterwards looks at the machine, so that passes stay functions of layer and
// target.
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
/// by a row of the GPU table. An arch may be said by `native`, the first GPU
/// that the driver sees, or by a GPU, which then is `gpu` as well. An empty
/// `gpu` becomes the GPU that is here if it runs one of the archs. Warns of an
/// arch whose twin has more engines.
Result<void> resolveTargets(CompileOptions &options);

/// Returns the arch that has most of what a device of this compute capability
/// can: the one of that very capability, arch-specific if there is one. Null
/// if none runs on it.
const catalog::Architecture *bestArchOf(int major, int minor);

/// Returns the error for a word that names neither an arch nor a GPU.
Error unknownArch(const std::string &word);

/// Returns the GPU that a user's word names: a row's name, the beginning of
/// one ("h200"), or a driver's name for the device. Of several rows that begin
/// so it is the one that their arch assumes. Returns null for another word.
const catalog::Gpu *findGpuByWord(std::string_view word);

} // namespace moec::compiler

#endif // MOEC_COMPILER_TARGETNAMES_H
