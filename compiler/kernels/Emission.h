//===- Emission.h - state while a kernel is printed -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_KERNELS_EMISSION_H
#define MOEC_COMPILER_KERNELS_EMISSION_H

#include "compiler/kernels/EmittedKernel.h"

#include <string>

namespace moec::compiler {

/// A kernel that is being printed, and one launch that binds values to its
/// fields. All launches of a kernel bind the same values, as moe-merge-kernels
/// ensures.
class Emission {
public:
  Emission(moe::KernelOp kernel, moe::LaunchOp launch)
      : kernel(kernel), launch(launch),
        program(kernel->getParentOfType<moe::ProgramOp>()),
        schedule(kernel.getScheduleAttr()), plan(kernel.getPlanAttr()) {}

  ArgumentLayout &args() { return out.text.arguments; }
  ConfigPrinter &config() { return out.text.config; }

  /// Returns the program's name of the value bound to a field, or "".
  std::string boundTo(llvm::StringRef field);
  /// Returns the name of the output that is a copy of the value bound to a
  /// field, for example "ids" for "topk_ids".
  std::string outputOf(llvm::StringRef field);
  /// Adds a pointer field for the value bound to `field`.
  void pointer(llvm::StringRef field, llvm::StringRef type,
               bool written = false) {
    args().pointer(field, type, boundTo(field), written);
  }

  moe::KernelOp kernel;
  moe::LaunchOp launch;
  moe::ProgramOp program;
  moe::ScheduleAttr schedule;
  moe::PlanAttr plan;
  EmittedKernel out;
};

/// Prints a kernel that has a plan. `launch` is one of its launches.
Result<EmittedKernel> emitKernel(moe::KernelOp kernel, moe::LaunchOp launch);

} // namespace moec::compiler

#endif // MOEC_COMPILER_KERNELS_EMISSION_H
