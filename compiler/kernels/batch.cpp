//===- batch.cpp - kernel that lists tiles of batched rows ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/Kind.h"
#include "compiler/plan/ProgramValues.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

/// Makes a schedule with one thread per local expert, rounded up to a power of
/// two.
static FailureOr<moe::ScheduleAttr> selectBatch(moe::KernelOp kernel,
                                                MeasuredSchedules &) {
  auto batch = findStage<moe::BatchOp>(kernel);
  return blockSchedule(
      kernel,
      std::clamp<int64_t>(llvm::PowerOf2Ceil(batch.getNumLocal()), 32, 1024));
}

constexpr Kind compiler::kernels::batch = {.names = "batch",
                                           .schedule = selectBatch};
