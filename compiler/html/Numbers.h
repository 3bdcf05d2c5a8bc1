//===- Numbers.h - numbers with units ---------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Short texts for people: three or four digits and a suitable unit.
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

/// Returns a size, such as "12.5 MiB".
std::string sizeText(int64_t bytes);
/// Returns a time in microseconds or milliseconds, such as "1.25 ms".
std::string timeText(double microseconds);
/// Returns a round time for an axis, such as "1 ms".
std::string timeTick(double microseconds);
/// Returns a count with separators, such as "65,536".
std::string countText(int64_t count);
/// Returns a count with its noun: "1 launch", "2 launches".
std::string countedText(int64_t count, const char *one, const char *many);
/// Returns three significant digits: "0.25", "12.5", "989", "1.2e+06".
std::string numberText(double value);
/// Returns a round number for an axis: "0.5", "1000".
std::string numberTick(double value);
/// Returns a percentage: "7 %", or "0.4 %" below 1.
std::string percentText(double fraction);

/// The largest count that is accepted.
inline constexpr int64_t kMaxCount = std::numeric_limits<int64_t>::max();
/// The largest report or file of times that is accepted [bytes].
inline constexpr size_t kMaxInputBytes = size_t(64) << 20;

/// Reads a number that must not be negative; returns 0 after an error.
double readNonNegative(JsonReader &reader, std::string_view key);

/// Returns "experts 96 to 127", or with a stride "experts 3, 11, 19 to 251".
std::string expertsText(int64_t begin, int64_t count, int64_t stride);

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_NUMBERS_H
