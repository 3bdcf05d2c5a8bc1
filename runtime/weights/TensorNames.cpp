//===- TensorNames.cpp - names of checkpoint tensors ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parses names such as "model.layers.3.mlp.experts.7.gate_proj.weight_scale".
// This name consists of `layers`, the layer number, the experts module, the
// expert number, a part and a kind.
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/TensorNames.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <vector>

using namespace moec;
using namespace moec::weights;

namespace {

using Words = std::span<const std::string_view>;

struct PartWord {
  std::string_view word;
  Part part;
  /// True for Aria's modules, which contain all experts and whose weights store
  /// columns before rows.
  bool columnsFirst = false;
};

constexpr PartWord kParts[] = {
    {"gate_proj", Part::Gate},
    {"w1", Part::Gate},
    {"up_proj", Part::Up},
    {"w3", Part::Up},
    {"v1", Part::Up},
    {"gate_up_proj", Part::GateUp},
    {"input_linear", Part::GateUp},
    {"w13", Part::GateUpPairs},
    {"down_proj", Part::Down},
    {"w2", Part::Down},
    {"output_linear", Part::Down},
    {"fc1", Part::GateUp, true},
    {"fc2", Part::Down, true},
};

struct KindWord {
  std::string_view word;
  Kind kind;
};

constexpr KindWord kKinds[] = {
    {"weight", Kind::Weight},
    {"weight_packed", Kind::Packed},
    {"blocks", Kind::Packed},
    {"qweight", Kind::ColumnsPacked},
    {"weight_scale", Kind::Scale},
    {"weight_scale_inv", Kind::Scale},
    {"scale_inv", Kind::Scale},
    {"scale", Kind::Scale},
    {"scales", Kind::Scale},
    {"weight_scale_2", Kind::SecondScale},
    {"weight_global_scale", Kind::SecondDivisor},
    {"weight_zero_point", Kind::ZeroPoint},
    {"qzeros", Kind::ZeroPoint},
    {"g_idx", Kind::GroupIndex},
    {"weight_g_idx", Kind::GroupIndex},
    {"input_scale", Kind::InputScale},
    {"activation_scale", Kind::InputScale},
    {"input_global_scale", Kind::InputDivisor},
    {"bias", Kind::Bias},
};

/// Names of tensors that belong to the layer itself. If `before` is not empty,
/// the two preceding words must be `block` and `before`.
struct LayerWord {
  std::string_view word, before;
  Kind kind;
  std::string_view block = {};
  /// The router's linear layer may have a bias of the same name.
  bool mayBeOfRouter = false;
  bool oneOfAll = false;
};

constexpr LayerWord kLayerWords[] = {
    {"e_score_correction_bias", "", Kind::RoutingBias},
    {"expert_bias", "", Kind::RoutingBias},
    {"router_bias", "", Kind::RoutingBias},
    {"bias", "gate", Kind::RoutingBias, "ffn"},
    {"bias", "gate", Kind::RoutingBias, "mlp", true},
    {"per_expert_scale", "", Kind::ExpertScale},
    {"weight", "post_expert_norm", Kind::PostExpertNorm, "experts"},
    {"global_scale", "gate", Kind::ExpertScale, "mlp", false, true},
    {"tid2eid", "", Kind::HashTable},
};

/// The tensors of the router's linear layer. They are irrelevant, because the
/// caller computes the logits and passes them as an input.
constexpr std::string_view kOfRouter[] = {"weight",
                                          "bias",
                                          "weight_scale",
                                          "weight_scale_inv",
                                          "weight_packed",
                                          "weight_scale_2",
                                          "weight_global_scale",
                                          "weight_zero_point",
                                          "weight_shape",
                                          "input_scale",
                                          "input_global_scale",
                                          "qweight",
                                          "qzeros",
                                          "scales",
                                          "g_idx",
                                          "weight_g_idx",
                                          "scale"};
/// An expert's tensor that only repeats what the layer's description already
/// specifies.
struct IrrelevantWord {
  std::string_view word, reason;
};
constexpr IrrelevantWord kOfExperts[] = {
    // stored by compressed-tensors next to weight_packed
    {"weight_shape", "extents are those of the layer"},
};
/// Modules that contain an MoE block. A module `gate` in one of them is the
/// router.
constexpr std::string_view kBlocks[] = {"mlp",   "ffn", "feed_forward",
                                        "mixer", "moe", "block_sparse_moe"};
constexpr std::string_view kSharedGates[] = {"shared_expert_gate",
                                             "shared_experts_gate"};

/// Words before a layer number. If several layers share one bank of experts,
/// the bank's name contains the number of the first such layer.
constexpr std::string_view kLayers[] = {"layers", "blocks", "h", "meta_mlp"};
constexpr std::string_view kExperts[] = {"experts", "local_experts"};
constexpr std::string_view kShared[] = {"shared_expert", "shared_experts",
                                        "share_expert", "shared_mlp"};
/// The prefix of shared-expert part names in Inkling checkpoints.
constexpr std::string_view kOfShared = "shared_";
/// Modules that directly contain the parts, without an experts module. Each
/// part holds all experts.
constexpr std::string_view kModules[] = {"moe", "block_sparse_moe"};
/// Substrings of names that do not belong to the language model but also have
/// layer numbers.
constexpr std::string_view kOthers[] = {"vision", "visual", "audio", "mtp",
                                        "draft"};

/// The word before `layers` in checkpoints whose gate and up rows alternate.
constexpr std::string_view kPairs = "llm";

constexpr KindText kTexts[] = {
    {Kind::Weight, "weight", "weights"},
    {Kind::Packed, "weight_packed or blocks", "weights"},
    {Kind::ColumnsPacked, "qweight", "weights"},
    {Kind::Scale, "weight_scale, weight_scale_inv or scales", "scales"},
    {Kind::SecondScale, "weight_scale_2", "scales of scales"},
    {Kind::SecondDivisor, "weight_global_scale", "scales of scales"},
    {Kind::ZeroPoint, "weight_zero_point or qzeros", "zero points"},
    {Kind::GroupIndex, "g_idx", "the groups of columns"},
    {Kind::InputScale, "input_scale", "scales of activations"},
    {Kind::InputDivisor, "input_global_scale", "scales of activations"},
    {Kind::Bias, "bias", "biases"},
    {Kind::RoutingBias, "e_score_correction_bias, expert_bias or router_bias",
     "the bias that chooses experts"},
    {Kind::ExpertScale, "per_expert_scale", "factors of experts"},
    {Kind::PostExpertNorm, "post_expert_norm.weight",
     "factors of the norm after each expert"},
    {Kind::ExpertScale, "per_expert_scale or mlp.gate.global_scale",
     "factors of experts"},
    {Kind::HashTable, "tid2eid", "a table of experts by token"},
};

template <size_t N>
bool isOne(std::string_view word, const std::string_view (&words)[N]) {
  return std::ranges::find(words, word) != std::end(words);
}

std::vector<std::string_view> split(std::string_view name) {
  std::vector<std::string_view> words;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    words.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::optional<int64_t> number(std::string_view word) {
  constexpr int64_t kMost = 1 << 20;
  int64_t value = -1;
  const auto [end, error] =
      std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < 0 ||
      value > kMost)
    return std::nullopt;
  return value;
}

std::optional<Kind> kindOf(std::string_view word) {
  for (const KindWord &row : kKinds)
    if (row.word == word)
      return row.kind;
  return std::nullopt;
}

/// Parses a part and its kind, such as "w2.weight", "down_proj" or
/// "down_proj_bias".
bool readPart(Words words, TensorName &made) {
  if (words.empty() || words.size() > 2)
    return false;
  std::string_view first = words.front();
  if (made.role.shared && first.starts_with(kOfShared))
    first.remove_prefix(kOfShared.size());
  for (const PartWord &row : kParts) {
    if (!first.starts_with(row.word) ||
        (row.columnsFirst && (words.size() != 2 || made.role.shared ||
                              made.stacked || made.role.expert != kAllExperts)))
      continue;
    std::string_view rest = first.substr(row.word.size());
    if (words.size() == 2) {
      if (!rest.empty())
        continue;
      rest = words.back();
    } else if (rest.starts_with('_')) {
      rest.remove_prefix(1);
      made.bare = true;
    } else if (rest.empty()) {
      rest = "weight";
      made.bare = true;
    }
    if (const std::optional<Kind> kind = kindOf(rest)) {
      made.role.part = row.part;
      made.role.kind = *kind;
      made.blocks = rest == "blocks";
      made.transposed = made.transposed || row.columnsFirst;
      return true;
    }
  }
  return false;
}

bool readRouting(Words words, TensorName &made) {
  for (const LayerWord &row : kLayerWords) {
    if (words.back() != row.word ||
        (!row.before.empty() &&
         (words.size() < 3 || words[words.size() - 2] != row.before ||
          words[words.size() - 3] != row.block)))
      continue;
    made.role.part = Part::Routing;
    made.role.kind = row.kind;
    made.mayBeOfRouter = row.mayBeOfRouter;
    made.oneOfAll = row.oneOfAll;
    return true;
  }
  return false;
}

/// Parses the words that follow the layer number.
bool readInLayer(Words words, TensorName &made) {
  if (words.empty())
    return false;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    Words rest = words.subspan(i + 1);
    const bool shared = isOne(words[i], kShared);
    if (shared || isOne(words[i], kExperts)) {
      made.role.shared = shared;
      if (const auto expert = number(rest.front())) {
        made.role.expert = *expert;
        rest = rest.subspan(1);
      } else if (!shared && rest.front() == "mlp") {
        // DBRX concatenates the rows of all experts. Its w2 stores columns
        // before rows.
        rest = rest.subspan(1);
        made.stacked = true;
        made.transposed = !rest.empty() && rest.front() == "w2";
        return readPart(rest, made) && (made.bare = false, true);
      }
      return readPart(rest, made) || readRouting(words, made);
    }
    if (isOne(words[i], kModules) && rest.size() == 2 && readPart(rest, made))
      return !made.transposed;
  }
  return readRouting(words, made);
}

/// The words of a name. The layer number is the word after word `at`.
struct LayerWords {
  std::vector<std::string_view> words;
  size_t at = 0;
  int64_t layer = 0;

  Words inLayer() const { return Words(words).subspan(at + 2); }
  bool hasBefore(std::string_view word) const {
    const Words before = Words(words).first(at);
    return std::ranges::find(before, word) != before.end();
  }
};

/// Finds the layer number in a name. Returns nullopt if the name does not
/// contain a layer of the language model.
std::optional<LayerWords> readLayer(std::string_view name) {
  LayerWords made;
  made.words = split(name);
  for (size_t i = 0; i + 1 < made.words.size(); ++i) {
    for (std::string_view other : kOthers)
      if (made.words[i].find(other) != std::string_view::npos)
        return std::nullopt;
    if (!isOne(made.words[i], kLayers))
      continue;
    const std::optional<int64_t> layer = number(made.words[i + 1]);
    if (!layer)
      continue;
    made.at = i;
    made.layer = *layer;
    return made;
  }
  return std::nullopt;
}

/// Returns the place in the layer that the words after the layer number
/// specify.
std::optional<Place> placeOf(Words words) {
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (isOne(words[i], kShared))
      return Place::SharedExperts;
    if (isOne(words[i], kExperts))
      return Place::Experts;
    if (isOne(words[i], kSharedGates))
      return Place::SharedGate;
    const bool isInBlock = i > 0 && isOne(words[i - 1], kBlocks);
    if (words[i] == "router" || words[i] == "moe_statics" ||
        (words[i] == "gate" && isInBlock))
      return Place::Router;
    // A module that contains a part for all experts.
    if (isOne(words[i], kModules))
      for (const PartWord &row : kParts)
        if (words[i + 1].starts_with(row.word))
          return Place::Experts;
  }
  return std::nullopt;
}

} // namespace

std::optional<TensorName> weights::readTensorName(std::string_view name) {
  const std::optional<LayerWords> read = readLayer(name);
  if (!read)
    return std::nullopt;
  TensorName made;
  made.layer = read->layer;
  if (!readInLayer(read->inLayer(), made))
    return std::nullopt;
  // Inference engines call their own fused weights w13, too, with all gate rows
  // before the up rows. The rows alternate only in Inkling checkpoints.
  if (made.role.part == Part::GateUpPairs && !read->hasBefore(kPairs))
    return std::nullopt;
  made.prefix = size_t(read->words[read->at].data() - name.data());
  return made;
}

std::vector<std::string> weights::namesOf(const TensorRole &role) {
  std::vector<std::string> names;
  if (role.part == Part::Routing) {
    for (const LayerWord &row : kLayerWords)
      if (row.kind == role.kind)
        names.push_back(row.before.empty() ? std::string(row.word)
                                           : fmt::format("{}.{}.{}", row.block,
                                                         row.before, row.word));
    return names;
  }
  // In Inkling checkpoints, these tensors have only one name each.
  const bool isPairs = role.part == Part::GateUpPairs;
  if (role.expert == kAllExperts &&
      (isPairs || (role.shared && role.part == Part::Down)))
    for (const KindWord &kind : kKinds)
      if (kind.kind == role.kind)
        names.push_back(fmt::format(
            "{}{}_{}", role.shared ? "shared_experts.shared_" : "experts.",
            isPairs ? "w13" : "w2", kind.word));
  if (isPairs)
    return names;
  const bool isOne = role.expert != kAllExperts;
  std::vector<std::string> owners;
  for (std::string_view word : role.shared ? Words(kShared) : Words(kExperts))
    owners.push_back(fmt::format("{}.{}", word, isOne ? "{expert}." : ""));
  const size_t modules = owners.size();
  if (!isOne && !role.shared) {
    owners.emplace_back("experts.mlp.");
    for (std::string_view word : kModules)
      owners.push_back(fmt::format("{}.", word));
  }
  for (size_t i = 0; i < owners.size(); ++i)
    for (const PartWord &part : kParts) {
      if (part.part != role.part ||
          (part.columnsFirst && (isOne || role.shared || i >= modules)))
        continue;
      const std::string begin = owners[i] + std::string(part.word);
      // In a module that contains all experts, the parts are modules and not
      // parameters.
      const bool mayBeBare = i <= modules && !part.columnsFirst;
      if (mayBeBare && role.kind == Kind::Weight)
        names.push_back(begin);
      for (const KindWord &kind : kKinds)
        if (kind.kind == role.kind)
          for (const char joint : {'.', '_'})
            if (mayBeBare || joint == '.')
              names.push_back(fmt::format("{}{}{}", begin, joint, kind.word));
    }
  return names;
}

std::optional<TensorPlace> weights::readTensorPlace(std::string_view name) {
  const std::optional<LayerWords> read = readLayer(name);
  if (!read || readTensorName(name))
    return std::nullopt;
  const std::optional<Place> place = placeOf(read->inLayer());
  if (!place)
    return std::nullopt;
  TensorPlace made{read->layer, *place, {}};
  const std::string_view last = read->words.back();
  if (*place == Place::Router && isOne(last, kOfRouter))
    made.irrelevant = "logits are an input";
  for (const IrrelevantWord &row : kOfExperts)
    if (last == row.word && *place != Place::Router)
      made.irrelevant = row.reason;
  return made;
}

bool weights::hasWord(std::string_view name, std::string_view word) {
  const std::vector<std::string_view> words = split(name);
  const std::string_view last = words.back();
  return std::ranges::find(words, word) != words.end() ||
         (last.size() > word.size() && last.ends_with(word) &&
          last[last.size() - word.size() - 1] == '_');
}

std::string_view weights::partName(Part part) {
  constexpr std::pair<Part, std::string_view> kNames[] = {
      {Part::Gate, "gate_proj (or w1)"},
      {Part::Up, "up_proj (or w3, v1)"},
      {Part::GateUp, "gate_up_proj (or input_linear)"},
      {Part::GateUpPairs, "w13"},
      {Part::Down, "down_proj (or w2, output_linear)"},
      {Part::Routing, "router"},
  };
  return std::ranges::find(kNames, part, [](auto row) { return row.first; })
      ->second;
}

std::span<const KindText> weights::allKinds() { return kTexts; }

const KindText &weights::textOf(Kind kind) {
  return *std::ranges::find(kTexts, kind, &KindText::kind);
}
