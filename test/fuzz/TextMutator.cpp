//===- TextMutator.cpp - changes of IR for the fuzzers --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Mutators.h"

#include <array>
#include <cctype>
#include <cstdint>
#include <iterator>
#include <random>

using namespace moec;

namespace {

using Random = std::minstd_rand;

size_t below(Random &random, size_t count) {
  return count ? random() % count : 0;
}

struct Span {
  size_t begin, end;
};

bool isWordByte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' ||
         c == '%' || c == '@' || c == '#' || c == '!';
}

/// The word, or the run of other bytes, around a place.
Span wordAt(std::string_view text, size_t at) {
  const bool word = isWordByte(text[at]);
  Span span = {at, at};
  while (span.begin > 0 && isWordByte(text[span.begin - 1]) == word)
    --span.begin;
  while (span.end < text.size() && isWordByte(text[span.end]) == word)
    ++span.end;
  return span;
}

Span lineAt(std::string_view text, size_t at) {
  size_t begin = text.rfind('\n', at ? at - 1 : 0);
  begin = begin == std::string_view::npos ? 0 : begin + 1;
  size_t end = text.find('\n', at);
  return {std::min(begin, at),
          end == std::string_view::npos ? text.size() : end + 1};
}

/// A number of the text, near a place.
Span numberAt(std::string_view text, size_t at) {
  size_t begin = text.find_first_of("0123456789", at);
  if (begin == std::string_view::npos)
    begin = text.find_first_of("0123456789");
  if (begin == std::string_view::npos)
    return {0, 0};
  size_t end = text.find_first_not_of("0123456789", begin);
  return {begin, end == std::string_view::npos ? text.size() : end};
}

constexpr std::string_view kNumbers[] = {"0",          "1",
                                         "2",          "3",
                                         "7",          "8",
                                         "16",         "31",
                                         "48",         "64",
                                         "96",         "128",
                                         "255",        "256",
                                         "512",        "500",
                                         "1024",       "65535",
                                         "65536",      "2147483647",
                                         "4294967296", "9223372036854775807",
                                         "-1",         "-9223372036854775808",
                                         "1.5"};
constexpr std::string_view kBrackets[] = {"(", ")", "[", "]", "{", "}",
                                          "<", ">", ",", ":", "=", "?"};

} // namespace

std::string fuzz::mutateText(std::string_view text, std::string_view other,
                             size_t mostBytes, unsigned seed) {
  Random random(seed);
  std::string changed(text);
  const size_t least = below(random, 3) ? 1 : 4;
  for (size_t left = 1 + below(random, least); left > 0; --left) {
    if (changed.empty())
      changed = other;
    if (changed.empty())
      return changed;
    const size_t at = below(random, changed.size());
    auto replace = [&](Span span, std::string_view with) {
      changed.replace(span.begin, span.end - span.begin, with);
    };
    auto from = [&](Span (*part)(std::string_view, size_t)) {
      if (other.empty())
        return std::string_view();
      Span span = part(other, below(random, other.size()));
      return other.substr(span.begin, span.end - span.begin);
    };
    const Span line = lineAt(changed, at);
    switch (below(random, 10)) {
    case 0:
    case 1:
      replace(numberAt(changed, at),
              kNumbers[below(random, std::size(kNumbers))]);
      break;
    case 2:
      replace(wordAt(changed, at), from(wordAt));
      break;
    case 3: { // a word of the same text
      const Span span = wordAt(changed, below(random, changed.size()));
      replace(wordAt(changed, at),
              changed.substr(span.begin, span.end - span.begin));
      break;
    }
    case 4:
      replace(line, "");
      break;
    case 5:
      changed.insert(line.begin,
                     changed.substr(line.begin, line.end - line.begin));
      break;
    case 6:
      changed.insert(line.begin, from(lineAt));
      break;
    case 7: { // a line moves
      std::string moved = changed.substr(line.begin, line.end - line.begin);
      replace(line, "");
      changed.insert(changed.empty()
                         ? 0
                         : lineAt(changed, below(random, changed.size())).begin,
                     moved);
      break;
    }
    case 8:
      changed.insert(at, kBrackets[below(random, std::size(kBrackets))]);
      break;
    default:
      if (below(random, 2))
        changed[at] = static_cast<char>(random());
      else
        replace(wordAt(changed, at), "");
    }
  }
  if (changed.size() > mostBytes)
    changed.resize(mostBytes);
  return changed;
}
