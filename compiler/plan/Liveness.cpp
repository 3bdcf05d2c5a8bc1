//===- Liveness.cpp - workspace offsets by lifetime -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// There are two steps. The sizes at the largest token count determine which
// values are placed below which other values. The offsets are then built as
// expressions, which are valid for all token counts.
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/Liveness.h"

#include <algorithm>
#include <numeric>

using namespace moec;
using namespace moec::compiler;

static Expression aligned(const Expression &bytes) {
  return ceilDiv(bytes, Expression(kRegionAlignment)) *
         Expression(kRegionAlignment);
}

static bool overlapInTime(const LiveValue &a, const LiveValue &b) {
  return a.firstLaunch <= b.lastLaunch && b.firstLaunch <= a.lastLaunch;
}

/// Returns the maximum of the end offsets of the values `below`. A value is
/// omitted from the maximum if another value in `below` is placed above it,
/// since that value ends later.
static Expression highestEnd(const std::vector<size_t> &below,
                             const std::vector<std::vector<size_t>> &supports,
                             const std::vector<Expression> &ends) {
  std::vector<size_t> tops;
  for (size_t candidate : below) {
    bool covered = std::ranges::any_of(below, [&](size_t other) {
      const auto &s = supports[other];
      return std::ranges::find(s, candidate) != s.end();
    });
    if (!covered)
      tops.push_back(candidate);
  }
  Expression highest(0);
  bool first = true;
  for (size_t top : tops) {
    highest = first ? ends[top] : max(highest, ends[top]);
    first = false;
  }
  return highest;
}

Result<WorkspacePlan>
compiler::planWorkspace(const std::vector<LiveValue> &values,
                        const Symbols &largest) {
  size_t count = values.size();
  std::vector<Expression> sizes;
  std::vector<int64_t> numbers, offsets(count, 0);
  for (const LiveValue &value : values) {
    sizes.push_back(aligned(value.bytes));
    numbers.push_back(TRY(sizes.back().evaluate(largest)));
  }

  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return numbers[a] > numbers[b]; });
  std::vector<size_t> placed;
  for (size_t v : order) {
    std::vector<size_t> rivals;
    for (size_t p : placed)
      if (overlapInTime(values[v], values[p]))
        rivals.push_back(p);
    std::ranges::sort(
        rivals, [&](size_t a, size_t b) { return offsets[a] < offsets[b]; });
    int64_t at = 0;
    for (size_t r : rivals) {
      if (at + numbers[v] <= offsets[r])
        break;
      at = std::max(at, offsets[r] + numbers[r]);
    }
    offsets[v] = at;
    placed.push_back(v);
  }

  // Process values by ascending offset. Two values with equal offsets do not
  // overlap in time, unless one of them is empty.
  std::ranges::sort(order, [&](size_t a, size_t b) {
    return std::pair(offsets[a], a) < std::pair(offsets[b], b);
  });
  WorkspacePlan plan;
  plan.offsets.resize(count);
  std::vector<Expression> ends(count);
  // supports[v]: all values below v, directly or indirectly.
  std::vector<std::vector<size_t>> supports(count);
  std::vector<size_t> done;
  for (size_t v : order) {
    std::vector<size_t> below;
    for (size_t b : done)
      if (overlapInTime(values[v], values[b]))
        below.push_back(b);
    plan.offsets[v] = highestEnd(below, supports, ends);
    ends[v] = plan.offsets[v] + sizes[v];
    for (size_t b : below) {
      supports[v].push_back(b);
      supports[v].insert(supports[v].end(), supports[b].begin(),
                         supports[b].end());
    }
    done.push_back(v);
  }
  plan.bytes = highestEnd(done, supports, ends);
  return plan;
}
