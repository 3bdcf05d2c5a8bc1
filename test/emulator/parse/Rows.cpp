//===- Rows.cpp - the table of instructions -------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Matching of names, and the table of all rows.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/parse/Rows.h"

#include <algorithm>

using namespace moec::emulator;

bool NameParts::has(std::string_view word) const {
  return std::ranges::find(parts, word) != parts.end();
}

static std::vector<std::string_view> splitAt(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    size_t end = text.find(at, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos)
      return parts;
    begin = end + 1;
  }
}

static bool isOneOf(std::string_view word, std::string_view alternatives) {
  for (std::string_view one : splitAt(alternatives, '|'))
    if (one == word)
      return true;
  return false;
}

/// Matches pattern parts from `at` on with words from `word` on.
static bool matchParts(const std::vector<std::string_view> &pattern, size_t at,
                       const std::vector<std::string_view> &words, size_t word,
                       std::vector<std::string_view> &found) {
  if (at == pattern.size())
    return word == words.size();
  const bool optional = pattern[at].starts_with('?');
  const std::string_view alternatives = pattern[at].substr(optional);
  if (word < words.size() && isOneOf(words[word], alternatives)) {
    found[at] = words[word];
    if (matchParts(pattern, at + 1, words, word + 1, found))
      return true;
  }
  found[at] = {};
  return optional && matchParts(pattern, at + 1, words, word, found);
}

NameParts moec::emulator::matchName(std::string_view pattern,
                                    std::string_view name) {
  const auto parts = splitAt(pattern, '.'), words = splitAt(name, '.');
  NameParts match;
  match.parts.resize(parts.size());
  if (!matchParts(parts, 0, words, 0, match.parts))
    match.parts.clear();
  return match;
}

const std::multimap<std::string, Row, std::less<>> &
moec::emulator::rowsByOpcode() {
  static const auto table = [] {
    Rows rows;
    for (auto add : {addIntegerRows,
                     addFloatRows,
                     addRoundingRows,
                     addBitRows,
                     addComparisonRows,
                     addMoveRows,
                     addConversionRows,
                     addMemoryRows,
                     addAtomicRows,
                     addLaneRows,
                     addControlRows,
                     addBarrierRows,
                     addMbarrierRows,
                     addAsyncCopyRows,
                     addBulkCopyRows,
                     addMatrixRows,
                     addMmaRows,
                     addWgmmaRows,
                     addTensorAllocateRows,
                     addTensorLoadRows,
                     addTensorCopyRows,
                     addTensorMmaRows,
                     addTensorWorkRows})
      add(rows);
    std::multimap<std::string, Row, std::less<>> byOpcode;
    for (Row &row : rows) {
      std::string opcode = row.pattern.substr(0, row.pattern.find('.'));
      byOpcode.emplace(std::move(opcode), std::move(row));
    }
    return byOpcode;
  }();
  return table;
}

unsigned moec::emulator::bytesOfType(std::string_view type) {
  struct Size {
    std::string_view type;
    unsigned bytes;
  };
  static constexpr Size kSizes[] = {
      {"pred", 0},   {"b8", 1},     {"u8", 1},      {"s8", 1},
      {"b16", 2},    {"u16", 2},    {"s16", 2},     {"f16", 2},
      {"bf16", 2},   {"e4m3x2", 2}, {"e5m2x2", 2},  {"e2m1x2", 1},
      {"e2m3x2", 2}, {"e3m2x2", 2}, {"ue8m0x2", 2}, {"b32", 4},
      {"u32", 4},    {"s32", 4},    {"f32", 4},     {"f16x2", 4},
      {"bf16x2", 4}, {"b64", 8},    {"u64", 8},     {"s64", 8},
      {"f64", 8},
  };
  for (const Size &size : kSizes)
    if (size.type == type)
      return size.bytes;
  throw PtxError("no size of type ." + std::string(type));
}
