//===- Vocabulary.cpp - names that importers share ------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/Vocabulary.h"

#include "dialect/catalog/Activations.h"
#include "dialect/catalog/GateUpOrders.h"
#include "dialect/catalog/Parts.h"
#include "dialect/catalog/RoutingMethods.h"
#include "dialect/catalog/Schemes.h"
#include "dialect/catalog/StoredLayouts.h"
#include "runtime/package/ElementTypes.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>

using namespace moec;
using namespace moec::compiler;

namespace {

bool isFloatType(std::string_view element) {
  return element == "bf16" || element == "f16" || element == "f32";
}

/// Returns the element type of a scheme without scales; "" otherwise.
std::string_view plainElement(const catalog::Scheme &scheme) {
  const catalog::SchemeDescriptor &x = scheme.activations, &w = scheme.weights;
  const bool isPlain =
      x.scale.empty() && w.scale.empty() && x.element == w.element;
  return isPlain ? x.element : std::string_view();
}

Result<void> applyParallel(ParallelDescription &parallel,
                           const ImportOptions &options) {
  struct Group {
    std::string_view name;
    std::optional<int64_t> given;
    int64_t &size, &rank;
  };
  for (const Group &group :
       {Group{"tp", options.tp, parallel.tp, parallel.tpRank},
        Group{"pcp", options.pcp, parallel.pcp, parallel.pcpRank},
        Group{"dp", options.dp, parallel.dp, parallel.dpRank}}) {
    if (!group.given)
      continue;
    if (*group.given < 1 || *group.given > kMaxDescribedRanks)
      return refused("--{}={}: expected an integer from 1 to {}", group.name,
                     *group.given, kMaxDescribedRanks);
    group.size = *group.given;
    group.rank = 0;
  }
  if (options.ep)
    parallel.ep = true;
  if (options.sp) {
    if (*options.sp != 1 && *options.sp != parallel.tp)
      return refused("--sp={}: expected 1 or the ranks of tp, {}", *options.sp,
                     parallel.tp);
    parallel.sp = *options.sp;
  }
  if (options.placement) {
    parallel.placement = *options.placement;
    if (parallel.placement != "linear" && parallel.placement != "round_robin")
      return refused("--placement={}: expected linear or round_robin",
                     parallel.placement);
    if (!parallel.ep)
      return refused("--placement={}: expected --ep, without which all ranks "
                     "hold all experts",
                     parallel.placement);
  }
  if (options.allToAll)
    parallel.allToAll = *options.allToAll;
  // A script may pass a size of 1, so that is not an error.
  const bool hasSizes = options.tp || options.pcp || options.dp;
  if (parallel.ranks() == 1 && !hasSizes) {
    const std::string_view useless = options.allRanks   ? "all-ranks"
                                     : options.ep       ? "ep"
                                     : options.allToAll ? "all-to-all"
                                                        : "";
    if (!useless.empty())
      return refused("--{}: expected several ranks, got a layer on one; "
                     "accepted: with --tp, --pcp or --dp",
                     useless);
  }
  if (options.rank && options.allRanks)
    return refused("--rank={}: expected none with --all-ranks", *options.rank);
  if (options.allRanks && parallel.ranks() > kMaxDescribedRanks)
    return refused(
        "--all-ranks: expected at most {} ranks (dp * pcp * tp), got "
        "{}",
        kMaxDescribedRanks, parallel.ranks());
  if (options.allRanks) {
    parallel.allRanks = true;
    parallel.setRank(0);
  }
  if (options.rank) {
    const int64_t ranks = parallel.ranks();
    if (ranks == 1 && *options.rank != 0)
      return refused("--rank={}: expected 0, since the layer has one rank; "
                     "accepted: --tp, --pcp or --dp for more ranks",
                     *options.rank);
    if (*options.rank < 0 || *options.rank >= ranks)
      return refused("--rank={}: expected an integer from 0 to {} ({} ranks: "
                     "dp * pcp * tp)",
                     *options.rank, ranks - 1, ranks);
    parallel.setRank(*options.rank);
  }
  return {};
}

} // namespace

std::string moec::compiler::elementTypeOf(std::string_view spelled) {
  if (spelled.starts_with("torch."))
    spelled.remove_prefix(6);
  for (const ElementType &row : kElementTypes)
    if (!row.spellings.empty() &&
        (row.name == spelled || row.spellings.contains(spelled)))
      return std::string(row.name);
  return "";
}

std::string moec::compiler::readFloatType(JsonReader &reader,
                                          std::string_view key,
                                          std::string_view otherwise,
                                          bool required) {
  if (!reader.has(key) && !required)
    return std::string(otherwise);
  const nlohmann::json *field = reader.find(key);
  if (field && field->is_string()) {
    std::string element = elementTypeOf(field->get<std::string>());
    if (isFloatType(element))
      return element;
  }
  reader.expected(key,
                  "bf16, f16 or f32 (or PyTorch's bfloat16, float16, float32)");
  return "bf16";
}

/// Returns the command or page that lists the names of a key.
static std::string_view whereListed(std::string_view key) {
  if (key == "activation")
    return "`moec list activations`";
  if (key == "routing_method")
    return "`moec list routing`";
  if (key == "quant_config" || key == "scheme")
    return "`moec list schemes`";
  return "docs/reference/layer-json.md";
}

std::string moec::compiler::readName(JsonReader &reader, std::string_view key,
                                     std::span<const std::string_view> names,
                                     std::string_view otherwise) {
  const nlohmann::json *field = reader.find(key);
  if (!field)
    return std::string(otherwise);
  if (field->is_string()) {
    const auto &name = field->get_ref<const std::string &>();
    if (std::ranges::find(names, name) != names.end())
      return name;
  }
  const std::string word = field->is_string() ? field->get<std::string>() : "";
  // Names used in papers and by other programs.
  constexpr std::pair<std::string_view, std::string_view> kSynonyms[] = {
      {"swiglu", "silu"}, {"geglu", "gelu"}};
  std::vector<std::string_view> meant = meantBy(word, names);
  for (const auto &[synonym, name] : kSynonyms)
    if (word == synonym && std::ranges::find(names, name) != names.end())
      meant = {name};
  // A long list would obscure the suggestion.
  constexpr size_t kMostShown = 8;
  if (meant.empty())
    reader.expected(key, listOf(names));
  else if (names.size() <= kMostShown)
    reader.expected(key, fmt::format("{} (did you mean {}?)", listOf(names),
                                     listOf(meant)));
  else
    reader.expected(key, fmt::format("a known name (did you mean {}? {} has "
                                     "all)",
                                     listOf(meant), whereListed(key)));
  return std::string(otherwise);
}

std::string moec::compiler::readWord(JsonReader &reader, std::string_view key,
                                     WordList words,
                                     std::string_view otherwise) {
  return readName(reader, key, vectorOf(words), otherwise);
}

std::string moec::compiler::lowerCase(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return lower;
}

bool moec::compiler::hasPartOf(std::string_view key, WordList parts) {
  const std::string lower = lowerCase(key);
  return std::ranges::any_of(parts, [&](std::string_view part) {
    return lower.find(part) != std::string::npos;
  });
}

std::vector<std::string_view> moec::compiler::vectorOf(WordList words) {
  return {words.begin(), words.end()};
}

std::vector<std::string_view> moec::compiler::schemeNames() {
  return catalog::nameList(catalog::kSchemes);
}

std::vector<std::string_view> moec::compiler::gateUpOrderNames() {
  return catalog::nameList(catalog::kGateUpOrders);
}

std::vector<std::string_view> moec::compiler::routingNames() {
  std::vector<std::string_view> names =
      catalog::nameList(catalog::kRoutingMethods);
  names.push_back(catalog::kAutoRouting);
  return names;
}

std::vector<std::string_view> moec::compiler::storedLayoutNames() {
  return catalog::nameList(catalog::kStoredLayouts);
}

std::vector<std::string_view> moec::compiler::activationNames() {
  return catalog::nameList(catalog::kActivations);
}

std::span<const std::string_view> moec::compiler::scoringNames() {
  static constexpr std::string_view kScores[] = {"softmax", "sigmoid",
                                                 "sqrtsoftplus"};
  return kScores;
}

static Result<void> applyOptions(LayerDescription &layer,
                                 const ImportOptions &options) {
  TRY(applyParallel(layer.parallel, options));

  if (options.part) {
    layer.part = *options.part;
    if (!catalog::find(catalog::kLayerParts, layer.part))
      return refused("--part={}: expected {}", layer.part,
                     catalog::names(catalog::kLayerParts));
    const std::pair<std::string_view, bool> ofMatmuls[] = {
        {"accumulate", options.accumulate.has_value()},
        {"weights-dtype", options.weightsDtype.has_value()}};
    for (const auto &[name, given] : ofMatmuls)
      if (given && !catalog::partHasMatmul(layer.part))
        return refused("--{}: expected none with --part={}, which has no "
                       "matmul",
                       name, layer.part);
  }
  if (options.accumulate) {
    layer.accumulate = *options.accumulate;
    if (layer.accumulate != "f32" && layer.accumulate != "fast")
      return refused("--accumulate={}: expected f32 or fast", layer.accumulate);
  }
  struct Type {
    std::string_view name;
    const std::optional<std::string> &given;
    std::string &type;
  };
  for (const Type &row :
       {Type{"logits-dtype", options.logitsDtype, layer.logitsType},
        Type{"weights-dtype", options.weightsDtype, layer.weightsType},
        Type{"dtype", options.dtype, layer.inputType}}) {
    if (!row.given)
      continue;
    row.type = elementTypeOf(*row.given);
    if (!isFloatType(row.type))
      return refused("--{}={}: expected bf16, f16 or f32", row.name,
                     *row.given);
  }
  if (options.scheme) {
    // Packed weights of a checkpoint keep the group size of its config.
    const bool keepsGroups =
        !layer.origin.model.empty() && layer.storedLayout != "rows";
    const int64_t groupSize = keepsGroups ? layer.quant.groupSize : 0;
    layer.quant = {};
    layer.quant.scheme = *options.scheme;
    layer.quant.groupSize = groupSize;
    const auto *row = catalog::find(catalog::kSchemes, *options.scheme);
    const std::string meant = didYouMean(*options.scheme, schemeNames());
    if (!row && !meant.empty())
      return refused(
          "--scheme={}: unknown scheme; {}`moec list schemes` has all",
          *options.scheme, meant);
    if (!row)
      return refused("--scheme={}: expected one of {}", *options.scheme,
                     catalog::names(catalog::kSchemes));
    // A scheme without quantization determines the element type of activations.
    if (std::string_view plain = plainElement(*row);
        !plain.empty() && !options.dtype)
      layer.inputType = plain;
  }

  bool spelledOut =
      layer.quant.scheme.empty() && !layer.quant.w1.element.empty();
  if (layer.quant.scheme.empty() && !spelledOut)
    layer.quant.scheme = layer.inputType;
  const auto *scheme = catalog::find(catalog::kSchemes, layer.quant.scheme);
  if (options.weightsDtype && scheme && scheme->weights.scale.empty())
    return refused("--weights-dtype={}: scheme {} quantizes no weights; "
                   "accepted: --scheme=NAME with a scheme that does (`moec "
                   "list schemes`)",
                   *options.weightsDtype, layer.quant.scheme);
  // Activations that are not quantized keep the element type of x.
  for (DescriptorDescription *part :
       {&layer.quant.a1, &layer.quant.a2, &layer.quant.w1, &layer.quant.w2})
    if (spelledOut && part->element.empty())
      part->element = layer.inputType;
  if (layer.outputType.empty())
    layer.outputType = layer.inputType;
  if (layer.logitsType.empty())
    layer.logitsType = layer.inputType;
  return {};
}

Result<LayerDescription>
moec::compiler::finished(LayerDescription layer, const JsonErrors &errors,
                         const ImportOptions &options) {
  if (errors.count)
    return errors.all();
  if (Result<void> applied = applyOptions(layer, options); !applied)
    return refused("{}: {}", errors.name, applied.error().message);
  return layer;
}

std::string moec::compiler::stemOf(std::string_view path) {
  if (size_t slash = path.rfind('/'); slash != std::string_view::npos)
    path.remove_prefix(slash + 1);
  if (size_t dot = path.rfind('.'); dot != std::string_view::npos && dot > 0)
    path = path.substr(0, dot);
  if (path == "config" || path == "-" || path.starts_with("<"))
    return "";
  return std::string(path);
}
