//===- Resolver.cpp - which backend and engine serve a layer --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Adding a reason to refuse is adding a predicate to kPredicates.
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/Resolver.h"

#include "compiler/engine/Slabs.h"
#include "dialect/catalog/Architectures.h"
#include "dialect/catalog/Backends.h"
#include "dialect/catalog/Engines.h"
#include "runtime/package/ElementTypes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

using namespace moec;
using namespace moec::compiler;
using catalog::Architecture;
using catalog::Backend;
using catalog::Engine;

namespace {
struct Candidate {
  const Backend *backend;
  const Engine *engine;
};

struct Reason {
  std::string code, sentence;
};

using Predicate = std::optional<Reason> (*)(const LayerFacts &,
                                            const Architecture &,
                                            const Candidate &);
} // namespace

static int64_t bitsOf(const std::string &elementType) {
  const ElementType *type = findElementType(elementType);
  return type ? type->bits : 0;
}

/// "f16, bf16" of "f16 bf16".
static std::string commas(std::string_view words) {
  std::string text;
  for (char c : words)
    c == ' ' ? text += ", " : text += c;
  return text;
}

static std::optional<Reason> quantization(const LayerFacts &layer,
                                          const Architecture &,
                                          const Candidate &candidate) {
  // Weights that are dequantized are served by their descriptors.
  if (!layer.quantized || !layer.scheme.empty() || layer.nativeScales ||
      !layer.codes.empty())
    return std::nullopt;
  return Reason{"quant_not_supported",
                fmt::format("backend '{}' has kernels for named schemes only, "
                            "these descriptors are none",
                            candidate.backend->name)};
}

static std::optional<Reason> elementTypes(const LayerFacts &layer,
                                          const Architecture &,
                                          const Candidate &candidate) {
  for (const std::string &type : layer.elementTypes)
    if (!catalog::hasWord(candidate.engine->elements, type))
      return Reason{"dtype_not_supported",
                    fmt::format("engine '{}' multiplies {}, not {}",
                                candidate.engine->name,
                                commas(candidate.engine->elements), type)};
  for (const std::string &type : layer.codes)
    if (!catalog::hasWord(candidate.engine->weights, type))
      return Reason{"dtype_not_supported",
                    fmt::format("engine '{}' does not convert weights of {} to "
                                "what it multiplies",
                                candidate.engine->name, type)};
  // Elements of 8 bits hold every code of i4, and e4m3 those of e2m1.
  for (const std::string &type : layer.codes)
    if (bitsOf(layer.elementTypes.front()) == 8 && type != "i4" &&
        !catalog::hasWord(candidate.engine->fragmentElements,
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
                                        const Candidate &candidate) {
  for (const std::string &type : layer.elementTypes)
    if (type != layer.elementTypes.front())
      return Reason{"dtype_not_supported",
                    fmt::format("engine '{}' multiplies operands of one type, "
                                "not {} with {}",
                                candidate.engine->name,
                                layer.elementTypes.front(), type)};
  return std::nullopt;
}

static std::optional<Reason> archFeatures(const LayerFacts &,
                                          const Architecture &arch,
                                          const Candidate &candidate) {
  std::string_view missing =
      catalog::firstMissing(arch.features, candidate.engine->features);
  if (missing.empty())
    return std::nullopt;
  return Reason{"feature_missing",
                fmt::format("engine '{}' needs {}, which {} lacks",
                            candidate.engine->name, missing, arch.name)};
}

static std::optional<Reason> rowSizes(const LayerFacts &layer,
                                      const Architecture &,
                                      const Candidate &candidate) {
  const ElementType *type = layer.elementTypes.empty()
                                ? nullptr
                                : findElementType(layer.elementTypes.front());
  int64_t step = type ? std::max<int64_t>(128 / type->bits, 1) : 1;
  // Interleaving gate and up rows by 8 needs whole runs of 8.
  int64_t stepI = layer.gated ? std::max<int64_t>(step, 8) : step;
  if (layer.hidden % step)
    return Reason{
        "size_not_supported",
        fmt::format("backend '{}' loads rows in 16 bytes: hidden size "
                    "{} is no multiple of {}",
                    candidate.backend->name, layer.hidden, step)};
  if (layer.intermediate % stepI)
    return Reason{
        "size_not_supported",
        fmt::format("backend '{}' loads rows in 16 bytes and gates in runs of "
                    "8: intermediate size {} of this rank is no multiple of {}",
                    candidate.backend->name, layer.intermediate, stepI)};
  return std::nullopt;
}

static std::optional<Reason> expertCounts(const LayerFacts &layer,
                                          const Architecture &,
                                          const Candidate &candidate) {
  if (layer.experts > 1024)
    return Reason{"experts_not_supported",
                  fmt::format("backend '{}' routes over at most 1024 experts, "
                              "not {}",
                              candidate.backend->name, layer.experts)};
  if (layer.pairs > 32)
    return Reason{"pairs_not_supported",
                  fmt::format("backend '{}' routes at most 32 pairs of a "
                              "token, not {}",
                              candidate.backend->name, layer.pairs)};
  return std::nullopt;
}

/// Why an engine cannot read the weights in the order of fragments: it needs
/// codes in blocks. Packing repeats the scales of several rows.
static std::optional<Reason> whyNoFragments(const LayerFacts &layer,
                                            const Engine &engine) {
  const std::string_view name = engine.name;
  if (layer.codes.size() < 2)
    return Reason{
        "dtype_not_supported",
        fmt::format("engine '{}' multiplies weights that it converts, "
                    "this layer's are multiplied as they are",
                    name)};
  const int64_t bits = bitsOf(layer.elementTypes.front());
  // Its epilogue would need more registers than the tile leaves.
  if (engine.warpSpecialized && layer.takesManyRegisters && !layer.gated)
    return Reason{
        "activation_not_supported",
        fmt::format("engine '{}' does not serve gelu without gates", name)};
  if (layer.quantizesWeights)
    return Reason{"quant_not_supported",
                  fmt::format("engine '{}' does not read weights that are "
                              "quantized when the layer is loaded",
                              name)};
  constexpr int64_t kRows = 64;
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
  for (const int64_t size : {layer.hidden, layer.intermediate})
    if (size % columns)
      return Reason{"size_not_supported",
                    fmt::format("engine '{}' reads weights in blocks of {} by "
                                "{}: {} is no multiple of {}",
                                name, kRows, columns, size, columns)};
  return std::nullopt;
}

/// An engine that reads nothing but fragments.
static std::optional<Reason> fragments(const LayerFacts &layer,
                                       const Architecture &,
                                       const Candidate &candidate) {
  if (catalog::hasWord(candidate.engine->orders, "rows"))
    return std::nullopt;
  return whyNoFragments(layer, *candidate.engine);
}

/// Whether the engine multiplies weights of the layer's types in fragments.
/// An epilogue that emulates reads rows.
static bool haveFragments(const LayerFacts &layer, const Engine &engine) {
  if (layer.emulated && !engine.warpSpecialized)
    return false;
  const bool ofBytes =
      !layer.elementTypes.empty() && bitsOf(layer.elementTypes.front()) == 8;
  return std::ranges::all_of(layer.elementTypes,
                             [&](const std::string &type) {
                               return catalog::hasWord(engine.fragmentElements,
                                                       type);
                             }) &&
         std::ranges::all_of(layer.codes, [&](const std::string &type) {
           return bitsOf(type) == 4 ||
                  (!ofBytes && (bitsOf(type) == 8 ||
                                (bitsOf(type) == 6 && engine.warpSpecialized)));
         });
}

std::string_view compiler::orderOf(const LayerFacts &layer,
                                   const Engine &engine) {
  return catalog::hasWord(engine.orders, "fragment") &&
                 haveFragments(layer, engine) && !whyNoFragments(layer, engine)
             ? "fragment"
             : "rows";
}

static constexpr Predicate kPredicates[] = {
    quantization, elementTypes, equalTypes, archFeatures,
    rowSizes,     expertCounts, fragments};

static std::optional<Reason> firstReason(const LayerFacts &layer,
                                         const Architecture &arch,
                                         const Candidate &candidate,
                                         const std::string &backend,
                                         const std::string &engine) {
  if (!backend.empty() && candidate.backend->name != backend)
    return Reason{"not_requested",
                  fmt::format("backend '{}' was asked for", backend)};
  if (!engine.empty() && candidate.engine->name != engine)
    return Reason{"not_requested",
                  fmt::format("engine '{}' was asked for", engine)};
  for (Predicate predicate : kPredicates)
    if (auto reason = predicate(layer, arch, candidate))
      return reason;
  return std::nullopt;
}

Result<Resolution> compiler::resolve(const LayerFacts &layer,
                                     const std::string &arch,
                                     const std::string &backend,
                                     const std::string &engine,
                                     std::vector<Refused> *refusals) {
  auto unknown = [](std::string_view kind, std::string_view name,
                    std::string known) {
    return invalidArgument("unknown {} '{}'; known {}s: {}", kind, name, kind,
                           known);
  };
  const Architecture *archRow = catalog::find(catalog::kArchitectures, arch);
  if (!archRow)
    return unknown("arch", arch, catalog::names(catalog::kArchitectures));
  if (!backend.empty() && !catalog::find(catalog::kBackends, backend))
    return unknown("backend", backend, catalog::names(catalog::kBackends));
  if (const Backend *row = catalog::find(catalog::kBackends, backend);
      row && row->format != layer.format)
    return refused("no backend serves layer '{}' on {}: "
                   "[format_not_supported]: backend '{}' is for layers with "
                   "activation_format {}, this one's is {}",
                   layer.name, arch, backend, row->format, layer.format);
  const Engine *engineRow = catalog::find(catalog::kEngines, engine);
  if (!engine.empty() && !engineRow)
    return unknown("engine", engine, catalog::names(catalog::kEngines));
  if (engineRow && engineRow->mostTokens > 0)
    return refused("no backend serves layer '{}' on {}: [few_tokens_only]: "
                   "engine '{}' serves at most {} tokens, beside another "
                   "engine for more; it is taken where it fits when no engine "
                   "is asked for",
                   layer.name, arch, engine, engineRow->mostTokens);

  // An engine for converted weights alone says nothing of other layers, unless
  // it is asked for.
  const auto isFor = [&](const Engine &e) {
    return catalog::hasWord(e.orders, "rows") || !layer.codes.empty() ||
           e.name == engine;
  };
  std::vector<Candidate> candidates;
  for (const Backend &b : catalog::kBackends)
    for (const Engine &e : catalog::kEngines)
      if (b.format == layer.format && catalog::hasWord(b.engines, e.name) &&
          isFor(e))
        candidates.push_back({&b, &e});
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate &a, const Candidate &b) {
                     return std::pair(a.backend->priority, a.engine->priority) >
                            std::pair(b.backend->priority, b.engine->priority);
                   });

  Resolution resolution;
  for (const Candidate &candidate : candidates) {
    auto reason = firstReason(layer, *archRow, candidate, backend, engine);
    if (reason) {
      Refused refused{std::string(candidate.backend->name),
                      std::string(candidate.engine->name), reason->code,
                      reason->sentence};
      // A candidate that the user did not want is no degradation.
      if (resolution.backend.empty() && resolution.degraded.empty() &&
          reason->code != "not_requested")
        resolution.degraded =
            fmt::format("{} with {}, since {}", refused.backend, refused.engine,
                        refused.reason);
      resolution.refused.push_back(std::move(refused));
    } else if (resolution.backend.empty()) {
      resolution.backend = candidate.backend->name;
      resolution.engine = candidate.engine->name;
      // Codes that become what an engine multiplies as it is, exactly, are no
      // loss.
      const ElementType *type =
          layer.elementTypes.empty()
              ? nullptr
              : findElementType(layer.elementTypes.front());
      if (type)
        resolution.realization =
            layer.emulated ? "emulated"
            : layer.codes.empty() || type->bits == 8
                ? catalog::realizationOf(resolution.engine,
                                         layer.elementTypes.front(),
                                         archRow->features)
                : "dequantized";
    }
  }
  if (!resolution.backend.empty())
    return resolution;
  if (refusals)
    *refusals = resolution.refused;

  std::string reasons;
  for (const Refused &r : resolution.refused)
    if (r.code != "not_requested")
      reasons +=
          fmt::format("{}{} with {} [{}]: {}", reasons.empty() ? "" : "; ",
                      r.backend, r.engine, r.code, r.reason);
  if (reasons.empty())
    reasons = fmt::format(
        "[engine_not_admitted]: backend '{}' takes engine {}, not {}", backend,
        commas(catalog::find(catalog::kBackends, backend)->engines), engine);
  return refused("no backend serves layer '{}' on {}: {}", layer.name, arch,
                 reasons);
}
