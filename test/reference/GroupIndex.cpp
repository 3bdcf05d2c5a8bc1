//===- GroupIndex.cpp - the groups of columns -----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/reference/TestData.h"

#include <numeric>
#include <utility>

namespace moec::reference {

void fillGroupIndex(const Layer &layer, bool first, uint64_t seed,
                    int64_t expert, void *destination) {
  const int64_t columns = first ? layer.hidden : layer.intermediate;
  const int64_t group =
      first ? layer.w1Scaling.columns : layer.w2Scaling.columns;
  const Stream stream = first ? Stream::W13GroupIndex : Stream::W2GroupIndex;
  std::vector<int64_t> places(columns);
  std::iota(places.begin(), places.end(), 0);
  for (int64_t c = columns - 1; c > 0; --c) {
    const uint64_t bits =
        randomBits(seed, stream, uint64_t(expert * columns + c));
    std::swap(places[c], places[int64_t((bits >> 8) % uint64_t(c + 1))]);
  }
  for (int64_t c = 0; c < columns; ++c) {
    const int64_t number = places[c] / group;
    store(*findElement("i32"), destination, c, double(number));
  }
}

} // namespace moec::reference
