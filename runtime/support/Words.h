//===- Words.h - lists of known words, and misspelt ones --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every message that names what a user may have meant takes it from here: keys
// of JSON, options, commands and words of the catalog.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_WORDS_H
#define MOEC_RUNTIME_SUPPORT_WORDS_H

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// "a, b or c", each in double quotes when `quoted`.
std::string listOf(std::span<const std::string_view> names,
                   std::string_view last = "or", bool quoted = true);

/// Returns the one of `names` that a misspelt `word` is nearest to, or "" if
/// none is near: about one letter in four may be another, absent, added or
/// swapped with the next one.
std::string_view nearestOf(std::string_view word,
                           std::span<const std::string_view> names);

/// Returns what `word` may stand for: the names that begin with it if they are
/// few, else the nearest one, else the names that contain it if they are few.
std::vector<std::string_view> meantBy(std::string_view word,
                                      std::span<const std::string_view> names);

/// Returns "did you mean a or b? ", or "" if nothing is near.
std::string didYouMean(std::string_view word,
                       std::span<const std::string_view> names);

/// Returns the message for a word that a table of the catalog lacks:
/// "unknown gpu 'h20x'; did you mean h20? known gpus: h20, ...". A long list
/// would hide what was meant, so it is left out if a name is near.
std::string unknownWord(std::string_view kind, std::string_view word,
                        std::span<const std::string_view> names);

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_WORDS_H
