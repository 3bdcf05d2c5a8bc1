//===- Numbers.cpp - numbers with units -----------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/html/Numbers.h"

#include "runtime/support/JsonReader.h"

#include <fmt/core.h>

#include <cmath>
#include <utility>

using namespace moec;
using namespace moec::compiler;

std::string html::sizeText(int64_t bytes) {
  constexpr std::pair<int64_t, const char *> kUnits[] = {
      {int64_t(1) << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}};
  for (auto [unit, name] : kUnits)
    if (bytes >= unit)
      return fmt::format("{:.1f} {}", double(bytes) / double(unit), name);
  return fmt::format("{} B", bytes);
}

std::string html::numberText(double value) {
  const double size = std::abs(value);
  if (size == 0)
    return "0";
  if (size >= 1e6 || size < 1e-3)
    return fmt::format("{:.1e}", value);
  if (size >= 99.95)
    return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}f}", value,
                     size >= 9.995    ? 1
                     : size >= 0.0995 ? 2
                                      : 3);
}

std::string html::timeText(double microseconds) {
  if (microseconds >= 999500)
    return numberText(microseconds / 1e6) + " s";
  if (microseconds >= 999.5)
    return numberText(microseconds / 1e3) + " ms";
  return numberText(microseconds) + " µs";
}

std::string html::numberTick(double value) {
  return fmt::format("{:g}", value);
}

std::string html::timeTick(double microseconds) {
  if (microseconds >= 999500)
    return numberTick(microseconds / 1e6) + " s";
  if (microseconds >= 999.5)
    return numberTick(microseconds / 1e3) + " ms";
  return numberTick(microseconds) + " µs";
}

std::string html::countText(int64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    const bool beginsGroup = (digits.size() - i) % 3 == 0;
    if (beginsGroup && i > 0 && digits[i - 1] != '-')
      text += ',';
    text += digits[i];
  }
  return text;
}

std::string html::countedText(int64_t count, const char *one,
                              const char *many) {
  return fmt::format("{} {}", countText(count), count == 1 ? one : many);
}

std::string html::percentText(double fraction) {
  const double percent = 100 * fraction;
  return fmt::format("{:.{}f} %", percent,
                     std::abs(percent) < 0.95 && percent != 0 ? 1 : 0);
}

double html::readNonNegative(JsonReader &reader, std::string_view key) {
  const double value = reader.number(key).value_or(0);
  if (value >= 0)
    return value;
  reader.expected(key, "a number of 0 or more");
  return 0;
}

std::string html::expertsText(int64_t begin, int64_t count, int64_t stride) {
  const int64_t last = begin + (count - 1) * stride;
  if (count == 1)
    return fmt::format("expert {}", begin);
  if (stride <= 1 || count <= 2)
    return stride <= 1 ? fmt::format("experts {} to {}", begin, last)
                       : fmt::format("experts {} and {}", begin, last);
  return fmt::format("experts {}, {} and so on to {}", begin, begin + stride,
                     last);
}
