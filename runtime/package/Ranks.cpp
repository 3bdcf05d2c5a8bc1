//===- Ranks.cpp - one rank of a package ----------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>

using namespace moec;
using nlohmann::json;

std::vector<int64_t> moec::ranksOf(const Manifest &manifest) {
  std::vector<int64_t> ranks;
  for (const RankFacts &facts : manifest.ranks)
    ranks.push_back(facts.rank);
  return ranks;
}

std::string moec::describeRanks(std::span<const int64_t> ranks) {
  const size_t count = ranks.size();
  if (count == 0)
    return "no rank";
  if (count == 1)
    return fmt::format("rank {}", ranks[0]);
  if (count > 2 &&
      ranks[count - 1] - ranks[0] == static_cast<int64_t>(count) - 1)
    return fmt::format("ranks {} to {}", ranks[0], ranks[count - 1]);
  return fmt::format("ranks {} and {}", fmt::join(ranks.first(count - 1), ", "),
                     ranks.back());
}

/// Returns a field as an object. A field that is missing or not an object
/// becomes an empty object, because the layer in the manifest is untrusted.
static json &object(json &in, const char *field) {
  json &found = in[field];
  if (!found.is_object())
    found = json::object();
  return found;
}

Error moec::rankNotInPackage(std::string_view name,
                             const std::vector<int64_t> &ranks, int64_t rank) {
  return invalidArgument("package {} is of {}: expected `rank` to be {}, got "
                         "{}; a package is for all ranks if it was compiled "
                         "with all_ranks",
                         name, describeRanks(ranks),
                         ranks.size() == 1 ? "that one" : "one of them", rank);
}

Result<Manifest> moec::ofRank(Manifest manifest, std::optional<int64_t> rank) {
  const std::vector<int64_t> known = ranksOf(manifest);
  if (!rank && known.size() != 1)
    return invalidArgument(
        "package {} is of {}: expected `rank` to be one of them, got none",
        manifest.name, describeRanks(known));
  const auto found = std::ranges::find(known, rank.value_or(known.front()));
  if (found == known.end())
    return rankNotInPackage(manifest.name, known, *rank);
  const RankFacts facts =
      manifest.ranks[static_cast<size_t>(found - known.begin())];
  manifest.ranks = {facts};
  json &layer = *manifest.layer;
  object(layer, "local_experts")["begin"] = facts.localBegin;
  layer["intermediate_begin"] = facts.intermediateBegin;
  if (layer.contains("shared_intermediate_size_per_partition"))
    layer["shared_intermediate_begin"] = facts.sharedIntermediateBegin;
  layer["add_w2_bias"] = facts.addW2Bias;
  json &routing = object(layer, "routing");
  if (routing.contains("num_zero_experts"))
    routing["add_zero_experts"] = facts.addZeroExperts;
  return manifest;
}

void moec::setRankSymbols(const Manifest &manifest, Symbols &symbols) {
  if (manifest.ranks.size() != 1)
    return;
  const RankFacts &facts = manifest.ranks.front();
  symbols.localBegin = facts.localBegin;
  symbols.addW2Bias = facts.addW2Bias;
  symbols.addZeroExperts = facts.addZeroExperts;
  symbols.rank = facts.rank;
}
