//===- KernelPlan.h - schedule and plan of a kernel -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_KERNELS_KERNELPLAN_H
#define MOEC_COMPILER_KERNELS_KERNELPLAN_H

#include "dialect/Moe.h"

namespace moec::compiler {

class MeasuredSchedules;

/// Returns the schedule that the rules for the kernel's kind select. Emits an
/// error at the kernel on failure.
llvm::FailureOr<moe::ScheduleAttr> makeSchedule(moe::KernelOp kernel,
                                                MeasuredSchedules &measured);

/// Checks that the rules for the kernel's kind accept the kernel's existing
/// schedule. Emits an error at the kernel otherwise.
mlir::LogicalResult verifySchedule(moe::KernelOp kernel,
                                   MeasuredSchedules &measured);

/// Returns the launch plan of a kernel that already has a schedule.
llvm::FailureOr<moe::PlanAttr> makePlan(moe::KernelOp kernel);

} // namespace moec::compiler

#endif // MOEC_COMPILER_KERNELS_KERNELPLAN_H
