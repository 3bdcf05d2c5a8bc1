//===- Communicator.cpp - parts common to all communicators ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions that are the same for every kind of connection between ranks.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Communicator.h"

#include "runtime/package/ElementTypes.h"
#include "runtime/support/Sha256.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

using namespace moec;
using namespace moec::comm;

Result<std::unique_ptr<Window>> Communicator::window(int64_t /*bytes*/) {
  return Error(ErrorCode::NoCommunication,
               "the package writes into memory of other ranks, and the "
               "communicator of rank {} has no way to reach it",
               rank());
}

std::string_view comm::nameOf(Collective::Kind kind) {
  switch (kind) {
  case Collective::Kind::AllGather:
    return "all_gather";
  case Collective::Kind::ReduceScatter:
    return "reduce_scatter";
  case Collective::Kind::AllReduce:
    return "all_reduce";
  }
  return "";
}

std::vector<int64_t> comm::groupOf(int64_t rank, int64_t ranks,
                                   int64_t stride) {
  const int64_t first = rank - rank / stride % ranks * stride;
  std::vector<int64_t> members;
  for (int64_t i = 0; i < ranks; ++i)
    members.push_back(first + i * stride);
  return members;
}

Result<int64_t> comm::bytesOf(const Part &part) {
  const ElementType *type = findElementType(part.elementType);
  if (!type)
    return invalidManifest("a collective moves elements of type '{}', which is "
                           "none",
                           part.elementType);
  const int64_t bits = part.elements * type->bits;
  if (bits % 8 != 0)
    return invalidManifest("a collective moves {} elements of {}, which do not "
                           "end with a byte",
                           part.elements, part.elementType);
  return bits / 8;
}

static_assert(exchangeWordsOf(2) == moe::ExchangeWords{2}.count(),
              "manifests and kernels disagree on a window's words");

int64_t comm::ranksOf(const Target &target) {
  int64_t most = target.windowRanks;
  for (const Variant &variant : target.variants)
    for (const Launch &launch : variant.launches)
      if (launch.collective)
        most = std::max(most,
                        launch.collective->ranks * launch.collective->stride);
  return most;
}

Result<void> comm::check(const Communicator *communicator,
                         const Manifest &manifest, const Target &target,
                         bool onGpu) {
  const int64_t ranks = ranksOf(target);
  if (ranks == 1)
    return {};
  if (!communicator)
    return Error(
        ErrorCode::NoCommunication,
        "package {} moves tokens and sums between {} ranks: expected a "
        "communicator of them, got none",
        manifest.name, ranks);
  if (communicator->onGpu() != onGpu)
    return invalidArgument("package {} runs on {}, and the communicator moves "
                           "memory of {}",
                           manifest.name, onGpu ? "a GPU" : "the host device",
                           onGpu ? "the host" : "a GPU");
  if (communicator->size() != ranks)
    return invalidArgument("package {} is for {} ranks, and the communicator "
                           "connects {}",
                           manifest.name, ranks, communicator->size());
  if (communicator->rank() != manifest.ranks.front().rank)
    return invalidArgument("package {} was loaded for rank {}, and the "
                           "communicator is of rank {}",
                           manifest.name, manifest.ranks.front().rank,
                           communicator->rank());
  return {};
}

Result<void> comm::prepare(Communicator &communicator, const Target &target) {
  for (const Variant &variant : target.variants)
    for (const Launch &launch : variant.launches)
      if (launch.collective)
        TRY(communicator.prepare(launch.collective->ranks,
                                 launch.collective->stride));
  return {};
}

/// Returns (name, value) pairs of the manifest that must be equal on all ranks
/// of a package.
static std::vector<std::pair<std::string, std::string>>
listFacts(const Manifest &manifest) {
  constexpr std::array kOfRank = {"intermediate_begin",
                                  "intermediate_size_per_partition",
                                  "local_experts",
                                  "add_w2_bias",
                                  "add_zero_experts",
                                  "name",
                                  "shared_intermediate_begin",
                                  "shared_intermediate_size_per_partition"};
  std::vector<std::pair<std::string, std::string>> facts = {
      {"package", manifest.name},
      {"max_tokens", std::to_string(manifest.maxTokens)}};
  for (const auto &[name, value] : manifest.layer->items())
    if (std::ranges::find(kOfRank, name) == kOfRank.end())
      facts.emplace_back(name, value.dump());
  for (const Target &target : manifest.targets) {
    if (target.windowRanks > 1)
      facts.emplace_back("a window of",
                         fmt::format("{} bytes", target.windowBytes));
    for (const WindowRegion &region : target.windowRegions)
      facts.emplace_back(fmt::format("{} in the window at", region.value),
                         std::to_string(region.offset));
    for (const Variant &variant : target.variants)
      for (const Launch &launch : variant.launches) {
        if (!launch.collective)
          continue;
        const Collective &given = *launch.collective;
        std::string line;
        for (const std::string &operand : given.operands) {
          const Value *value = findValue(manifest, target, operand);
          line += fmt::format(" {} as {}", operand,
                              value ? value->elementTypes.front() : "none");
        }
        std::pair<std::string, std::string> fact = {
            fmt::format("{} over {} of", nameOf(given.kind), given.ranks),
            line};
        if (std::ranges::find(facts, fact) == facts.end())
          facts.push_back(std::move(fact));
      }
  }
  return facts;
}

/// Encodes `facts` into a record whose size is the same on all ranks: the hash
/// of all lines, followed by as many lines as fit.
static std::string
encode(const std::vector<std::pair<std::string, std::string>> &facts) {
  constexpr size_t kBytes = 8192;
  std::string lines;
  for (const auto &[name, value] : facts)
    lines += name + '\x1f' + value + '\n';
  std::string record = sha256(lines) + lines;
  record.resize(kBytes, '\0');
  return record;
}

/// Returns line `index` of a record, such as "hidden_size 128", or "" if
/// `index` is past the last line.
static std::string lineOf(std::string_view record, size_t index) {
  constexpr size_t kHash = 64;
  std::string_view rest = record.substr(kHash);
  rest = rest.substr(0, rest.find('\0'));
  for (size_t i = 0; i < index && !rest.empty(); ++i)
    rest.remove_prefix(std::min(rest.size(), rest.find('\n') + 1));
  std::string line(rest.substr(0, rest.find('\n')));
  std::ranges::replace(line, '\x1f', ' ');
  return line;
}

Result<void> comm::compareRanks(Communicator &communicator,
                                const Manifest &manifest) {
  const auto facts = listFacts(manifest);
  const std::string mine = encode(facts);
  const std::vector<char> all =
      TRY(communicator.exchange(mine, "create its context"));
  for (int64_t rank = 0; rank < communicator.size(); ++rank) {
    const std::string_view its(all.data() + rank * int64_t(mine.size()),
                               mine.size());
    if (its == mine)
      continue;
    size_t line = 0;
    while (line < facts.size() && lineOf(its, line) == lineOf(mine, line))
      ++line;
    // Each rank compares its record with the records of all other ranks, so if
    // any two packages differ, every rank detects it.
    return Error(ErrorCode::PeerMismatch,
                 "ranks of one context have different packages: rank {} has "
                 "{}, and rank {} has {}",
                 communicator.rank(), lineOf(mine, line), rank,
                 lineOf(its, line));
  }
  return {};
}

/// Returns the memory of the value `name` and the value's element count.
static Result<std::pair<void *, int64_t>>
findMemory(const std::string &name, const Manifest &manifest,
           const Target &target, const Symbols &symbols,
           std::span<const BoundValue> values) {
  const int64_t index = valueIndex(manifest, target, name);
  const auto at = static_cast<size_t>(index);
  if (index < 0 || values[at].address == 0)
    return invalidArgument("value '{}': expected memory for a collective, got "
                           "none",
                           name);
  const int64_t elements =
      TRY(elementCount(valueAt(manifest, target, at), symbols));
  return std::pair(reinterpret_cast<void *>(values[at].address), elements);
}

Result<void> comm::findParts(const Collective &collective,
                             const Manifest &manifest, const Target &target,
                             const Symbols &symbols,
                             std::span<const BoundValue> values,
                             std::vector<Part> &parts) {
  parts.clear();
  for (size_t i = 0; i < collective.operands.size(); ++i) {
    const std::string &name = collective.operands[i];
    const auto from = TRY(findMemory(name, manifest, target, symbols, values));
    const auto to = TRY(
        findMemory(collective.results[i], manifest, target, symbols, values));
    // A single rank contributes or receives the smaller of operand and result
    // (see Part::elements).
    parts.push_back({from.first, to.first, std::min(from.second, to.second),
                     findValue(manifest, target, name)->elementTypes.front()});
  }
  return {};
}
