//===- KernelStages.h - stages of a kernel for the manifest -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EMIT_KERNELSTAGES_H
#define MOEC_COMPILER_EMIT_KERNELSTAGES_H

#include "compiler/emit/ArgumentBlock.h"
#include "dialect/Moe.h"

#include <vector>

namespace moec::compiler {

/// The stages in a kernel that `launch` runs, as its argument block calls what
/// they read and write.
std::vector<Stage> stagesOf(moe::KernelOp kernel, moe::LaunchOp launch,
                            const ArgumentLayout &arguments);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EMIT_KERNELSTAGES_H
