//===- Emulate.cpp - values as a quantization leaves them -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Numbers are rounded to a format by counting in steps of its last bit, in
// double precision; scales are f32, as kernels compute them.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Emulate.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

using namespace moec;
using namespace moec::host;

namespace {

struct Format {
  std::string_view name;
  double largest;
  int mantissaBits, leastExponent;
};

constexpr Format kFormats[] = {
    {"f8E4M3FN", 448, 3, -6}, {"f8E5M2", 57344, 2, -14},
    {"f6E3M2FN", 28, 2, -2},  {"f6E2M3FN", 7.5, 3, 0},
    {"f4E2M1FN", 6, 1, 0},    {"i8", 127, -1, 0}};

double nearestOf(double value, double largest, int mantissaBits,
                 int leastExponent) {
  if (std::isnan(value))
    return value;
  const double size = std::min(std::fabs(value), largest);
  int exponent = 0;
  if (mantissaBits >= 0 && size > 0)
    exponent = std::max(std::ilogb(size), leastExponent) - mantissaBits;
  const double steps = std::nearbyint(std::ldexp(size, -exponent));
  return std::copysign(std::ldexp(steps, exponent), value);
}

float largestOf(const float *values, int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = std::fmax(largest, std::fabs(values[i]));
  return largest;
}

} // namespace

Result<Emulation> Emulation::read(const KernelRun &run, const Stage &stage) {
  Emulation made;
  const std::string name = stage.attributes.value("emulates", "");
  for (const Format &format : kFormats) {
    if (format.name != name)
      continue;
    made.largest = format.largest;
    made.mantissaBits = format.mantissaBits;
    made.leastExponent = format.leastExponent;
  }
  made.isE4m3 = name == "f8E4M3FN";
  const std::string rule = stage.attributes.value("scale_rule", "");
  made.rule = rule == "even"    ? Rule::Even
              : rule == "ceil"  ? Rule::Ceil
              : rule == "floor" ? Rule::Floor
                                : Rule::None;
  if (made.largest == 0 || (!rule.empty() && made.rule == Rule::None))
    return run.fail(stage,
                    fmt::format("expected the name of an element type and "
                                "scale_rule even, ceil or floor, got "
                                "'{}' and '{}'",
                                name, rule));
  made.twoLevels = stage.attributes.contains("second_per_token");
  made.perToken = stage.attributes.value("second_per_token", false);
  made.group = run.integer(stage, "group_columns");
  made.ofTensor = run.integer(stage, "group_rows") == 0 && made.group == 0;
  made.isDynamic = stage.attributes.value("dynamic", false);
  return made;
}

float Emulation::nearest(float value) const {
  return float(nearestOf(value, largest, mantissaBits, leastExponent));
}

float Emulation::outerFrom(float number) const {
  const auto most = float(largest);
  if (twoLevels && !perToken)
    return 1.0f / number;
  if (twoLevels)
    return number == 0 ? 1.0f : 448.0f * most / number;
  if (ofTensor)
    return !isDynamic ? number : number == 0 ? 1.0f : number / most;
  if (mantissaBits < 0)
    return std::fmax(number, 1e-10f) / most;
  return std::fmax(number / most, 1.0f / (most * 512.0f));
}

float Emulation::scaleFrom(float largestOfGroup, float outer) const {
  const auto most = float(largest);
  if (twoLevels)
    return float(nearestOf(outer * largestOfGroup / most, 448, 3, -6));
  if (group == 0)
    return outer;
  if (rule == Rule::None || (isE4m3 && group == 128))
    largestOfGroup = std::fmax(largestOfGroup, 1e-10f);
  if (rule == Rule::None)
    return largestOfGroup / most;
  // The exponent of a power of two from 2^-127 to 2^127.
  const float size =
      rule == Rule::Ceil ? largestOfGroup / most : largestOfGroup;
  if (size == 0 || !std::isfinite(size))
    return std::ldexp(1.0f, size == 0 ? -127 : 127);
  int exponent = std::ilogb(size);
  if (rule == Rule::Ceil) {
    exponent += std::ldexp(1.0f, exponent) < size;
  } else {
    // Within half a step of the format's mantissa it is the next power.
    exponent +=
        rule == Rule::Even &&
        size >= std::ldexp(2 - std::ldexp(1.0, -mantissaBits - 1), exponent);
    exponent -= std::ilogb(largest);
  }
  return std::ldexp(1.0f, std::clamp(exponent, -127, 127));
}

float Emulation::valueFrom(float value, float scale, float outer) const {
  if (twoLevels) {
    const float code = scale == 0 ? 0 : nearest(value * outer / scale);
    return code * scale / outer;
  }
  if (ofTensor)
    return nearest(value * (1.0f / outer)) * outer;
  return nearest(value / scale) * scale;
}

void Emulation::run(float *values, int64_t count, float ofAll) const {
  const float outer =
      outerFrom(takesWholeRows() ? largestOf(values, count) : ofAll);
  const int64_t step = group == 0 ? count : group;
  for (int64_t first = 0; first < count; first += step) {
    const int64_t size = std::min(step, count - first);
    const float scale = scaleFrom(largestOf(values + first, size), outer);
    for (int64_t i = first; i < first + size; ++i)
      values[i] = valueFrom(values[i], scale, outer);
  }
}
