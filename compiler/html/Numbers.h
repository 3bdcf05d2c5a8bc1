//===- Numbers.h - numbers with their units ---------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Short texts for people: three digits or four, and a unit that fits.
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

/// "12.5 MiB".
std::string sizeText(int64_t bytes);
/// "243 µs", "1.25 ms".
std::string timeText(double microseconds);
/// The same of a round number, "1 ms", for axes.
std::string timeTick(double microseconds);
/// "65,536".
std::string countText(int64_t count);
/// "1 launch", "2 launches".
std::string countedText(int64_t count, const char *one, const char *many);
/// Three digits: "0.25", "12.5", "989", "1.2e+06".
std::string numberText(double value);
/// A round number as it is, for axes: "0.5", "1000".
std::string numberTick(double value);
/// "7 %"; "0.4 %" below 1.
std::string percentText(double fraction);

/// Limit of a count that is read.
inline constexpr int64_t kMaxCount = std::numeric_limits<int64_t>::max();
/// Limit of a report, and of a file of times [bytes].
inline constexpr size_t kMaxInputBytes = size_t(64) << 20;

/// Reads a number that must not be negative; 0 after an error.
double readNonNegative(JsonReader &reader, std::string_view key);

/// "experts 96 to 127", or of a stride "experts 3, 11, 19 to 251".
std::string expertsText(int64_t begin, int64_t count, int64_t stride);

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_NUMBERS_H
