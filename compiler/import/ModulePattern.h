//===- ModulePattern.h - patterns of module names ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Matches module names with the wildcards and regular expressions of
// quantization configs. A pattern is an automaton that reads a name character
// by character, so the time is linear in the name's length for every pattern.
// States are created when a name first reaches them.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_MODULEPATTERN_H
#define MOEC_COMPILER_IMPORT_MODULEPATTERN_H

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

namespace moec::compiler {

class ModulePattern {
public:
  /// The state after a prefix of a name; kDead if no continuation can match.
  using State = int32_t;
  static constexpr State kDead = -1;

  /// Compiles a regular expression that matches like Python's re.match: a
  /// prefix of the name. Returns nullopt if the expression is invalid, too
  /// large, or uses lookahead or lookbehind.
  static std::optional<ModulePattern> regex(std::string_view text);
  /// Compiles a wildcard that matches consecutive whole words of the name. '*'
  /// matches any characters, and '?' matches one character.
  static std::optional<ModulePattern> wildcard(std::string_view text);

  State begin() { return start; }
  State next(State state, char c);
  State next(State state, std::string_view text);
  /// Returns true if a name that ends in this state matches.
  bool accepts(State state) {
    if (byWords)
      state = next(state, '.');
    return state != kDead && states[size_t(state)].accepts;
  }
  /// Returns false if names have needed more states than the limit. Some
  /// matches may then have been missed.
  bool isExact() const { return !overflow; }
  bool matches(std::string_view name) { return accepts(next(begin(), name)); }

private:
  friend class PatternReader;
  using Characters = std::bitset<256>;
  /// A node of the NFA: reads a character of a set, continues at one or two
  /// nodes, tests for the start or end of the name, or accepts.
  struct Node {
    enum Kind { Read, Split, AtBegin, AtEnd, Accept } kind = Split;
    Characters characters;
    int32_t first = -1, second = -1;
  };
  struct States {
    bool accepts = false;
    std::vector<int32_t> nodes;
    std::array<State, 256> next;
  };

  State stateOf(const std::vector<int32_t> &from, bool atBegin);

  static constexpr State kUnknown = -2;
  bool byWords = false; ///< names are read with a dot at both ends
  bool overflow = false;
  std::vector<Node> nodes;
  std::vector<States> states;
  std::map<std::vector<int32_t>, State> known;
  State start = kDead;
  int32_t entry = -1;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_MODULEPATTERN_H
