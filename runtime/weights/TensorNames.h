//===- TensorNames.h - names of checkpoint tensors --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parses the tensor names of Hugging Face checkpoints word by word: the layer,
// the expert, the part (gate, up or down) and the kind of tensor. One table of
// words covers all model families; docs/reference/checkpoints.md lists the
// words.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_WEIGHTS_TENSORNAMES_H
#define MOEC_RUNTIME_WEIGHTS_TENSORNAMES_H

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moec::weights {

/// A part of an expert's weights, or the layer's routing. A GateUp tensor holds
/// gate and up rows in the layer's order. In a GateUpPairs tensor, gate and up
/// rows always alternate.
enum class Part { Gate, Up, GateUp, GateUpPairs, Down, Routing };

/// Returns true if a tensor of this part holds both gate and up rows.
constexpr bool isFused(Part part) {
  return part == Part::GateUp || part == Part::GateUpPairs;
}

/// The kind of a part's tensor. Codes are quantized values.
enum class Kind {
  Weight,
  Packed,        ///< several codes per element, along K
  ColumnsPacked, ///< several rows of K per element, K before columns (GPTQ,
                 ///< AWQ)
  Scale,
  SecondScale,
  SecondDivisor, ///< reciprocal of the second scale
  ZeroPoint,
  GroupIndex, ///< the group of each row of K (GPTQ g_idx)
  InputScale,
  InputDivisor, ///< reciprocal of the activation scale
  Bias,
  RoutingBias,
  ExpertScale,
  PostExpertNorm,
  HashTable,
};

/// The value of TensorRole::expert for a tensor that holds all experts.
inline constexpr int64_t kAllExperts = -1;

/// The role of a tensor in its layer. If two names have the same role, they
/// refer to the same weight.
struct TensorRole {
  bool shared = false;          ///< a tensor of a shared expert
  int64_t expert = kAllExperts; ///< expert index; kAllExperts if one tensor
                                ///< holds all experts
  Part part = Part::Routing;
  Kind kind = Kind::Weight;
  auto operator<=>(const TensorRole &) const = default;
};

/// A parsed tensor name: the role, and properties that the name implies.
struct TensorName {
  int64_t layer = 0;
  size_t prefix = 0; ///< length of the prefix that precedes the word before the
                     ///< layer number, in characters
  TensorRole role;
  /// The tensor is a parameter that holds all experts, not the weight of a
  /// module. Its rows may be in either of its last two dimensions.
  bool bare = false;
  /// Columns are stored before rows (w2 in DBRX, weights in Aria).
  bool transposed = false;
  /// The rows of all experts are concatenated in one dimension (DBRX).
  bool stacked = false;
  /// The innermost dimension holds the bytes of one group of 32 codes
  /// (gpt-oss).
  bool blocks = false;
  /// One value applies to all experts (the expert scale in Inkling).
  bool oneOfAll = false;
  /// The name may refer to the bias that the router adds before it selects
  /// experts, or to the bias of the router's linear layer (mlp.gate.bias). It
  /// is the selection bias only if the layer has one and the checkpoint has no
  /// other tensor for it.
  bool mayBeOfRouter = false;
};

/// Returns the parsed name, or nullopt if the name is not a weight of an MoE
/// layer.
std::optional<TensorName> readTensorName(std::string_view name);

/// Returns all name suffixes after the layer number that readTensorName()
/// parses as `role`, such as "experts.{expert}.gate_proj.weight". "{expert}" is
/// a placeholder for an expert number; it occurs unless role.expert is
/// kAllExperts.
std::vector<std::string> namesOf(const TensorRole &role);

/// Places in an MoE layer.
enum class Place {
  Experts,
  SharedExperts,
  SharedGate, ///< the gate that computes the weight of the shared experts
  Router,
};

/// The place of a tensor that has no TensorRole.
struct TensorPlace {
  int64_t layer = 0;
  Place place = Place::Experts;
  /// The reason why the tensor may be left out; "" if it must not be left out.
  std::string_view irrelevant;
};

/// Returns the place of a tensor that readTensorName() does not parse. Returns
/// nullopt if readTensorName() parses the name, or if the tensor does not
/// belong to experts, shared experts or a router.
std::optional<TensorPlace> readTensorPlace(std::string_view name);

/// Returns true if `word` occurs in the name between dots, or at the end of the
/// name after an underscore. Examples: "input_scale", "bias", "shared_expert".
bool hasWord(std::string_view name, std::string_view word);

/// Returns the possible names of a part for messages, such as "up_proj (or w3,
/// v1)".
std::string_view partName(Part part);
/// The text of a kind for messages: the tensor names ("weight_scale") and the
/// content ("scales").
struct KindText {
  Kind kind;
  std::string_view name, noun;
};
const KindText &textOf(Kind kind);
std::span<const KindText> allKinds();

} // namespace moec::weights

#endif // MOEC_RUNTIME_WEIGHTS_TENSORNAMES_H
