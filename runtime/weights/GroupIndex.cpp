//===- GroupIndex.cpp - the groups that a checkpoint's columns are in -----===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where a checkpoint has gates and ups apart each has its g_idx; they multiply
// the same x, and must agree.
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/LoadWeights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

using namespace moec;
using namespace moec::weights;

/// What is wrong with the groups of one expert's columns, or "".
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

Result<void> WeightLoader::loadGroupIndex(const Value &value,
                                          std::span<std::byte> to) {
  Wanted wanted;
  wanted.value = value.name;
  wanted.element = value.elementTypes.front();
  wanted.bits = 32;
  wanted.kinds = {Kind::GroupIndex};
  wanted.first = value.name.starts_with("w13");
  wanted.group = {-1, 1};
  const int64_t columns = wanted.first ? shape.hidden : shape.columns;
  const int64_t group = (wanted.first ? shape.w1 : shape.w2).columns;
  if (int64_t(to.size()) != shape.localCount * columns * 4 || group < 1)
    return Error{ErrorCode::InvalidManifest,
                 fmt::format("value '{}' has {} bytes, and its layer says {} "
                             "in groups of {}",
                             value.name, to.size(),
                             shape.localCount * columns * 4, group)};
  const std::vector<Part> parts = !wanted.first ? std::vector<Part>{Part::Down}
                                  : shape.gated
                                      ? std::vector<Part>{Part::Gate, Part::Up}
                                      : std::vector<Part>{Part::Up};
  for (int64_t i = 0; i < shape.localCount; ++i) {
    const int64_t expert = shape.localBegin + i * shape.localStride;
    std::vector<int32_t> index;
    std::string tensor;
    for (Part part : parts) {
      Result<Source> from = find(wanted, expert, part);
      if (!from)
        return from.takeError();
      std::vector<int32_t> own(static_cast<size_t>(columns));
      TargetMatrix target;
      target.data = reinterpret_cast<std::byte *>(own.data());
      target.bits = 32;
      target.storage = host::Storage::I32;
      target.rows = 1;
      target.columns = target.rowStride = columns;
      if (Result<void> ok =
              copyMatrix(from->matrix, target, from->conversion, false);
          !ok)
        return Error{ok.error().code,
                     fmt::format("{}: tensor '{}' {}; value '{}' is {}",
                                 checkpoint.path(), from->tensor,
                                 ok.error().message, value.name,
                                 wanted.element)};
      if (const std::string problem = problemOf(own, group); !problem.empty())
        return Error{ErrorCode::Refused,
                     fmt::format("{}: tensor '{}': {}, in groups of {} of "
                                 "expert {}",
                                 checkpoint.path(), from->tensor, problem,
                                 group, expert)};
      if (!index.empty() && own != index)
        return Error{ErrorCode::Refused,
                     fmt::format("{}: tensors '{}' and '{}' differ; expected "
                                 "one order of the columns of gate and up of "
                                 "expert {}",
                                 checkpoint.path(), tensor, from->tensor,
                                 expert)};
      index = std::move(own);
      tensor = from->tensor;
    }
    std::memcpy(to.data() + i * columns * 4, index.data(),
                index.size() * sizeof(int32_t));
  }
  return {};
}
