//===- Resolver.cpp - chooses backend and engine of a layer ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// To add a reason for rejecting candidates, add a predicate to kPredicates.
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/Resolver.h"

#include "compiler/matmul/Slabs.h"
#include "compiler/plan/LayerLimits.h"
#include "dialect/catalog/Backends.h"
#include "runtime/package/ElementTypes.h"
#include "runtime/support/Words.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

using namespace moec;
using namespace moec::compiler;
using catalog::Architecture;
using catalog::Backend;

namespace {
struct Pair {
  const Backend *backend;
  const catalog::Engine *engine;
};

struct Reason {
  std::string code, sentence;
};

using Predicate = std::optional<Reason> (*)(const LayerFacts &,
                                            const Architecture &, const Pair &);
} // namespace

static int64_t bitsOf(const std::string &elementType) {
  const ElementType *type = findElementType(elementType);
  return type ? type->bits : 0;
}

static std::optional<Reason> quantization(const LayerFacts &layer,
                                          const Architecture &,
                                          const Pair &candidate) {
  // Support for dequantized weights depends only on the descriptors, not on the
  // scheme.
  if (!layer.quantized || !layer.scheme.empty() || layer.nativeScales ||
      !layer.codes.empty() || layer.blocks)
    return std::nullopt;
  return Reason{"quant_not_supported",
                fmt::format("backend '{}' has kernels for named schemes only, "
                            "these descriptors are none",
                            candidate.backend->name)};
}

/// Rejects engines whose support for block scales does not match the
/// realization's operands.
static std::optional<Reason> blockScales(const LayerFacts &layer,
                                         const Architecture &,
                                         const Pair &candidate) {
  const catalog::Engine &engine = *candidate.engine;
  if (layer.blocks ? layer.blocks->engines.contains(engine.name)
                   : engine.multipliesPlain ||
                         (layer.powerGroups &&
                          layer.powerGroups->engines.contains(engine.name)))
    return std::nullopt;
  return Reason{
      "quant_not_supported",
      engine.scalesBlocks && !layer.blocks
          ? fmt::format("engine '{}' multiplies operands with the scales of "
                        "blocks of both, which these are not",
                        engine.name)
          : fmt::format("engine '{}' does not multiply scales of blocks "
                        "along k",
                        engine.name)};
}

static std::optional<Reason> elementTypes(const LayerFacts &layer,
                                          const Architecture &,
                                          const Pair &candidate) {
  for (const std::string &type : layer.elementTypes)
    if (!candidate.engine->elements.contains(type))
      return Reason{"dtype_not_supported",
                    fmt::format("engine '{}' multiplies {}, not {}",
                                candidate.engine->name,
                                fmt::join(candidate.engine->elements, ", "),
                                type)};
  for (const std::string &type : layer.codes)
    if (!candidate.engine->weights.contains(type))
      return Reason{"dtype_not_supported",
                    fmt::format("engine '{}' multiplies weights as they are "
                                "stored, and those of {} become another type",
                                candidate.engine->name, type)};
  // 8-bit elements represent every i4 code exactly, and e4m3 represents every
  // e2m1 code exactly.
  for (const std::string &type : layer.codes)
    if (bitsOf(layer.elementTypes.front()) == 8 && type != "i4" &&
        !candidate.engine->fragmentElements.contains(
            layer.elementTypes.front()))
      return Reason{"dtype_not_supported",
                    fmt::format("engine '{}' converts weights of {} to f16 or "
                                "bf16, not to {}",
                                candidate.engine->name, type,
                                layer.elementTypes.front())};
  for (const std::string &type : layer.elementTypes)
    if (!layer.codes.empty() && type == "f32")
      return Reason{"dtype_not_supported",
                    fmt::format("engine '{}' converts weights to f16 or bf16, "
                                "not to {}",
                                candidate.engine->name, type)};
  return std::nullopt;
}

static std::optional<Reason> equalTypes(const LayerFacts &layer,
                                        const Architecture &,
                                        const Pair &candidate) {
  if (layer.blocks)
    return std::nullopt;
  constexpr std::string_view kOperands[] = {"a1", "w1", "a2", "w2"};
  constexpr std::string_view kActivations[] = {"a1", "a2"};
  const auto nameAt = [&](size_t i) {
    const size_t last =
        layer.codes.empty() ? std::size(kOperands) : std::size(kActivations);
    if (i >= last)
      return std::string_view("another operand");
    return layer.codes.empty() ? kOperands[i] : kActivations[i];
  };
  for (size_t i = 0; i < layer.elementTypes.size(); ++i)
    if (layer.elementTypes[i] != layer.elementTypes.front())
      return Reason{"dtype_not_supported",
                    fmt::format("engine '{}' multiplies operands of one type, "
                                "not {} of {} beside {} of {}; accepted: one "
                                "type for both matmuls",
                                candidate.engine->name, nameAt(0),
                                layer.elementTypes.front(), nameAt(i),
                                layer.elementTypes[i])};
  return std::nullopt;
}

static std::optional<Reason> archFeatures(const LayerFacts &,
                                          const Architecture &arch,
                                          const Pair &candidate) {
  std::string_view missing =
      arch.features.firstMissing(candidate.engine->features);
  if (missing.empty())
    return std::nullopt;
  return Reason{"feature_missing",
                fmt::format("engine '{}' needs {}, which {} lacks",
                            candidate.engine->name, missing, arch.name)};
}

static std::optional<Reason>
rowSizes(const LayerFacts &layer, const Architecture &, const Pair &candidate) {
  const ElementType *type = layer.elementTypes.empty()
                                ? nullptr
                                : findElementType(layer.elementTypes.front());
  const int64_t step = type ? elementsPerPiece(type->bits) : 1;
  const int64_t stepI = layer.gated ? std::max(step, kGateUpRun) : step;
  if (layer.hidden % step)
    return Reason{
        "size_not_supported",
        fmt::format("backend '{}' loads rows in {} bytes: hidden size "
                    "{} is no multiple of {}",
                    candidate.backend->name, kRowPieceBytes, layer.hidden,
                    step)};
  for (const int64_t size : {layer.intermediate, layer.sharedIntermediate})
    if (size % stepI)
      return Reason{
          "size_not_supported",
          fmt::format("backend '{}' loads rows in {} bytes and gates in runs "
                      "of {}: intermediate size {} of this rank is no multiple "
                      "of {}",
                      candidate.backend->name, kRowPieceBytes, kGateUpRun, size,
                      stepI)};
  return std::nullopt;
}

static std::optional<Reason> expertCounts(const LayerFacts &layer,
                                          const Architecture &,
                                          const Pair &candidate) {
  if (layer.experts > kMaxExperts)
    return Reason{"experts_not_supported",
                  fmt::format("backend '{}' routes over at most {} experts, "
                              "not {}",
                              candidate.backend->name, kMaxExperts,
                              layer.experts)};
  if (layer.pairs > kMaxPairsPerToken)
    return Reason{"pairs_not_supported",
                  fmt::format("backend '{}' routes at most {} pairs of a "
                              "token, not {}",
                              candidate.backend->name, kMaxPairsPerToken,
                              layer.pairs)};
  return std::nullopt;
}

/// Returns the reason why an engine cannot read the weights in MMA fragment
/// order, or nullopt. The order requires whole blocks of codes. Scales may be
/// shared by several weight rows, because packing replicates them.
static std::optional<Reason> whyNoFragments(const LayerFacts &layer,
                                            const catalog::Engine &engine) {
  const std::string_view name = engine.name;
  if (layer.codes.size() < 2)
    return Reason{
        "dtype_not_supported",
        fmt::format("engine '{}' multiplies weights that it converts, "
                    "this layer's are multiplied as they are",
                    name)};
  const int64_t bits = bitsOf(layer.elementTypes.front());
  // The epilogue of such an activation needs more registers than the
  // accumulators leave.
  if (engine.warpSpecialized && layer.takesManyRegisters && !layer.gated)
    return Reason{"activation_not_supported",
                  fmt::format("engine '{}' does not support {} without gates",
                              name, layer.function)};
  if (layer.quantizesWeights)
    return Reason{"quant_not_supported",
                  fmt::format("engine '{}' does not read weights that are "
                              "quantized when the layer is loaded",
                              name)};
  const int64_t columns = slabColumns(bits / 8);
  const bool ofIntegers = bits == 8 && layer.codes.front() == "i4";
  for (const auto &[rows, group] : layer.codeGroups)
    if (group > 0 && group % columns != 0 && (ofIntegers || group != 32) &&
        (bits == 8 || group != 16))
      return Reason{"quant_not_supported",
                    fmt::format("engine '{}' takes a scale for all of k, or "
                                "for {}a multiple of {} of it, not for groups "
                                "of [{}, {}]",
                                name,
                                ofIntegers  ? ""
                                : bits == 8 ? "32 or "
                                            : "16, 32 or ",
                                columns, rows, group)};
  for (const int64_t size :
       {layer.hidden, layer.intermediate, layer.sharedIntermediate})
    if (size % columns)
      return Reason{"size_not_supported",
                    fmt::format("engine '{}' reads weights in blocks of {} by "
                                "{}: {} is no multiple of {}",
                                name, kSlabBlock, columns, size, columns)};
  return std::nullopt;
}

/// Rejects engines that only read fragment order, if the weights cannot be
/// packed in that order.
static std::optional<Reason> fragments(const LayerFacts &layer,
                                       const Architecture &,
                                       const Pair &candidate) {
  if (candidate.engine->orders.contains("rows"))
    return std::nullopt;
  return whyNoFragments(layer, *candidate.engine);
}

/// Returns true if the engine can read weights of these element types in
/// fragment order. An engine without warp roles reads row order if its epilogue
/// emulates quantization.
static bool haveFragments(const LayerFacts &layer,
                          const catalog::Engine &engine) {
  if (layer.emulated && !engine.warpSpecialized)
    return false;
  const bool ofBytes =
      !layer.elementTypes.empty() && bitsOf(layer.elementTypes.front()) == 8;
  return std::ranges::all_of(layer.elementTypes,
                             [&](const std::string &type) {
                               return engine.fragmentElements.contains(type);
                             }) &&
         std::ranges::all_of(layer.codes, [&](const std::string &type) {
           return bitsOf(type) == 4 ||
                  (!ofBytes && (bitsOf(type) == 8 ||
                                (bitsOf(type) == 6 && engine.warpSpecialized)));
         });
}

std::string_view compiler::orderOf(const LayerFacts &layer,
                                   const catalog::Engine &engine) {
  return engine.orders.contains("fragment") && haveFragments(layer, engine) &&
                 !whyNoFragments(layer, engine)
             ? "fragment"
             : "rows";
}

/// Missing arch features are checked first, because they make all other reasons
/// irrelevant.
static constexpr Predicate kPredicates[] = {
    archFeatures, quantization, blockScales,  elementTypes,
    equalTypes,   rowSizes,     expertCounts, fragments};

std::string compiler::realizationWith(const LayerFacts &layer,
                                      const catalog::Engine &engine,
                                      const Architecture &arch) {
  if (layer.realization != "native" || layer.elementTypes.empty())
    return layer.realization;
  return std::string(catalog::realizationOf(
      engine.name, layer.elementTypes.front(), arch.features));
}

/// Returns the reason why the user's choices exclude the candidate, or nullopt.
/// These reasons have precedence over the reasons of the predicates.
static std::optional<Reason> whyNotAsked(const Pair &candidate,
                                         const std::string &realization,
                                         const Choices &choices) {
  if (!choices.backend.empty() && candidate.backend->name != choices.backend)
    return Reason{"not_requested",
                  fmt::format("backend '{}' was requested{}", choices.backend,
                              choices.byVariable("backend"))};
  if (!choices.engine.empty() && candidate.engine->name != choices.engine)
    return Reason{"not_requested",
                  fmt::format("engine '{}' was requested{}", choices.engine,
                              choices.byVariable("engine"))};
  for (const std::string_view word :
       {candidate.backend->name, candidate.engine->name,
        std::string_view(realization)})
    if (choices.isExcluded(word))
      return Reason{"excluded", fmt::format("'{}' is excluded{}", word,
                                            choices.byVariable("exclude"))};
  return std::nullopt;
}

/// Returns the reason why the realization is rejected for every backend and
/// engine, or nullopt.
static std::optional<Reason> whyImpossible(const LayerFacts &layer,
                                           const Architecture &arch,
                                           const Choices &choices) {
  if (layer.impossible.empty())
    return std::nullopt;
  if (layer.blocks)
    for (const std::string_view name : layer.blocks->engines) {
      const catalog::Engine &engine = *catalog::find(catalog::kEngines, name);
      if (arch.features.firstMissing(engine.features).empty())
        return std::nullopt;
    }
  if (choices.isExcluded(layer.realization))
    return Reason{"excluded",
                  fmt::format("'{}' is excluded{}", layer.realization,
                              choices.byVariable("exclude"))};
  if (!layer.instruction)
    return Reason{"engine_missing", layer.impossible};
  std::string features;
  for (const std::string_view word : layer.instruction->features) {
    if (arch.has(word))
      return Reason{"engine_missing", layer.impossible};
    features += fmt::format("{}'{}'", features.empty() ? "" : " or ", word);
  }
  return Reason{"feature_missing",
                fmt::format("{} has no {} (feature {})", arch.name,
                            layer.instruction->noun, features)};
}

/// Returns the (backend, engine) pairs to evaluate, by descending priority.
static std::vector<Pair> pairsFor(const LayerFacts &layer,
                                  const Architecture &arch,
                                  const Choices &choices) {
  // An engine is evaluated if it supports the layer's kind of weights, or if
  // the user names it. If the layer has no block-scaled operands, block-scaled
  // engines are evaluated only on archs that have their instructions.
  const auto isFor = [&](const catalog::Engine &e) {
    const bool has = arch.features.firstMissing(e.features).empty();
    return e.name == choices.engine ||
           ((layer.blocks
                 ? layer.blocks->engines.contains(e.name)
                 : (has || !e.scalesBlocks) &&
                       (e.multipliesPlain ||
                        (layer.powerGroups &&
                         layer.powerGroups->engines.contains(e.name)))) &&
            (layer.codes.empty() ? e.orders.contains("rows")
                                 : !e.weights.empty()));
  };
  std::vector<Pair> pairs;
  for (const Backend &b : catalog::kBackends)
    for (const catalog::Engine &e : catalog::kEngines)
      if (b.format == layer.format && b.engines.contains(e.name) && isFor(e))
        pairs.push_back({&b, &e});
  std::ranges::stable_sort(pairs, [](const Pair &a, const Pair &b) {
    return std::pair(a.backend->priority, a.engine->priority) >
           std::pair(b.backend->priority, b.engine->priority);
  });
  return pairs;
}

/// Rejects accepted candidates that compute a different layer, unless the user
/// allows the realization. The reason names the option that allows it.
static void askForLeave(const LayerFacts &layer, const Choices &choices,
                        std::vector<Candidate> &candidates) {
  const auto *row = catalog::find(catalog::kRealizations, layer.realization);
  const auto serves = [](const Candidate &c) { return !c.isRefused(); };
  const auto first = std::ranges::find_if(candidates, serves);
  if (!row || !row->isAnotherLayer || first == candidates.end())
    return;
  const std::string engine = first->engine;
  for (Candidate &candidate : candidates) {
    if (candidate.isRefused())
      continue;
    if (layer.takesCodes) {
      candidate.code = "input_quantized";
      candidate.reason = "x comes as codes (input_quantized), and these are "
                         "what is multiplied";
    } else if (!choices.isAllowed(layer.realization)) {
      candidate.code = "not_allowed";
      candidate.reason = fmt::format(
          "activations would stay {}, which is another layer; --allow={} takes "
          "it: engine {}, and no activation is quantized",
          layer.elementTypes.front(), layer.realization, engine);
    }
  }
}

/// Evaluates all backends and engines for one realization.
static std::vector<Candidate> judge(const LayerFacts &layer,
                                    const Architecture &arch,
                                    const Choices &choices) {
  if (const auto reason = whyImpossible(layer, arch, choices))
    return {{"", "", layer.realization, layer.bits, reason->code,
             reason->sentence}};
  std::vector<Candidate> candidates;
  for (const Pair &pair : pairsFor(layer, arch, choices)) {
    Candidate &made = candidates.emplace_back(Candidate{
        std::string(pair.backend->name), std::string(pair.engine->name),
        realizationWith(layer, *pair.engine, arch), layer.bits, "", ""});
    auto reason = whyNotAsked(pair, made.realization, choices);
    for (const Predicate predicate : kPredicates)
      if (!reason)
        reason = predicate(layer, arch, pair);
    if (reason)
      std::tie(made.code, made.reason) =
          std::pair(reason->code, reason->sentence);
  }
  askForLeave(layer, choices, candidates);
  return candidates;
}

std::string compiler::candidateNames(
    const std::vector<std::pair<std::string, std::string>> &pairs) {
  std::string text, last;
  for (const auto &[backend, engine] : pairs) {
    if (backend != last)
      text += fmt::format("{}{}{}{}", text.empty() ? "" : "; ", backend,
                          engine.empty() ? "" : " with ", engine);
    else
      text += ", " + engine;
    last = backend;
  }
  return text;
}

/// Returns a text with the reasons of all rejected candidates. Omits candidates
/// that the user did not request.
static std::string reasonsOf(const std::vector<Candidate> &candidates,
                             bool namesRealizations) {
  std::string text;
  for (size_t i = 0; i < candidates.size();) {
    const Candidate &first = candidates[i];
    std::vector<std::pair<std::string, std::string>> pairs;
    for (; i < candidates.size() && candidates[i].code == first.code &&
           candidates[i].reason == first.reason &&
           candidates[i].realization == first.realization;
         ++i)
      if (!candidates[i].backend.empty())
        pairs.emplace_back(candidates[i].backend, candidates[i].engine);
    if (first.code == "not_requested")
      continue;
    std::string names = namesRealizations ? first.realization : "";
    if (!pairs.empty())
      names += (names.empty() ? "" : ", ") + candidateNames(pairs);
    text += fmt::format("{}{} [{}]: {}", text.empty() ? "" : "; ", names,
                        first.code, first.reason);
  }
  return text;
}

/// Chooses the first accepted candidate. If `decided` is not empty, the
/// candidate must have that realization, where `native` and `dequantized` count
/// as equal.
static void choose(Resolution &resolution, const std::string &decided) {
  for (Candidate &candidate : resolution.candidates) {
    const bool isExact = candidate.realization == "native" ||
                         candidate.realization == "dequantized";
    const bool isDecided =
        decided.empty() || decided == candidate.realization ||
        (isExact && (decided == "native" || decided == "dequantized"));
    const bool isOpen = resolution.backend.empty();
    if (!candidate.isRefused() && !isDecided && isOpen) {
      candidate.code = "other_target";
      candidate.reason = "another target or rank of the package does not "
                         "support it, and all must compute the same way";
    }
    if (!candidate.isRefused()) {
      if (isOpen && isDecided)
        std::tie(resolution.backend, resolution.engine,
                 resolution.realization) =
            std::tie(candidate.backend, candidate.engine,
                     candidate.realization);
      continue;
    }
    // Candidates that the user excluded do not count as degradation.
    const bool isUnwanted = candidate.code == "not_requested" ||
                            candidate.code == "excluded" ||
                            candidate.code == "not_allowed";
    if (isOpen && resolution.degraded.empty() && !isUnwanted)
      resolution.degraded = fmt::format(
          "{}, since {}",
          candidate.backend.empty()
              ? candidate.realization
              : candidateNames({{candidate.backend, candidate.engine}}),
          candidate.reason);
  }
}

Result<Resolution> compiler::resolve(const std::vector<LayerFacts> &ways,
                                     const std::string &arch,
                                     const Choices &choices,
                                     const std::string &decided,
                                     std::vector<Candidate> *judged) {
  const Architecture *archRow = catalog::find(catalog::kArchitectures, arch);
  if (!archRow)
    return Error(
        ErrorCode::InvalidArgument,
        unknownWord("arch", arch, catalog::nameList(catalog::kArchitectures)));
  TRY(checkChoices(choices));
  const LayerFacts &layer = ways.front();
  if (const Backend *row = catalog::find(catalog::kBackends, choices.backend);
      row && row->format != layer.format)
    return refused(
        "no backend supports layer '{}' on {}: [format_not_supported]: backend "
        "'{}' is for layers with activation_format {}, this one's is {}",
        layer.name, arch, choices.backend, row->format, layer.format);
  if (const catalog::Engine *row =
          catalog::find(catalog::kEngines, choices.engine);
      row && row->mostTokens > 0)
    return refused(
        "no backend supports layer '{}' on {}: [few_tokens_only]: engine '{}' "
        "supports at most {} tokens and needs another engine for more; it is "
        "used automatically if no engine is requested",
        layer.name, arch, choices.engine, row->mostTokens);
  if (const Backend *row = catalog::find(catalog::kBackends, choices.backend);
      row && !choices.engine.empty() && !row->engines.contains(choices.engine))
    return refused(
        "no backend supports layer '{}' on {}: [engine_not_admitted]: backend "
        "'{}' takes engine {}, not {}",
        layer.name, arch, choices.backend, fmt::join(row->engines, ", "),
        choices.engine);

  Resolution resolution;
  for (const LayerFacts &way : ways) {
    const std::vector<Candidate> its = judge(way, *archRow, choices);
    resolution.candidates.insert(resolution.candidates.end(), its.begin(),
                                 its.end());
  }
  choose(resolution, decided);
  if (!resolution.backend.empty())
    return resolution;
  if (judged)
    *judged = resolution.candidates;
  return refused("no backend supports layer '{}' on {}: {}", layer.name, arch,
                 reasonsOf(resolution.candidates, ways.size() > 1));
}
