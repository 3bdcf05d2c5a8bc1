//===- CombineNormed.cpp - stage combine_normed on the host ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Like stage combine, but each row is first RMS-normalized in f32. The gain of
// a column is the same for all rows, so the weighted sum is multiplied by the
// gain once.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/KernelRun.h"
#include "runtime/host/Parallel.h"
#include "templates/moe/math/host.h"

using namespace moec;
using namespace moec::host;

/// Returns 1 / RMS of the products gains[c] * row[c].
static float inverseRmsOf(const std::vector<float> &row,
                          const std::vector<float> &gains, float epsilon) {
  float squares = 0;
  for (size_t c = 0; c < row.size(); ++c) {
    const float scaled = gains[c] * row[c];
    squares += scaled * scaled;
  }
  return moe::inverseRms(squares, int(row.size()), epsilon);
}

Result<void> stages::combine_normed(KernelRun &run) {
  const int64_t pairs = run.integer("pairs"), hidden = run.integer("hidden");
  if (pairs < 1 || hidden < 1)
    return run.fail("expected pairs and hidden of at least 1, got {} and {}",
                    pairs, hidden);
  const float epsilon = run.number("epsilon").value_or(0);
  if (!(epsilon > 0))
    return run.fail("expected an epsilon above 0, got {}", epsilon);
  const int64_t tokens = std::min(TRY(run.size("tokens")), run.ctas());
  const View positions = TRY(run.needed("positions", tokens, pairs));
  const View weights = TRY(run.needed("topk_weights", tokens, pairs));
  int64_t rows = 0;
  for (int64_t token = 0; token < tokens; ++token)
    for (int64_t k = 0; k < pairs; ++k) {
      const int64_t position = positions.integer(token, k);
      if (position < -1)
        return run.fail("expected positions >= -1, got {} for token {}",
                        position, token);
      rows = std::max(rows, position + 1);
    }
  const View partials = TRY(run.needed("partials", rows, hidden));
  const View norm = TRY(run.needed("norm_weight", 1, hidden));
  const View residual = TRY(run.operand("residual", tokens, hidden));
  const View out = TRY(run.neededResult("out", tokens, hidden));
  if (tokens == 0)
    return {};

  std::vector<float> gains(hidden);
  loadFloats(norm.storage, norm.at(0), hidden, gains.data());
  for (float &gain : gains)
    gain = moe::normGain(gain);
  parallelFor(run.threads, tokens, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> row(hidden), sum(hidden);
    for (int64_t token = begin; token < end; ++token) {
      std::ranges::fill(sum, 0.0f);
      for (int64_t k = 0; k < pairs; ++k) {
        const int64_t position = positions.integer(token, k);
        if (position < 0)
          continue;
        loadFloats(partials.storage, partials.at(position), hidden, row.data());
        const float scale =
            weights.number(token, k) * inverseRmsOf(row, gains, epsilon);
        for (int64_t c = 0; c < hidden; ++c)
          sum[c] += scale * row[c];
      }
      for (int64_t c = 0; c < hidden; ++c)
        sum[c] *= gains[c];
      if (residual) {
        loadFloats(residual.storage, residual.at(token), hidden, row.data());
        for (int64_t c = 0; c < hidden; ++c)
          sum[c] += row[c];
      }
      storeFloats(out.storage, sum.data(), hidden, out.at(token));
    }
  });
  return {};
}
