//===- Cache.cpp - moec cache ---------------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/command/Commands.h"

#include "compiler/TargetNames.h"
#include "dialect/catalog/Architectures.h"
#include "runtime/jit/CacheEntries.h"
#include "runtime/support/Bytes.h"
#include "runtime/support/Env.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>

using namespace moec;
using namespace moec::compiler;
using moec::runtime::CacheEntry;
using nlohmann::ordered_json;

namespace {

constexpr time_t kHour = 3600, kDay = 24 * kHour;

struct Total {
  size_t entries = 0;
  uint64_t bytes = 0;
};

Total totalOf(const std::vector<CacheEntry> &entries) {
  Total total;
  for (const CacheEntry &entry : entries) {
    ++total.entries;
    total.bytes += entry.bytes;
  }
  return total;
}

std::string dayOf(time_t time) {
  struct tm parts = {};
  char text[32] = "";
  if (::gmtime_r(&time, &parts))
    std::strftime(text, sizeof(text), "%Y-%m-%d", &parts);
  return text;
}

std::string kernelsText(size_t count) {
  return fmt::format("{} kernel{}", count, count == 1 ? "" : "s");
}

ordered_json jsonOf(const CacheEntry &entry) {
  return {{"arch", entry.arch},
          {"name", entry.name},
          {"bytes", entry.bytes},
          {"used", dayOf(entry.used)},
          {"whole", entry.isWhole}};
}

/// Returns text with the total size of a cache and its size per arch.
std::string showText(const std::string &folder, uint64_t bound,
                     const std::vector<CacheEntry> &entries) {
  const Total all = totalOf(entries);
  std::string text = fmt::format("{}: {}, {}, {}\n", folder,
                                 kernelsText(all.entries), bytesText(all.bytes),
                                 bound == 0 ? "no bound (MOEC_CACHE_SIZE)"
                                            : "bound " + bytesText(bound));
  std::map<std::string, std::vector<CacheEntry>> byArch;
  for (const CacheEntry &entry : entries)
    byArch[entry.arch].push_back(entry);
  for (const auto &[arch, of] : byArch) {
    const Total total = totalOf(of);
    text += fmt::format("  {:<8}  {:>6}  {:>10}  used {} to {}\n", arch,
                        total.entries, bytesText(total.bytes),
                        dayOf(of.front().used), dayOf(of.back().used));
  }
  return text;
}

std::string listText(const std::vector<CacheEntry> &entries) {
  std::string text;
  for (const CacheEntry &entry : entries)
    text += fmt::format("{}  {:>10}  {:<8}  {}{}\n", dayOf(entry.used),
                        bytesText(entry.bytes), entry.arch, entry.name,
                        entry.isWhole ? "" : "  (unfinished or damaged)");
  return text;
}

/// Returns the entries that are old enough for `clear` or `trim` to remove. An
/// incomplete entry is kept for an hour, because another process may still be
/// writing it.
std::vector<CacheEntry> chosen(const CacheCommand &command,
                               const std::vector<CacheEntry> &entries) {
  const time_t now = ::time(nullptr);
  std::vector<CacheEntry> removed;
  for (const CacheEntry &entry : entries) {
    const bool isOld = command.olderThanDays < 0 ||
                       static_cast<double>(now - entry.used) >=
                           command.olderThanDays * static_cast<double>(kDay);
    if (isOld && (entry.isWhole || now - entry.used > kHour))
      removed.push_back(entry);
  }
  return removed;
}

std::vector<CacheEntry> without(const std::vector<CacheEntry> &entries,
                                const std::vector<CacheEntry> &removed) {
  std::vector<CacheEntry> rest;
  for (const CacheEntry &entry : entries)
    if (std::ranges::none_of(removed, [&](const CacheEntry &other) {
          return entry.arch == other.arch && entry.name == other.name;
        }))
      rest.push_back(entry);
  return rest;
}

Result<void> remove(const CacheCommand &command, const std::string &folder,
                    const std::vector<CacheEntry> &entries, bool isWholeCache) {
  std::vector<CacheEntry> removed;
  if (isWholeCache || command.olderThanDays >= 0)
    removed = chosen(command, entries);
  if (command.maxBytes) {
    const std::vector<CacheEntry> rest = without(entries, removed);
    for (CacheEntry &entry : runtime::entriesAbove(rest, *command.maxBytes))
      removed.push_back(std::move(entry));
  }
  if (!command.dryRun)
    for (const CacheEntry &entry : removed)
      TRY(runtime::removeCacheEntry(folder, entry));
  const Total gone = totalOf(removed);
  const Total left = totalOf(without(entries, removed));
  if (command.json) {
    const ordered_json made = {{"folder", folder},
                               {"removed", gone.entries},
                               {"removed_bytes", gone.bytes},
                               {"kernels", left.entries},
                               {"bytes", left.bytes},
                               {"dry_run", command.dryRun}};
    return writeStandardOutput(made.dump(2) + "\n");
  }
  return writeStandardOutput(fmt::format(
      "{}: {} {}, {}; left {}, {}\n", folder,
      command.dryRun ? "would remove" : "removed", kernelsText(gone.entries),
      bytesText(gone.bytes), kernelsText(left.entries), bytesText(left.bytes)));
}

} // namespace

std::vector<std::string> moec::compiler::cacheActions() {
  return {"show", "list", "trim", "clear"};
}

Result<void> moec::compiler::runCache(const CacheCommand &command) {
  const std::string folder =
      command.folder.empty() ? TRY(envCacheFolder()) : command.folder;
  auto listed = runtime::listCache(folder);
  if (!listed)
    return Error(listed.error().code,
                 "{}; expected the kernel cache, which --cache-dir or "
                 "MOEC_CACHE_DIR names",
                 listed.error().message);
  std::vector<CacheEntry> &entries = *listed;
  if (!command.arch.empty()) {
    const catalog::Gpu *gpu = findGpuByWord(command.arch);
    const std::string arch = gpu ? std::string(gpu->arch) : command.arch;
    if (!catalog::find(catalog::kArchitectures, arch))
      return invalidArgument("--arch: {}", unknownArch(arch).message);
    std::erase_if(entries,
                  [&](const CacheEntry &entry) { return entry.arch != arch; });
  }
  if (command.action == "clear" || command.action == "trim")
    return remove(command, folder, entries, command.action == "clear");
  if (command.json) {
    ordered_json kernels = ordered_json::array();
    for (const CacheEntry &entry : entries)
      kernels.push_back(jsonOf(entry));
    const Total all = totalOf(entries);
    const ordered_json made = {{"folder", folder},
                               {"bound", TRY(envBytes("MOEC_CACHE_SIZE"))},
                               {"bytes", all.bytes},
                               {"kernels", kernels}};
    return writeStandardOutput(made.dump(2) + "\n");
  }
  return writeStandardOutput(
      command.action == "list"
          ? listText(entries)
          : showText(folder, TRY(envBytes("MOEC_CACHE_SIZE")), entries));
}
