//===- TensorNames.h - what checkpoints call their tensors ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The names of Hugging Face checkpoints, read by their words: which layer,
// which expert, which of gate, up and down, and what of it. One table of words
// serves all families; docs/reference/checkpoints.md lists them.
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

/// Which weight of an expert, or the layer's routing. The rows of gate and up
/// alternate in GateUpPairs.
enum class Part { Gate, Up, GateUp, GateUpPairs, Down, Routing };

/// Returns true if the part holds gates and ups.
constexpr bool isFused(Part part) {
  return part == Part::GateUp || part == Part::GateUpPairs;
}

enum class Kind {
  Weight,
  Packed,        ///< several codes in one element, along k
  ColumnsPacked, ///< rows of k before columns (GPTQ, AWQ)
  Scale,
  SecondScale,
  SecondDivisor, ///< one over the scale of scales
  ZeroPoint,
  GroupIndex, ///< of GPTQ: which group a row of k belongs to
  InputScale,
  InputDivisor, ///< one over it
  Bias,
  RoutingBias,
  ExpertScale,
  PostExpertNorm,
  HashTable,
};

inline constexpr int64_t kAllExperts = -1;

/// The role of a tensor; tensors of one name's words are one role.
struct TensorRole {
  bool shared = false;          ///< of a shared expert
  int64_t expert = kAllExperts; ///< or all in one tensor
  Part part = Part::Routing;
  Kind kind = Kind::Weight;
  auto operator<=>(const TensorRole &) const = default;
};

/// A role, and what the spelling says besides.
struct TensorName {
  int64_t layer = 0;
  size_t prefix = 0; ///< characters before the word that says the layer
  TensorRole role;
  /// A parameter of all experts, not the weight of a module of its own: either
  /// of its last two dimensions may be rows.
  bool bare = false;
  /// Columns are before rows (DBRX's second weight, Aria's).
  bool transposed = false;
  /// Rows of all experts are one dimension (DBRX).
  bool stacked = false;
  /// The bytes of each group of 32 codes are a dimension (gpt-oss).
  bool blocks = false;
  /// One number serves all experts (Inkling's factor).
  bool oneOfAll = false;
  /// It chooses experts only if the layer has such a bias and the checkpoint no
  /// other; else it is the bias of the router's linear layer (mlp.gate.bias).
  bool mayBeOfRouter = false;
};

/// Nothing where the name is no weight of an MoE layer.
std::optional<TensorName> readTensorName(std::string_view name);

/// Endings, behind the layer's number, of names that readTensorName() knows as
/// this role: "experts.{expert}.gate_proj.weight". "{expert}" stands for any
/// expert's number; role.expert tells kAllExperts from the rest.
std::vector<std::string> namesOf(const TensorRole &role);

/// The place in an MoE layer of a tensor whose role is not known.
enum class Place {
  Experts,
  SharedExperts,
  SharedGate, ///< what weighs shared experts
  Router,
};

struct TensorPlace {
  int64_t layer = 0;
  Place place = Place::Experts;
  /// Why no value has to take it; "" where it must not be left out.
  std::string_view irrelevant;
};

/// Nothing where readTensorName() knows the name, or where it belongs to no
/// experts, shared experts or router.
std::optional<TensorPlace> readTensorPlace(std::string_view name);

/// Whether the name has a word, between dots or behind an underscore at its
/// end: "input_scale", "bias", "shared_expert".
bool hasWord(std::string_view name, std::string_view word);

/// "up_proj": how a message says what was looked for.
std::string_view partName(Part part);
/// The same of a kind, "weight_scale", and what such tensors hold, "scales".
struct KindText {
  Kind kind;
  std::string_view name, noun;
};
const KindText &textOf(Kind kind);
std::span<const KindText> allKinds();

} // namespace moec::weights

#endif // MOEC_RUNTIME_WEIGHTS_TENSORNAMES_H
