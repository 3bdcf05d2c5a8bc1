//===- SampleTokens.cpp - the tokens that a check looks at ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/reference/Reference.h"
#include "test/reference/TestData.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace moec::reference {

std::vector<int64_t> sampleTokens(const Layer &layer, const Routing &routing,
                                  const std::vector<int64_t> &tileRows,
                                  int64_t limit, uint64_t seed) {
  const int64_t tokens = routing.tokens;
  std::vector<int64_t> all(tokens);
  std::iota(all.begin(), all.end(), 0);
  if (tokens <= limit)
    return all;

  // Tokens of each local expert in the order of its rows.
  std::vector<std::vector<int64_t>> rows(layer.localExperts);
  for (int64_t token = 0; token < tokens; ++token)
    for (int64_t k = 0; k < routing.pairs; ++k) {
      const int64_t local = routing.locals[token * routing.pairs + k];
      if (local >= 0)
        rows[local].push_back(token);
    }

  std::set<int64_t> chosen = {0, tokens - 1};
  auto add = [&](const std::vector<int64_t> &candidates) {
    const int64_t room = limit - int64_t(chosen.size());
    const int64_t count = int64_t(candidates.size());
    const int64_t step =
        room > 0 ? std::max<int64_t>(1, (count + room - 1) / room) : 1;
    for (int64_t i = 0; i < count && int64_t(chosen.size()) < limit; i += step)
      chosen.insert(candidates[i]);
  };
  std::vector<int64_t> ends;
  for (const std::vector<int64_t> &expert : rows)
    if (!expert.empty()) {
      ends.push_back(expert.front());
      ends.push_back(expert.back());
    }
  add(ends);
  std::vector<int64_t> tileEnds;
  for (int64_t tile : tileRows)
    for (const std::vector<int64_t> &expert : rows)
      for (int64_t row = 0; row < int64_t(expert.size()); row += tile) {
        tileEnds.push_back(expert[row]);
        tileEnds.push_back(
            expert[std::min<int64_t>(row + tile, expert.size()) - 1]);
      }
  add(tileEnds);
  for (uint64_t i = 0; int64_t(chosen.size()) < limit; ++i)
    chosen.insert(int64_t(randomBits(seed, Stream::Other, i) % tokens));
  return {chosen.begin(), chosen.end()};
}

} // namespace moec::reference
