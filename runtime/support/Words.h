//===- Words.h - lists of known words, and misspellings ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every message that suggests what a user may have meant uses these functions:
// for JSON keys, options, commands and words of the catalog.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_WORDS_H
#define MOEC_RUNTIME_SUPPORT_WORDS_H

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// Returns "a, b or c", each in double quotes if `quoted`.
std::string listOf(std::span<const std::string_view> names,
                   std::string_view last = "or", bool quoted = true);

/// Returns the name that is nearest to a misspelt `word`, or "" if none is
/// similar: about one letter in four may be replaced, missing, added or swapped
/// with the next one.
std::string_view nearestOf(std::string_view word,
                           std::span<const std::string_view> names);

/// Returns what `word` may stand for: the names that begin with it if they are
/// few, else the nearest name, else the names that contain it if they are few.
std::vector<std::string_view> meantBy(std::string_view word,
                                      std::span<const std::string_view> names);

/// Returns "did you mean a or b? ", or "" if no name is similar.
std::string didYouMean(std::string_view word,
                       std::span<const std::string_view> names);

/// Returns the message for a word that is not in a table of the catalog:
/// "unknown gpu 'h20x'; did you mean h20? known gpus: h20, ...". A long list is
/// omitted if there is a suggestion, because it would hide the suggestion.
std::string unknownWord(std::string_view kind, std::string_view word,
                        std::span<const std::string_view> names);

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_WORDS_H
