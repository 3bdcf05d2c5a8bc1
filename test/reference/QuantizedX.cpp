//===- QuantizedX.cpp - an x that comes quantized -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Codes and scales as a caller's quantization could have left them: the largest
// value of a group nearly fills the range.
//
//===----------------------------------------------------------------------===//

#include "test/reference/FirstHalf.h"
#include "test/reference/TestData.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace moec::reference {

/// The largest tokens of all nearly reach it.
static constexpr double kLargestOfAll = 224;
static constexpr double kLargestScale = 448; // of e4m3

void fillQuantizedX(const Layer &layer, uint64_t seed, int64_t row,
                    int64_t rows, void *destination, int64_t rowStride,
                    void *scales, float *secondScales) {
  const Scaling &scaling = layer.a1Scaling;
  const double most = largestNumber(*layer.a1);
  const int64_t extent = scaling.columns == -1 ? layer.hidden : scaling.columns;
  const int64_t groups = (layer.hidden + extent - 1) / extent;
  std::vector<double> values(static_cast<size_t>(layer.hidden));
  for (int64_t m = row; m < row + rows; ++m) {
    for (int64_t c = 0; c < layer.hidden; ++c)
      values[size_t(c)] =
          tokenScale(seed, m) *
          randomNormal(seed, Stream::X, uint64_t(m) * layer.hidden + c);
    const auto largestOf = [&](int64_t first, int64_t last) {
      double largest = 1e-3;
      for (int64_t c = first; c < last; ++c)
        largest = std::max(largest, std::fabs(values[size_t(c)]));
      return largest;
    };
    double outer = 1;
    if (secondScales) {
      float &second = secondScales[scaling.secondPerRow ? m : 0];
      second = float(
          (scaling.secondPerRow ? largestOf(0, layer.hidden) : kLargestOfAll) /
          (kLargestScale * most));
      outer = second;
    }
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t begin = g * extent;
      const int64_t end = std::min(begin + extent, layer.hidden);
      const int64_t at = scaling.ofTensor() ? 0 : m * groups + g;
      store(*scaling.scaleType, scales, at,
            (scaling.ofTensor() ? kLargestOfAll : largestOf(begin, end)) /
                (most * outer));
      const double scale = load(*scaling.scaleType, scales, at) * outer;
      for (int64_t c = begin; c < end; ++c)
        store(*layer.a1, destination, m * rowStride + c,
              scale > 0 ? std::clamp(values[size_t(c)] / scale, -most, most)
                        : 0);
    }
  }
}

} // namespace moec::reference
