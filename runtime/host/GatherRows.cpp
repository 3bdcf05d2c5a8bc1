//===- GatherRows.cpp - stage gather_rows on the host ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Copies rows of the intermediate between the order of pairs and the order of
// experts. A pair without a position gets a row of zeros.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/KernelRun.h"
#include "runtime/host/Parallel.h"

#include <algorithm>
#include <cstring>
#include <vector>

using namespace moec;
using namespace moec::host;

/// Returns the input row of each result row, or -1 for a row of zeros.
static Result<std::vector<int64_t>> readSources(KernelRun &run) {
  // The kernel has one CTA per row.
  int64_t count = run.ctas();
  const bool byPair = run.has("positions");
  if (!byPair) {
    const int64_t experts = run.integer("experts");
    if (experts < 1)
      return run.fail("expected experts of at least 1, got {}", experts);
    View offsets = TRY(run.needed("offsets", 1, experts + 1));
    count = std::min(offsets.integer(0, experts), count);
  }
  if (count < 0)
    return run.fail("expected rows >= 0, offsets end with {}", count);
  View indices = TRY(run.needed(byPair ? "positions" : "rows", 1, count));
  std::vector<int64_t> sources(static_cast<size_t>(count));
  for (int64_t r = 0; r < count; ++r) {
    const int64_t source = indices.integer(0, r);
    if (source < (byPair ? -1 : 0))
      return run.fail("expected rows of the input, row {} has {}", r, source);
    sources[static_cast<size_t>(r)] = source;
  }
  return sources;
}

Result<void> stages::gather_rows(KernelRun &run) {
  const int64_t columns = run.integer("columns");
  if (columns < 1)
    return run.fail("expected columns of at least 1, got {}", columns);
  const std::vector<int64_t> sources = TRY(readSources(run));
  const auto rows = static_cast<int64_t>(sources.size());
  int64_t read = 0;
  for (int64_t source : sources)
    read = std::max(read, source + 1);
  View input = TRY(run.needed("input", read, columns));
  View result = TRY(run.neededResult("result", rows, columns, input.storage));
  if (rows == 0)
    return {};
  if (input.storage != result.storage)
    return run.fail("expected input and result of one element type");
  const auto bytes = static_cast<size_t>(storageBytes(input.storage, columns));
  parallelFor(run.threads, rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      if (const int64_t source = sources[static_cast<size_t>(r)]; source < 0)
        std::memset(result.at(r), 0, bytes);
      else
        std::memcpy(result.at(r), input.at(source), bytes);
  });
  return {};
}
