//===- Emission.h - a kernel whose text is made -----------------*- C++ -*-===//
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

/// A kernel whose text is being made, and the launch that binds values to its
/// fields. All launches of a kernel bind the same values: moe-merge-kernels
/// requires it.
class Emission {
public:
  Emission(moe::KernelOp kernel, moe::LaunchOp launch)
      : kernel(kernel), launch(launch),
        program(kernel->getParentOfType<moe::ProgramOp>()),
        schedule(kernel.getScheduleAttr()), plan(kernel.getPlanAttr()) {}

  ArgumentLayout &args() { return out.text.arguments; }
  ConfigPrinter &config() { return out.text.config; }

  /// The program's name for what is bound to a field, "" if there is none.
  std::string boundTo(llvm::StringRef field);
  /// The output that repeats what is bound to a field: "ids" of "topk_ids".
  std::string outputOf(llvm::StringRef field);
  /// Adds a field that points to what is bound to it.
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

/// The text of a kernel that has a plan, with the values that `launch` binds.
Result<EmittedKernel> emitKernel(moe::KernelOp kernel, moe::LaunchOp launch);

} // namespace moec::compiler

#endif // MOEC_COMPILER_KERNELS_EMISSION_H
