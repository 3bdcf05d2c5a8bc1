//===- Catalog.h - looking words up in the tables ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The catalog is the vocabulary: plain constexpr tables, one row for each word
// that a user can name. No enum mirrors a table; code asks a row for what it
// needs. Lists inside a row (features, element types, engines) are WordLists.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_CATALOG_H
#define MOEC_DIALECT_CATALOG_CATALOG_H

#include "runtime/support/WordList.h"

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

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

/// The same as a list.
template <typename Row, size_t N>
std::vector<std::string_view> nameList(const Row (&table)[N]) {
  std::vector<std::string_view> result;
  for (const Row &row : table)
    result.push_back(row.name);
  return result;
}

/// Returns true if each word is the name of a row.
template <typename Row, size_t N>
constexpr bool areNames(WordList words, const Row (&table)[N]) {
  for (std::string_view word : words)
    if (!find(table, word))
      return false;
  return true;
}

/// Returns true for numbers above 0 of f32, in which kernels compute.
constexpr bool isPositiveFloat(double value) {
  return float(value) > 0 && float(value) <= std::numeric_limits<float>::max();
}

/// A list of words that owns its text.
template <size_t Size> struct JoinedWords {
  char text[Size];
  size_t length;
  constexpr WordList words() const {
    return WordList(std::string_view(text, length));
  }
};

/// Returns the names of the rows for which `takes` holds, in their order.
template <const auto &table, typename Takes>
constexpr auto joinNames(Takes takes) {
  constexpr size_t kSize = [] {
    size_t size = 0;
    for (const auto &row : table)
      size += row.name.size() + 1;
    return size;
  }();
  JoinedWords<kSize> joined = {};
  for (const auto &row : table) {
    if (!takes(row))
      continue;
    if (joined.length > 0)
      joined.text[joined.length++] = ' ';
    for (char c : row.name)
      joined.text[joined.length++] = c;
  }
  return joined;
}

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_CATALOG_H
