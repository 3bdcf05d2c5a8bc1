//===- Pack.cpp - stages pack_copy and pack_interleave on the host ------ ===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// pack_copy takes stored experts first_expert.. to scratch; pack_interleave
// takes scratch to the same experts of the packed weight, its gate and up rows
// alternating. Through scratch, source and destination may be one memory.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/KernelRun.h"
#include "runtime/host/Parallel.h"

#include <cstring>
#include <fmt/format.h>

using namespace moec;
using namespace moec::host;

namespace {

struct PackStep {
  int64_t rows = 0, columns = 0, firstExpert = 0, experts = 0;
};

Result<PackStep> stepOf(KernelRun &run, const Stage &stage) {
  PackStep step;
  step.rows = run.integer(stage, "rows");
  step.columns = run.integer(stage, "columns");
  Result<int64_t> first = run.size("first_expert");
  if (!first)
    return first.takeError();
  Result<int64_t> experts = run.size("experts");
  if (!experts)
    return experts.takeError();
  step.firstExpert = *first;
  step.experts = *experts;
  if (step.rows < 1 || step.columns < 1 || *first < 0 || *experts < 1)
    return run.fail(stage,
                    fmt::format("expected rows, columns and experts of "
                                "at least 1, got {}, {}, {} from "
                                "expert {}",
                                step.rows, step.columns, *experts, *first));
  return step;
}

/// Copies rows of one storage type; `rowOf` gives the source of each row.
template <typename RowOf>
Result<void> copyRows(KernelRun &run, const Stage &stage, const PackStep &step,
                      const View &source, const View &destination,
                      int64_t sourceExpert, int64_t destinationExpert,
                      RowOf rowOf) {
  if (!source || !destination || source.storage != destination.storage)
    return run.fail(stage, "expected memory of one element type for source "
                           "and destination");
  size_t bytes =
      static_cast<size_t>(step.columns * storageBytes(source.storage));
  parallelFor(
      run.threads, step.experts * step.rows, 256,
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          int64_t expert = i / step.rows, row = i % step.rows;
          std::memcpy(
              destination.at((destinationExpert + expert) * step.rows + row),
              source.at((sourceExpert + expert) * step.rows + rowOf(row)),
              bytes);
        }
      });
  return {};
}

} // namespace

Result<void> moec::host::runPackCopy(KernelRun &run, const Stage &stage) {
  Result<PackStep> step = stepOf(run, stage);
  if (!step)
    return step.takeError();
  Result<View> source = run.operand(
      stage, "source", (step->firstExpert + step->experts) * step->rows,
      step->columns);
  if (!source)
    return source.takeError();
  Result<View> destination = run.result(
      stage, "destination", step->experts * step->rows, step->columns);
  if (!destination)
    return destination.takeError();
  return copyRows(run, stage, *step, *source, *destination, step->firstExpert,
                  0, [](int64_t row) { return row; });
}

Result<void> moec::host::runPackInterleave(KernelRun &run, const Stage &stage) {
  Result<PackStep> step = stepOf(run, stage);
  if (!step)
    return step.takeError();
  int64_t interleave = run.integer(stage, "interleave");
  if (interleave < 1 || step->rows % (2 * interleave))
    return run.fail(stage, fmt::format("expected rows to be a multiple of "
                                       "twice the interleave {}, got {}",
                                       interleave, step->rows));
  Result<View> source =
      run.operand(stage, "source", step->experts * step->rows, step->columns);
  if (!source)
    return source.takeError();
  Result<View> destination = run.result(
      stage, "destination", (step->firstExpert + step->experts) * step->rows,
      step->columns);
  if (!destination)
    return destination.takeError();
  return copyRows(
      run, stage, *step, *source, *destination, 0, step->firstExpert,
      [&](int64_t row) { return storedIndex(row, step->rows, interleave); });
}
