//===- Catalog.h - lookups in the catalog's tables --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The catalog is a set of plain constexpr tables with the names that users can
// specify, one row per name. There are no enums that mirror the tables: code
// reads the members of a row. Lists in a row (features, element types, engines)
// are WordLists.
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

/// Returns the row of the given name, or null.
template <typename Row, size_t N>
constexpr const Row *find(const Row (&table)[N], std::string_view name) {
  for (const Row &row : table)
    if (row.name == name)
      return &row;
  return nullptr;
}

/// Returns the names of all rows in table order, separated by ", ".
template <typename Row, size_t N> std::string names(const Row (&table)[N]) {
  std::string result;
  for (const Row &row : table) {
    if (!result.empty())
      result += ", ";
    result += row.name;
  }
  return result;
}

/// Returns the names of all rows in table order.
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

/// Returns true if `value` is positive and finite in f32, the type in which
/// kernels compute.
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

/// Returns the names of the rows for which `takes` returns true, in table
/// order.
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
