//===- Words.cpp - lists of known words, and misspellings -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Words.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

using namespace moec;

/// Returns the optimal string alignment distance: the number of letters that
/// are replaced, removed, inserted or swapped with their neighbor.
static size_t distanceOf(std::string_view left, std::string_view right) {
  const size_t width = right.size() + 1;
  std::vector<size_t> before, above(width), row(width);
  std::iota(above.begin(), above.end(), size_t(0));
  for (size_t i = 1; i <= left.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j < width; ++j) {
      row[j] = std::min({above[j - 1] + (left[i - 1] != right[j - 1]),
                         above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && left[i - 1] == right[j - 2] &&
          left[i - 2] == right[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::exchange(above, row);
  }
  return above.back();
}

std::string_view moec::nearestOf(std::string_view word,
                                 std::span<const std::string_view> names) {
  constexpr size_t kLongest = 64, kPart = 4;
  if (word.empty() || word.size() > kLongest)
    return {};
  size_t least = std::max<size_t>(1, word.size() / kPart) + 1;
  std::string_view nearest;
  for (std::string_view name : names)
    if (const size_t distance = distanceOf(word, name); distance < least) {
      least = distance;
      nearest = name;
    }
  // Words of one or two letters are all similar to each other, so nothing is
  // suggested for them.
  return word.size() > 2 ? nearest : std::string_view();
}

std::vector<std::string_view>
moec::meantBy(std::string_view word, std::span<const std::string_view> names) {
  constexpr size_t kShortest = 2, kShortestPart = 4, kMost = 12;
  std::string lower(word);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return std::tolower(c); });
  std::vector<std::string_view> longer;
  if (lower.size() >= kShortest)
    std::ranges::copy_if(
        names, std::back_inserter(longer),
        [&](std::string_view name) { return name.starts_with(lower); });
  if (!longer.empty() && longer.size() <= kMost)
    return longer;
  if (const std::string_view nearest = nearestOf(lower, names);
      !nearest.empty())
    return {nearest};
  std::vector<std::string_view> around;
  if (lower.size() >= kShortestPart)
    std::ranges::copy_if(names, std::back_inserter(around),
                         [&](std::string_view name) {
                           return name.find(lower) != std::string_view::npos;
                         });
  return around.size() <= kMost ? around : std::vector<std::string_view>();
}

std::string moec::didYouMean(std::string_view word,
                             std::span<const std::string_view> names) {
  const std::vector<std::string_view> meant = meantBy(word, names);
  return meant.empty()
             ? ""
             : fmt::format("did you mean {}? ", listOf(meant, "or", false));
}

std::string moec::unknownWord(std::string_view kind, std::string_view word,
                              std::span<const std::string_view> names) {
  constexpr size_t kMostShown = 8;
  const std::string meant = didYouMean(word, names);
  if (!meant.empty() && names.size() > kMostShown)
    return fmt::format("unknown {} '{}'; {}", kind, word,
                       std::string_view(meant).substr(0, meant.size() - 1));
  return fmt::format("unknown {} '{}'; {}known {}s: {}", kind, word, meant,
                     kind, fmt::join(names, ", "));
}

std::string moec::listOf(std::span<const std::string_view> names,
                         std::string_view last, bool quoted) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i)
      text += i + 1 == names.size() ? fmt::format(" {} ", last) : ", ";
    text += quoted ? fmt::format("\"{}\"", names[i]) : std::string(names[i]);
  }
  return text;
}
