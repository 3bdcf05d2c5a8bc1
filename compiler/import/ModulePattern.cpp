//===- ModulePattern.cpp - patterns of module names -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles a pattern to an NFA by Thompson's construction, from right to left:
// each part is built when the node that follows it is already known. DFA states
// are sets of NFA nodes and are created when they are first reached.
//
//===----------------------------------------------------------------------===//

#include "compiler/import/ModulePattern.h"

#include <algorithm>
#include <cctype>

using namespace moec;
using namespace moec::compiler;

namespace moec::compiler {

/// Patterns with more characters (kMaxPattern), nodes or states are rejected.
static constexpr size_t kMaxPattern = 4096, kMaxNodes = 16384,
                        kMaxStates = 4096;
static constexpr int kMaxDepth = 16, kMaxRepeats = 256;

class PatternReader {
public:
  using Node = ModulePattern::Node;
  using Characters = ModulePattern::Characters;

  explicit PatternReader(std::string_view text) : text(text) {}

  std::optional<ModulePattern> readRegex();
  std::optional<ModulePattern> readWildcard();

private:
  /// A parsed part of the expression. A repeated part is built as nodes several
  /// times.
  struct Part {
    enum Kind { Set, Sequence, Choice, Repeat, Begin, End } kind = Sequence;
    Characters set;
    std::vector<Part> parts;
    int least = 1, most = 1; ///< repetitions; most: -1 for any number
  };

  Part readChoice(int depth);
  Part readSequence(int depth);
  Part readAtom(int depth);
  Part readClass();
  Part readEscape();
  void readRepeats(Part &atom);
  std::optional<int> readNumber();
  Part fail() {
    failed = true;
    return {};
  }
  char peek() const { return at < text.size() ? text[at] : '\0'; }
  bool take(char c) {
    if (at >= text.size() || text[at] != c)
      return false;
    ++at;
    return true;
  }

  int32_t add(Node node) {
    if (made.nodes.size() >= kMaxNodes) {
      failed = true;
      return 0;
    }
    made.nodes.push_back(node);
    return int32_t(made.nodes.size() - 1);
  }
  int32_t build(const Part &part, int32_t after);
  int32_t anything(int32_t after);

  static Part setOf(Characters characters) {
    Part part;
    part.kind = Part::Set;
    part.set = characters;
    return part;
  }
  static Characters one(char c) {
    Characters set;
    set.set(static_cast<unsigned char>(c));
    return set;
  }
  template <typename Is> static Characters those(Is is) {
    Characters set;
    for (int c = 0; c < 128; ++c)
      set.set(size_t(c), is(c));
    return set;
  }
  /// Returns the characters of '\d', '\w' and '\s', or nullopt for other
  /// letters.
  static std::optional<Characters> classOf(char letter);

  std::string_view text;
  size_t at = 0;
  bool failed = false;
  ModulePattern made;
};

std::optional<PatternReader::Characters> PatternReader::classOf(char letter) {
  const auto isWord = [](int c) { return std::isalnum(c) != 0 || c == '_'; };
  const auto isDigit = [](int c) { return std::isdigit(c) != 0; };
  const auto isSpace = [](int c) { return std::isspace(c) != 0; };
  switch (letter) {
  case 'd':
    return those(isDigit);
  case 'D':
    return ~those(isDigit);
  case 'w':
    return those(isWord);
  case 'W':
    return ~those(isWord);
  case 's':
    return those(isSpace);
  case 'S':
    return ~those(isSpace);
  default:
    return std::nullopt;
  }
}

PatternReader::Part PatternReader::readChoice(int depth) {
  if (depth > kMaxDepth)
    return fail();
  Part choice;
  choice.kind = Part::Choice;
  do
    choice.parts.push_back(readSequence(depth));
  while (!failed && take('|'));
  return choice;
}

PatternReader::Part PatternReader::readSequence(int depth) {
  Part sequence;
  while (!failed && at < text.size() && peek() != '|' && peek() != ')') {
    Part atom = readAtom(depth);
    readRepeats(atom);
    sequence.parts.push_back(std::move(atom));
  }
  return sequence;
}

std::optional<int> PatternReader::readNumber() {
  int number = 0;
  const size_t begin = at;
  while (std::isdigit(static_cast<unsigned char>(peek())) &&
         number <= kMaxRepeats)
    number = 10 * number + (text[at++] - '0');
  return at > begin ? std::optional(number) : std::nullopt;
}

void PatternReader::readRepeats(Part &atom) {
  if (failed)
    return;
  Part repeat;
  repeat.kind = Part::Repeat;
  if (take('*')) {
    repeat.least = 0, repeat.most = -1;
  } else if (take('+')) {
    repeat.most = -1;
  } else if (take('?')) {
    repeat.least = 0;
  } else if (take('{')) {
    const std::optional<int> least = readNumber();
    std::optional<int> most = least;
    if (take(',')) {
      most = readNumber();
      if (!most)
        most = -1;
    }
    if (!take('}') || (!least && *most == -1)) {
      failed = true;
      return;
    }
    repeat.least = least.value_or(0);
    repeat.most = *most;
    if (repeat.least > kMaxRepeats || repeat.most > kMaxRepeats ||
        (repeat.most >= 0 && repeat.most < repeat.least))
      failed = true;
  } else {
    return;
  }
  // Reject a second quantifier. A lazy quantifier (a following '?') matches the
  // same names and is accepted. A possessive quantifier (a following '+') may
  // match fewer names, because it never backtracks.
  if (peek() == '+' || peek() == '*' || peek() == '{') {
    failed = true;
    return;
  }
  (void)take('?');
  repeat.parts.push_back(std::move(atom));
  atom = std::move(repeat);
}

PatternReader::Part PatternReader::readEscape() {
  const char c = peek();
  ++at;
  if (const std::optional<Characters> set = classOf(c))
    return setOf(*set);
  Part part;
  if (c == 'Z' || c == 'A') {
    part.kind = c == 'Z' ? Part::End : Part::Begin;
    return part;
  }
  if (c == '\0' || std::isalnum(static_cast<unsigned char>(c)))
    return fail();
  return setOf(one(c));
}

PatternReader::Part PatternReader::readClass() {
  const bool isNegated = take('^');
  Characters set;
  bool isFirst = true;
  while (at < text.size() && (peek() != ']' || isFirst)) {
    isFirst = false;
    char first = text[at++];
    if (first == '\\') {
      const char escaped = peek();
      ++at;
      if (const std::optional<Characters> inside = classOf(escaped)) {
        set |= *inside;
        continue;
      }
      if (escaped == '\0' || std::isalnum(static_cast<unsigned char>(escaped)))
        return fail();
      first = escaped;
    }
    unsigned char last = static_cast<unsigned char>(first);
    if (peek() == '-' && at + 1 < text.size() && text[at + 1] != ']') {
      ++at;
      if (peek() == '\\')
        return fail();
      last = static_cast<unsigned char>(text[at++]);
    }
    if (last < static_cast<unsigned char>(first))
      return fail();
    for (int c = static_cast<unsigned char>(first); c <= last; ++c)
      set.set(size_t(c));
  }
  if (!take(']'))
    return fail();
  return setOf(isNegated ? ~set : set);
}

PatternReader::Part PatternReader::readAtom(int depth) {
  const char c = text[at++];
  Part part;
  switch (c) {
  case '(':
    if (take('?') && !take(':'))
      return fail(); // lookahead, lookbehind or a named group
    part = readChoice(depth + 1);
    return take(')') ? part : fail();
  case '[':
    return readClass();
  case '.':
    return setOf(~one('\n'));
  case '\\':
    return readEscape();
  case '^':
    part.kind = Part::Begin;
    return part;
  case '$':
    part.kind = Part::End;
    return part;
  case '*':
  case '+':
  case '?':
  case '{':
    return fail();
  default:
    return setOf(one(c));
  }
}

int32_t PatternReader::build(const Part &part, int32_t after) {
  if (failed)
    return 0;
  Node node;
  switch (part.kind) {
  case Part::Set:
    node.kind = Node::Read;
    node.characters = part.set;
    node.first = after;
    return add(node);
  case Part::Begin:
  case Part::End:
    node.kind = part.kind == Part::Begin ? Node::AtBegin : Node::AtEnd;
    node.first = after;
    return add(node);
  case Part::Sequence:
    for (auto it = part.parts.rbegin(); it != part.parts.rend(); ++it)
      after = build(*it, after);
    return after;
  case Part::Choice: {
    int32_t chosen = build(part.parts.back(), after);
    for (size_t i = part.parts.size() - 1; i-- > 0;) {
      Node split;
      split.first = build(part.parts[i], after);
      split.second = chosen;
      chosen = add(split);
    }
    return chosen;
  }
  case Part::Repeat: {
    const Part &inside = part.parts.front();
    int32_t rest = after;
    if (part.most == -1) {
      rest = add(node);
      const int32_t loop = build(inside, rest);
      made.nodes[size_t(rest)].first = loop;
      made.nodes[size_t(rest)].second = after;
    }
    for (int i = part.least; i < part.most; ++i) {
      Node split;
      split.first = build(inside, rest);
      split.second = after;
      rest = add(split);
    }
    for (int i = 0; i < part.least; ++i)
      rest = build(inside, rest);
    return rest;
  }
  }
  return after;
}

int32_t PatternReader::anything(int32_t after) {
  Part any;
  any.kind = Part::Repeat;
  any.least = 0, any.most = -1;
  any.parts.push_back(setOf(~Characters()));
  return build(any, after);
}

std::optional<ModulePattern> PatternReader::readRegex() {
  if (text.size() > kMaxPattern)
    return std::nullopt;
  const Part whole = readChoice(0);
  if (failed || at != text.size())
    return std::nullopt;
  Node accept;
  accept.kind = Node::Accept;
  made.entry = build(whole, anything(add(accept)));
  if (failed)
    return std::nullopt;
  made.start = made.stateOf({made.entry}, /*atBegin=*/true);
  return std::move(made);
}

std::optional<ModulePattern> PatternReader::readWildcard() {
  if (text.size() > kMaxPattern)
    return std::nullopt;
  Node accept;
  accept.kind = Node::Accept;
  int32_t after = build(setOf(one('.')), anything(add(accept)));
  for (size_t i = text.size(); i-- > 0;)
    after = text[i] == '*'
                ? anything(after)
                : build(setOf(text[i] == '?' ? ~Characters() : one(text[i])),
                        after);
  made.entry = anything(build(setOf(one('.')), after));
  made.byWords = true;
  if (failed)
    return std::nullopt;
  made.start = made.stateOf({made.entry}, /*atBegin=*/true);
  made.start = made.next(made.start, '.');
  return std::move(made);
}

std::optional<ModulePattern> ModulePattern::regex(std::string_view text) {
  return PatternReader(text).readRegex();
}

std::optional<ModulePattern> ModulePattern::wildcard(std::string_view text) {
  return PatternReader(text).readWildcard();
}

/// Returns the DFA state for the NFA nodes that are reachable from `from`
/// without reading a character. The state keeps the nodes that read a character
/// next. Paths through an end-of-name test only determine if the state accepts.
ModulePattern::State ModulePattern::stateOf(const std::vector<int32_t> &from,
                                            bool atBegin) {
  std::vector<int32_t> reached, work = from, ends;
  std::vector<bool> seen(nodes.size());
  bool isAccepted = false;
  const auto visit = [&](bool atEnd) {
    while (!work.empty()) {
      const int32_t index = work.back();
      work.pop_back();
      if (index < 0 || seen[size_t(index)])
        continue;
      seen[size_t(index)] = true;
      const Node &node = nodes[size_t(index)];
      switch (node.kind) {
      case Node::Read:
        if (!atEnd)
          reached.push_back(index);
        break;
      case Node::Split:
        work.push_back(node.first);
        work.push_back(node.second);
        break;
      case Node::AtBegin:
        if (atBegin)
          work.push_back(node.first);
        break;
      case Node::AtEnd:
        if (atEnd)
          work.push_back(node.first);
        else
          ends.push_back(node.first);
        break;
      case Node::Accept:
        isAccepted = true;
        break;
      }
    }
  };
  visit(/*atEnd=*/false);
  if (!isAccepted && !ends.empty()) {
    // Follow the nodes after end-of-name tests: they determine if the name may
    // end here.
    std::fill(seen.begin(), seen.end(), false);
    work = ends;
    visit(/*atEnd=*/true);
  }
  if (reached.empty() && !isAccepted)
    return kDead;
  std::ranges::sort(reached);
  std::vector<int32_t> key = reached;
  key.push_back(isAccepted ? -1 : -2);
  if (states.size() >= kMaxStates && !known.contains(key)) {
    overflow = true;
    return kDead;
  }
  const auto [it, isNew] = known.emplace(key, State(states.size()));
  if (isNew) {
    States made;
    made.accepts = isAccepted;
    made.nodes = std::move(reached);
    made.next.fill(kUnknown);
    states.push_back(std::move(made));
  }
  return it->second;
}

ModulePattern::State ModulePattern::next(State state, char c) {
  if (state == kDead)
    return kDead;
  const auto byte = static_cast<unsigned char>(c);
  if (const State there = states[size_t(state)].next[byte]; there != kUnknown)
    return there;
  std::vector<int32_t> after;
  for (int32_t node : states[size_t(state)].nodes)
    if (nodes[size_t(node)].characters[byte])
      after.push_back(nodes[size_t(node)].first);
  const State made = after.empty() ? kDead : stateOf(after, false);
  // stateOf() may have reallocated the states.
  states[size_t(state)].next[byte] = made;
  return made;
}

ModulePattern::State ModulePattern::next(State state, std::string_view text) {
  for (char c : text)
    if ((state = next(state, c)) == kDead)
      break;
  return state;
}

} // namespace moec::compiler
