//===- combine_normed.cpp - kernel that sums normed rows ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/Emission.h"
#include "compiler/kernels/Kind.h"
#include "compiler/plan/ProgramValues.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

/// Makes a schedule with one CTA per token, which reads whole rows. If each
/// thread handles only one vector of columns, it keeps that vector of every row
/// in registers.
static FailureOr<moe::ScheduleAttr> selectCombineNormed(moe::KernelOp kernel,
                                                        MeasuredSchedules &) {
  auto combine = findStage<moe::CombineNormedOp>(kernel);
  const int64_t hidden = combine.getWidth();
  const int64_t width =
      16 / std::min(elementBytes(elementTypeOf(combine.getOut())),
                    elementBytes(elementTypeOf(combine.getPartials())));
  const int64_t vectors = llvm::divideCeil(hidden, width);
  return scheduleAttr<moe::CombineScheduleAttr>(
      kernel->getParentOfType<moe::ProgramOp>(),
      {{}, hidden, std::clamp<int64_t>(llvm::alignTo(vectors, 32), 32, 512)});
}

static void emitCombineNormed(Emission &emission) {
  auto combine = findStage<moe::CombineNormedOp>(emission.kernel);
  emission.config().real("kEpsilon", combine.getEpsilon().convertToDouble());
  // With 16-bit rows, enough registers are free for a second CTA per SM, whose
  // loads overlap with the first CTA's work.
  if (elementBytes(elementTypeOf(combine.getPartials())) == 2)
    emission.out.text.minCtasPerSm = 2;
}

constexpr Kind compiler::kernels::combine_normed = {.names = "combine_normed",
                                                    .schedule =
                                                        selectCombineNormed,
                                                    .emit = emitCombineNormed};
