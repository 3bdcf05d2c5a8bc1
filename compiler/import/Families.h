//===- Families.h - config keys of model families ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A family of models is a row of a table. The row has the config.json keys for
// sizes, routing, activation and shared experts, and the value of each absent
// key. It also has the properties that no key specifies, because all models of
// the family share them. HuggingFace.cpp reads a config according to the row of
// the config's family.
//
// Defaults are taken from the configuration classes that a row names as its
// source, as of Transformers 5.24; test/import/DefaultsTest.cpp compares them.
// Classes whose defaults differ have separate rows. Values without a key follow
// the modeling code. For models without such a class, every key that could
// change the layer is required.
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

/// An optional number; nullopt is not 0.
using Number = std::optional<double>;

/// A key of a config and the value that applies if the config lacks the key.
/// Every constructor requires that value.
template <typename T> struct Key {
  /// Alternative names of the key; empty: no config has such a key.
  WordList names;
  /// The value if no name is present; nullopt: the key is required.
  std::optional<T> absent;
  /// The value for a JSON null; nullopt: null is an error.
  std::optional<T> null;
  /// The model always behaves as `absent` specifies, so any other value is an
  /// error.
  bool isFixed = false;
};

/// The results of required(), orElse(), orNone() and only(). Each converts to
/// any Key.
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

/// Returns a key that must be present.
constexpr RequiredKey required(WordList names) { return {names}; }

/// Returns a key with the default of the configuration class; null is an error.
template <typename V>
constexpr DefaultedKey<V> orElse(WordList names, V value) {
  return {names, value, false};
}

/// Like orElse(), if the class interprets null as 0, false or none.
template <typename V>
constexpr DefaultedKey<V> orNone(WordList names, V value) {
  return {names, value, true};
}

/// Returns a key that the configuration class does not have, or that the model
/// does not read. The model always uses `value`, so any other value is an
/// error.
template <typename V> constexpr OnlyKey<V> only(WordList names, V value) {
  return {names, value};
}

/// Returns a value without a key, because it holds for all models of the
/// family.
template <typename T> constexpr Key<T> always(T value) {
  return {{}, value, value};
}

struct FamilyRouting {
  /// The name of a routing method in RoutingMethods.h that the members below
  /// cannot express. It is usually "": moe-infer-routing then infers the method
  /// from these members.
  std::string_view method = {};
  /// The scoring function. A Boolean value means sigmoid (true) or softmax
  /// (false).
  Key<std::string_view> scoring = always<std::string_view>("softmax");
  Key<bool> renormalize = always(true);
  /// The p of the p-norm that divides the weights (DBRX); 1 renormalizes.
  Key<Number> norm = always(Number());
  /// Number of expert groups, and number of best groups, from which experts are
  /// selected.
  Key<int64_t> groups = always<int64_t>(0), topGroups = always<int64_t>(0);
  /// DeepSeek's name for group selection and bias; "" for families without it.
  Key<std::string_view> topkMethod = always<std::string_view>("");
  /// The model adds a correction bias to the scores when it selects experts.
  Key<bool> bias = always(false);
  Key<Number> scale = always(Number());
  bool scaleOnOutput = false; ///< the scale multiplies the sum, not the weights
  Key<bool> weightOnInput = always(false);
  /// One factor for each expert's weight, or one for all experts.
  Key<bool> perExpertScale = always(false);
  /// The softcap of the logits; values that are not positive mean no softcap.
  Key<Number> softcap = always(Number());
  /// logitScale: the factor of the logits. epsilon: the value added to the sum
  /// that divides the weights.
  Key<Number> logitScale = always(Number()), epsilon = always(Number());
  /// The number of layers that read their expert ids from a table by token id,
  /// if no list of layer types specifies them.
  Key<int64_t> hashLayers = always<int64_t>(0);
  /// The number of identity experts, whose ids follow the ids of the
  /// experts with weights.
  Key<int64_t> zeroExperts = always<int64_t>(0);
  /// The number of shared experts whose scores are part of the sum that divides
  /// the weights. They are the last experts of the layer, and every token
  /// selects them.
  Key<int64_t> sinks = always<int64_t>(0);
  /// The model computes router logits in f32, regardless of its dtype.
  Key<bool> f32Logits = always(false);
};

struct FamilyActivation {
  Key<std::string_view> function = orElse("hidden_act", "silu");
  /// The activation function of all models of the family. If it is set, the key
  /// of `function` is ignored.
  std::string_view whatever = {};
  bool gated = true;
  Key<Number> alpha = always(Number()), beta = always(Number());
  Key<Number> linearBeta = always(Number()), limit = always(Number());
  /// `limitsKey`: a list with the limit of each layer, 0 for none. `limited`:
  /// the function of layers with a limit. `sharedLimitsKey`: the limits of
  /// shared experts, which must be the same.
  std::string_view limitsKey = {}, limited = {}, sharedLimitsKey = {};
  /// The function of shared experts with a limit, if it differs from `limited`.
  std::string_view sharedLimited = {};
};

/// The width of shared experts that have the width of the routed experts.
inline constexpr int64_t kAsRouted = -1;

struct FamilyShared {
  Key<int64_t> count = always<int64_t>(0);
  /// The intermediate size of each shared expert, or of all together if
  /// widthOfAll.
  Key<int64_t> width = always(kAsRouted);
  bool widthOfAll = false;
  /// The shared experts' output is multiplied by a gate.
  bool gate = false;
  /// The activation limit of the routed experts does not apply to shared
  /// experts.
  bool unlimited = false;
  /// If this key is true, shared experts have biases, which moec does not
  /// support.
  std::string_view biasKey = "mlp_bias";
};

/// A key that determines which layers have experts. SparseLayers.cpp has the
/// table with the meaning of each key.
struct SparseKey {
  std::string_view key = {};
  /// The value if the key is absent and no list specifies the type of each
  /// layer. nullopt: an absent key is ignored, or is an error if it is
  /// `needed`.
  std::optional<int64_t> absent = {};
  bool needed = false;
};

/// A key that may only have certain values; with others, moec does not support
/// the layer.
struct FixedKey {
  std::string_view key = {};
  /// The class's default as JSON text, which is accepted.
  std::string_view absent = {};
  std::string_view accepted = {};  ///< accepted values, for messages
  std::string_view otherwise = {}; ///< the effect of other values, for messages
  std::optional<bool> flag = {};
  Number least = {}, most = {}; ///< bounds of an accepted number
  std::string_view word = {};
};

struct ModelFamily {
  WordList architectures = {}; ///< values of "architectures"
  WordList modelTypes = {};    ///< values of "model_type"
  /// The source of the defaults: configuration classes of Transformers, or the
  /// code that reads the config if Transformers has no class.
  std::string_view source = {};
  /// The object that contains the keys, if the config has it. Keys that it
  /// lacks are looked up outside. A nested object is written "outer.inner".
  std::string_view part = {};
  /// Model types that the part may have in addition to `modelTypes`.
  WordList partTypes = {};
  /// Model types of other families that a config with these architectures may
  /// have.
  WordList otherTypes = {};
  /// A size that the config lacks is read from ClassSizes, if ClassSizes has a
  /// row for the config's class.
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
  /// The width of the experts' input and output if it is not the hidden size;
  /// 0: the hidden size.
  Key<int64_t> latent = always<int64_t>(0);
  /// The epsilon of the norm of each expert's output, if there is one.
  Key<Number> postExpertNorm = always(Number());
  /// The key with the element type of the experts' weights, if it can differ
  /// from quantization_config (DeepSeek-V4).
  std::string_view expertTypeKey = {};
  bool hasBias = false;
  /// Gate and up rows alternate in w13.
  bool interleaved = false;
  FixedKey fixed[5] = {};
  /// Keys that look as if they could change the layer (isSuspicious() in
  /// FindFamily.cpp), but do not in this family.
  WordList irrelevant = {};
};

//===----------------------------------------------------------------------===//
// Values that rows of several families share
//===----------------------------------------------------------------------===//

/// Returns DeepSeek-V3's routing with its keys. The parameters are the class's
/// defaults for these keys.
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

/// The default sizes of the configuration classes of Transformers; 0: no
/// default.
struct ClassSizes {
  WordList modelTypes = {};
  int64_t layers = 0, hidden = 0, experts = 0, topK = 0, intermediate = 0;
};

/// Returns the sizes for a model type, or null if no class with experts has it.
const ClassSizes *findClassSizes(std::string_view modelType);

/// Returns the families with DeepSeek's router (DeepseekFamilies.cpp).
std::span<const ModelFamily> deepseekFamilies();

/// Returns the families for which Transformers has no class
/// (EngineFamilies.cpp).
std::span<const ModelFamily> engineFamilies();

/// Returns all families.
std::span<const ModelFamily> modelFamilies();

/// Returns true for keys that look suspicious but never change the layer, such
/// as keys about attention or training.
bool isIrrelevantKey(std::string_view key);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_FAMILIES_H
