//===- ValidateWindow.cpp - memory that ranks write to --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The window layout is the same on all ranks and for every token count, so a
// value has the same offset in all windows.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Checker.h"
#include "runtime/package/Limits.h"

#include <algorithm>

using namespace moec;

/// Checks that the exchange words, through which ranks synchronize, are the
/// first value of the window.
Result<void> Checker::checkExchangeWords(const std::string &path,
                                         const Target &target) {
  const auto isFirst = [](const WindowRegion &region) {
    return region.value == kExchangeWords && region.offset == 0;
  };
  const Value *words = findValue(manifest, target, kExchangeWords);
  if (!words || target.windowRegions.empty() ||
      !isFirst(target.windowRegions.front()))
    return fail(path + ".window_regions",
                "expected '{}' at offset 0 as the first region",
                kExchangeWords);
  const int64_t count = exchangeWordsOf(target.windowRanks);
  if (words->elementTypes != std::vector<std::string>{"i64"} ||
      words->shape != std::vector<Expression>{Expression(count)})
    return fail(path + ".window_regions[0]",
                "expected '{}' to have {} elements of i64 for {} ranks",
                kExchangeWords, count, target.windowRanks);
  return {};
}

/// Returns the maximum size in bytes of a value over all token counts.
Result<int64_t> Checker::mostBytes(const std::string &path,
                                   const Value &value) {
  int64_t most = 0;
  for (Symbols symbols : sampleSymbols(manifest, 1, manifest.maxTokens)) {
    symbols.smCount.reset();
    Result<int64_t> bytes = valueBytes(value, symbols);
    if (!bytes)
      return fail(path, "{}", bytes.error().message);
    most = std::max(most, *bytes);
  }
  return most;
}

Result<void> Checker::checkWindow(const std::string &path,
                                  const Target &target) {
  std::set<std::string> placed;
  if (target.windowRanks == 1 &&
      (target.windowBytes != 0 || !target.windowRegions.empty()))
    return fail(path + ".window_ranks",
                "expected 2 or more, since there is a window, got 1");
  if (target.windowRanks != 1) {
    TRY(checkInteger(path + ".window_ranks", target.windowRanks, 2,
                     kMostWindowRanks));
    if (target.windowRanks != manifest.tokenRanks)
      return fail(path + ".window_ranks",
                  "expected {}, the token_ranks of the manifest, got {}",
                  manifest.tokenRanks, target.windowRanks);
    if (manifest.ranks.back().rank >= target.windowRanks)
      return fail(path + ".window_ranks",
                  "expected more than {}, the last of the manifest's ranks, "
                  "got {}",
                  manifest.ranks.back().rank, target.windowRanks);
    TRY(checkInteger(path + ".window_bytes", target.windowBytes, 1, kMaxBytes));
    TRY(checkExchangeWords(path, target));
  }
  int64_t end = 0;
  for (size_t i = 0; i < target.windowRegions.size(); ++i) {
    const WindowRegion &region = target.windowRegions[i];
    const std::string where = fmt::format("{}.window_regions[{}]", path, i);
    const Value *value = findValue(manifest, target, region.value);
    if (!value || value->role != ValueRole::Window)
      return fail(where + ".value",
                  "expected the name of a window value, got '{}'",
                  region.value);
    if (!placed.insert(region.value).second)
      return fail(where + ".value", "expected each value once, got '{}' again",
                  region.value);
    if (region.offset < end || region.offset % kWindowAlignment)
      return fail(where + ".offset",
                  "expected a multiple of {} of at least {}, where the region "
                  "before it ends, got {}",
                  kWindowAlignment, end, region.offset);
    const int64_t bytes = TRY(mostBytes(where, *value));
    if (bytes > target.windowBytes ||
        region.offset > target.windowBytes - bytes)
      return fail(where + ".offset",
                  "expected '{}' with {} bytes to end within window_bytes = "
                  "{}, got offset {}",
                  region.value, bytes, target.windowBytes, region.offset);
    end = region.offset + bytes;
  }
  for (size_t i = 0; i < target.values.size(); ++i)
    if (target.values[i].role == ValueRole::Window &&
        !placed.contains(target.values[i].name))
      return fail(fmt::format("{}.values[{}]", path, i),
                  "expected an entry of {}.window_regions that places '{}', "
                  "and there is none",
                  path, target.values[i].name);
  if (target.windowBytes > end + kWindowAlignment - 1)
    return fail(path + ".window_bytes",
                "expected at most {}, where the last of window_regions ends, "
                "rounded up to a multiple of {}, got {}",
                end, kWindowAlignment, target.windowBytes);
  return {};
}
