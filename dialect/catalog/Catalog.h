//===- Catalog.h - looking words up in the tables ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The catalog is the vocabulary: plain constexpr tables, one row for each word
// that a user can name. No enum mirrors a table; code asks a row for what it
// needs. Lists inside a row (features, element types, engines) are words
// separated by blanks, so that they can be searched and printed as they are.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_CATALOG_H
#define MOEC_DIALECT_CATALOG_CATALOG_H

#include <cstddef>
#include <string>
#include <string_view>

namespace moec::catalog {

/// The row called `name`, or null.
template <typename Row, size_t N>
constexpr const Row *find(const Row (&table)[N], std::string_view name) {
  for (const Row &row : table)
    if (row.name == name)
      return &row;
  return nullptr;
}

/// The names of all rows in their order, separated by ", ".
template <typename Row, size_t N> std::string names(const Row (&table)[N]) {
  std::string result;
  for (const Row &row : table) {
    if (!result.empty())
      result += ", ";
    result += row.name;
  }
  return result;
}

/// Whether `list`, words separated by single blanks, holds `word`.
constexpr bool hasWord(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t end = list.find(' ');
    if (list.substr(0, end) == word)
      return true;
    if (end == std::string_view::npos)
      return false;
    list.remove_prefix(end + 1);
  }
  return false;
}

/// How many words `list` has.
constexpr size_t countWords(std::string_view list) {
  size_t count = list.empty() ? 0 : 1;
  for (char c : list)
    count += c == ' ';
  return count;
}

/// The word of `list` that stands behind `index` others.
constexpr std::string_view wordAt(std::string_view list, size_t index) {
  for (; index > 0; --index)
    list.remove_prefix(list.find(' ') + 1);
  return list.substr(0, list.find(' '));
}

/// The first word of `needed` that `list` lacks; empty if it has them all.
constexpr std::string_view firstMissing(std::string_view list,
                                        std::string_view needed) {
  while (!needed.empty()) {
    const size_t end = needed.find(' ');
    const std::string_view word = needed.substr(0, end);
    if (!hasWord(list, word))
      return word;
    if (end == std::string_view::npos)
      return {};
    needed.remove_prefix(end + 1);
  }
  return {};
}

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_CATALOG_H
