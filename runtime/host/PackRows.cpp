//===- PackRows.cpp - stages that move rows of weights on the host --------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// pack_copy copies the stored form of the experts of this step, starting at
// first_expert, to scratch memory. pack_interleave copies the scratch memory to
// the same experts of the packed weight and interleaves gate and up rows.
// Because of the scratch memory, stored and packed weight may be the same
// memory. Each stage has an inverse.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/PackStep.h"
#include "runtime/host/Parallel.h"

#include <cstring>
#include <utility>

using namespace moec;
using namespace moec::host;

Result<PackStep> PackStep::of(KernelRun &run) {
  PackStep step;
  step.rows = run.integer("rows");
  step.columns = run.integer("columns");
  step.firstExpert = TRY(run.size("first_expert"));
  step.experts = TRY(run.size("experts"));
  if (step.rows < 1 || step.columns < 1 || step.firstExpert < 0 ||
      step.experts < 1)
    return run.fail("expected rows, columns and experts of at least 1, got {}, "
                    "{}, {} from expert {}",
                    step.rows, step.columns, step.experts, step.firstExpert);
  return step;
}

namespace {

enum class Way { Forth, Back };

/// Copies row rowOf(i) of `from` to row i of `to` (Way::Forth), or row i of
/// `to` to row rowOf(i) of `from` (Way::Back). Rows are contiguous and have
/// elements of type `storage`, even if the manifest declares scratch memory as
/// bytes (i8).
template <typename RowOf>
void copyRows(KernelRun &run, const PackStep &step, std::byte *from,
              std::byte *to, Storage storage, Way way, RowOf rowOf) {
  const int64_t bytes = storageBytes(storage, step.columns);
  parallelFor(run.threads, step.experts * step.rows, 256,
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  const int64_t first = i / step.rows * step.rows;
                  std::byte *a = from + (first + rowOf(i % step.rows)) * bytes;
                  std::byte *b = to + i * bytes;
                  if (way == Way::Back)
                    std::swap(a, b);
                  std::memcpy(b, a, static_cast<size_t>(bytes));
                }
              });
}

/// Returns the scratch memory of one step. The manifest declares it with the
/// weight's element type or as bytes (i8).
Result<View> scratchOf(KernelRun &run, const PackStep &step, const View &weight,
                       bool isResult) {
  auto view = [&](int64_t rows, int64_t columns) {
    return isResult ? run.result("destination", rows, columns)
                    : run.operand("source", rows, columns);
  };
  // A View of 0 rows accesses no memory, but it has the element type.
  View scratch = TRY(view(0, step.columns));
  int64_t rows = step.experts * step.rows;
  bool isBytes = scratch.storage == Storage::I8;
  scratch =
      TRY(isBytes ? view(1, rows * storageBytes(weight.storage, step.columns))
                  : view(rows, step.columns));
  if (!scratch || !weight || (!isBytes && scratch.storage != weight.storage))
    return run.fail("expected memory for source and destination, of one "
                    "element type or scratch of i8");
  return scratch;
}

Result<void> copy(KernelRun &run, Way way) {
  PackStep step = TRY(PackStep::of(run));
  View weight =
      TRY(run.operand("source", step.lastExpert() * step.rows, step.columns));
  View scratch = TRY(scratchOf(run, step, weight, /*isResult=*/true));
  copyRows(run, step, weight.at(step.firstExpert * step.rows), scratch.data,
           weight.storage, way, [](int64_t row) { return row; });
  return {};
}

Result<void> interleave(KernelRun &run, Way way) {
  PackStep step = TRY(PackStep::of(run));
  RowOrder order = TRY(RowOrder::of(run, step.rows));
  if (order.interleave < 1)
    return run.fail("expected rows that are interleaved, got 0");
  View weight = TRY(
      run.result("destination", step.lastExpert() * step.rows, step.columns));
  View scratch = TRY(scratchOf(run, step, weight, /*isResult=*/false));
  copyRows(run, step, scratch.data, weight.at(step.firstExpert * step.rows),
           weight.storage, way,
           [&](int64_t row) { return order.at(row).stored; });
  return {};
}

} // namespace

Result<void> stages::pack_copy(KernelRun &run) { return copy(run, Way::Forth); }
Result<void> opposites::pack_copy(KernelRun &run) {
  return copy(run, Way::Back);
}

Result<void> stages::pack_interleave(KernelRun &run) {
  return interleave(run, Way::Forth);
}
Result<void> opposites::pack_interleave(KernelRun &run) {
  return interleave(run, Way::Back);
}
