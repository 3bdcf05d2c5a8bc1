//===- CombineConstants.cpp - stage combine_constants on the host ---------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Like stage combine, accumulated in f32 in the order of k. If a pair's id is
// `experts` + i, row i of the constants is added instead of a row of the
// partials.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/KernelRun.h"
#include "runtime/host/Parallel.h"

using namespace moec;
using namespace moec::host;

Result<void> stages::combine_constants(KernelRun &run) {
  const int64_t pairs = run.integer("pairs"), hidden = run.integer("hidden");
  const int64_t experts = run.integer("experts");
  const int64_t count = run.integer("constants");
  if (pairs < 1 || hidden < 1 || experts < 1 || count < 1)
    return run.fail("expected pairs, hidden, experts and constants of at least "
                    "1, got {}, {}, {} and {}",
                    pairs, hidden, experts, count);
  const int64_t tokens = std::min(TRY(run.size("tokens")), run.ctas());
  const View positions = TRY(run.needed("positions", tokens, pairs));
  const View weights = TRY(run.needed("topk_weights", tokens, pairs));
  const View ids = TRY(run.needed("topk_ids", tokens, pairs));
  int64_t rows = 0;
  for (int64_t token = 0; token < tokens; ++token)
    for (int64_t k = 0; k < pairs; ++k) {
      const int64_t position = positions.integer(token, k);
      const int64_t id = ids.integer(token, k);
      if (position < -1 || id >= experts + count)
        return run.fail("expected positions >= -1 and ids below {}, got {} and "
                        "{} for token {}",
                        experts + count, position, id, token);
      rows = std::max(rows, position + 1);
    }
  const View partials = TRY(run.needed("partials", rows, hidden));
  const View constants = TRY(run.needed("constants", count, hidden));
  const View residual = TRY(run.operand("residual", tokens, hidden));
  const View out = TRY(run.neededResult("out", tokens, hidden));
  if (tokens == 0)
    return {};

  parallelFor(run.threads, tokens, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> row(hidden), sum(hidden);
    const auto add = [&](const View &from, int64_t at, float scale) {
      loadFloats(from.storage, from.at(at), hidden, row.data());
      for (int64_t c = 0; c < hidden; ++c)
        sum[c] += scale * row[c];
    };
    for (int64_t token = begin; token < end; ++token) {
      std::ranges::fill(sum, 0.0f);
      for (int64_t k = 0; k < pairs; ++k) {
        const float weight = weights.number(token, k);
        if (const int64_t id = ids.integer(token, k); id >= experts)
          add(constants, id - experts, weight);
        else if (positions.integer(token, k) >= 0)
          add(partials, positions.integer(token, k), weight);
      }
      if (residual)
        add(residual, token, 1.0f);
      storeFloats(out.storage, sum.data(), hidden, out.at(token));
    }
  });
  return {};
}
