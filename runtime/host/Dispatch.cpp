//===- Dispatch.cpp - stage dispatch on the host --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sends the tokens of this rank to the windows of all ranks. Token t of rank r
// becomes row r * tokens + t. Ids and weights are sent to all ranks; x and its
// scales are sent only to the owners of the token (the ranks that have one of
// its experts).
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Exchange.h"

using namespace moec;
using namespace moec::host;

namespace {
/// An operand whose rows are sent, and the window value that receives them.
struct Moved {
  std::string operand, result;
  bool toAll = false;
  View from = {};
};
} // namespace

Result<void> stages::dispatch(KernelRun &run) {
  const Owners owners = TRY(Owners::of(run));
  const int64_t tokens = TRY(run.size("tokens"));
  const int64_t rank = TRY(run.ofRank("rank", 0));
  Meeting meeting =
      TRY(Meeting::of(run, moe::ExchangePhase::Dispatch, owners.ranks));
  std::vector<Moved> moved = {{"x", "received_x"},
                              {"scale", "received_scale"},
                              {"second_scale", "received_second_scale"},
                              {"topk_ids", "received_ids", true},
                              {"topk_weights", "received_weights", true}};
  std::erase_if(moved, [&](const Moved &one) { return !run.has(one.operand); });
  View ids;
  for (Moved &one : moved) {
    one.from =
        TRY(run.needed(one.operand, tokens, TRY(run.columnsOf(one.operand))));
    if (one.operand == "topk_ids")
      ids = one.from;
  }
  const auto sets = TRY(owners.ofTokens(run, ids, tokens));
  if (!meeting.isBroken())
    for (const Moved &one : moved)
      for (int64_t other = 0; other < owners.ranks; ++other) {
        const View there = TRY(run.resultAt(
            other, one.result, owners.ranks * tokens, one.from.columns));
        for (int64_t token = 0; token < tokens; ++token)
          if (one.toAll || sets[size_t(token)].has(int(other)))
            copyRow(one.from, token, there, rank * tokens + token);
      }
  meeting.end(tokens);
  return {};
}
