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

/// Copies rows; `rowOf` gives the source of each row. Scratch may be declared
/// as bytes (i8), so both sides are contiguous memory of the weight's type.
template <typename RowOf>
Result<void> copyRows(KernelRun &run, const PackStep &step,
                      const std::byte *source, std::byte *destination,
                      Storage storage, RowOf rowOf) {
  int64_t bytes = storageBytes(storage, step.columns);
  parallelFor(run.threads, step.experts * step.rows, 256,
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  int64_t first = i / step.rows * step.rows;
                  std::memcpy(destination + i * bytes,
                              source + (first + rowOf(i % step.rows)) * bytes,
                              static_cast<size_t>(bytes));
                }
              });
  return {};
}

/// Scratch of one step, of the weight's element type or of bytes.
Result<View> scratchOf(KernelRun &run, const Stage &stage, const PackStep &step,
                       const View &weight, bool isResult) {
  auto view = [&](int64_t rows, int64_t columns) {
    return isResult ? run.result(stage, "destination", rows, columns)
                    : run.operand(stage, "source", rows, columns);
  };
  // Nothing is read of 0 rows; this tells the element type.
  Result<View> scratch = view(0, step.columns);
  if (!scratch)
    return scratch;
  int64_t rows = step.experts * step.rows;
  bool isBytes = scratch->storage == Storage::I8;
  scratch = isBytes ? view(1, rows * storageBytes(weight.storage, step.columns))
                    : view(rows, step.columns);
  if (scratch && (!*scratch || !weight ||
                  (!isBytes && scratch->storage != weight.storage)))
    return run.fail(stage, "expected memory for source and destination, of one "
                           "element type or scratch of i8");
  return scratch;
}

} // namespace

Result<void> moec::host::runPackCopy(KernelRun &run, const Stage &stage) {
  Result<PackStep> step = stepOf(run, stage);
  if (!step)
    return step.takeError();
  Result<View> weight = run.operand(
      stage, "source", (step->firstExpert + step->experts) * step->rows,
      step->columns);
  if (!weight)
    return weight.takeError();
  Result<View> scratch =
      scratchOf(run, stage, *step, *weight, /*isResult=*/true);
  if (!scratch)
    return scratch.takeError();
  return copyRows(run, *step, weight->at(step->firstExpert * step->rows),
                  scratch->data, weight->storage,
                  [](int64_t row) { return row; });
}

Result<void> moec::host::runPackInterleave(KernelRun &run, const Stage &stage) {
  Result<PackStep> step = stepOf(run, stage);
  if (!step)
    return step.takeError();
  Result<RowOrder> order = RowOrder::of(run, stage, step->rows);
  if (!order)
    return order.takeError();
  if (order->interleave < 1)
    return run.fail(stage, "expected rows that are interleaved, got 0");
  Result<View> weight = run.result(
      stage, "destination", (step->firstExpert + step->experts) * step->rows,
      step->columns);
  if (!weight)
    return weight.takeError();
  Result<View> scratch =
      scratchOf(run, stage, *step, *weight, /*isResult=*/false);
  if (!scratch)
    return scratch.takeError();
  return copyRows(run, *step, scratch->data,
                  weight->at(step->firstExpert * step->rows), weight->storage,
                  [&](int64_t row) { return order->at(row).stored; });
}
