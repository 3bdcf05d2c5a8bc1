//===- TensorNames.h - names of checkpoint tensors --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parses the tensor names of Hugging Face checkpoints word by word: the layer,
// the expert, the part (gate, up or down) and the kind of tensor. One table of
// words serves all model families; docs/reference/checkpoints.md lists them.
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

/// A weight of an expert, or the layer's routing. GateUp holds gate and
/// up rows in the layer's order; in GateUpPairs they always alternate.
enum class Part { Gate, Up, GateUp, GateUpPairs, Down, Routing };

/// Returns true if the part holds both gate and up rows.
constexpr bool isFused(Part part) {
  return part == Part::GateUp || part == Part::GateUpPairs;
}

/// The kind of a tensor of a part. Codes are quantized values.
enum class Kind {
  Weight,
  Packed,        ///< several codes in one element, along K
  ColumnsPacked, ///< several rows of K in one element, K before columns (GPTQ,
                 ///< AWQ)
  Scale,
  SecondScale,
  SecondDivisor, ///< reciprocal of SecondScale
  ZeroPoint,
  GroupIndex, ///< the group of each row of K (GPTQ g_idx)
  InputScale,
  InputDivisor, ///< reciprocal of InputScale
  Bias,
  RoutingBias,
  ExpertScale,
  PostExpertNorm,
  HashTable,
};

/// The expert index of a tensor that holds all experts.
inline constexpr int64_t kAllExperts = -1;

/// The role of a tensor in its layer. Two names with the same role are the same
/// weight.
struct TensorRole {
  bool shared = false;          ///< a tensor of a shared expert
  int64_t expert = kAllExperts; ///< or kAllExperts: one tensor holds all
                                ///< experts
  Part part = Part::Routing;
  Kind kind = Kind::Weight;
  auto operator<=>(const TensorRole &) const = default;
};

/// A parsed tensor name: the role, and properties that follow from the
/// spelling.
struct TensorName {
  int64_t layer = 0;
  size_t prefix = 0; ///< characters before the word that precedes the layer
                     ///< number
  TensorRole role;
  /// The tensor is a parameter of all experts rather than the weight of a
  /// module. Either of its last two dimensions may be rows.
  bool bare = false;
  /// Columns come before rows (w2 of DBRX, weights of Aria).
  bool transposed = false;
  /// The rows of all experts share one dimension (DBRX).
  bool stacked = false;
  /// The bytes of each group of 32 codes have their own dimension (gpt-oss).
  bool blocks = false;
  /// One value applies to all experts (the factor of Inkling).
  bool oneOfAll = false;
  /// The name may be the bias that chooses experts or the bias of the router's
  /// linear layer (mlp.gate.bias). It is the former only if the layer has such
  /// a bias and the checkpoint has no other tensor for it.
  bool mayBeOfRouter = false;
};

/// Returns the parsed name, or nullopt if it is not a weight of an MoE layer.
std::optional<TensorName> readTensorName(std::string_view name);

/// Returns the name endings, after the layer number, that readTensorName()
/// parses as `role`, such as "experts.{expert}.gate_proj.weight". "{expert}"
/// stands for the number of any expert; it occurs unless role.expert is
/// kAllExperts.
std::vector<std::string> namesOf(const TensorRole &role);

/// The place in an MoE layer of a tensor whose role is unknown.
enum class Place {
  Experts,
  SharedExperts,
  SharedGate, ///< the gate that weighs shared experts
  Router,
};

/// The place of a tensor whose role is unknown.
struct TensorPlace {
  int64_t layer = 0;
  Place place = Place::Experts;
  /// The reason why no value needs the tensor; "" if it must not be left out.
  std::string_view irrelevant;
};

/// Returns the place of a tensor, or nullopt if readTensorName() parses the
/// name or it does not belong to experts, shared experts or a router.
std::optional<TensorPlace> readTensorPlace(std::string_view name);

/// Returns true if `word` is a word of the name: between dots, or at the end of
/// the name after an underscore. Examples: "input_scale", "bias",
/// "shared_expert".
bool hasWord(std::string_view name, std::string_view word);

/// Returns the names of a part for messages, such as "up_proj (or w3, v1)".
std::string_view partName(Part part);
/// The text of a kind for messages: the names of its tensors ("weight_scale")
/// and what they hold ("scales").
struct KindText {
  Kind kind;
  std::string_view name, noun;
};
const KindText &textOf(Kind kind);
std::span<const KindText> allKinds();

} // namespace moec::weights

#endif // MOEC_RUNTIME_WEIGHTS_TENSORNAMES_H
