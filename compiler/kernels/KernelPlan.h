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

/// Returns the schedule that the rules of the kernel's kind make. Emits an
/// error at the kernel on failure.
llvm::FailureOr<moe::ScheduleAttr> makeSchedule(moe::KernelOp kernel,
                                                MeasuredSchedules &measured);

/// Checks that the kernel's kind accepts the schedule that the kernel has.
/// Emits an error at the kernel otherwise.
mlir::LogicalResult verifySchedule(moe::KernelOp kernel,
                                   MeasuredSchedules &measured);

/// Returns the plan of a kernel that has a schedule.
llvm::FailureOr<moe::PlanAttr> makePlan(moe::KernelOp kernel);

} // namespace moec::compiler

#endif // MOEC_COMPILER_KERNELS_KERNELPLAN_H
