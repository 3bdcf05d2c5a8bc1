//===- Order.cpp - columns in the order of their groups on the host ------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Columns of K in the order of their groups (act-order). pack_order converts
// the group index of each weight column to a column order: first all columns of
// group 0, then all columns of group 1, and so on. permute_columns applies this
// order to the columns of the rows that are multiplied by such a weight.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/KernelRun.h"
#include "runtime/host/Parallel.h"

#include <algorithm>
#include <cstring>
#include <vector>

using namespace moec;
using namespace moec::host;

namespace {

/// The input and output of pack_order: the group index of each column, and the
/// resulting column order.
struct Order {
  int64_t columns = 0, group = 0, first = 0, last = 0;
  View index, order;
  static Result<Order> of(KernelRun &run);
};

Result<Order> Order::of(KernelRun &run) {
  Order made;
  made.columns = run.integer("columns");
  made.group = run.integer("group");
  made.first = TRY(run.size("first_expert"));
  const int64_t experts = run.ctas();
  if (made.columns < 1 || made.group < 1 || made.first < 0 || experts < 1)
    return run.fail("expected columns, groups and experts of at least 1, got "
                    "{}, {}, {} from expert {}",
                    made.columns, made.group, experts, made.first);
  made.last = made.first + experts;
  made.index = TRY(run.needed("source", made.last, made.columns));
  made.order = TRY(
      run.neededResult("destination", made.last, made.columns, Storage::I32));
  return made;
}

} // namespace

Result<void> stages::pack_order(KernelRun &run) {
  const Order made = TRY(Order::of(run));
  const auto &[columns, group, first, last, index, order] = made;
  const int64_t groups = (columns + group - 1) / group;
  for (int64_t e = first; e < last; ++e) {
    std::vector<std::vector<int64_t>> members(static_cast<size_t>(groups));
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t g = index.integer(e, c);
      if (g < 0 || g >= groups)
        return run.fail(
            "expected groups below {}, column {} of expert {} has {}", groups,
            c, e, g);
      members[static_cast<size_t>(g)].push_back(c);
    }
    int64_t next = 0;
    for (int64_t g = 0; g < groups; ++g) {
      const auto &of = members[static_cast<size_t>(g)];
      const int64_t expected = std::min(group, columns - g * group);
      if (static_cast<int64_t>(of.size()) != expected)
        return run.fail("expected {} columns of group {} of expert {}, got {}",
                        expected, g, e, of.size());
      for (int64_t c : of)
        order.setInteger(e, next++, c);
    }
  }
  return {};
}

/// Inverse of pack_order: computes each column's group index from the column
/// order.
Result<void> opposites::pack_order(KernelRun &run) {
  const Order made = TRY(Order::of(run));
  for (int64_t e = made.first; e < made.last; ++e) {
    std::vector<bool> seen(static_cast<size_t>(made.columns));
    for (int64_t i = 0; i < made.columns; ++i) {
      const int64_t column = made.order.integer(e, i);
      if (column < 0 || column >= made.columns ||
          seen[static_cast<size_t>(column)])
        return changedSince();
      seen[static_cast<size_t>(column)] = true;
      made.index.setInteger(e, column, i / made.group);
    }
  }
  return {};
}

Result<View> moec::host::readOrder(KernelRun &run, int64_t first, int64_t count,
                                   int64_t columns) {
  View order = TRY(run.operand("order", first + count, columns));
  if (!order)
    return order;
  for (int64_t e = first; e < first + count; ++e)
    for (int64_t c = 0; c < columns; ++c)
      if (const int64_t from = order.integer(e, c); from < 0 || from >= columns)
        return run.fail("expected columns below {}, got {} for expert {}",
                        columns, from, e);
  return order;
}

/// Returns the result row of each sorted row: the pair's index in `rows` if the
/// stage has this operand, otherwise the same row.
static Result<std::vector<int64_t>> readPlaces(KernelRun &run, int64_t rows) {
  View pairs = TRY(run.operand("rows", 1, rows));
  std::vector<int64_t> places(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t place = pairs ? pairs.integer(0, r) : r;
    if (place < 0)
      return run.fail("expected pairs >= 0, row {} has {}", r, place);
    places[static_cast<size_t>(r)] = place;
  }
  return places;
}

Result<void> stages::permute_columns(KernelRun &run) {
  const int64_t experts = run.integer("experts");
  const int64_t columns = run.integer("columns");
  const int64_t pairs = run.has("rows") ? run.integer("pairs") : 1;
  if (experts < 1 || columns < 1 || pairs < 1)
    return run.fail(
        "expected experts, columns and pairs of at least 1, got {}, {}, {}",
        experts, columns, pairs);
  View offsets = TRY(run.needed("offsets", 1, experts + 1));
  View order = TRY(readOrder(run, 0, experts, columns));
  if (!order)
    return run.fail("expected memory for order");
  // The kernel has one CTA per row.
  const int64_t rows = std::min(offsets.integer(0, experts), run.ctas());
  if (rows < 0)
    return run.fail("expected rows >= 0, offsets end with {}", rows);
  std::vector<int64_t> places = TRY(readPlaces(run, rows));
  int64_t written = 0;
  for (int64_t place : places)
    written = std::max(written, place + 1);
  View input = TRY(run.needed("input", (written + pairs - 1) / pairs, columns));
  View result =
      TRY(run.neededResult("result", written, columns, input.storage));
  if (rows == 0)
    return {};
  if (input.storage != result.storage)
    return run.fail("expected input and result of one element type");
  std::vector<int64_t> expertOf(static_cast<size_t>(rows), 0);
  for (int64_t e = 0; e < experts; ++e)
    for (int64_t r = std::max<int64_t>(offsets.integer(0, e), 0);
         r < std::min(offsets.integer(0, e + 1), rows); ++r)
      expertOf[static_cast<size_t>(r)] = e;
  const auto bytes = static_cast<size_t>(storageBytes(input.storage, 1));
  parallelFor(run.threads, rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t place = places[static_cast<size_t>(r)];
      const int64_t expert = expertOf[static_cast<size_t>(r)];
      for (int64_t c = 0; c < columns; ++c)
        std::memcpy(result.at(place, c),
                    input.at(place / pairs, order.integer(expert, c)), bytes);
    }
  });
  return {};
}
