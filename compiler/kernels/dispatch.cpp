//===- dispatch.cpp - kernels that send rows to ranks ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/Kind.h"

using namespace moec;
using namespace moec::compiler;

/// Makes a schedule with 16 warps per CTA. Each warp has its own rows in flight
/// to other ranks.
static llvm::FailureOr<moe::ScheduleAttr> selectDispatch(moe::KernelOp kernel,
                                                         MeasuredSchedules &) {
  return blockSchedule(kernel, 512);
}

constexpr Kind compiler::kernels::dispatch = {.names = "dispatch send_back",
                                              .schedule = selectDispatch};
