//===- PackageFolder.cpp - packages in folders ----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All files are read completely and hashed through one open folder descriptor,
// so they belong to the same package even if the folder is replaced. Paths come
// from untrusted JSON, so each is checked to be inside the folder before it is
// opened.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Package.h"
#include "runtime/package/Ranks.h"
#include "runtime/support/Descriptor.h"
#include "runtime/support/Files.h"
#include "runtime/support/Sha256.h"
#include "runtime/support/StagedFolder.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/core.h>
#include <set>
#include <sys/stat.h>

using namespace moec;

//===----------------------------------------------------------------------===//
// Reading packages
//===----------------------------------------------------------------------===//

/// Maximum size of a file in a package, far above any real kernel. Larger files
/// are rejected.
static constexpr uint64_t kMostPackageFileBytes = uint64_t(256) << 20;

static Result<ManifestFile> readManifestFile(const Descriptor &folder,
                                             const std::string &shown) {
  struct stat info;
  std::string name(kManifestFile);
  if (::fstatat(folder.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 &&
      errno == ENOENT)
    return Error(
        ErrorCode::DamagedPackage,
        "file 'manifest.json' is missing: expected a folder that moec compile "
        "has written{}",
        ::faccessat(folder.get(), "config.json", F_OK, 0) == 0
            ? "; this one has a config.json, which moec compile takes"
            : "");
  Descriptor file = TRY(openRegularAt(folder, name, shown));
  std::string text = TRY(readAll(file, kMaxManifestBytes, name));
  return manifestFileFromJson(text);
}

static Error unlisted(const std::string &path) {
  return Error(ErrorCode::DamagedPackage,
               "file '{}': expected only files that the manifest lists", path);
}

/// Reads the files of `present` whose path begins with `prefix`. Only paths
/// that the manifest lists are opened, and only regular files, because a
/// symbolic link could lead out of the folder.
static Result<PackageFiles> readFiles(const Descriptor &folder,
                                      const std::string &shown,
                                      Manifest manifest,
                                      const std::vector<std::string> &present,
                                      const std::string &prefix = "") {
  PackageFiles package;
  package.manifest = std::move(manifest);
  for (const std::string &full : present) {
    if (!full.starts_with(prefix))
      continue;
    const std::string path = full.substr(prefix.size());
    if (path == kManifestFile)
      continue;
    if (!package.manifest.files.count(path))
      return unlisted(full);
    Result<Descriptor> file = openRegularAt(folder, full, shown);
    if (!file)
      return Error(ErrorCode::DamagedPackage, file.error().message);
    package.files[path] = TRY(readAll(*file, kMostPackageFileBytes, full));
  }
  TRY(validate(package));
  return package;
}

/// Reads one share of an index.
static Result<PackageFiles>
readShareOf(const Descriptor &folder, const std::string &shown,
            const ShareIndex &index, const ShareIndex::Share &share,
            const std::vector<std::string> &present) {
  const std::string prefix = share.folder + "/";
  const std::string path = prefix + std::string(kManifestFile);
  Result<Descriptor> file = openRegularAt(folder, path, shown);
  if (!file)
    return Error(ErrorCode::DamagedPackage, file.error().message);
  const std::string text = TRY(readAll(*file, kMaxManifestBytes, path));
  if (std::string hash = sha256(text); hash != index.files.at(path))
    return Error(ErrorCode::DamagedPackage,
                 "file '{}': expected SHA-256 {}, got {} ({} bytes); compile "
                 "the package again if the file was changed",
                 path, index.files.at(path), hash, text.size());
  Manifest manifest = TRY(fromJson(text));
  if (ranksOf(manifest) != share.ranks)
    return Error(ErrorCode::DamagedPackage,
                 "file '{}': expected the manifest of {}, got that of {}", path,
                 describeRanks(share.ranks), describeRanks(ranksOf(manifest)));
  for (const auto &[name, hash] : manifest.files)
    if (auto listed = index.files.find(prefix + name);
        listed == index.files.end() || listed->second != hash)
      return Error(ErrorCode::DamagedPackage,
                   "file '{}': expected that both manifests list it with one "
                   "SHA-256",
                   prefix + name);
  return readFiles(folder, shown, std::move(manifest), present, prefix);
}

static Error severalShares(const std::string &name,
                           const std::vector<int64_t> &ranks, size_t shares,
                           std::optional<int64_t> rank) {
  if (rank)
    return rankNotInPackage(name, ranks, *rank);
  return invalidArgument("package {} is of {}, with {} shares of several "
                         "sizes: expected `rank` to "
                         "be one of them, got none",
                         name, describeRanks(ranks), shares);
}

namespace {
enum class Wanted { All, OfRank };
} // namespace

/// Reads the package in an open folder, or its shares.
static Result<Shares> readFolder(const Descriptor &folder,
                                 const std::string &shown, Wanted wanted,
                                 std::optional<int64_t> rank) {
  ManifestFile read = TRY(readManifestFile(folder, shown));
  std::vector<std::string> present = TRY(listFilesAt(folder, shown));
  Shares shares;
  if (auto *manifest = std::get_if<Manifest>(&read)) {
    shares.push_back(
        TRY(readFiles(folder, shown, std::move(*manifest), present)));
    return shares;
  }
  const ShareIndex &index = std::get<ShareIndex>(read);
  for (const std::string &path : present)
    if (path != kManifestFile && !index.files.count(path))
      return unlisted(path);
  std::vector<int64_t> ranks;
  for (const ShareIndex::Share &share : index.shares) {
    ranks.insert(ranks.end(), share.ranks.begin(), share.ranks.end());
    if (wanted == Wanted::All ||
        (rank && std::ranges::find(share.ranks, *rank) != share.ranks.end()))
      shares.push_back(TRY(readShareOf(folder, shown, index, share, present)));
  }
  std::ranges::sort(ranks);
  if (shares.empty())
    return severalShares(index.name, ranks, index.shares.size(), rank);
  return shares;
}

static Result<Shares> readAtPath(const std::string &path, Wanted wanted,
                                 std::optional<int64_t> rank) {
  // A concurrent writer that replaces the package removes the old files while
  // this loop reads them. After an error, the read is repeated if the path now
  // refers to a different folder; otherwise the error is returned. The limit
  // prevents continuous replacements from blocking a reader forever.
  constexpr int kMostReplacements = 100;
  for (int attempt = 0;; ++attempt) {
    if (!isFolder(path))
      return Error(ErrorCode::FileSystem,
                   "package '{}': expected a folder that moec compile has "
                   "written, got {}",
                   path,
                   fileExists(path) ? "a file" : "a path where nothing is");
    Descriptor folder = TRY(openFolder(path));
    Result<Shares> read = readFolder(folder, path, wanted, rank);
    if (read)
      return read;
    Result<Descriptor> now = openFolder(path);
    if (attempt < kMostReplacements && now && !isSameFile(folder, *now))
      continue;
    return Error(read.error().code, "package '{}': {}", path,
                 read.error().message);
  }
}

Result<Shares> moec::readShares(const std::string &path) {
  return readAtPath(path, Wanted::All, std::nullopt);
}

Result<PackageFiles> moec::readShare(const std::string &path,
                                     std::optional<int64_t> rank) {
  Shares shares = TRY(readAtPath(path, Wanted::OfRank, rank));
  return std::move(shares.front());
}

Result<PackageFiles> moec::readPackage(const std::string &path) {
  return readShare(path, std::nullopt);
}

Result<const PackageFiles *> moec::shareOf(std::span<const PackageFiles> shares,
                                           std::optional<int64_t> rank) {
  if (shares.size() == 1)
    return &shares.front();
  std::vector<int64_t> all;
  for (const PackageFiles &share : shares) {
    const std::vector<int64_t> ranks = ranksOf(share.manifest);
    if (rank && std::ranges::find(ranks, *rank) != ranks.end())
      return &share;
    all.insert(all.end(), ranks.begin(), ranks.end());
  }
  std::ranges::sort(all);
  return severalShares(shares.empty() ? "" : shares.front().manifest.name, all,
                       shares.size(), rank);
}

//===----------------------------------------------------------------------===//
// Writing packages
//===----------------------------------------------------------------------===//

/// Checks that a package may be written to a path: the path does not exist, is
/// an empty folder, or is a package that contains no other files.
static Result<void> checkReplaceable(const std::string &path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0)
    return {};
  auto refuse = [&](std::string_view found) {
    return Error(
        ErrorCode::FileSystem,
        "cannot write package '{}': expected nothing there, an empty folder or "
        "a moec package, found {}; remove it or choose another path",
        path, found);
  };
  if (!S_ISDIR(info.st_mode))
    return refuse(S_ISLNK(info.st_mode) ? "a link" : "a file");
  Descriptor folder = TRY(openFolder(path));
  std::vector<std::string> files = TRY(listFilesAt(folder, path));
  if (files.empty())
    return {};
  Result<ManifestFile> manifest = readManifestFile(folder, path);
  if (!manifest)
    return refuse("a folder without a moec manifest.json");
  const auto &listed =
      std::visit([](auto &file) -> auto & { return file.files; }, *manifest);
  for (const std::string &file : files)
    if (file != kManifestFile && !listed.count(file))
      return refuse(
          fmt::format("a package with the file '{}', which its manifest does "
                      "not list",
                      file));
  return {};
}

static Result<void> fill(const std::map<std::string, std::string> &files,
                         const std::string &manifest,
                         const std::string &folder) {
  std::set<std::string> folders;
  for (const auto &[path, content] : files) {
    std::string full = joinPath(folder, path);
    if (folders.insert(parentFolder(full)).second)
      TRY(createFolders(parentFolder(full)));
    TRY(writeFile(full, content));
  }
  TRY(writeFile(joinPath(folder, kManifestFile), manifest));
  return syncFolder(folder);
}

/// Writes the files and the manifest, which must be valid, to `folder`.
static Result<void>
writeFolder(const std::map<std::string, std::string> &files,
            const std::string &manifest, const std::string &folder,
            const std::function<Result<void>()> &beforeItAppears) {
  TRY(checkReplaceable(folder));
  StagedFolder staged = TRY(StagedFolder::create(folder));
  TRY(fill(files, manifest, staged.path()));
  if (beforeItAppears)
    TRY(beforeItAppears());
  TRY(staged.replace());
  std::string bare = folder;
  while (bare.size() > 1 && bare.back() == '/')
    bare.pop_back();
  return syncFolder(parentFolder(bare));
}

static Error noFolder() {
  return invalidArgument("expected a path for the package, got an empty one");
}

Result<void>
moec::writePackage(PackageFiles package, const std::string &folder,
                   const std::function<Result<void>()> &beforeItAppears) {
  if (folder.empty())
    return noFolder();
  hashFiles(package);
  TRY(validate(package));
  return writeFolder(package.files, toJson(package.manifest), folder,
                     beforeItAppears);
}

Result<void>
moec::writeShares(Shares shares, const std::string &folder,
                  const std::function<Result<void>()> &beforeItAppears) {
  if (folder.empty())
    return noFolder();
  if (shares.size() == 1)
    return writePackage(std::move(shares.front()), folder, beforeItAppears);
  ShareIndex index;
  std::map<std::string, std::string> files;
  for (PackageFiles &share : shares) {
    hashFiles(share);
    TRY(validate(share));
    index.name = share.manifest.name;
    const std::string name = fmt::format("share{}", index.shares.size());
    index.shares.push_back({name, ranksOf(share.manifest)});
    share.files[std::string(kManifestFile)] = toJson(share.manifest);
    for (auto &[path, content] : share.files) {
      const std::string full = joinPath(name, path);
      index.files[full] = sha256(content);
      files[full] = std::move(content);
    }
  }
  const std::string text = toJson(index);
  TRY(manifestFileFromJson(text));
  return writeFolder(files, text, folder, beforeItAppears);
}
