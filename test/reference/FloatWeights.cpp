//===- FloatWeights.cpp - weights that are stored as floats ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random numbers whose groups differ in size, as do experts, gates and ups, so
// that a scale of another place is seen.
//
//===----------------------------------------------------------------------===//

#include "test/reference/TestData.h"

#include <cmath>

namespace moec::reference {

void fillFloats(const Layer &layer, bool first, uint64_t seed, int64_t expert,
                int64_t row, int64_t rows, void *destination) {
  constexpr int64_t kNeighbours = 16;
  constexpr double kMostSteps = 6;
  const Element &element = *layer.storedWeightType;
  const Stream stream = first ? Stream::W13 : Stream::W2;
  const Stream sizes = first ? Stream::W13Scale : Stream::W2Scale;
  const int64_t all = first ? layer.gateUpRows() : layer.hidden;
  const int64_t columns = first ? layer.hidden : layer.intermediate;
  for (int64_t n = row; n < row + rows; ++n) {
    // The deviation of all is 3/4 of that of the larger runs.
    const double size = 4.0 / 3 *
                        deviationOfRow(layer, first, seed, expert, n) /
                        std::sqrt(double(columns));
    for (int64_t c = 0; c < columns; ++c) {
      const uint64_t at = uint64_t((expert * all + n) * columns + c);
      // Every other run of neighbours is up to 64 times smaller.
      const double steps =
          (n + c / kNeighbours) % 2 == 0
              ? 0
              : kMostSteps * randomUniform(seed, sizes, at / kNeighbours);
      store(element, destination, (n - row) * columns + c,
            size * std::exp2(-steps) * randomNormal(seed, stream, at));
    }
  }
}

} // namespace moec::reference
