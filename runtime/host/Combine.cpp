//===- Combine.cpp - stage combine on the host ----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes out[token] = sum over k of weight * partials[position], accumulated
// in f32 in the order of k. Pairs with position -1 are skipped; a token without
// pairs has sum 0. A pair of a zero expert (an expert that returns its input)
// adds its weight times the token's row of x. The residual, if given, is added
// last; `residual` and `out` may be the same memory. The sum is rounded once.
// Without weights, each weight is 1.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/KernelRun.h"
#include "runtime/host/Parallel.h"

using namespace moec;
using namespace moec::host;

Result<void> stages::combine(KernelRun &run) {
  int64_t pairs = run.integer("pairs");
  int64_t hidden = run.integer("hidden");
  if (pairs < 1 || hidden < 1)
    return run.fail("expected pairs and hidden of at least 1, got {} and {}",
                    pairs, hidden);
  int64_t size = TRY(run.size("tokens"));
  // Kernels that send their results to other ranks loop over tokens in each
  // CTA, so the number of CTAs does not limit the tokens.
  int64_t tokens =
      run.word("output_type").empty() ? std::min(size, run.ctas()) : size;
  View positions = TRY(run.needed("positions", tokens, pairs));
  View weights = TRY(run.neededIfNamed("topk_weights", tokens, pairs));
  View identity = TRY(run.operand("identity", tokens, hidden));
  View ids = TRY(run.operand("topk_ids", tokens, pairs));
  if (tokens > 0 && bool(identity) != bool(ids))
    return run.fail("expected memory for identity and topk_ids");
  if (TRY(run.ofRank("add_identity", 1)) == 0)
    identity = ids = View();
  int64_t rows = 0;
  for (int64_t token = 0; token < tokens; ++token)
    for (int64_t k = 0; k < pairs; ++k) {
      int64_t position = positions.integer(token, k);
      if (position < -1)
        return run.fail("expected positions >= -1, got {} for token {}",
                        position, token);
      rows = std::max(rows, position + 1);
    }
  View partials = TRY(run.needed("partials", rows, hidden));
  View residual = TRY(run.operand("residual", tokens, hidden));
  View addend = TRY(run.operand("addend", tokens * pairs, hidden));
  // If a later stage of the same kernel reads the sum, the sum is also rounded,
  // to the type `output_type`.
  const std::string type = run.word("output_type");
  const Storage storage = type.empty() ? Storage::F32 : storageOf(type);
  if (storage == Storage::None)
    return run.fail("expected an output_type, got '{}'", type);
  View out = TRY(run.neededResult("out", tokens, hidden, storage));
  if (tokens == 0)
    return {};

  parallelFor(run.threads, tokens, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> row(hidden), sum(hidden), scale(pairs), more(hidden);
    for (int64_t token = begin; token < end; ++token) {
      std::ranges::fill(sum, 0.0f);
      std::ranges::fill(scale, 1.0f);
      if (weights)
        loadFloats(weights.storage, weights.at(token), pairs, scale.data());
      for (int64_t k = 0; k < pairs; ++k) {
        int64_t position = positions.integer(token, k);
        if (position < 0)
          continue;
        loadFloats(partials.storage, partials.at(position), hidden, row.data());
        if (addend) {
          loadFloats(addend.storage, addend.at(token * pairs + k), hidden,
                     more.data());
          for (int64_t c = 0; c < hidden; ++c)
            row[c] += more[c];
        }
        for (int64_t c = 0; c < hidden; ++c)
          sum[c] += scale[k] * row[c];
      }
      float own = 0;
      for (int64_t k = 0; ids && k < pairs; ++k)
        if (ids.integer(token, k) == kIdentityPlace)
          own += scale[k];
      if (own != 0) {
        loadFloats(identity.storage, identity.at(token), hidden, row.data());
        for (int64_t c = 0; c < hidden; ++c)
          sum[c] += own * row[c];
      }
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
