//===- JsonReader.h - reads JSON objects field by field ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the fields of JSON objects and checks the presence, type and range of
// each field. An error contains the file, the JSON path, the expected and the
// actual value. After an error, reading continues with default values, so an
// importer checks for errors only once, at the end.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_JSONREADER_H
#define MOEC_RUNTIME_SUPPORT_JSONREADER_H

#include "runtime/support/Json.h"
#include "runtime/support/Words.h"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moec {

/// Returns the integer in a value, or nullopt if the value is not an integer
/// from `min` to `max`.
std::optional<int64_t> integerIn(const nlohmann::json &value, int64_t min,
                                 int64_t max);

/// The errors of a document. The readers of all its objects share it.
struct JsonErrors {
  struct Entry {
    std::string path, text;
  };
  std::string name; ///< name of the document, for messages
  std::optional<Error> first;
  ErrorCode code = ErrorCode::Refused; ///< code of all errors
  size_t count = 0;
  /// The first error at each path. The number of entries is limited.
  std::vector<Entry> entries = {};

  void add(std::string_view path, std::string_view text);
  /// Returns a single error whose message has one line "name: path: text" per
  /// entry.
  Error all() const;
};

class JsonReader {
public:
  /// Creates a reader for `object`, which must be an object and must outlive
  /// the reader.
  JsonReader(const nlohmann::json &object, std::string path,
             JsonErrors &errors);

  /// Returns the field, or null if it is absent or null.
  const nlohmann::json *find(std::string_view key);
  bool has(std::string_view key) { return find(key) != nullptr; }
  /// Returns true if the field `key` was looked up.
  bool wasAsked(std::string_view key) const;

  /// Read a required field. It is an error if the field is absent.
  int64_t integer(std::string_view key, int64_t min, int64_t max);
  std::string text(std::string_view key);
  bool boolean(std::string_view key);
  std::vector<int64_t> integers(std::string_view key, size_t count, int64_t min,
                                int64_t max);

  /// Read an optional field. A null field counts as absent.
  int64_t integerOr(std::string_view key, int64_t otherwise, int64_t min,
                    int64_t max);
  bool booleanOr(std::string_view key, bool otherwise);
  std::string textOr(std::string_view key, std::string_view otherwise);
  std::optional<double> number(std::string_view key);
  std::vector<int64_t> integersOr(std::string_view key,
                                  std::vector<int64_t> otherwise, int64_t min,
                                  int64_t max);
  /// Returns a reader for the object at `key`, or nullopt if the field is
  /// absent.
  std::optional<JsonReader> object(std::string_view key);

  /// Records the error "expected ..., got ..." at `key`.
  void expected(std::string_view key, std::string_view what);
  /// Appends a reason to the error at `key`.
  void explain(std::string_view key, std::string_view reason);
  /// Records an error at `key` with the given text.
  void refuse(std::string_view key, std::string_view text);
  /// Like the overloads above, with a text formatted by fmt.
  template <typename First, typename... Args>
  void expected(std::string_view key, fmt::format_string<First, Args...> text,
                First &&first, Args &&...args) {
    expected(key, fmt::format(text, std::forward<First>(first),
                              std::forward<Args>(args)...));
  }
  template <typename First, typename... Args>
  void refuse(std::string_view key, fmt::format_string<First, Args...> text,
              First &&first, Args &&...args) {
    refuse(key, fmt::format(text, std::forward<First>(first),
                            std::forward<Args>(args)...));
  }
  /// A word that users may know from another format, and the equivalent key
  /// here.
  using Synonym = std::pair<std::string_view, std::string_view>;
  /// Records an error for every key that was not looked up. The first error
  /// lists the keys that were looked up. If a key is not similar to a known
  /// key, `synonyms` may provide the suggestion.
  void refuseUnknown(std::span<const Synonym> synonyms = {});
  /// Adds to each missing required key's error message the unknown key that is
  /// probably its misspelling. That unknown key then counts as looked up.
  void nameStrayKeys(std::span<const Synonym> synonyms = {});

  std::string pathOf(std::string_view key) const;
  const nlohmann::json &value() const { return *fields; }
  JsonErrors &errors() { return *problems; }
  /// Returns true if errors were recorded since this reader was created.
  bool failed() const { return problems->count > earlier; }

private:
  const nlohmann::json *fields;
  std::string prefix;
  JsonErrors *problems;
  size_t earlier; ///< number of errors before this reader
  std::vector<std::string> asked, missing;
};

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_JSONREADER_H
