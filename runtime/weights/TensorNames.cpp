//===- TensorNames.cpp - what checkpoints call their tensors --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// "model.layers.3.mlp.experts.7.gate_proj.weight_scale" is layers, its number,
// where experts stand, the expert, a part and a kind.
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/TensorNames.h"

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
};

constexpr PartWord kParts[] = {
    {"gate_proj", Part::Gate},
    {"w1", Part::Gate},
    {"up_proj", Part::Up},
    {"w3", Part::Up},
    {"v1", Part::Up},
    {"gate_up_proj", Part::GateUp},
    {"input_linear", Part::GateUp},
    {"down_proj", Part::Down},
    {"w2", Part::Down},
    {"output_linear", Part::Down},
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
    {"scale", Kind::Scale},
    {"scales", Kind::Scale},
    {"weight_scale_2", Kind::SecondScale},
    {"weight_global_scale", Kind::SecondDivisor},
    {"weight_zero_point", Kind::ZeroPoint},
    {"qzeros", Kind::ZeroPoint},
    {"g_idx", Kind::GroupIndex},
    {"weight_g_idx", Kind::GroupIndex},
    {"input_scale", Kind::InputScale},
    {"input_global_scale", Kind::InputDivisor},
    {"bias", Kind::Bias},
};

/// Words of the layer's own tensors; the one before must be as said.
struct LayerWord {
  std::string_view word, before;
  Kind kind;
};

constexpr LayerWord kLayerWords[] = {
    {"e_score_correction_bias", "", Kind::RoutingBias},
    {"expert_bias", "", Kind::RoutingBias},
    {"router_bias", "", Kind::RoutingBias},
    {"bias", "gate", Kind::RoutingBias},
    {"per_expert_scale", "", Kind::ExpertScale},
    {"tid2eid", "", Kind::HashTable},
};

constexpr std::string_view kLayers[] = {"layers", "blocks", "h"};
constexpr std::string_view kExperts[] = {"experts", "local_experts"};
constexpr std::string_view kShared[] = {"shared_expert", "shared_experts",
                                        "share_expert", "shared_mlp"};
/// Modules whose parts are those of all experts.
constexpr std::string_view kModules[] = {"moe", "block_sparse_moe"};
/// Parts of other models beside the language model have layers too.
constexpr std::string_view kOthers[] = {"vision", "visual", "audio", "mtp",
                                        "draft"};

template <size_t N>
bool isOne(std::string_view word, const std::string_view (&words)[N]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
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

/// "w2.weight", "down_proj", "down_proj_bias": a part, and what of it.
bool readPart(Words words, TensorName &made) {
  if (words.empty() || words.size() > 2)
    return false;
  const std::string_view first = words.front();
  for (const PartWord &row : kParts) {
    if (!first.starts_with(row.word))
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
          words[words.size() - 3] != "ffn")))
      continue;
    made.role.part = Part::Routing;
    made.role.kind = row.kind;
    return true;
  }
  return false;
}

/// The words behind the layer's number.
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
        // DBRX keeps the rows of all experts behind each other, and of w2
        // what goes in before what comes out.
        rest = rest.subspan(1);
        made.transposed = !rest.empty() && rest.front() == "w2";
        return readPart(rest, made) && (made.bare = false, true);
      }
      return readPart(rest, made) || readRouting(words, made);
    }
    if (isOne(words[i], kModules) && rest.size() == 2 && readPart(rest, made))
      return true;
  }
  return readRouting(words, made);
}

} // namespace

std::optional<TensorName> weights::readTensorName(std::string_view name) {
  const std::vector<std::string_view> words = split(name);
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    for (std::string_view other : kOthers)
      if (words[i].find(other) != std::string_view::npos)
        return std::nullopt;
    if (!isOne(words[i], kLayers))
      continue;
    const std::optional<int64_t> layer = number(words[i + 1]);
    if (!layer)
      continue;
    TensorName made;
    made.layer = *layer;
    if (readInLayer(Words(words).subspan(i + 2), made))
      return made;
    return std::nullopt;
  }
  return std::nullopt;
}

std::string_view weights::partName(Part part) {
  switch (part) {
  case Part::Gate:
    return "gate_proj (or w1)";
  case Part::Up:
    return "up_proj (or w3, v1)";
  case Part::GateUp:
    return "gate_up_proj (or input_linear)";
  case Part::Down:
    return "down_proj (or w2, output_linear)";
  case Part::Routing:
    break;
  }
  return "router";
}

std::string_view weights::kindName(Kind kind) {
  switch (kind) {
  case Kind::Weight:
    return "weight";
  case Kind::Packed:
    return "weight_packed or blocks";
  case Kind::ColumnsPacked:
    return "qweight";
  case Kind::Scale:
    return "weight_scale, weight_scale_inv or scales";
  case Kind::SecondScale:
    return "weight_scale_2";
  case Kind::SecondDivisor:
    return "weight_global_scale";
  case Kind::ZeroPoint:
    return "weight_zero_point or qzeros";
  case Kind::GroupIndex:
    return "g_idx";
  case Kind::InputScale:
    return "input_scale";
  case Kind::InputDivisor:
    return "input_global_scale";
  case Kind::Bias:
    return "bias";
  case Kind::RoutingBias:
    return "e_score_correction_bias, expert_bias or router_bias";
  case Kind::ExpertScale:
    return "per_expert_scale";
  case Kind::HashTable:
    break;
  }
  return "tid2eid";
}
