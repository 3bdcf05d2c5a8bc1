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

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace moec {

/// A JSON value on the heap, so that a header can hold one without json.hpp. It
/// begins as {}. A copy is deep. After a move the source has no value.
template <typename Json> class Boxed {
public:
  Boxed();
  explicit Boxed(Json value);
  Boxed(const Boxed &other);
  Boxed(Boxed &&other) noexcept;
  Boxed &operator=(const Boxed &other);
  Boxed &operator=(Boxed &&other) noexcept;
  ~Boxed();

  Json &operator*() { return *value; }
  const Json &operator*() const { return *value; }
  Json *operator->() { return value.get(); }
  const Json *operator->() const { return value.get(); }
  /// The member of an object; null if it was absent.
  Json &operator[](const std::string &key);

private:
  std::unique_ptr<Json> value;
};

extern template class Boxed<nlohmann::json>;
extern template class Boxed<nlohmann::ordered_json>;
using BoxedJson = Boxed<nlohmann::json>;
using BoxedOrderedJson = Boxed<nlohmann::ordered_json>;

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
