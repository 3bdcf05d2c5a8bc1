//===- TuneFiles.cpp - files that a tuner writes --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks before the measurements that all files can be written.
//
//===----------------------------------------------------------------------===//

#include "compiler/tune/TunedInput.h"

#include "compiler/plan/TunedStore.h"
#include "runtime/support/Files.h"

#include <fmt/core.h>

#include <filesystem>

using namespace moec;
using namespace moec::compiler;

/// Returns true if both paths refer to one file, existing or not, after
/// resolving links and dots.
static bool areOneFile(const std::string &a, const std::string &b) {
  std::error_code failed;
  if (std::filesystem::equivalent(a, b, failed))
    return true;
  const auto behind = [&](const std::string &path) {
    return std::filesystem::weakly_canonical(
        std::filesystem::absolute(path, failed), failed);
  };
  const std::filesystem::path its = behind(a);
  return !its.empty() && its == behind(b);
}

/// Checks that the three files are distinct, so that none overwrites another.
static Result<void> checkApart(const std::string &rows, const std::string &log,
                               const std::string &report) {
  const std::pair<const char *, const std::string *> files[] = {
      {"rows (--out)", &rows},
      {"log (--log)", &log},
      {"report (--report)", &report}};
  for (size_t i = 0; i < std::size(files); ++i)
    for (size_t j = i + 1; j < std::size(files); ++j)
      if (!files[j].second->empty() &&
          areOneFile(*files[i].second, *files[j].second))
        return invalidArgument("the {} and the {} are one file, '{}'; expected "
                               "a path of its own for each",
                               files[i].first, files[j].first,
                               *files[j].second);
  return {};
}

Result<TuneFiles> compiler::filesOf(const TuneOptions &options,
                                    const TunedInput &input) {
  const std::string store = tunedStoreFolder(options.compile.cacheFolder);
  if (store.empty() && (options.output.empty() || options.log.empty()))
    return refused("there is no store of measured schedules (MOEC_TUNED_STORE "
                   "is off, or no folder of a cache is known), which would "
                   "hold {}; expected {}",
                   !options.output.empty() ? "the log of measurements"
                   : options.log.empty()   ? "rows and the log of measurements"
                                           : "rows",
                   !options.output.empty() ? "--log beside --out"
                   : options.log.empty()   ? "--out and --log"
                                           : "--out beside --log");
  const std::string output =
      options.output.empty() ? joinPath(store, input.hardware().gpu + ".json")
                             : options.output;
  const std::string path =
      options.log.empty()
          ? joinPath(store, fmt::format("log/{}-{}.jsonl", input.name(),
                                        input.digest()))
          : options.log;
  TRY(checkApart(output, path, options.report));
  if (const Result<void> takes = checkTakesRows(output); !takes)
    return Error(takes.error().code,
                 "'{}' does not take rows: {}; expected the path of a file of "
                 "rows, or of none, in a folder that can be written (--out)",
                 output, takes.error().message);
  return TuneFiles{output, path};
}
