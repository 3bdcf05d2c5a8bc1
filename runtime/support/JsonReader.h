//===- JsonReader.h - JSON objects read field by field ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Presence, type and range of each field, checked while it is read. Each error
// says the file, the JSON path, what was expected and what came. Reading goes
// on with defaults, so that importers check once at the end.
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

/// The integer that a value is, if it is within bounds.
std::optional<int64_t> integerIn(const nlohmann::json &value, int64_t min,
                                 int64_t max);

/// The errors of a document; shared by the readers of its objects.
struct JsonErrors {
  struct Entry {
    std::string path, text;
  };
  std::string name; ///< of the document, for messages
  std::optional<Error> first;
  ErrorCode code = ErrorCode::Refused; ///< of all
  size_t count = 0;
  /// The first of each path, as far as there are few.
  std::vector<Entry> entries = {};

  void add(std::string_view path, std::string_view text);
  /// "name: path: text" of each entry, a line each.
  Error all() const;
};

class JsonReader {
public:
  /// `object` must be an object and outlive the reader.
  JsonReader(const nlohmann::json &object, std::string path,
             JsonErrors &errors);

  /// The field if it is there and not null.
  const nlohmann::json *find(std::string_view key);
  bool has(std::string_view key) { return find(key) != nullptr; }
  /// Whether somebody has looked for it.
  bool wasAsked(std::string_view key) const;

  /// Required fields: an absent one is an error.
  int64_t integer(std::string_view key, int64_t min, int64_t max);
  std::string text(std::string_view key);
  bool boolean(std::string_view key);
  std::vector<int64_t> integers(std::string_view key, size_t count, int64_t min,
                                int64_t max);

  /// Optional fields; null counts as absent.
  int64_t integerOr(std::string_view key, int64_t otherwise, int64_t min,
                    int64_t max);
  bool booleanOr(std::string_view key, bool otherwise);
  std::string textOr(std::string_view key, std::string_view otherwise);
  std::optional<double> number(std::string_view key);
  std::vector<int64_t> integersOr(std::string_view key,
                                  std::vector<int64_t> otherwise, int64_t min,
                                  int64_t max);
  /// A reader of the object at `key`; nullopt if absent.
  std::optional<JsonReader> object(std::string_view key);

  /// Records an error at `key`: "expected ..., got ...".
  void expected(std::string_view key, std::string_view what);
  /// Adds a reason to the error at `key`.
  void explain(std::string_view key, std::string_view reason);
  /// Records an error at `key` in the caller's words.
  void refuse(std::string_view key, std::string_view text);
  /// The same of a text that fmt makes.
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
  /// A word that users know from another format, and the key that means it.
  using Synonym = std::pair<std::string_view, std::string_view>;
  /// Every key that was not asked for is an error; the first lists those that
  /// were. A key that is no misspelt one may be a synonym.
  void refuseUnknown(std::span<const Synonym> synonyms = {});
  /// The error of a required key that is absent names the key that nobody
  /// asked for and that may be a misspelt one. It counts as asked for then.
  void nameStrayKeys(std::span<const Synonym> synonyms = {});

  std::string pathOf(std::string_view key) const;
  const nlohmann::json &value() const { return *fields; }
  JsonErrors &errors() { return *problems; }
  /// Since this reader was made.
  bool failed() const { return problems->count > earlier; }

private:
  const nlohmann::json *fields;
  std::string prefix;
  JsonErrors *problems;
  size_t earlier; ///< errors before this reader
  std::vector<std::string> asked, missing;
};

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_JSONREADER_H
