//===- ModulePattern.h - patterns of module names ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Wildcards and the regular expressions that quantization configs have, as an
// automaton that reads names character by character. Its time is linear in the
// names, whatever the pattern is. States are made when a name reaches them.
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
  /// A state of a name that is read in part; kDead if no more of it can match.
  using State = int32_t;
  static constexpr State kDead = -1;

  /// Python's re.match: the expression begins with the name, and may end
  /// before it. Nothing if it is no expression, is too large, or looks ahead or
  /// behind.
  static std::optional<ModulePattern> regex(std::string_view text);
  /// A run of whole words of the name. '*' stands for any characters, '?' for
  /// one.
  static std::optional<ModulePattern> wildcard(std::string_view text);

  State begin() { return start; }
  State next(State state, char c);
  State next(State state, std::string_view text);
  /// Returns true if a name that ends here matches.
  bool accepts(State state) {
    if (byWords)
      state = next(state, '.');
    return state != kDead && states[size_t(state)].accepts;
  }
  /// False once names needed more states than are kept.
  bool isExact() const { return !overflow; }
  bool matches(std::string_view name) { return accepts(next(begin(), name)); }

private:
  friend class PatternReader;
  using Characters = std::bitset<256>;
  /// Reads a character of a set, goes on at one or two nodes, or ends the name.
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
