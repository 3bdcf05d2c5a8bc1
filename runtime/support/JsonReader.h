//===- JsonReader.h - reads JSON objects field by field ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks the presence, type and range of each field when it is read. Each error
// contains the file, the JSON path, what was expected and what was found.
// Reading continues with defaults, so that importers check for errors once at
// the end.
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

/// Returns the integer in a value, if it is one and within the bounds.
std::optional<int64_t> integerIn(const nlohmann::json &value, int64_t min,
                                 int64_t max);

/// The errors of a document, shared by the readers of its objects.
struct JsonErrors {
  struct Entry {
    std::string path, text;
  };
  std::string name; ///< name of the document, for messages
  std::optional<Error> first;
  ErrorCode code = ErrorCode::Refused; ///< code of all errors
  size_t count = 0;
  /// The first error of each path, up to a small number.
  std::vector<Entry> entries = {};

  void add(std::string_view path, std::string_view text);
  /// Returns one error with a line "name: path: text" for each entry.
  Error all() const;
};

class JsonReader {
public:
  /// Creates a reader. `object` must be an object and outlive the reader.
  JsonReader(const nlohmann::json &object, std::string path,
             JsonErrors &errors);

  /// Returns the field, or null if it is absent or null.
  const nlohmann::json *find(std::string_view key);
  bool has(std::string_view key) { return find(key) != nullptr; }
  /// Returns true if the field was looked up.
  bool wasAsked(std::string_view key) const;

  /// Read required fields; an absent one is an error.
  int64_t integer(std::string_view key, int64_t min, int64_t max);
  std::string text(std::string_view key);
  bool boolean(std::string_view key);
  std::vector<int64_t> integers(std::string_view key, size_t count, int64_t min,
                                int64_t max);

  /// Read optional fields; null counts as absent.
  int64_t integerOr(std::string_view key, int64_t otherwise, int64_t min,
                    int64_t max);
  bool booleanOr(std::string_view key, bool otherwise);
  std::string textOr(std::string_view key, std::string_view otherwise);
  std::optional<double> number(std::string_view key);
  std::vector<int64_t> integersOr(std::string_view key,
                                  std::vector<int64_t> otherwise, int64_t min,
                                  int64_t max);
  /// Returns a reader of the object at `key`, or nullopt if it is absent.
  std::optional<JsonReader> object(std::string_view key);

  /// Records an error at `key`: "expected ..., got ...".
  void expected(std::string_view key, std::string_view what);
  /// Adds a reason to the error at `key`.
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
  /// A word that users know from another format, and the equivalent key.
  using Synonym = std::pair<std::string_view, std::string_view>;
  /// Records an error for every key that was not looked up; the first error
  /// lists those that were. A key that is not a misspelling of another one may
  /// be a synonym.
  void refuseUnknown(std::span<const Synonym> synonyms = {});
  /// For each required key that is absent, adds to its error the unknown key
  /// that may be its misspelling. That key then counts as looked up.
  void nameStrayKeys(std::span<const Synonym> synonyms = {});

  std::string pathOf(std::string_view key) const;
  const nlohmann::json &value() const { return *fields; }
  JsonErrors &errors() { return *problems; }
  /// Returns true if there were errors since this reader was created.
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
