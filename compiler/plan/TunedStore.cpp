//===- TunedStore.cpp - a user's own measured schedules -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The lock is an own file, since the file of rows is replaced.
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/TunedStore.h"

#include "runtime/support/Descriptor.h"
#include "runtime/support/Env.h"
#include "runtime/support/Files.h"
#include "runtime/support/Log.h"

#include <algorithm>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

using namespace moec;
using namespace moec::compiler;

std::string compiler::tunedStoreFolder(const std::string &cacheFolder) {
  const std::string named = envString("MOEC_TUNED_STORE");
  if (named == "off")
    return "";
  if (!named.empty())
    return named;
  if (!cacheFolder.empty())
    return joinPath(cacheFolder, "tuned");
  // Without a folder for the cache there is none for the store.
  const Result<std::string> folder = envCacheFolder();
  return folder ? joinPath(*folder, "tuned") : "";
}

std::vector<std::string>
compiler::readableStore(const std::string &cacheFolder) {
  const std::string folder = tunedStoreFolder(cacheFolder);
  std::vector<std::string> readable;
  if (folder.empty() || !isFolder(folder))
    return readable;
  const auto leaveOut = [](const std::string &what, const Error &error) {
    log(LogLevel::Warning,
        "the store of measured schedules: {} is left out: {}", what,
        error.message);
  };
  const auto names = listFiles(folder);
  if (!names) {
    leaveOut(folder, names.error());
    return readable;
  }
  for (const std::string &name : *names) {
    if (!name.ends_with(".json") || name.find('/') != std::string::npos)
      continue;
    const std::string path = joinPath(folder, name);
    const auto rows = [&]() -> Result<std::vector<TunedRow>> {
      return parseTuned(TRY(readFile(path)), path);
    }();
    if (rows)
      readable.push_back(path);
    else
      leaveOut(path, rows.error());
  }
  return readable;
}

/// Whether the second says the same matmul's schedule for some token count.
static bool replaces(const TunedRow &made, const TunedRow &known) {
  return made.gpu == known.gpu && made.n == known.n && made.k == known.k &&
         made.experts == known.experts && made.pairs == known.pairs &&
         made.elementType == known.elementType && made.gated == known.gated &&
         made.gather == known.gather && made.scheme == known.scheme &&
         made.first <= known.last && known.first <= made.last;
}

Result<void> compiler::addToTuned(const std::string &path,
                                  std::span<const TunedRow> rows) {
  TRY(createFolders(parentFolder(path)));
  const std::string lockPath = path + ".lock";
  const Descriptor lock(
      ::open(lockPath.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666));
  if (!lock || ::flock(lock.get(), LOCK_EX) != 0)
    return fileError("cannot lock", lockPath);
  std::vector<TunedRow> all;
  if (fileExists(path))
    all = TRY(parseTuned(TRY(readFile(path)), path));
  std::erase_if(all, [&](const TunedRow &known) {
    return std::ranges::any_of(
        rows, [&](const TunedRow &made) { return replaces(made, known); });
  });
  for (const TunedRow &known : all)
    if (!known.hasRange())
      return invalidArgument("'{}' has rows of version 1, which name no range "
                             "of token counts; expected another file (--out)",
                             path);
  all.insert(all.end(), rows.begin(), rows.end());
  return writeFileAtomically(path, printTuned(all));
}
