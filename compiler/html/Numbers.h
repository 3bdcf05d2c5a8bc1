//===- Numbers.h - numbers with units ---------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Short texts for readers, with three or four digits and a suitable unit.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_HTML_NUMBERS_H
#define MOEC_COMPILER_HTML_NUMBERS_H

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace moec {
class JsonReader;
}

namespace moec::compiler::html {

/// Returns a size with its unit, such as "12.5 MiB".
std::string sizeText(int64_t bytes);
/// Returns a time in microseconds, milliseconds or seconds, such as "1.25 ms".
std::string timeText(double microseconds);
/// Returns a round time for an axis tick, such as "1 ms".
std::string timeTick(double microseconds);
/// Returns a count with thousands separators, such as "65,536".
std::string countText(int64_t count);
/// Returns a count with its noun, such as "1 launch" or "2 launches".
std::string countedText(int64_t count, const char *one, const char *many);
/// Returns about three significant digits, such as "0.25", "12.5", "989" or
/// "1.2e+06".
std::string numberText(double value);
/// Returns a round value for an axis tick, such as "0.5" or "1000".
std::string numberTick(double value);
/// Returns a percentage, such as "7 %", with one decimal below 1 %.
std::string percentText(double fraction);

/// Largest count that a report or file may contain.
inline constexpr int64_t kMaxCount = std::numeric_limits<int64_t>::max();
/// Maximum size in bytes of a report or of a file with times.
inline constexpr size_t kMaxInputBytes = size_t(64) << 20;

/// Reads a value that must not be negative. After an error, returns 0.
double readNonNegative(JsonReader &reader, std::string_view key);

/// Describes a sequence of experts, such as "experts 96 to 127" or, with a
/// stride, "experts 3, 11 and so on to 251".
std::string expertsText(int64_t begin, int64_t count, int64_t stride);

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_NUMBERS_H
