//===- Emulate.cpp - what quantized activations stand for -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Scales in f32 as devices compute them, all else from the formats' widths.
//
//===----------------------------------------------------------------------===//

#include "test/reference/FirstHalf.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace moec::reference {

double largestNumber(const Element &element) {
  if (!element.isFloat)
    return 127;
  if (element.finiteOnly)
    return roundTo(element, 1e30);
  return std::ldexp(2 - std::ldexp(1.0, -element.mantissaBits),
                    (1 << (element.exponentBits - 1)) - 1);
}

static double roundSaturated(const Element &element, double value) {
  const double most = largestNumber(element);
  return std::isnan(value) ? value
                           : roundTo(element, std::clamp(value, -most, most));
}

/// The exponent of a scale that is a power of two.
static int exponentOf(const Element &element, const std::string &rule,
                      float largest) {
  if (largest == 0)
    return -127;
  const double most = largestNumber(element);
  int exponent = std::numeric_limits<float>::max_exponent;
  if (std::isinf(largest))
    return rule == "ceil" ? exponent : exponent - std::ilogb(most);
  if (rule == "ceil") {
    // A half is what frexp leaves of a power of two.
    const double part = std::frexp(double(largest / float(most)), &exponent);
    return exponent - (part == 0.5);
  }
  exponent = std::ilogb(largest) - std::ilogb(most);
  if (rule == "floor")
    return exponent;
  // One bit more than the format has: all set is nearer to the next power.
  const int bits = element.mantissaBits + 1;
  const double kept =
      std::floor(std::ldexp(double(largest), bits - std::ilogb(largest)));
  return exponent + (kept + 1 == std::ldexp(2.0, bits));
}

float powerFor(const Element &element, const std::string &rule, float largest,
               int64_t count) {
  // Groups of e4m3 of 128 have no smaller scales than f32 ones have.
  if (element.name == "f8E4M3FN" && count == 128)
    largest = std::max(largest, 1e-10f);
  return float(std::ldexp(
      1.0, std::clamp(exponentOf(element, rule, largest), -127, 127)));
}

void emulateRow(const Element &element, const Scaling &scaling, float ofAll,
                const Element &compute, double *values, int64_t count) {
  const auto most = float(largestNumber(element));
  const auto largestOf = [&](int64_t first, int64_t size) {
    float largest = 0;
    for (int64_t i = first; i < first + size; ++i)
      largest = std::fmax(largest, float(std::fabs(values[i])));
    return largest;
  };
  const Element &e4m3 = *findElement("f8E4M3FN");
  float global = 1; // what scales of two levels are relative to
  if (scaling.second) {
    const float ofRow = largestOf(0, count);
    global = !scaling.secondPerRow ? 1 / ofAll
             : ofRow == 0          ? 1
                                   : 448 * most / ofRow;
  }
  const int64_t extent = scaling.columns == -1 ? count : scaling.columns;
  for (int64_t first = 0; first < count; first += extent) {
    const int64_t size = std::min(extent, count - first);
    const float largest = largestOf(first, size);
    for (int64_t i = first; i < first + size; ++i) {
      const auto value = float(values[i]);
      float stands = 0;
      if (scaling.second) {
        const auto scale =
            float(roundSaturated(e4m3, double(global * largest / most)));
        if (scale == 0) {
          values[i] = std::isnan(value) ? double(value) : 0;
          continue;
        }
        const float quotient = value * global / scale;
        stands =
            float(roundSaturated(element, double(quotient))) * scale / global;
      } else if (scaling.ofTensor()) {
        stands =
            float(roundSaturated(element, double(value * (1 / ofAll)))) * ofAll;
      } else {
        float scale;
        if (!scaling.rule.empty())
          scale = powerFor(element, scaling.rule, largest, extent);
        else if (scaling.columns == -1 && element.isFloat)
          scale = std::max(largest / most, 1 / (most * 512));
        else
          scale = std::max(largest, 1e-10f) / most;
        stands = float(roundSaturated(element, double(value / scale))) * scale;
      }
      values[i] = roundTo(compute, double(stands));
    }
  }
}

} // namespace moec::reference
