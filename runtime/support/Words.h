//===- Words.h - lists of known words, and misspellings ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Suggestions for misspelt words. All messages with suggestions use these
// functions, for JSON keys, options, commands and words of the catalog.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_WORDS_H
#define MOEC_RUNTIME_SUPPORT_WORDS_H

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// Returns a list as text, such as "a, b or c". Each name is in double quotes
/// if `quoted` is true.
std::string listOf(std::span<const std::string_view> names,
                   std::string_view last = "or", bool quoted = true);

/// Returns the name that is most similar to a misspelt `word`, or "" if no name
/// is similar enough. Names are similar if about one letter in four is
/// replaced, missing, added or swapped with the next letter.
std::string_view nearestOf(std::string_view word,
                           std::span<const std::string_view> names);

/// Returns the names that `word` may stand for: the names that begin with it if
/// they are few, otherwise the most similar name, otherwise the names that
/// contain it if they are few.
std::vector<std::string_view> meantBy(std::string_view word,
                                      std::span<const std::string_view> names);

/// Returns "did you mean a or b? ", or "" if no name is similar.
std::string didYouMean(std::string_view word,
                       std::span<const std::string_view> names);

/// Returns the message for a word that is not in a catalog table, such as
/// "unknown gpu 'h20x'; did you mean h20? known gpus: h20, ...". If there is a
/// suggestion, a long list is omitted, because it would hide the suggestion.
std::string unknownWord(std::string_view kind, std::string_view word,
                        std::span<const std::string_view> names);

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_WORDS_H
