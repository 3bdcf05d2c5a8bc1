//===- ModuleNames.cpp - experts that module names select -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exact names are parsed word by word. Patterns are matched with all names that
// the layer's experts can have. Names with a common prefix share the work for
// that prefix.
//
//===----------------------------------------------------------------------===//

#include "compiler/import/ModuleNames.h"

#include "compiler/import/ModulePattern.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

using namespace moec;
using namespace moec::compiler;

namespace {

using Words = std::span<const std::string_view>;

constexpr std::string_view kLayerWords[] = {"layers", "blocks", "h"};
constexpr std::string_view kBlocks[] = {
    "mlp", "block_sparse_moe", "mixer", "feed_forward", "ffn", "moe"};
/// Blocks whose direct weights hold all experts: "moe.w1" means w1 of all
/// experts.
constexpr std::string_view kExpertBlocks[] = {"block_sparse_moe", "moe"};
constexpr std::string_view kExperts[] = {"experts", "local_experts"};
constexpr std::string_view kShared[] = {"shared_experts", "shared_expert",
                                        "shared_mlp", "share_expert"};
constexpr std::string_view kSharedGates[] = {"shared_expert_gate",
                                             "shared_experts_gate"};
/// Words in names of draft layers, and of models other than the language model.
constexpr std::string_view kOthers[] = {"vision", "visual", "audio", "mtp",
                                        "draft",  "eagle",  "nextn"};

struct PartWord {
  std::string_view word;
  unsigned parts;
};
constexpr PartWord kParts[] = {
    {"gate_proj", ExpertParts::Gate},
    {"w1", ExpertParts::Gate},
    {"up_proj", ExpertParts::Up},
    {"w3", ExpertParts::Up},
    {"v1", ExpertParts::Up},
    {"gate_up_proj", ExpertParts::Gate | ExpertParts::Up},
    {"input_linear", ExpertParts::Gate | ExpertParts::Up},
    {"down_proj", ExpertParts::Down},
    {"w2", ExpertParts::Down},
    {"output_linear", ExpertParts::Down},
};

template <size_t N>
bool isOne(std::string_view word, const std::string_view (&words)[N]) {
  return std::ranges::find(words, word) != std::end(words);
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::optional<unsigned> partsOf(std::string_view word) {
  for (const PartWord &part : kParts)
    if (part.word == word)
      return part.parts;
  return std::nullopt;
}

std::optional<int64_t> numberOf(std::string_view word) {
  int64_t number = 0;
  const char *end = word.data() + word.size();
  const auto [last, error] = std::from_chars(word.data(), end, number);
  const bool isNumber = error == std::errc() && last == end && number >= 0;
  return isNumber ? std::optional(number) : std::nullopt;
}

std::vector<std::string_view> wordsOf(std::string_view name) {
  std::vector<std::string_view> words;
  while (!name.empty()) {
    const size_t dot = std::min(name.find('.'), name.size());
    if (dot > 0)
      words.push_back(name.substr(0, dot));
    name.remove_prefix(std::min(dot + 1, name.size()));
  }
  return words;
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// Consumes the words up to and including the layer's index, and sets
/// `isOfLayer` if the name has an index. Returns false if it is the index
/// of another layer.
bool takeLayer(Words &words, const LayerModules &layer, bool &isOfLayer) {
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::optional<int64_t> number = numberOf(words[i + 1]);
    if (!isOne(words[i], kLayerWords) || !number)
      continue;
    words = words.subspan(i + 2);
    isOfLayer = true;
    return *number == layer.layer;
  }
  // Words that may precede the list of layers.
  constexpr std::string_view kModels[] = {"model",       "language_model",
                                          "text_model",  "backbone",
                                          "transformer", "decoder"};
  while (!words.empty() && isOne(words.front(), kModels))
    words = words.subspan(1);
  if (!words.empty() && isOne(words.front(), kLayerWords))
    words = words.subspan(1);
  return true;
}

/// Reads the words that follow "experts".
void readExperts(Words words, ModuleMeaning &meaning) {
  std::optional<int64_t> expert;
  if (!words.empty() && words.front() == "mlp")
    words = words.subspan(1);
  if (!words.empty() && (expert = numberOf(words.front())))
    words = words.subspan(1);
  unsigned parts = ExpertParts::All;
  if (!words.empty()) {
    const std::optional<unsigned> some = partsOf(words.front());
    words = words.subspan(1);
    const bool isWhole =
        words.empty() || (words.size() == 1 && words.front() == "weight");
    meaning.understood = some && isWhole;
    parts = some.value_or(0);
  }
  if (expert)
    meaning.routed.add(*expert, parts);
  else
    meaning.routed.addAll(parts);
}

void readModuleName(std::string_view name, const LayerModules &layer,
                    ModuleMeaning &meaning) {
  for (std::string_view other : kOthers)
    if (has(name, other))
      return;
  const std::vector<std::string_view> all = wordsOf(name);
  Words words = all;
  bool isOfLayer = false;
  if (words.empty() || !takeLayer(words, layer, isOfLayer))
    return;
  std::string_view block;
  if (!words.empty() && isOne(words.front(), kBlocks)) {
    block = words.front();
    words = words.subspan(1);
  }
  if (words.empty())
    return meaning.routed.addAll(ExpertParts::All);
  if (isOne(words.front(), kShared)) {
    meaning.shared = true;
    return;
  }
  if (isOne(words.front(), kSharedGates))
    return;
  if (isOne(words.front(), kExperts))
    return readExperts(words.subspan(1), meaning);
  // A weight's name means that weight of all experts if it follows an expert
  // block, or if neither a layer nor a block precedes it.
  const std::optional<unsigned> parts = partsOf(words.front());
  const bool mayBePart =
      isOne(block, kExpertBlocks) || (block.empty() && !isOfLayer);
  if (parts && mayBePart)
    return meaning.routed.addAll(*parts);
  meaning.understood = std::ranges::none_of(words, [](std::string_view word) {
    return has(word, "experts") && !isOne(word, kSharedGates);
  });
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

constexpr std::string_view kPrefixes[] = {"model.layers.",
                                          "model.language_model.layers.",
                                          "language_model.model.layers.",
                                          "language_model.layers.",
                                          "thinker.model.layers.",
                                          "model.decoder.layers.",
                                          "backbone.layers.",
                                          "transformer.blocks.",
                                          "layers."};

/// Matches a pattern with the names of one layer's experts.
class PatternNames {
public:
  PatternNames(ModulePattern &pattern, const LayerModules &layer)
      : pattern(pattern), layer(layer) {}

  void read(ModuleMeaning &meaning) {
    for (std::string_view prefix : kPrefixes)
      readLayer(pattern.next(pattern.begin(), prefix), layer.layer,
                layer.experts, meaning);
  }

  /// Returns true if the pattern matches expert names of other layers or of
  /// draft layers.
  bool meansOthers() {
    seen.clear();
    constexpr std::string_view kDrafts[] = {
        "mtp.layers.", "model.mtp.layers.", "model.mtp_layers.",
        "mtp_layers.", "draft.layers.",     "model.mtp."};
    constexpr int64_t kBehind = 4, kMaxLayers = 512;
    const int64_t last = std::min(layer.layers, kMaxLayers) + kBehind;
    for (int64_t other = 0; other < last; ++other) {
      for (std::string_view prefix : kPrefixes)
        if (other != layer.layer && anyOf(prefix, other))
          return true;
      for (std::string_view prefix : kDrafts)
        if (other < kBehind && anyOf(prefix, other))
          return true;
    }
    return false;
  }

private:
  using State = ModulePattern::State;

  State word(State state, std::string_view text) {
    return pattern.next(pattern.next(state, '.'), text);
  }
  State number(State state, int64_t value) {
    return pattern.next(state, std::to_string(value));
  }

  bool anyOf(std::string_view prefix, int64_t other) {
    const LayerModules single = {other, other + 1, 1, layer.gated};
    ModuleMeaning meaning(single);
    readLayer(pattern.next(pattern.begin(), prefix), other, 1, meaning);
    return !meaning.routed.none() || meaning.shared;
  }

  /// Returns true if the state was not visited at this level of the name. All
  /// prefixes that lead to a state have the same continuations, so each state
  /// is expanded once.
  bool isNew(int level, State state) {
    return state != ModulePattern::kDead && seen.emplace(level, state).second;
  }

  void readLayer(State state, int64_t index, int64_t experts,
                 ModuleMeaning &meaning) {
    state = number(state, index);
    if (!isNew(0, state))
      return;
    if (pattern.accepts(state))
      meaning.routed.addAll(ExpertParts::All);
    for (std::string_view block : kBlocks) {
      const State inBlock = word(state, block);
      const bool mayHaveParts = isOne(block, kExpertBlocks);
      if (!isNew(mayHaveParts ? 2 : 1, inBlock))
        continue;
      if (pattern.accepts(inBlock))
        meaning.routed.addAll(ExpertParts::All);
      for (std::string_view shared : kShared)
        readShared(word(inBlock, shared), meaning);
      for (std::string_view word_ : kExperts)
        readExperts(word(inBlock, word_), experts, meaning);
      if (mayHaveParts)
        readParts(inBlock, std::nullopt, meaning);
    }
  }

  void readShared(State state, ModuleMeaning &meaning) {
    meaning.shared |= pattern.accepts(state);
    for (const PartWord &part : kParts)
      meaning.shared |= pattern.accepts(word(state, part.word));
  }

  void readExperts(State state, int64_t experts, ModuleMeaning &meaning) {
    if (!isNew(3, state))
      return;
    if (pattern.accepts(state))
      meaning.routed.addAll(ExpertParts::All);
    readParts(state, std::nullopt, meaning);
    const State dot = pattern.next(state, '.');
    for (int64_t e = 0; e < experts; ++e) {
      const State one = number(dot, e);
      if (one == ModulePattern::kDead)
        continue;
      if (pattern.accepts(one))
        meaning.routed.add(e, ExpertParts::All);
      readParts(one, e, meaning);
    }
  }

  void readParts(State state, std::optional<int64_t> expert,
                 ModuleMeaning &meaning) {
    const auto [it, isFirst] = partsAt.emplace(state, 0);
    if (isFirst)
      for (const PartWord &part : kParts)
        if (pattern.accepts(word(state, part.word)))
          it->second |= part.parts;
    if (expert)
      meaning.routed.add(*expert, it->second);
    else
      meaning.routed.addAll(it->second);
  }

  std::set<std::pair<int, State>> seen;
  std::map<State, unsigned> partsAt; ///< expert parts that match next, by state
  ModulePattern &pattern;
  const LayerModules &layer;
};

void readPattern(std::optional<ModulePattern> pattern, std::string_view entry,
                 const LayerModules &layer, ModuleMeaning &meaning) {
  if (!pattern) {
    meaning.understood = false;
    return;
  }
  PatternNames names(*pattern, layer);
  names.read(meaning);
  // The pattern contains "experts" but selects none of this layer's. It is
  // understood only if it selects experts of other layers or of draft layers.
  // Otherwise it may mean this layer's experts by names that moec does not
  // support.
  if (meaning.routed.none() && !meaning.shared && has(entry, "experts"))
    meaning.understood = names.meansOthers();
  if (!pattern->isExact())
    meaning.understood = false;
}

} // namespace

bool ExpertParts::none() const {
  return std::ranges::all_of(ofExpert, [](uint8_t parts) { return !parts; });
}

bool ExpertParts::all() const {
  return std::ranges::all_of(ofExpert,
                             [](uint8_t parts) { return parts == All; });
}

ModuleMeaning moec::compiler::meaningOfModules(std::string_view entry,
                                               const LayerModules &layer,
                                               bool isRegex) {
  ModuleMeaning meaning(layer);
  if (entry.starts_with("re:")) {
    entry.remove_prefix(3);
    isRegex = true;
  }
  if (entry.empty())
    return meaning;
  if (isRegex)
    readPattern(ModulePattern::regex(entry), entry, layer, meaning);
  else if (entry.find_first_of("*?") != std::string_view::npos)
    readPattern(ModulePattern::wildcard(entry), entry, layer, meaning);
  else
    readModuleName(entry, layer, meaning);
  return meaning;
}
