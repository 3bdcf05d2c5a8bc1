//===- ValidateVariants.cpp - launches, workspace, pack and state ---------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dynamic checks of a target. Expressions are evaluated at both ends of
// each token range and at a few token counts between.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Arguments.h"
#include "runtime/package/Checker.h"

#include "runtime/package/Limits.h"
#include "runtime/package/Stages.h"

#include <algorithm>

using namespace moec;

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

Result<void> Checker::checkLaunch(const std::string &path, const Target &target,
                                  const Launch &launch,
                                  const std::vector<Symbols> &samples) {
  const Kernel *kernel = findKernel(target, launch.kernel);
  if (!kernel)
    return fail(path + ".kernel", "expected the name of a kernel, got '{}'",
                launch.kernel);
  const Grid &grid = launch.grid;
  if (grid.persistent) {
    TRY(checkInteger(path + ".grid.ctas_per_sm", grid.ctasPerSm, 1, 32));
    if (kernel->cooperative && grid.ctasPerSm > kernel->minCtasPerSm)
      return fail(path + ".grid.ctas_per_sm",
                  "expected at most {}, the min_ctas_per_sm of the cooperative "
                  "kernel '{}', got {}",
                  kernel->minCtasPerSm, kernel->name, grid.ctasPerSm);
    if (kernel->cluster[1] != 1 || kernel->cluster[2] != 1)
      return fail(path + ".grid.persistent",
                  "expected a kernel whose cluster extends only in x, '{}' has "
                  "{} x {} x {}",
                  kernel->name, kernel->cluster[0], kernel->cluster[1],
                  kernel->cluster[2]);
  } else if (kernel->cooperative) {
    // All CTAs of a kernel with a grid-wide barrier must be resident at once,
    // so the number of CTAs must not grow with the token count.
    for (size_t i = 0; i < 3; ++i)
      if (!grid.ctas[i].constant())
        return fail(fmt::format("{}.grid.ctas[{}]", path, i),
                    "expected a constant or a persistent grid for the "
                    "cooperative kernel '{}', got {}",
                    kernel->name, grid.ctas[i].text());
  }
  for (const Symbols &symbols : samples) {
    if (grid.persistent) {
      int64_t tiles = TRY(
          evaluate(path + ".grid.tiles", grid.tiles, symbols, 1, kMaxBytes));
      if (tiles % kernel->cluster[0])
        return fail(path + ".grid.tiles",
                    "expected a multiple of the cluster's {} CTAs, got {} with "
                    "{}",
                    kernel->cluster[0], tiles, describe(symbols));
    } else {
      for (size_t i = 0; i < 3; ++i) {
        std::string where = fmt::format("{}.grid.ctas[{}]", path, i);
        int64_t ctas = TRY(evaluate(where, grid.ctas[i], symbols, 1,
                                    i == 0 ? 2147483647 : 65535));
        if (ctas % kernel->cluster[i])
          return fail(where,
                      "expected a multiple of the cluster's {} CTAs, got {} "
                      "with {}",
                      kernel->cluster[i], ctas, describe(symbols));
      }
    }
    for (const ArgumentField &field : kernel->arguments.fields) {
      if (field.kind != ArgumentField::Kind::Size)
        continue;
      bool wide = field.elementType != "i32";
      // Packing is the same for all ranks. A run uses its rank's properties, so
      // the smallest and largest values of all ranks are checked.
      Symbols least = symbols, most = symbols;
      if (!symbols.experts) {
        least.localBegin = least.addW2Bias = least.addZeroExperts = 0;
        least.rank = 0;
        most.localBegin = kMostExperts;
        most.addW2Bias = most.addZeroExperts = 1;
        most.rank = manifest.ranks.back().rank;
      }
      for (const Symbols &ofRank : {least, most})
        TRY(evaluate(fmt::format("{} (argument '{}' of kernel '{}')", path,
                                 field.name, kernel->name),
                     field.expression, ofRank,
                     wide ? -kMaxBytes : -2147483648LL,
                     wide ? kMaxBytes : 2147483647));
    }
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Variants
//===----------------------------------------------------------------------===//

/// Rounds `bytes` up to a multiple of kBaseAlignment. A size in a manifest (of
/// a region or the workspace) may exceed the needed bytes only by this
/// rounding, so a manifest cannot make the device reserve much more memory than
/// needed.
static int64_t roundedUp(int64_t bytes) {
  return (bytes + kBaseAlignment - 1) / kBaseAlignment * kBaseAlignment;
}

Result<void> Checker::checkRegions(const std::string &path,
                                   const Target &target, const Variant &variant,
                                   const Symbols &symbols) {
  int64_t workspace =
      TRY(evaluate(path + ".workspace_bytes", variant.workspaceBytes, symbols,
                   0, kMaxBytes));
  std::vector<std::pair<int64_t, int64_t>> spans;
  int64_t end = 0;
  for (size_t i = 0; i < variant.regions.size(); ++i) {
    const Region &region = variant.regions[i];
    std::string where = fmt::format("{}.regions[{}]", path, i);
    int64_t offset =
        TRY(evaluate(where + ".offset", region.offset, symbols, 0, kMaxBytes));
    int64_t bytes =
        TRY(evaluate(where + ".bytes", region.bytes, symbols, 1, kMaxBytes));
    const Value &value = *findValue(manifest, target, region.value);
    Result<int64_t> needed = valueBytes(value, symbols);
    if (!needed)
      return fail(where + ".value", "{}", needed.error().message);
    if (bytes < *needed || bytes > roundedUp(*needed))
      return fail(where + ".bytes",
                  "expected the {} bytes of '{}', or those rounded up to a "
                  "multiple of {}, got {} = {} with {}",
                  *needed, region.value, kBaseAlignment, region.bytes.text(),
                  bytes, describe(symbols));
    end = std::max(end, offset + bytes);
    int64_t alignment = value.alignment;
    if (offset % alignment)
      return fail(where + ".offset",
                  "expected a multiple of {}, the alignment of '{}', got {} = "
                  "{} with {}",
                  alignment, region.value, region.offset.text(), offset,
                  describe(symbols));
    if (offset + bytes > workspace)
      return fail(where,
                  "expected '{}' to end within the workspace of {} bytes, it "
                  "ends at {} with {}",
                  region.value, workspace, offset + bytes, describe(symbols));
    for (size_t j = 0; j < i; ++j) {
      const Region &other = variant.regions[j];
      bool sameTime = region.firstLaunch <= other.lastLaunch &&
                      other.firstLaunch <= region.lastLaunch;
      bool sameBytes =
          offset < spans[j].second && spans[j].first < offset + bytes;
      if (sameTime && sameBytes)
        return fail(where,
                    "expected no overlap, '{}' at {} to {} meets '{}' (regions"
                    "[{}]) at {} to {} while both live, with {}",
                    region.value, offset, offset + bytes, other.value, j,
                    spans[j].first, spans[j].second, describe(symbols));
    }
    spans.emplace_back(offset, offset + bytes);
  }
  if (workspace > roundedUp(end))
    return fail(path + ".workspace_bytes",
                "expected at most {}, where the last region ends, rounded up "
                "to a multiple of {}, got {} = {} with {}",
                end, kBaseAlignment, variant.workspaceBytes.text(), workspace,
                describe(symbols));
  return {};
}

Result<void> Checker::checkVariant(const std::string &path,
                                   const Target &target,
                                   const Variant &variant) {
  std::vector<Symbols> samples =
      sampleSymbols(manifest, variant.minTokens, variant.maxTokens);
  if (variant.launches.empty())
    return fail(path + ".launches", "expected at least one launch");
  if (variant.regions.size() > kMostRegions)
    return fail(path + ".regions", "expected at most {} regions, got {}",
                kMostRegions, variant.regions.size());
  int64_t launchCount = static_cast<int64_t>(variant.launches.size());
  for (size_t i = 0; i < variant.regions.size(); ++i) {
    const Region &region = variant.regions[i];
    std::string where = fmt::format("{}.regions[{}]", path, i);
    const Value *value = findValue(manifest, target, region.value);
    if (!value || value->role != ValueRole::Workspace)
      return fail(where + ".value",
                  "expected the name of a workspace value, got '{}'",
                  region.value);
    TRY(checkInteger(where + ".first_launch", region.firstLaunch, 0,
                     launchCount - 1));
    TRY(checkInteger(where + ".last_launch", region.lastLaunch,
                     region.firstLaunch, launchCount - 1));
    for (size_t j = 0; j < i; ++j)
      if (variant.regions[j].value == region.value &&
          region.firstLaunch <= variant.regions[j].lastLaunch &&
          variant.regions[j].firstLaunch <= region.lastLaunch)
        return fail(where,
                    "expected one place at a time for '{}', regions[{}] "
                    "is another",
                    region.value, j);
  }
  std::set<std::string> touched;
  for (size_t i = 0; i < variant.launches.size(); ++i) {
    const Launch &launch = variant.launches[i];
    std::string where = fmt::format("{}.launches[{}]", path, i);
    if (const Kernel *kernel = findKernel(target, launch.kernel))
      for (const ArgumentField &field : kernel->arguments.fields)
        if (field.kind == ArgumentField::Kind::FirstExpert)
          return fail(where + ".kernel",
                      "expected a kernel of runs, '{}' takes a first expert "
                      "and belongs to pack",
                      kernel->name);
    std::vector<std::string> values;
    std::string toucher = "the collective";
    if (const std::optional<Collective> &collective = launch.collective) {
      TRY(checkCollective(where + ".collective", target, *collective));
      values = collective->operands;
      values.insert(values.end(), collective->results.begin(),
                    collective->results.end());
    } else {
      TRY(checkLaunch(where, target, launch, samples));
      const Kernel &kernel = *findKernel(target, launch.kernel);
      values = touchedValues(target, kernel);
      toucher = fmt::format("kernel '{}'", kernel.name);
    }
    for (const std::string &name : values) {
      touched.insert(name);
      const Value &value = *findValue(manifest, target, name);
      if (value.role == ValueRole::StoredWeight)
        for (const Pack &pack : target.pack)
          if (pack.inPlace && !pack.from.empty() && pack.from[0] == name)
            return fail(where + ".kernel",
                        "expected no use of '{}', which pack replaces in place "
                        "by '{}'; {} reads it",
                        name, pack.result, toucher);
      if (value.role != ValueRole::Workspace)
        continue;
      bool lives =
          std::ranges::any_of(variant.regions, [&](const Region &region) {
            return region.value == name &&
                   region.firstLaunch <= static_cast<int64_t>(i) &&
                   static_cast<int64_t>(i) <= region.lastLaunch;
          });
      if (!lives)
        return fail(where,
                    "expected a region of '{}' that lives at this launch, "
                    "since {} touches it; there is none in {}.regions",
                    name, toucher, path);
    }
  }
  for (const Value &value : manifest.values)
    if (value.role == ValueRole::Output && !touched.count(value.name))
      return fail(path + ".launches",
                  "expected a kernel that writes output '{}', and there is "
                  "none",
                  value.name);
  for (const Symbols &symbols : samples)
    TRY(checkRegions(path, target, variant, symbols));
  return {};
}

Result<void> Checker::checkVariants(const std::string &path,
                                    const Target &target) {
  if (target.variants.empty())
    return fail(path + ".variants", "expected at least one variant");
  std::set<std::string> names;
  int64_t next = 1;
  for (size_t i = 0; i < target.variants.size(); ++i) {
    const Variant &variant = target.variants[i];
    std::string where = fmt::format("{}.variants[{}]", path, i);
    TRY(checkName(where + ".name", variant.name, names));
    TRY(checkInteger(where + ".min_sms", variant.minSms, 0, 1024));
    if (variant.minSms > 0) {
      if (variant.minTokens < next)
        return fail(where + ".min_tokens",
                    "expected at least {}, since earlier variants cover fewer "
                    "on every device, got {}",
                    next, variant.minTokens);
      TRY(checkInteger(where + ".max_tokens", variant.maxTokens,
                       variant.minTokens, manifest.maxTokens));
      continue;
    }
    if (variant.minTokens != next)
      return fail(where + ".min_tokens",
                  "expected {}, so that ranges leave no gap and do not "
                  "overlap, got {}",
                  next, variant.minTokens);
    TRY(checkInteger(where + ".max_tokens", variant.maxTokens,
                     variant.minTokens, manifest.maxTokens));
    next = variant.maxTokens + 1;
  }
  if (next != manifest.maxTokens + 1)
    return fail(fmt::format("{}.variants[{}].max_tokens", path,
                            target.variants.size() - 1),
                "expected {}, the max_tokens of the manifest, got {}",
                manifest.maxTokens, next - 1);
  for (size_t i = 0; i < target.variants.size(); ++i)
    TRY(checkVariant(fmt::format("{}.variants[{}]", path, i), target,
                     target.variants[i]));
  return {};
}

//===----------------------------------------------------------------------===//
// Packs
//===----------------------------------------------------------------------===//

/// Appends the symbols for each possible number of experts in a pack step:
/// experts_per_step, and the remainder in the last step.
Result<void> Checker::checkPackSteps(const std::string &path,
                                     const Target &target, const Pack &pack,
                                     std::vector<Symbols> &samples) {
  for (int64_t experts : {pack.expertsPerStep, int64_t(1),
                          pack.totalExperts % pack.expertsPerStep}) {
    if (experts < 1)
      continue;
    Symbols symbols;
    symbols.maxTokens = manifest.maxTokens;
    symbols.smCount = 132;
    symbols.experts = experts;
    samples.push_back(symbols);
    int64_t bytes =
        TRY(evaluate(path + ".scratch_bytes", pack.scratchBytes, symbols,
                     pack.scratch.empty() ? 0 : 1, kMaxBytes));
    if (pack.scratch.empty()) {
      if (bytes != 0)
        return fail(path + ".scratch_bytes",
                    "expected 0 without a scratch value, got {}", bytes);
      continue;
    }
    Result<int64_t> most =
        valueBytes(*findValue(manifest, target, pack.scratch), symbols);
    if (!most)
      return fail(path + ".scratch", "{}", most.error().message);
    if (bytes > *most)
      return fail(path + ".scratch_bytes",
                  "expected at most the {} bytes of '{}', got {} with {}",
                  *most, pack.scratch, bytes, describe(symbols));
  }
  return {};
}

Result<void> Checker::checkPackLaunches(const std::string &path,
                                        const Target &target, const Pack &pack,
                                        const std::vector<Symbols> &samples) {
  bool written = false;
  for (size_t i = 0; i < pack.launches.size(); ++i) {
    const Launch &launch = pack.launches[i];
    std::string where = fmt::format("{}.launches[{}]", path, i);
    TRY(checkLaunch(where, target, launch, samples));
    const Kernel &kernel = *findKernel(target, launch.kernel);
    for (const ArgumentField &field : kernel.arguments.fields)
      if (field.kind == ArgumentField::Kind::Peers ||
          field.kind == ArgumentField::Kind::Status)
        return fail(where + ".kernel",
                    "expected a kernel of one rank, '{}' takes '{}' and "
                    "belongs to runs",
                    kernel.name, field.name);
    for (const std::string &name : touchedValues(target, kernel)) {
      bool isFrom = std::ranges::find(pack.from, name) != pack.from.end();
      written |= name == pack.result;
      if (name != pack.result && name != pack.scratch && !isFrom)
        return fail(where + ".kernel",
                    "expected a kernel that touches only '{}', its sources "
                    "and scratch; '{}' touches '{}'",
                    pack.result, kernel.name, name);
    }
  }
  if (!written)
    return fail(path + ".launches",
                "expected a kernel that writes '{}', and "
                "there is none",
                pack.result);
  return {};
}

Result<void> Checker::checkPack(const std::string &path, const Target &target,
                                const Pack &pack,
                                const std::set<std::string> &made) {
  auto roleOf = [&](const std::string &name) -> std::optional<ValueRole> {
    const Value *value = findValue(manifest, target, name);
    return value ? std::optional(value->role) : std::nullopt;
  };
  if (roleOf(pack.result) != ValueRole::PackedWeight)
    return fail(path + ".result",
                "expected the name of a packed weight, got "
                "'{}'",
                pack.result);
  if (pack.from.empty())
    return fail(path + ".from", "expected at least one stored weight");
  // All values except the first may be results of earlier entries.
  for (size_t i = 0; i < pack.from.size(); ++i)
    if (roleOf(pack.from[i]) != ValueRole::StoredWeight &&
        (i == 0 || !made.contains(pack.from[i])))
      return fail(fmt::format("{}.from[{}]", path, i),
                  "expected the name of a stored weight{}, got '{}'",
                  i == 0 ? "" : ", or of a packed weight of an earlier entry",
                  pack.from[i]);
  const Value &result = *findValue(manifest, target, pack.result);
  if (pack.inPlace && result.mayAlias != pack.from[0])
    return fail(path + ".in_place",
                "expected false, or may_alias = '{}' at '{}', which has '{}'",
                pack.from[0], pack.result, result.mayAlias);
  TRY(checkInteger(path + ".total_experts", pack.totalExperts, 1, 2147483647));
  TRY(checkInteger(path + ".experts_per_step", pack.expertsPerStep, 1,
                   pack.totalExperts));
  if (result.shape.empty() ||
      result.shape[0].constant() != std::optional(pack.totalExperts))
    return fail(
        path + ".total_experts",
        "expected the outermost extent of '{}', {}, got {}", pack.result,
        result.shape.empty() ? "which has none" : result.shape[0].text(),
        pack.totalExperts);
  if (!pack.scratch.empty() && roleOf(pack.scratch) != ValueRole::Workspace)
    return fail(path + ".scratch",
                "expected the name of a workspace value or '', got '{}'",
                pack.scratch);
  if (pack.launches.empty())
    return fail(path + ".launches", "expected at least one launch");

  std::vector<Symbols> samples;
  TRY(checkPackSteps(path, target, pack, samples));
  return checkPackLaunches(path, target, pack, samples);
}

Result<void> Checker::checkPacks(const std::string &path,
                                 const Target &target) {
  std::set<std::string> made;
  for (size_t i = 0; i < target.pack.size(); ++i) {
    std::string where = fmt::format("{}.pack[{}]", path, i);
    TRY(checkPack(where, target, target.pack[i], made));
    if (!made.insert(target.pack[i].result).second)
      return fail(where + ".result",
                  "expected each packed weight once, got "
                  "'{}' again",
                  target.pack[i].result);
  }
  for (size_t i = 0; i < target.values.size(); ++i)
    if (target.values[i].role == ValueRole::PackedWeight &&
        !made.count(target.values[i].name))
      return fail(fmt::format("{}.values[{}]", path, i),
                  "expected an entry of {}.pack that makes '{}', and there is "
                  "none",
                  path, target.values[i].name);
  return {};
}

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

Result<void> Checker::checkState(const std::string &path,
                                 const Target &target) {
  TRY(checkInteger(path + ".state_bytes", target.stateBytes, 0, kMaxBytes));
  if (target.stateRegions.size() > kMostRegions)
    return fail(path + ".state_regions", "expected at most {} regions, got {}",
                kMostRegions, target.stateRegions.size());
  std::set<std::string> placed;
  std::vector<std::pair<int64_t, int64_t>> spans;
  int64_t end = 0;
  for (size_t i = 0; i < target.stateRegions.size(); ++i) {
    const StateRegion &region = target.stateRegions[i];
    std::string where = fmt::format("{}.state_regions[{}]", path, i);
    const Value *value = findValue(manifest, target, region.value);
    if (!value || value->role != ValueRole::State)
      return fail(where + ".value",
                  "expected the name of a state value, got '{}'", region.value);
    if (!placed.insert(region.value).second)
      return fail(where + ".value", "expected each value once, got '{}' again",
                  region.value);
    Result<int64_t> bytes = valueBytes(*value, {});
    if (!bytes)
      return fail(where, "{}", bytes.error().message);
    if (region.offset < 0 || region.offset % value->alignment)
      return fail(where + ".offset",
                  "expected a multiple of {}, the alignment of '{}', got {}",
                  value->alignment, region.value, region.offset);
    if (region.offset > target.stateBytes - *bytes)
      return fail(where + ".offset",
                  "expected '{}' with {} bytes to end within state_bytes = {}, "
                  "got offset {}",
                  region.value, *bytes, target.stateBytes, region.offset);
    for (size_t j = 0; j < i; ++j)
      if (region.offset < spans[j].second &&
          spans[j].first < region.offset + *bytes)
        return fail(where, "expected no overlap, '{}' meets '{}'", region.value,
                    target.stateRegions[j].value);
    spans.emplace_back(region.offset, region.offset + *bytes);
    end = std::max(end, spans.back().second);
  }
  for (size_t i = 0; i < target.values.size(); ++i)
    if (target.values[i].role == ValueRole::State &&
        !placed.count(target.values[i].name))
      return fail(fmt::format("{}.values[{}]", path, i),
                  "expected an entry of {}.state_regions that places '{}', and "
                  "there is none",
                  path, target.values[i].name);
  if (target.stateBytes > roundedUp(end))
    return fail(path + ".state_bytes",
                "expected at most {}, where the last of state_regions ends, "
                "rounded up to a multiple of {}, got {}",
                end, kBaseAlignment, target.stateBytes);
  return {};
}
