//===- WordList.h - a list of words in one string ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tables store a list (of features, element types or operands) as one string,
// so that a row is constexpr and a list can be printed unchanged.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_WORDLIST_H
#define MOEC_RUNTIME_SUPPORT_WORDLIST_H

#include <cstddef>
#include <iterator>
#include <string_view>

namespace moec {

/// A list of words that are separated by single blanks. It does not own the
/// text.
class WordList {
public:
  class Iterator {
  public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = std::string_view;

    constexpr Iterator() = default;
    constexpr explicit Iterator(std::string_view left) : left(left) {}

    constexpr std::string_view operator*() const {
      return left.substr(0, left.find(' '));
    }
    constexpr Iterator &operator++() {
      const size_t blank = left.find(' ');
      left.remove_prefix(blank == std::string_view::npos ? left.size()
                                                         : blank + 1);
      return *this;
    }
    constexpr Iterator operator++(int) {
      const Iterator old = *this;
      ++*this;
      return old;
    }
    /// Both iterators must belong to the same list.
    constexpr bool operator==(const Iterator &other) const {
      return left.size() == other.left.size();
    }

  private:
    std::string_view left;
  };

  constexpr WordList() = default;
  /// Creates a list from a literal. The literal is checked at compile time (see
  /// isWellFormed()).
  template <size_t N>
  // NOLINTNEXTLINE(google-explicit-constructor): a list is written as its text
  consteval WordList(const char (&literal)[N]) : words(literal, N - 1) {
    if (!isWellFormed())
      wordsMustDifferAndBeSeparatedBySingleBlanks();
  }
  constexpr explicit WordList(std::string_view text) : words(text) {}

  constexpr Iterator begin() const { return Iterator(words); }
  constexpr Iterator end() const { return Iterator(); }
  constexpr bool empty() const { return words.empty(); }
  constexpr size_t size() const {
    return static_cast<size_t>(std::distance(begin(), end()));
  }
  /// Returns the word at `index`, which must be less than size().
  constexpr std::string_view operator[](size_t index) const {
    return *std::next(begin(), static_cast<std::ptrdiff_t>(index));
  }
  constexpr std::string_view text() const { return words; }

  constexpr bool contains(std::string_view word) const {
    for (std::string_view each : *this)
      if (each == word)
        return true;
    return false;
  }
  /// Returns the first word of `needed` that is not in this list, or "" if the
  /// list contains all of them.
  constexpr std::string_view firstMissing(WordList needed) const {
    for (std::string_view word : needed)
      if (!contains(word))
        return word;
    return {};
  }

private:
  /// Not defined: a call makes constant evaluation fail, so the compiler
  /// reports this name.
  static void wordsMustDifferAndBeSeparatedBySingleBlanks();

  /// Returns true if words are separated by single blanks and no word occurs
  /// twice.
  constexpr bool isWellFormed() const {
    if (words.ends_with(' '))
      return false;
    for (Iterator word = begin(); word != end(); ++word) {
      if ((*word).empty())
        return false;
      for (Iterator later = std::next(word); later != end(); ++later)
        if (*later == *word)
          return false;
    }
    return true;
  }

  std::string_view words;
};

/// Deleted, because JSON would convert the list to an array. Use text()
/// instead.
template <typename Json>
void to_json(Json &json, const WordList &list) = delete;

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_WORDLIST_H
