//===- Families.h - how families of models write their config ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A family of models is a row: under which keys its config.json says sizes,
// routing, activation and shared experts, what holds where a key is absent
// (the default of its configuration class), and what no key says because all
// models of the family do it alike. HuggingFace.cpp reads any config by its
// row.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_FAMILIES_H
#define MOEC_COMPILER_IMPORT_FAMILIES_H

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace moec::compiler {

/// A key is one word, or several names of the same number; an empty one means
/// that the family has none. What stands beside a key holds where it is absent.
struct FamilyRouting {
  /// A row of RoutingMethods.h that flags do not tell; "" for most: the method
  /// follows from the flags below (moe-infer-routing).
  std::string_view method = {};
  /// The scoring function; of a true or false, sigmoid or softmax.
  std::string_view scoringKey = {}, scoring = "softmax";
  std::string_view renormalizeKey = {};
  bool renormalize = true;
  /// The p of the norm that divides the weights (DBRX); 1 renormalizes.
  std::string_view normKey = {};
  /// Groups of experts, of which the best are kept.
  std::string_view groupsKey = {}, topGroupsKey = {};
  int64_t groups = 0, topGroups = 0;
  /// DeepSeek's name for groups and bias together, where the key is absent;
  /// "" for families without it.
  std::string_view topkMethod = {};
  /// A correction bias of the selection.
  std::string_view biasKey = {};
  bool bias = false;
  std::string_view scaleKey = {};
  std::string_view weightOnInputKey = {};
  bool perExpertScale = false;
  /// How many layers take their ids from a table by token id.
  std::string_view hashLayersKey = {};
  /// Identity experts behind the real ones.
  std::string_view zeroExpertsKey = {};
  /// A number that must be there as the method has it (sparsemixer's 0.01).
  std::string_view jitterKey = {};
};

struct FamilyActivation {
  std::string_view key = "hidden_act", function = "silu";
  /// What the family calls so whatever the key says, which is then ignored.
  std::string_view always = {};
  bool gated = true;
  std::string_view alphaKey = {}, betaKey = {}, linearBetaKey = {},
                   limitKey = {};
  std::optional<double> alpha = {}, beta = {}, linearBeta = {}, limit = {};
  /// A limit for each layer, 0 for none, and the function of those that have
  /// one.
  std::string_view limitsKey = {}, limited = {};
};

struct FamilyShared {
  std::string_view countKey = {};
  int64_t count = 0;
  /// The intermediate of each; "" means that of the routed experts.
  std::string_view widthKey = {};
  /// A gate multiplies what they give.
  bool gate = false;
};

struct ModelFamily {
  std::string_view architectures = {}; ///< words, as "architectures" has them
  std::string_view modelTypes = {};    ///< words, as "model_type" has them
  /// The object that holds the keys, where a config has it; a key that is not
  /// there is looked for outside of it.
  std::string_view part = {};
  std::string_view layersKey = "num_hidden_layers";
  std::string_view hiddenKey = "hidden_size";
  std::string_view expertsKey = "num_experts";
  std::string_view topKKey = "num_experts_per_tok";
  std::string_view intermediateKey = "moe_intermediate_size";
  FamilyRouting routing = {};
  FamilyActivation activation = {};
  FamilyShared shared = {};
  /// Which layers have experts: words of SparseLayers.cpp.
  std::string_view sparseKeys = {};
  /// The width of the experts where it is not the model's.
  std::string_view latentKey = {};
  /// The element type of the experts' weights where it is not what
  /// quantization_config says (DeepSeek-V4).
  std::string_view expertTypeKey = {};
  bool hasBias = false;
  /// Rows of gate and up alternate.
  bool interleaved = false;
  /// Words: keys that look as if they could change the layer (kSuspicious in
  /// HuggingFace.cpp) and do not, in this family.
  std::string_view irrelevant = {};
};

/// All of them.
std::span<const ModelFamily> modelFamilies();

/// Keys that look so and never do: of attention, of training, of other parts.
bool isIrrelevantKey(std::string_view key);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_FAMILIES_H
