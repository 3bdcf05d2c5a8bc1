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

/// A kernel that is being printed, and one of its launches. The launch binds
/// program values to the kernel's fields. All launches of a kernel bind the
/// same values, as moe-merge-kernels ensures.
class Emission {
public:
  Emission(moe::KernelOp kernel, moe::LaunchOp launch)
      : kernel(kernel), launch(launch),
        program(kernel->getParentOfType<moe::ProgramOp>()),
        schedule(kernel.getScheduleAttr()), plan(kernel.getPlanAttr()) {}

  ArgumentLayout &args() { return out.text.arguments; }
  ConfigPrinter &config() { return out.text.config; }

  /// Returns the name of the program value that the launch binds to a field, or
  /// "".
  std::string boundTo(llvm::StringRef field);
  /// Returns the name of the layer output that is a copy of the value bound to
  /// a field, or "". For example, the output "ids" is a copy of the field
  /// "topk_ids".
  std::string outputOf(llvm::StringRef field);
  /// Adds a pointer field for the value that the launch binds to `field`.
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

/// Prints a kernel that has a schedule and a plan. `launch` is any of its
/// launches.
Result<EmittedKernel> emitKernel(moe::KernelOp kernel, moe::LaunchOp launch);

} // namespace moec::compiler

#endif // MOEC_COMPILER_KERNELS_EMISSION_H
