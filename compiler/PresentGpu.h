//===- PresentGpu.h - the GPU of this machine -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The default of --gpu: schedules and token ranges are made for the GPU that
// is here when it runs the code asked for. The doors (the program moec, the C
// ABI) ask; nothing behind them looks at the machine, so that passes stay
// functions of layer and target.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PRESENTGPU_H
#define MOEC_COMPILER_PRESENTGPU_H

#include <string>
#include <vector>

namespace moec::compiler {

/// The row of the GPU table for the GPU of the current CUDA context, else for
/// the first GPU; "" without a driver or GPU, for a GPU that has no row, and
/// for one that runs code of none of `archs`.
std::string presentGpu(const std::vector<std::string> &archs);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PRESENTGPU_H
