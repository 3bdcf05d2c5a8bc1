//===- ValidateCollectives.cpp - checks of collectives --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A collective transfers whole contiguous tensors. The number of bytes follows
// from element type and extents, and must be the same on every rank.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Checker.h"
#include "runtime/package/Limits.h"

#include <algorithm>

using namespace moec;

/// Returns the first extents that operand and result must have. Empty strings
/// mean that both extents must be equal.
static std::pair<std::string_view, std::string_view>
extentsOf(Collective::Kind kind) {
  switch (kind) {
  case Collective::Kind::AllGather:
    return {"own_tokens", "tokens"};
  case Collective::Kind::ReduceScatter:
    return {"tokens", "own_tokens"};
  case Collective::Kind::AllReduce:
    break;
  }
  return {"", ""};
}

Result<void> Checker::checkCollective(const std::string &path,
                                      const Target &target,
                                      const Collective &collective) {
  using enum ValueRole;
  TRY(checkInteger(path + ".ranks", collective.ranks, 2, kMostRanks));
  TRY(checkInteger(path + ".stride", collective.stride, 1, kMostRanks));
  if (collective.operands.empty() ||
      collective.operands.size() != collective.results.size())
    return fail(path + ".results",
                "expected one for each of the operands, of which there is one "
                "or more, got {} of {}",
                collective.results.size(), collective.operands.size());
  const bool sums = collective.kind != Collective::Kind::AllGather;
  if (collective.kind != Collective::Kind::AllReduce &&
      collective.ranks != manifest.tokenRanks)
    return fail(path + ".ranks",
                "expected {}, the token_ranks of the manifest, "
                "got {}",
                manifest.tokenRanks, collective.ranks);
  const auto [from, to] = extentsOf(collective.kind);
  for (size_t i = 0; i < collective.operands.size(); ++i) {
    const std::string where = fmt::format("{}.operands[{}]", path, i);
    const Value *operand = findValue(manifest, target, collective.operands[i]);
    const Value *result = findValue(manifest, target, collective.results[i]);
    if (!operand || (operand->role != Input && operand->role != Workspace))
      return fail(where, "expected an input or a workspace value, got '{}'",
                  collective.operands[i]);
    if (!result || (result->role != Output && result->role != Workspace))
      return fail(fmt::format("{}.results[{}]", path, i),
                  "expected an output or a workspace value, got '{}'",
                  collective.results[i]);
    for (const Value *value : {operand, result})
      if (!value->strides.empty() || value->callerRowStride ||
          value->shape.empty() || value->elementTypes.size() != 1)
        return fail(where,
                    "expected a tensor of one element type without gaps, and "
                    "'{}' may be another",
                    value->name);
    if (operand->elementTypes != result->elementTypes ||
        !std::equal(operand->shape.begin() + 1, operand->shape.end(),
                    result->shape.begin() + 1, result->shape.end()))
      return fail(where,
                  "expected '{}' and '{}' to differ only in the first extent",
                  operand->name, result->name);
    if (from.empty()
            ? operand->shape[0] != result->shape[0]
            : operand->shape[0].text() != from || result->shape[0].text() != to)
      return fail(where,
                  "expected the first extents {} and {}, got {} of '{}' and {} "
                  "of '{}'",
                  from.empty() ? "equal" : from, from.empty() ? "equal" : to,
                  operand->shape[0].text(), operand->name,
                  result->shape[0].text(), result->name);
    const std::string &type = operand->elementTypes[0];
    if (sums)
      TRY(checkWord(where, type, {"f32", "f16", "bf16"}));
  }
  return {};
}
