//===- Bytes.cpp - sizes in human-readable form ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Bytes.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>

using namespace moec;

Result<uint64_t> moec::parseBytes(std::string_view text) {
  constexpr std::string_view kUnits = "KMGT";
  constexpr double kMost = 1e18;
  double number = 0;
  const auto [rest, code] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(rest,
                        static_cast<size_t>(text.data() + text.size() - rest));
  double factor = 1;
  bool isRight = code == std::errc() && number >= 0 && std::isfinite(number);
  if (const size_t power =
          unit.empty() ? std::string_view::npos : kUnits.find(unit[0]);
      power != std::string_view::npos) {
    unit.remove_prefix(1);
    const bool isBinary = unit.starts_with('i');
    if (isBinary)
      unit.remove_prefix(1);
    factor =
        std::pow(isBinary ? 1024.0 : 1000.0, static_cast<double>(power) + 1);
  }
  if (unit.starts_with('B'))
    unit.remove_prefix(1);
  isRight = isRight && unit.empty() && number * factor <= kMost;
  if (!isRight)
    return invalidArgument(
        "expected a size, such as 500M, 2G or 1GiB, got '{}'", text);
  return static_cast<uint64_t>(number * factor);
}

std::string moec::bytesText(uint64_t bytes) {
  constexpr double kMega = 1e6, kGiga = 1e9;
  const auto number = static_cast<double>(bytes);
  return number < kGiga ? fmt::format("{:.2f} MB", number / kMega)
                        : fmt::format("{:.2f} GB", number / kGiga);
}
