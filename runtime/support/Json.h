//===- Json.h - the only parser of JSON -------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The only parser for untrusted JSON. It is strict: it limits size and depth,
// and rejects duplicate keys in an object, numbers that are out of range,
// invalid UTF-8 and text after the value. Its run time is linear in the text
// length, except for key lookups in objects. Because of the depth limit, a
// value can safely be traversed, copied and printed recursively.
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

/// A JSON value on the heap. This way a header can contain a JSON value without
/// including json.hpp. The initial value is {}. Copies are deep. After a move
/// the source has no value.
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
  /// Returns a member of an object. If the member is absent, it is added as
  /// null.
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
  int depth = 64; ///< maximum nesting of objects and arrays
};

/// Parses a text whose outermost value is an object. Errors have the code
/// `code` and a message of the form "name: line, column: expected ..., got
/// ...".
Result<nlohmann::json> parseJsonObject(std::string_view text,
                                       std::string_view name, ErrorCode code,
                                       JsonBounds bounds);

/// Returns untrusted text for use in messages: cut to `longest` bytes, and with
/// control characters escaped.
std::string shortText(std::string_view text, size_t longest = 60);

/// Returns a description of a value for messages, such as 'the string "x"',
/// 'the number 7' or 'an array'.
std::string describeJson(const nlohmann::json &value);

/// Returns a value as JSON for messages, cut to about `longest` bytes.
std::string shortJson(const nlohmann::json &value, size_t longest = 60);

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_JSON_H
