//===- MeasuredSchedules.cpp - measured rows for a program ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/MeasuredSchedules.h"

#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/ProgramValues.h"

#include <fmt/core.h>

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

LogicalResult MeasuredSchedules::read(moe::KernelOp kernel) {
  if (rows)
    return success();
  auto all = readTuned(files);
  if (!all)
    return kernel->emitError() << all.error().message;
  rows = std::move(*all);
  return success();
}

/// Returns the ranges that moe-make-variants derives from the same measurements
/// (TunedRow). If a TunedPair defined a variant's token range, the variant's
/// two matmuls therefore get the schedules of that TunedPair.
ArrayRef<ServedRange> MeasuredSchedules::servedBy(moe::ProgramOp program,
                                                  const Hardware &hardware) {
  if (served)
    return *served;
  MatmulProblem problems[2];
  Engines engines[2];
  for (auto variant : program.getBody().getOps<moe::VariantOp>())
    for (auto launch : variant.getBody().getOps<moe::LaunchOp>()) {
      if (launch.getKernelOp().getKind() != "grouped_matmul" ||
          isOfSharedRows(launch.getOperation()))
        continue;
      auto matmul = findStage<moe::GroupedMatmulOp>(launch.getKernelOp());
      const int index = matmul.isFirst() ? 0 : 1;
      problems[index] = problemOfStages(matmul);
      engines[index] = servingEngines(program.getReportAttr(), matmul);
    }
  served = servedRanges(*rows, problems[0], engines[0], problems[1], engines[1],
                        hardware, program.getMaxTokens());
  return *served;
}

void MeasuredSchedules::note(moe::KernelOp kernel, const MatmulProblem &problem,
                             const Hardware &hardware,
                             const TunedRow *row) const {
  const auto set = [&](StringRef name, const std::string &text) {
    if (!text.empty())
      kernel->setAttr(name, StringAttr::get(kernel.getContext(), text));
  };
  if (!row)
    return set(kMeasuredBeside, rangesBeside(*rows, problem, hardware));
  std::string text = row->origin;
  if (row->hasRange())
    text += fmt::format(", {} to {} tokens", row->first,
                        lastWithSchedule(*rows, *row, problem, hardware.gpu));
  set(kMeasuredBy, text);
}

FailureOr<const TunedRow *>
MeasuredSchedules::find(moe::KernelOp kernel, const MatmulProblem &problem,
                        const Engines &engines, const Hardware &hardware) {
  if (failed(read(kernel)))
    return failure();
  // Only the two matmuls of the routed experts define measured ranges.
  const ArrayRef<ServedRange> ranges =
      isOfSharedRows(kernel)
          ? ArrayRef<ServedRange>()
          : servedBy(kernel->getParentOfType<moe::ProgramOp>(), hardware);
  const TunedRow *row = findTuned(*rows, problem, engines, hardware, ranges);
  note(kernel, problem, hardware, row);
  return row;
}
