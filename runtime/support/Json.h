//===- Json.h - the one reader of JSON --------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bytes that others wrote become a value here and nowhere else. The reader is
// strict: it bounds size and depth, and refuses a key that an object repeats, a
// number that does not fit, text that is not UTF-8 and text behind the value.
// Its time is linear in the text, but for the search among an object's keys.
// The bound of depth makes it safe to walk, copy and print a value.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_JSON_H
#define MOEC_RUNTIME_SUPPORT_JSON_H

#include "runtime/support/Result.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace moec {

struct JsonBounds {
  size_t bytes;
  int depth = 64; ///< objects and arrays around a value
};

/// Parses a text whose outermost value is an object. An error has `code` and
/// says "name: line, column: expected ..., got ...".
Result<nlohmann::json> parseJsonObject(std::string_view text,
                                       std::string_view name, ErrorCode code,
                                       JsonBounds bounds);

/// A text that others wrote, for messages: cut to `longest` bytes, and control
/// characters are made visible.
std::string shortText(std::string_view text, size_t longest = 60);

/// A value as messages show it: 'the string "x"', 'the number 7', 'an array'.
std::string describeJson(const nlohmann::json &value);

/// The value as JSON, for messages; cut to about `longest` bytes.
std::string shortJson(const nlohmann::json &value, size_t longest = 60);

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_JSON_H
