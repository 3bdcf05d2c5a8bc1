//===- Dequantize.cpp - stage dequantize on the host ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Converts codes (quantized values) of activations to the values that they
// represent. The product of an 8-bit code and an 8-bit scale is exact in f32.
// Every other product is rounded to f32. The final product is then rounded to
// the 16-bit result type.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/KernelRun.h"
#include "runtime/host/Parallel.h"

#include <algorithm>
#include <vector>

using namespace moec;
using namespace moec::host;

/// Number of columns that one thread of the kernel processes.
static constexpr int64_t kWidth = 8;

Result<void> stages::dequantize(KernelRun &run) {
  const int64_t groupRows = run.integer("group_rows");
  const int64_t groupColumns = run.integer("group_columns");
  const bool ofTensor = groupRows == -1 && groupColumns == -1;
  if (!ofTensor && groupRows != 1)
    return run.fail("expected one scale for all values or one scale per row, "
                    "got groups of {} x {}",
                    groupRows, groupColumns);
  RowCount count = TRY(countRows(run));
  int64_t columns = TRY(run.columnsOf("input"));
  // The kernel's grid limits the elements that are written.
  const int64_t covered = run.ctas() * run.kernel.threads * kWidth;
  const int64_t rows = std::min(count.rows, (covered + columns - 1) / columns);
  const int64_t group = groupColumns == -1 ? columns : groupColumns;
  const int64_t groups = (columns + group - 1) / group;
  const bool secondOfRow = run.flag("second_per_row");
  View input = TRY(run.needed("input", rows, columns));
  View scales =
      TRY(run.needed("scale", ofTensor ? 1 : rows, ofTensor ? 1 : groups));
  View second =
      TRY(run.neededIfNamed("second_scale", secondOfRow ? rows : 1, 1));
  View data = TRY(run.neededResult("data", rows, columns));
  if (rows == 0)
    return {};
  parallelFor(run.threads, rows, 4, [&](int64_t begin, int64_t end) {
    std::vector<float> values(columns), factors(groups);
    for (int64_t row = begin; row < end; ++row) {
      if (!count.isRow(row))
        continue;
      loadFloats(input.storage, input.at(row), columns, values.data());
      loadFloats(scales.storage, scales.at(ofTensor ? 0 : row),
                 ofTensor ? 1 : groups, factors.data());
      float outer = 1;
      if (second)
        loadFloats(second.storage, second.at(secondOfRow ? row : 0), 1, &outer);
      for (int64_t c = 0; c < columns; ++c) {
        values[c] *= factors[c / group];
        values[c] *= outer;
      }
      storeFloats(data.storage, values.data(),
                  std::min(columns, covered - row * columns), data.at(row));
    }
  });
  return {};
}
