//===- SendBack.cpp - stage send_back on the host -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sends this rank's partial results back to the ranks that the tokens came
// from. Row r * own + t is the result for token t of rank r. It is sent to rank
// r's window if this rank is an owner of the token. In that window, the rows of
// a token's owners are stored in rank order.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Exchange.h"

using namespace moec;
using namespace moec::host;

Result<void> stages::send_back(KernelRun &run) {
  const Owners owners = TRY(Owners::of(run));
  const int64_t tokens = TRY(run.size("tokens"));
  const int64_t own = tokens / owners.ranks;
  const int rank = int(TRY(run.ofRank("rank", 0)));
  Meeting meeting =
      TRY(Meeting::of(run, moe::ExchangePhase::SendBack, owners.ranks));
  const View partials =
      TRY(run.needed("partials", tokens, TRY(run.columnsOf("partials"))));
  const View ids = TRY(run.needed("topk_ids", tokens, owners.pairs));
  const auto sets = TRY(owners.ofTokens(run, ids, tokens));
  if (!meeting.isBroken())
    for (int64_t other = 0; other < owners.ranks; ++other) {
      const View there = TRY(
          run.resultAt(other, "back", own * owners.most(), partials.columns));
      for (int64_t token = 0; token < own; ++token) {
        const Owners::Set &set = sets[size_t(other * own + token)];
        if (set.has(rank))
          copyRow(partials, other * own + token, there,
                  token * owners.most() + set.countBelow(rank));
      }
    }
  meeting.end(own);
  return {};
}
