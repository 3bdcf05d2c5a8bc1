//===- Env.cpp - reading the environment ----------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This is the only file that calls getenv.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Env.h"

#include "runtime/support/Bytes.h"
#include "runtime/support/Words.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <thread>

#include <sched.h>
#include <unistd.h>

using namespace moec;

std::string moec::envString(EnvName name) { return envString(name.variable()); }

std::string moec::envString(const EnvVariable &variable) {
  const char *value = std::getenv(std::string(variable.name).c_str());
  return value && *value ? value : std::string(variable.defaultValue);
}

Result<bool> moec::envFlag(EnvName name) {
  std::string value = envString(name);
  if (value == "1" || value == "on" || value == "true" || value == "yes")
    return true;
  if (value == "0" || value == "off" || value == "false" || value == "no")
    return false;
  return invalidArgument("environment variable {}: expected 1, on, true, yes "
                         "or 0, off, false, no, got '{}'",
                         name.variable().name, value);
}

Result<int64_t> moec::envInteger(EnvName name) {
  std::string value = envString(name);
  int64_t number = 0;
  auto [end, code] =
      std::from_chars(value.data(), value.data() + value.size(), number);
  if (code != std::errc() || end != value.data() + value.size() || number < 0)
    return invalidArgument(
        "environment variable {}: expected an integer >= 0, got '{}'",
        name.variable().name, value);
  return number;
}

Result<uint64_t> moec::envBytes(EnvName name) {
  Result<uint64_t> bytes = parseBytes(envString(name));
  if (!bytes)
    return invalidArgument("environment variable {}: {}", name.variable().name,
                           bytes.error().message);
  return bytes;
}

std::vector<std::string> moec::misspeltVariables() {
  constexpr std::string_view kPrefix = "MOEC_";
  std::vector<std::string_view> known; // names without the prefix
  for (const EnvVariable &variable : kEnvVariables)
    if (variable.name.starts_with(kPrefix))
      known.push_back(variable.name.substr(kPrefix.size()));
  std::vector<std::string> warnings;
  for (char **each = ::environ; each && *each; ++each) {
    const std::string_view entry = *each;
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with(kPrefix))
      continue;
    const std::string_view word = name.substr(kPrefix.size());
    const std::string_view meant = nearestOf(word, known);
    if (!meant.empty() && meant != word)
      warnings.push_back(
          fmt::format("environment variable {} is not read; did you mean {}{}?",
                      name, kPrefix, meant));
  }
  return warnings;
}

char *const *moec::envBlock() { return ::environ; }

Result<std::string> moec::envCacheFolder() {
  if (std::string folder = envString("MOEC_CACHE_DIR"); !folder.empty())
    return folder;
  if (std::string folder = envString("XDG_CACHE_HOME"); !folder.empty())
    return folder + "/moec";
  if (std::string folder = envString("HOME"); !folder.empty())
    return folder + "/.cache/moec";
  return Error{ErrorCode::FileSystem,
               "no folder for the kernel cache: expected one of the "
               "environment variables MOEC_CACHE_DIR, XDG_CACHE_HOME or HOME, "
               "and none is set"};
}

int moec::usableThreads() {
  // The kernel rejects a CPU mask that is smaller than its own mask, so larger
  // masks are tried until one is accepted.
  for (int cpus = 1024; cpus <= (1 << 18); cpus *= 4) {
    cpu_set_t *mask = CPU_ALLOC(cpus);
    if (!mask)
      break;
    size_t bytes = CPU_ALLOC_SIZE(cpus);
    CPU_ZERO_S(bytes, mask);
    int count =
        sched_getaffinity(0, bytes, mask) == 0 ? CPU_COUNT_S(bytes, mask) : 0;
    CPU_FREE(mask);
    if (count > 0)
      return count;
    if (errno != EINVAL)
      break;
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}
