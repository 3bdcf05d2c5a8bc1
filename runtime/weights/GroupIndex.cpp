//===- GroupIndex.cpp - the group of each column --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads and checks the group index (GPTQ g_idx), the group of each column. A
// checkpoint that stores gate and up separately has one g_idx for gate and one
// for up. Gate and up are multiplied by the same x, so the two indices must be
// equal. If the layer has no group_index value, the index must be in ascending
// order.
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/LoadWeights.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

using namespace moec;
using namespace moec::weights;

/// Describes what is wrong with the group index of one expert, or returns "".
static std::string problemOf(std::span<const int32_t> index, int64_t group) {
  const auto columns = int64_t(index.size());
  const int64_t groups = (columns + group - 1) / group;
  std::vector<int64_t> counts(size_t(groups), 0);
  for (size_t c = 0; c < index.size(); ++c) {
    if (index[c] < 0 || index[c] >= groups)
      return fmt::format("expected groups 0 to {}, got {} for column {}",
                         groups - 1, index[c], c);
    ++counts[size_t(index[c])];
  }
  for (int64_t g = 0; g < groups; ++g)
    if (const int64_t expected = std::min(group, columns - g * group);
        counts[size_t(g)] != expected)
      return fmt::format("expected {} columns of group {}, got {}", expected, g,
                         counts[size_t(g)]);
  return {};
}

/// Reads the group index of one part of an expert, for this rank's columns.
Result<WeightLoader::Index>
WeightLoader::readIndex(const Wanted &wanted, int64_t expert, Part part) const {
  Source from = TRY(find(wanted, expert, part));
  Index made;
  made.tensor = from.tensor;
  made.groups.resize(size_t(wanted.first ? shape.hidden : shape.columns));
  TargetMatrix target;
  target.data = reinterpret_cast<std::byte *>(made.groups.data());
  target.bits = 32;
  target.storage = host::Storage::I32;
  target.rows = 1;
  target.columns = target.rowStride = int64_t(made.groups.size());
  if (Result<void> ok = copyMatrix(from.matrix, target, from.conversion, false);
      !ok)
    return Error(ok.error().code, "{}: tensor '{}' {}; value '{}' is {}",
                 checkpoint.path(), from.tensor, ok.error().message,
                 wanted.value, wanted.element);
  return made;
}

Result<void> WeightLoader::loadGroupIndex(const Value &value,
                                          std::span<std::byte> to,
                                          const ExpertRange &range) const {
  const Wanted wanted = wantedIndex(value.name, value.name.starts_with("w13"));
  const int64_t columns = wanted.first ? shape.hidden : shape.columns;
  const int64_t group = (wanted.first ? shape.w1 : shape.w2).columns;
  if (int64_t(to.size()) != range.count * columns * 4 || group < 1)
    return invalidManifest(
        "value '{}' has {} bytes, and its layer specifies {} in groups of {}",
        value.name, to.size(), range.count * columns * 4, group);
  for (int64_t i = 0; i < range.count; ++i) {
    const int64_t expert = expertAt(wanted, range.first + i);
    Index known;
    for (Part part : partsOf(wanted.first)) {
      Index own = TRY(readIndex(wanted, expert, part));
      if (const std::string problem = problemOf(own.groups, group);
          !problem.empty())
        return refused("{}: tensor '{}': {}, in groups of {} of expert {}",
                       checkpoint.path(), own.tensor, problem, group, expert);
      if (!known.groups.empty() && own.groups != known.groups)
        return refused("{}: tensors '{}' and '{}' differ; expected one order "
                       "of the columns of gate and up of expert {}",
                       checkpoint.path(), known.tensor, own.tensor, expert);
      known = std::move(own);
    }
    std::memcpy(to.data() + i * columns * 4, known.groups.data(),
                known.groups.size() * sizeof(int32_t));
  }
  return {};
}

Result<void> WeightLoader::checkOrder(const Wanted &codes,
                                      const ExpertRange &range) const {
  const int64_t group = (codes.first ? shape.w1 : shape.w2).columns;
  // `group` is 0 in a layer without scales, which has no groups, and -1 if a
  // whole row is one group.
  if (shape.groupIndex || group == 0)
    return {};
  Wanted wanted = wantedIndex(codes.value, codes.first);
  wanted.ofSharedMlp = codes.ofSharedMlp;
  const int64_t begin = codes.first ? 0 : shapeOf(codes).columnBegin;
  for (int64_t i = range.first; i < range.first + range.count; ++i) {
    const int64_t expert = expertAt(wanted, i);
    const bool shared = expert >= shape.experts;
    for (Part part : partsOf(codes.first)) {
      if (!look(wanted, shared, shared ? expert - shape.experts : expert, part))
        continue;
      Index index = TRY(readIndex(wanted, expert, part));
      for (size_t c = 0; c < index.groups.size(); ++c)
        if (const int64_t column = begin + int64_t(c),
            expected = group == -1 ? 0 : column / group;
            index.groups[c] != expected)
          return refused("{}: tensor '{}': expected group {} of column {}, "
                         "since layer '{}' has no group_index, got {}",
                         checkpoint.path(), index.tensor, expected, column,
                         shape.name, index.groups[c]);
    }
  }
  return {};
}
