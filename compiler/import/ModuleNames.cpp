//===- ModuleNames.cpp - which experts a pattern of modules means ---------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/ModuleNames.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace moec;
using namespace moec::compiler;

namespace {

/// In a pattern: any character, any run of characters. In both: a number.
constexpr char kAny = '\x01', kStar = '\x02', kNumber = '#';

/// Longer patterns, or ones with more alternatives, are not understood.
constexpr size_t kMaxPattern = 256, kMaxAlternatives = 16;

struct ModuleName {
  std::string name; ///< with a dot at both ends
  unsigned part;
  bool isShared;
};

/// Calls `see` with each word between dots until it returns false.
template <typename See> bool forEachPart(std::string_view name, See see) {
  while (!name.empty()) {
    const size_t dot = std::min(name.find('.'), name.size());
    if (dot > 0 && !see(name.substr(0, dot)))
      return false;
    name.remove_prefix(std::min(dot + 1, name.size()));
  }
  return true;
}

std::vector<ModuleName> makeNames() {
  using M = ModuleMeaning;
  constexpr std::string_view kLayers[] = {
      "model.layers.#", "model.language_model.layers.#",
      "language_model.model.layers.#", "backbone.layers.#",
      "transformer.blocks.#"};
  constexpr std::string_view kBlocks[] = {
      "mlp", "block_sparse_moe", "mixer", "feed_forward", "ffn", "moe"};
  constexpr std::string_view kRouted[] = {"experts", "experts.#"};
  constexpr std::string_view kShared[] = {"shared_experts", "shared_expert",
                                          "shared_mlp", "share_expert"};
  constexpr std::pair<std::string_view, unsigned> kParts[] = {
      {"", M::All},        {".gate_proj", M::Gate},
      {".up_proj", M::Up}, {".gate_up_proj", M::Gate | M::Up},
      {".w1", M::Gate},    {".down_proj", M::Down},
      {".w3", M::Up},      {".w2", M::Down}};
  std::vector<ModuleName> names;
  const auto add = [&](std::string_view layer, std::string_view block,
                       std::string_view experts, bool isShared) {
    for (const auto &[part, bits] : kParts) {
      std::string name = ".";
      name.append(layer).append(".").append(block).append(".");
      name.append(experts).append(part).append(".");
      names.push_back({std::move(name), bits, isShared});
    }
  };
  for (std::string_view layer : kLayers)
    for (std::string_view block : kBlocks) {
      for (std::string_view experts : kRouted)
        add(layer, block, experts, false);
      for (std::string_view experts : kShared)
        add(layer, block, experts, true);
    }
  return names;
}

/// Whether each word of a name is one of those that experts' names have. Most
/// entries of a list are told apart by this, without a look at all names.
bool hasWordsOfExperts(std::string_view entry,
                       const std::vector<ModuleName> &names) {
  static const std::set<std::string_view> kWords = [&] {
    std::set<std::string_view> words;
    for (const ModuleName &module : names)
      forEachPart(module.name, [&](std::string_view word) {
        words.insert(word);
        return true;
      });
    return words;
  }();
  return forEachPart(entry, [&](std::string_view word) {
    const bool isNumber = std::ranges::all_of(
        word, [](unsigned char c) { return std::isdigit(c) != 0; });
    return isNumber || kWords.contains(word);
  });
}

/// Whether all of `text` fits a pattern. Of several runs that could be longer
/// the last alone is, so that the time is at most the product of the lengths.
bool fits(std::string_view text, std::string_view pattern) {
  size_t t = 0, p = 0, star = std::string_view::npos, behind = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == kStar) {
      star = p++;
      behind = t;
    } else if (p < pattern.size() &&
               (pattern[p] == kAny || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++behind;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == kStar)
    ++p;
  return p == pattern.size();
}

bool isWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

/// Each number that is a word of its own becomes kNumber.
std::string withoutNumbers(std::string_view pattern, bool &hasNumber) {
  std::string result;
  for (size_t i = 0; i < pattern.size();) {
    size_t end = i;
    while (end < pattern.size() &&
           std::isdigit(static_cast<unsigned char>(pattern[end])))
      ++end;
    const bool isWord =
        end != i && (i == 0 || !isWordCharacter(pattern[i - 1])) &&
        (end == pattern.size() || !isWordCharacter(pattern[end]));
    if (isWord) {
      result += kNumber;
      hasNumber = true;
    } else {
      result += pattern.substr(i, std::max<size_t>(end - i, 1));
    }
    i = std::max(end, i + 1);
  }
  return result;
}

/// Reads the regular expressions that quantization configs have in practice
/// as patterns: literals, '.', escapes, classes, groups of alternatives, '*'
/// and '+'.
class RegexReader {
public:
  RegexReader(std::string_view text) : text(text) {}

  /// The alternatives; none if something else stands in the expression.
  std::vector<std::string> read() {
    std::vector<std::string> result = readAlternatives(0);
    if (failed || at != text.size())
      return {};
    return result;
  }

private:
  std::vector<std::string> readAlternatives(int depth);
  std::vector<std::string> readSequence(int depth);
  /// One character, class or group.
  std::vector<std::string> readAtom(int depth);
  std::vector<std::string> readClass();
  char peek() const { return at < text.size() ? text[at] : '\0'; }
  std::vector<std::string> fail() {
    failed = true;
    return {};
  }

  std::string_view text;
  size_t at = 0;
  bool failed = false;
};

std::vector<std::string> RegexReader::readAlternatives(int depth) {
  constexpr int kMaxDepth = 8;
  if (depth > kMaxDepth)
    return fail();
  std::vector<std::string> all = readSequence(depth);
  while (!failed && peek() == '|') {
    ++at;
    for (std::string &one : readSequence(depth))
      all.push_back(std::move(one));
    if (all.size() > kMaxAlternatives)
      return fail();
  }
  return all;
}

std::vector<std::string> RegexReader::readSequence(int depth) {
  std::vector<std::string> all = {""};
  while (!failed && at < text.size() && peek() != '|' && peek() != ')') {
    std::vector<std::string> atom = readAtom(depth);
    const char quantifier = peek();
    if (quantifier == '*' || quantifier == '+') {
      // A run of whatever the atom is: more fits than the expression means,
      // so that experts are found where they may be meant.
      atom = {std::string(1, kStar)};
      ++at;
    } else if (quantifier == '?') {
      atom.emplace_back();
      ++at;
    } else if (quantifier == '{') {
      return fail();
    }
    // Of a lazy run, or a possessive one.
    if (quantifier != '\0' && (peek() == '?' || peek() == '+') &&
        (quantifier == '*' || quantifier == '+' || quantifier == '?'))
      ++at;
    std::vector<std::string> longer;
    for (const std::string &begin : all)
      for (const std::string &end : atom)
        longer.push_back(begin + end);
    if (longer.size() > kMaxAlternatives)
      return fail();
    all = std::move(longer);
  }
  return all;
}

std::vector<std::string> RegexReader::readClass() {
  const size_t begin = ++at;
  if (peek() == '^')
    ++at;
  if (peek() == ']')
    ++at;
  while (at < text.size() && peek() != ']')
    at += peek() == '\\' ? 2 : 1;
  if (at >= text.size())
    return fail();
  const std::string_view inside = text.substr(begin, at++ - begin);
  // Any number, as other expressions of it.
  if (inside == "0-9" || inside == "\\d")
    return {std::string(1, kStar)};
  // Of a few characters each is an alternative, so that numbers are seen.
  constexpr size_t kMaxMembers = 10;
  std::vector<std::string> members;
  for (size_t i = 0; i < inside.size(); ++i) {
    const bool isRange = i + 2 < inside.size() && inside[i + 1] == '-';
    const int first = static_cast<unsigned char>(inside[i]);
    const int last =
        isRange ? static_cast<unsigned char>(inside[i + 2]) : first;
    if (first == '^' || first == '\\' || last < first ||
        size_t(last - first) + members.size() >= kMaxMembers)
      return {std::string(1, kAny)};
    for (int c = first; c <= last; ++c)
      members.emplace_back(1, char(c));
    i += isRange ? 2 : 0;
  }
  return members;
}

std::vector<std::string> RegexReader::readAtom(int depth) {
  const char c = peek();
  switch (c) {
  case '(': {
    ++at;
    if (text.substr(at).starts_with("?:"))
      at += 2;
    else if (peek() == '?')
      return fail(); // looks ahead or behind
    std::vector<std::string> inside = readAlternatives(depth + 1);
    if (peek() != ')')
      return fail();
    ++at;
    return inside;
  }
  case '[':
    return readClass();
  case '.':
    ++at;
    return {std::string(1, kAny)};
  case '\\': {
    ++at;
    const char escaped = peek();
    ++at;
    if (escaped == 'd' || escaped == 'w' || escaped == 'S')
      return {std::string(1, escaped == 'd' ? kStar : kAny)};
    if (escaped == 'b' || escaped == 'Z')
      return {""};
    if (escaped == '\0' || std::isalnum(static_cast<unsigned char>(escaped)))
      return fail();
    return {std::string(1, escaped)};
  }
  case '^':
  case '$':
    // Ends are looked for apart.
    ++at;
    return {""};
  case '*':
  case '+':
  case '?':
  case '{':
    return fail();
  default:
    ++at;
    return {std::string(1, c)};
  }
}

/// The number behind "layers." if it is the only one of the entry.
std::optional<int64_t> layerOf(std::string_view entry) {
  constexpr std::string_view kWords[] = {"layers.", "layers\\.", "blocks."};
  for (std::string_view word : kWords) {
    const size_t found = entry.find(word);
    if (found == std::string_view::npos)
      continue;
    const char *begin = entry.data() + found + word.size();
    const char *end = entry.data() + entry.size();
    int64_t number = 0;
    const auto [last, error] = std::from_chars(begin, end, number);
    if (error != std::errc() || last == begin)
      return std::nullopt;
    const bool isOnly = std::none_of(last, end, [](unsigned char c) {
      return std::isdigit(c) || c == '[' || c == '|';
    });
    return isOnly && (last == end || *last == '.' || *last == '*' ||
                      *last == '\\')
               ? std::optional<int64_t>(number)
               : std::nullopt;
  }
  return std::nullopt;
}

bool saysRouted(std::string_view entry) {
  return entry.find("experts") != std::string_view::npos &&
         entry.find("shared_expert") == std::string_view::npos;
}

} // namespace

ModuleMeaning moec::compiler::meaningOfModules(std::string_view entry,
                                               bool isRegex) {
  static const std::vector<ModuleName> kNames = makeNames();
  ModuleMeaning meaning;
  if (entry.starts_with("re:")) {
    entry.remove_prefix(3);
    isRegex = true;
  }
  meaning.layer = layerOf(entry);
  const bool isPlain = !isRegex && entry.find('*') == std::string_view::npos;
  if (entry.empty() || (isPlain && !hasWordsOfExperts(entry, kNames)))
    return meaning;
  std::vector<std::string> patterns;
  if (entry.size() <= kMaxPattern && !isRegex)
    patterns.emplace_back(entry);
  if (entry.size() <= kMaxPattern && isRegex) {
    patterns = RegexReader(entry).read();
  }
  if (patterns.empty()) {
    meaning.understood = false;
    if (saysRouted(entry))
      meaning.routed = ModuleMeaning::All;
    return meaning;
  }
  for (std::string &pattern : patterns) {
    pattern = withoutNumbers(pattern, meaning.ofSome);
    if (isRegex) {
      // Python's match begins with the name, and may end before it.
      pattern.insert(0, ".");
      if (!entry.ends_with('$'))
        pattern += kStar;
      else
        pattern += '.';
    } else {
      std::replace(pattern.begin(), pattern.end(), '*', kStar);
      pattern = std::string({kStar, '.'}) + pattern + '.' + kStar;
    }
    for (const ModuleName &module : kNames)
      if (fits(module.name, pattern)) {
        if (module.isShared)
          meaning.shared = true;
        else
          meaning.routed |= module.part;
      }
  }
  return meaning;
}
