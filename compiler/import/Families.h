//===- Families.h - how families of models write their config ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A family of models is a row: under which keys its config.json says sizes,
// routing, activation and shared experts, what holds where a key is absent,
// and what no key says because all models of the family do it alike.
// HuggingFace.cpp reads any config by its row.
//
// Defaults are those of the configuration classes that a row names as its
// source, as of Transformers 5.24; test/import/DefaultsTest.cpp compares each.
// Classes that differ in one stand in rows of their own. What a row says
// without a key is what the modeling code does. Of models without such a class
// every key that could change the layer is required.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_FAMILIES_H
#define MOEC_COMPILER_IMPORT_FAMILIES_H

#include "runtime/support/WordList.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace moec::compiler {

/// A number that may be none; none is not 0.
using Number = std::optional<double>;

/// A key of a config, and the value that holds if the config lacks the key.
/// There is no constructor that leaves the latter out.
template <typename T> struct Key {
  /// All of them names of this one thing; none: no config says it.
  WordList names;
  /// The value if no name is there; none: a name must be there.
  std::optional<T> absent;
  /// The value in place of null; none: null is refused.
  std::optional<T> null;
  /// The model does as `absent` says whatever the config says, so that another
  /// value is refused.
  bool isFixed = false;
};

/// The results of required(), orElse() and orNone(); each converts to any Key.
struct RequiredKey {
  WordList names;
  template <typename T> constexpr operator Key<T>() const {
    return {names, std::nullopt, std::nullopt};
  }
};
template <typename V> struct DefaultedKey {
  WordList names;
  V value;
  bool nullIsNone;
  template <typename T> constexpr operator Key<T>() const {
    return {names, std::optional<T>(T(value)),
            nullIsNone ? std::optional<T>(T()) : std::nullopt};
  }
};

template <typename V> struct OnlyKey {
  WordList names;
  V value;
  template <typename T> constexpr operator Key<T>() const {
    return {names, std::optional<T>(T(value)), std::optional<T>(T(value)),
            true};
  }
};

/// A key that must be there.
constexpr RequiredKey required(WordList names) { return {names}; }

/// A key with the default of the configuration class; null is refused.
template <typename V>
constexpr DefaultedKey<V> orElse(WordList names, V value) {
  return {names, value, false};
}

/// The same where the class takes null for 0, false or none.
template <typename V>
constexpr DefaultedKey<V> orNone(WordList names, V value) {
  return {names, value, true};
}

/// A key that the configuration class does not have, or that the model does not
/// read: the model does so.
template <typename V> constexpr OnlyKey<V> only(WordList names, V value) {
  return {names, value};
}

/// No key says it, since it holds for all models of the family.
template <typename T> constexpr Key<T> always(T value) {
  return {{}, value, value};
}

struct FamilyRouting {
  /// A row of RoutingMethods.h that flags do not tell; "" for most: the method
  /// follows from the flags below (moe-infer-routing).
  std::string_view method = {};
  /// The scoring function; of a true or false, sigmoid or softmax.
  Key<std::string_view> scoring = always<std::string_view>("softmax");
  Key<bool> renormalize = always(true);
  /// The p of the norm that divides the weights (DBRX); 1 renormalizes.
  Key<Number> norm = always(Number());
  /// Groups of experts, of which the best are kept.
  Key<int64_t> groups = always<int64_t>(0), topGroups = always<int64_t>(0);
  /// DeepSeek's name for groups and bias together; "" for families without it.
  Key<std::string_view> topkMethod = always<std::string_view>("");
  /// A correction bias of the selection.
  Key<bool> bias = always(false);
  Key<Number> scale = always(Number());
  bool scaleOnOutput = false; ///< it multiplies the sum, not the weights
  Key<bool> weightOnInput = always(false);
  /// Each expert's weight has a factor, or all have one.
  Key<bool> perExpertScale = always(false);
  /// The cap of the logits. A number that is not above 0 means no cap.
  Key<Number> softcap = always(Number());
  /// A factor of the logits, and what the sum that divides the weights gets.
  Key<Number> logitScale = always(Number()), epsilon = always(Number());
  /// How many layers take their ids from a table by token id, where no list of
  /// layer types says it.
  Key<int64_t> hashLayers = always<int64_t>(0);
  /// Identity experts behind the real ones.
  Key<int64_t> zeroExperts = always<int64_t>(0);
  /// Shared experts whose scores are in the sum that divides weights: the last
  /// experts of the layer, which every token takes.
  Key<int64_t> sinks = always<int64_t>(0);
  /// The model computes the router's logits in f32, whatever type it has.
  Key<bool> f32Logits = always(false);
};

struct FamilyActivation {
  Key<std::string_view> function = orElse("hidden_act", "silu");
  /// The family's value, whatever the key says; the key is then ignored.
  std::string_view whatever = {};
  bool gated = true;
  Key<Number> alpha = always(Number()), beta = always(Number());
  Key<Number> linearBeta = always(Number()), limit = always(Number());
  /// A limit for each layer, 0 for none, the function of those that have one,
  /// and the limits of the shared experts, which must be the same.
  std::string_view limitsKey = {}, limited = {}, sharedLimitsKey = {};
  /// The function of shared experts with a limit, if it is not `limited`.
  std::string_view sharedLimited = {};
};

/// The width of shared experts that are as wide as the routed ones.
inline constexpr int64_t kAsRouted = -1;

struct FamilyShared {
  Key<int64_t> count = always<int64_t>(0);
  /// The intermediate of each, or of all together.
  Key<int64_t> width = always(kAsRouted);
  bool widthOfAll = false;
  /// A gate multiplies what they give.
  bool gate = false;
  /// The routed experts' limit is not theirs.
  bool unlimited = false;
  /// True would give them biases, which moec does not have.
  std::string_view biasKey = "mlp_bias";
};

/// A key that says which layers have experts; the table of what each means is
/// in SparseLayers.cpp.
struct SparseKey {
  std::string_view key = {};
  /// The value where the key is absent and no list says the type of each layer.
  /// None: an absent key says nothing, or is an error where it is `needed`.
  std::optional<int64_t> absent = {};
  bool needed = false;
};

/// A key whose other values would make a layer that moec does not know.
struct FixedKey {
  std::string_view key = {};
  /// The class's value where the key is absent, as JSON text; it is accepted.
  std::string_view absent = {};
  std::string_view accepted = {};  ///< as messages say it
  std::string_view otherwise = {}; ///< what another value would mean
  std::optional<bool> flag = {};
  Number least = {}, most = {}; ///< of a number
  std::string_view word = {};
};

struct ModelFamily {
  WordList architectures = {}; ///< as "architectures" has them
  WordList modelTypes = {};    ///< as "model_type" has them
  /// Whose defaults these are: configuration classes of Transformers, or where
  /// it has none the code that reads the config.
  std::string_view source = {};
  /// The object that holds the keys, where a config has it; a key that is not
  /// there is looked for outside of it. Of an object in another "outer.inner".
  std::string_view part = {};
  /// Model types that the part may have in addition to `modelTypes`.
  WordList partTypes = {};
  /// Other families' model types that a config with these architectures may
  /// have.
  WordList otherTypes = {};
  /// Sizes that a config lacks are those of ClassSizes, where it has the class.
  Key<int64_t> layers = required("num_hidden_layers");
  Key<int64_t> hidden = required("hidden_size");
  Key<int64_t> experts = required("num_experts");
  Key<int64_t> topK = required("num_experts_per_tok");
  Key<int64_t> intermediate = required("moe_intermediate_size");
  /// If the config has this key, intermediate_size is the experts' width.
  std::string_view denseIntermediateKey = {};
  FamilyRouting routing = {};
  FamilyActivation activation = {};
  FamilyShared shared = {};
  SparseKey sparse[4] = {};
  /// The width of the experts where it is not the model's; 0: the model's.
  Key<int64_t> latent = always<int64_t>(0);
  /// The epsilon of the norm of each expert's output, if it has a norm.
  Key<Number> postExpertNorm = always(Number());
  /// The element type of the experts' weights where it is not what
  /// quantization_config says (DeepSeek-V4).
  std::string_view expertTypeKey = {};
  bool hasBias = false;
  /// Rows of gate and up alternate.
  bool interleaved = false;
  FixedKey fixed[5] = {};
  /// Keys that look as if they could change the layer (kSuspicious in
  /// HuggingFace.cpp) and do not, in this family.
  WordList irrelevant = {};
};

//===----------------------------------------------------------------------===//
// What rows of several families share
//===----------------------------------------------------------------------===//

/// DeepSeek-V3's routing under its keys, of which a class has other defaults.
constexpr FamilyRouting noaux(double scale, int64_t groups, int64_t topGroups,
                              bool renormalize = true) {
  return {.scoring = only("scoring_func", "sigmoid"),
          .renormalize = orElse("norm_topk_prob", renormalize),
          .groups = orElse("n_group", groups),
          .topGroups = orElse("topk_group", topGroups),
          .topkMethod = only("topk_method", "noaux_tc"),
          .scale = orElse("routed_scaling_factor", scale),
          .f32Logits = always(true)};
}

constexpr FixedKey mustBeFalse(std::string_view key,
                               std::string_view otherwise) {
  return {.key = key,
          .absent = "false",
          .accepted = "false",
          .otherwise = otherwise,
          .flag = false};
}

constexpr FixedKey mustBeTrue(std::string_view key,
                              std::string_view otherwise) {
  return {.key = key,
          .absent = "true",
          .accepted = "true",
          .otherwise = otherwise,
          .flag = true};
}

constexpr FixedKey mustBe(std::string_view key, double number,
                          std::string_view accepted,
                          std::string_view otherwise) {
  return {.key = key,
          .absent = accepted,
          .accepted = accepted,
          .otherwise = otherwise,
          .least = number,
          .most = number};
}

inline constexpr FixedKey kNoWeightedSharedExpert =
    mustBe("shared_intermediate_size", 0, "0",
           "the shared expert of these models has a weight of its own");

//===----------------------------------------------------------------------===//
// The tables
//===----------------------------------------------------------------------===//

/// The sizes that configuration classes of Transformers have by default; 0: the
/// class has none.
struct ClassSizes {
  WordList modelTypes = {};
  int64_t layers = 0, hidden = 0, experts = 0, topK = 0, intermediate = 0;
};

/// Null where no class with experts has the model type.
const ClassSizes *findClassSizes(std::string_view modelType);

/// Families whose router is DeepSeek's (DeepseekFamilies.cpp).
std::span<const ModelFamily> deepseekFamilies();

/// Families that Transformers has no class for (EngineFamilies.cpp).
std::span<const ModelFamily> engineFamilies();

/// All families.
std::span<const ModelFamily> modelFamilies();

/// Keys that look so and never do: of attention, of training, of other parts.
bool isIrrelevantKey(std::string_view key);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_FAMILIES_H
