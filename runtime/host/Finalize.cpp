//===- Finalize.cpp - stage finalize on the host --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Adds the partial results that a token's owners sent, in f32 and in rank
// order, and rounds the sum once. The result is NaN if any rank stopped waiting
// for another rank.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Exchange.h"
#include "runtime/host/Parallel.h"

#include <limits>

using namespace moec;
using namespace moec::host;

Result<void> stages::finalize(KernelRun &run) {
  const Owners owners = TRY(Owners::of(run));
  const int64_t tokens = TRY(run.size("tokens"));
  const int64_t hidden = run.integer("hidden");
  const View words = TRY(run.needed(
      "exchange_words", 1, moe::ExchangeWords{int(owners.ranks)}.count()));
  const View ids = TRY(run.needed("topk_ids", tokens, owners.pairs));
  const View partials =
      TRY(run.needed("partials", tokens * owners.most(), hidden));
  const View out = TRY(run.neededResult("out", tokens, hidden));
  const auto sets = TRY(owners.ofTokens(run, ids, tokens));
  const bool broken = isBroken(words, owners.ranks);
  parallelFor(run.threads, tokens, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> row(hidden), sum(hidden);
    for (int64_t token = begin; token < end; ++token) {
      std::ranges::fill(sum, broken ? std::numeric_limits<float>::quiet_NaN()
                                    : 0.0F);
      const int count = broken ? 0 : sets[size_t(token)].count();
      for (int64_t j = 0; j < count; ++j) {
        loadFloats(partials.storage, partials.at(token * owners.most() + j),
                   hidden, row.data());
        for (int64_t c = 0; c < hidden; ++c)
          sum[c] += row[c];
      }
      storeFloats(out.storage, sum.data(), hidden, out.at(token));
    }
  });
  return {};
}
