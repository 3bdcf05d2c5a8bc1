//===- TunedStore.cpp - the user's measured schedules ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The lock is a separate file, because an update replaces the file of rows.
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/TunedStore.h"

#include "runtime/support/Descriptor.h"
#include "runtime/support/Env.h"
#include "runtime/support/Files.h"
#include "runtime/support/Log.h"

#include <algorithm>
#include <optional>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

using namespace moec;
using namespace moec::compiler;

/// Mode of a file of rows. Only the owner may write the file, independent of
/// the umask, because a store that other users can write is not read.
static constexpr unsigned kMode = 0644;

std::string compiler::tunedStoreFolder(const std::string &cacheFolder) {
  const std::string named = envString("MOEC_TUNED_STORE");
  if (named == "off")
    return "";
  if (!named.empty())
    return named;
  if (!cacheFolder.empty())
    return joinPath(cacheFolder, "tuned");
  // Without a cache folder there is no store.
  const Result<std::string> folder = envCacheFolder();
  return folder ? joinPath(*folder, "tuned") : "";
}

std::vector<std::string>
compiler::readableStore(const std::string &cacheFolder) {
  const std::string folder = tunedStoreFolder(cacheFolder);
  std::vector<std::string> readable;
  if (!folder.empty() && fileExists(folder) && !isFolder(folder))
    log(LogLevel::Warning,
        "the store of measured schedules: {} is no folder; set "
        "MOEC_TUNED_STORE to one, or to off",
        folder);
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
      const Descriptor file = TRY(openRegular(path));
      std::string why = foreignOwner(file);
      if (why.empty())
        why = openToOthers(file);
      if (!why.empty())
        return Error(ErrorCode::FileSystem,
                     "{}; expected a file owned by you or root that no other "
                     "user may write (chmod go-w)",
                     why);
      return parseTuned(TRY(readAll(file, kMostFileBytes, path)), path);
    }();
    if (rows)
      readable.push_back(path);
    else
      leaveOut(path, rows.error());
  }
  return readable;
}

/// Returns true if the rows were measured for the same matmul and scheme.
static bool areAlike(const TunedRow &a, const TunedRow &b) {
  return a.gpu == b.gpu && a.n == b.n && a.k == b.k && a.experts == b.experts &&
         a.pairs == b.pairs && a.elementType == b.elementType &&
         a.gated == b.gated && a.gather == b.gather && a.scheme == b.scheme;
}

/// Removes the token counts `first` to `last` from the row's range. Returns
/// false if they include the row's measured token count, so that nothing
/// remains. Otherwise the row keeps the part of its range that contains the
/// measured token count.
static bool cut(TunedRow &row, int64_t first, int64_t last) {
  if (row.first > last || row.last < first)
    return true;
  if (first <= row.tokens && row.tokens <= last)
    return false;
  if (row.tokens < first)
    row.last = first - 1;
  else
    row.first = last + 1;
  return true;
}

namespace {
/// The rows of a file. This process holds the file's lock while the object
/// exists.
struct LockedRows {
  Descriptor lock;
  std::vector<TunedRow> rows;
};
} // namespace

static Result<LockedRows> lockRows(const std::string &path) {
  TRY(createFolders(parentFolder(path), 0755));
  const std::string lockPath = path + ".lock";
  LockedRows locked;
  locked.lock = Descriptor(::open(
      lockPath.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!locked.lock || ::flock(locked.lock.get(), LOCK_EX) != 0)
    return fileError("cannot lock", lockPath);
  if (fileExists(path))
    locked.rows = TRY(parseTuned(TRY(readFile(path)), path));
  for (const TunedRow &known : locked.rows)
    if (!known.hasRange())
      return invalidArgument("'{}' has rows of version 1, which name no range "
                             "of token counts; expected another file (--out)",
                             path);
  return locked;
}

Result<void> compiler::checkWritable(const std::string &path) {
  TRY(createFolders(parentFolder(path), 0755));
  if (fileExists(path) && !isRegularFile(path))
    return invalidArgument("'{}' is no file", path);
  const std::string temporary = temporaryName(path);
  const Descriptor file(
      ::open(temporary.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666));
  if (!file)
    return fileError("cannot write", path);
  return removeAll(temporary);
}

Result<void> compiler::checkTakesRows(const std::string &path) {
  TRY(checkWritable(path));
  TRY(lockRows(path));
  return {};
}

/// Returns true if the rows can form a pair: they belong to the two matmuls of
/// one layer and were measured for the same token range.
static bool mayPair(const TunedRow &first, const TunedRow &second) {
  return first.gpu == second.gpu && first.first == second.first &&
         first.last == second.last &&
         first.schedule.tileM == second.schedule.tileM &&
         first.experts == second.experts && first.pairs == second.pairs &&
         first.k == second.n && first.n == second.k * (first.gated ? 2 : 1) &&
         !second.gated &&
         (first.scheme == second.scheme || first.scheme.empty() ||
          second.scheme.empty());
}

static bool areEqual(const TunedRow &a, const TunedRow &b) {
  return printTuned(std::span(&a, 1)) == printTuned(std::span(&b, 1));
}

/// Returns the rows after applying `change` to a copy of each. `change` returns
/// false if nothing remains of a row. Layers may share the row of a second
/// matmul. Therefore, if an unchanged row of a first matmul pairs with a
/// changed row, the original of the changed row is kept in addition.
template <typename Change>
static std::vector<TunedRow> changed(const std::vector<TunedRow> &rows,
                                     Change change) {
  std::vector<std::optional<TunedRow>> left;
  std::vector<const TunedRow *> alone;
  for (const TunedRow &row : rows) {
    TunedRow its = row;
    const bool some = change(its);
    left.push_back(some ? std::optional(its) : std::nullopt);
    if (some && areEqual(its, row))
      alone.push_back(&row);
  }
  std::vector<TunedRow> all;
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool isAlone = std::ranges::find(alone, &rows[i]) != alone.end();
    if (!isAlone && std::ranges::any_of(alone, [&](const TunedRow *first) {
          return mayPair(*first, rows[i]);
        }))
      all.push_back(rows[i]);
    if (left[i])
      all.push_back(*std::move(left[i]));
  }
  return all;
}

Result<void> compiler::addToTuned(const std::string &path,
                                  std::span<const TunedRow> rows) {
  const LockedRows locked = TRY(lockRows(path));
  std::vector<TunedRow> all = changed(locked.rows, [&](TunedRow &known) {
    return std::ranges::all_of(rows, [&](const TunedRow &made) {
      return !areAlike(made, known) || cut(known, made.first, made.last);
    });
  });
  // A new row also pairs with the first-matmul rows of other layers, so an old
  // row for the same matmul, range and tile rows is not needed.
  std::erase_if(all, [&](const TunedRow &known) {
    return std::ranges::any_of(rows, [&](const TunedRow &made) {
      return areAlike(made, known) && made.first == known.first &&
             made.last == known.last &&
             made.schedule.tileM == known.schedule.tileM;
    });
  });
  all.insert(all.end(), rows.begin(), rows.end());
  return writeFileAtomically(path, printTuned(all), kMode);
}

Result<void> compiler::takeFromTuned(const std::string &path,
                                     std::span<const TunedRow> rows,
                                     int64_t first, int64_t last) {
  const LockedRows locked = TRY(lockRows(path));
  const auto all = changed(locked.rows, [&](TunedRow &known) {
    const bool isAsked = std::ranges::any_of(
        rows, [&](const TunedRow &row) { return areEqual(row, known); });
    return !isAsked || cut(known, first, last);
  });
  return writeFileAtomically(path, printTuned(all), kMode);
}
