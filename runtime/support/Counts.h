//===- Counts.h - numbers that a command line says --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks for CLI11, whose own print both ends of a double's range.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_COUNTS_H
#define MOEC_RUNTIME_SUPPORT_COUNTS_H

#include <fmt/core.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <string>

namespace moec {

/// A check for integers from `least` to `most`.
inline auto countFrom(int64_t least,
                      int64_t most = std::numeric_limits<int32_t>::max()) {
  return [least, most](const std::string &text) -> std::string {
    int64_t count = 0;
    const char *end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data(), end, count);
    if (error == std::errc() && last == end && count >= least && count <= most)
      return "";
    return fmt::format("expected an integer from {} to {}, got '{}'", least,
                       most, text);
  };
}

/// A check for finite numbers above 0.
inline std::string checkPositive(const std::string &text) {
  double number = 0;
  const char *end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && last == end && number > 0 &&
      number <= std::numeric_limits<double>::max())
    return "";
  return fmt::format("expected a number above 0, got '{}'", text);
}

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_COUNTS_H
