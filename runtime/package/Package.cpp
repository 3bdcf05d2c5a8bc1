//===- Package.cpp - a package as a folder -----------------------------------
//===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Files are read whole and hashed, through one open folder, so that they are of
// one package. Paths come from foreign JSON, so each is checked to stay inside
// the folder before it is opened.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Package.h"

#include "runtime/package/KernelText.h"
#include "runtime/package/Ranks.h"
#include "runtime/support/Descriptor.h"
#include "runtime/support/Files.h"
#include "runtime/support/Sha256.h"
#include "runtime/support/StagedFolder.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <set>
#include <sys/stat.h>

using namespace moec;

std::string moec::headerPath(std::string_view name) {
  return joinPath("include", name);
}

void moec::hashFiles(PackageFiles &package) {
  package.manifest.files.clear();
  for (const auto &[path, content] : package.files)
    package.manifest.files[path] = sha256(content);
}

/// Checks what the kernels name against the listed files.
static Result<void> checkReferences(const Manifest &manifest) {
  for (size_t t = 0; t < manifest.targets.size(); ++t) {
    const Target &target = manifest.targets[t];
    for (size_t k = 0; k < target.kernels.size(); ++k) {
      const Kernel &kernel = target.kernels[k];
      auto listed = [&](std::string_view field, const std::string &path) {
        return manifest.files.count(path)
                   ? Result<void>()
                   : invalidManifest(
                         "targets[{}].kernels[{}].{}: expected a file of the "
                         "package, '{}' is not in `files`",
                         t, k, field, path);
      };
      TRY(listed("source", kernel.source));
      for (size_t h = 0; h < kernel.headers.size(); ++h)
        TRY(listed(fmt::format("headers[{}]", h),
                   headerPath(kernel.headers[h])));
      if (!kernel.cubin.empty())
        TRY(listed("cubin", kernel.cubin));
    }
  }
  return {};
}

/// Checks that what NVRTC gets includes headers of the package and no other
/// file. Kernels share texts, so each is read once.
static Result<void> checkTexts(const PackageFiles &package) {
  std::map<std::string, std::set<std::string>> known;
  for (size_t t = 0; t < package.manifest.targets.size(); ++t) {
    const Target &target = package.manifest.targets[t];
    for (size_t k = 0; k < target.kernels.size(); ++k) {
      const Kernel &kernel = target.kernels[k];
      const std::set<std::string> headers(kernel.headers.begin(),
                                          kernel.headers.end());
      std::vector<std::string> paths = {kernel.source};
      for (const std::string &header : kernel.headers)
        paths.push_back(headerPath(header));
      for (const std::string &path : paths) {
        auto fail = [&](const std::string &message) {
          return invalidManifest("targets[{}].kernels[{}]: file '{}': {}", t, k,
                                 path, message);
        };
        auto found = known.find(path);
        if (found == known.end()) {
          Result<std::set<std::string>> names =
              includedNames(package.files.at(path));
          if (!names)
            return fail(names.error().message);
          found = known.emplace(path, std::move(*names)).first;
        }
        for (const std::string &name : found->second)
          if (!headers.count(name))
            return fail(fmt::format("expected it to include names of the "
                                    "kernel's `headers` alone, got '{}'",
                                    name.substr(0, 80)));
      }
    }
  }
  return {};
}

Result<void> moec::validate(const PackageFiles &package) {
  TRY(validate(package.manifest));
  for (const auto &[path, content] : package.files) {
    auto listed = package.manifest.files.find(path);
    if (listed == package.manifest.files.end())
      return Error(ErrorCode::DamagedPackage,
                   "file '{}': expected only files that the manifest lists",
                   path);
    if (std::string hash = sha256(content); hash != listed->second)
      return Error(ErrorCode::DamagedPackage,
                   "file '{}': expected SHA-256 {}, got {} ({} bytes)", path,
                   listed->second, hash, content.size());
  }
  for (const auto &[path, hash] : package.manifest.files)
    if (!package.files.count(path))
      return Error(
          ErrorCode::DamagedPackage,
          "file '{}': expected it, since the manifest lists it; it is missing",
          path);
  TRY(checkReferences(package.manifest));
  return checkTexts(package);
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// No kernel comes near; what is larger is no package.
static constexpr uint64_t kMostPackageFileBytes = uint64_t(256) << 20;

static Result<ManifestFile> readManifestFile(const Descriptor &folder,
                                             const std::string &shown) {
  struct stat info;
  std::string name(kManifestFile);
  if (::fstatat(folder.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 &&
      errno == ENOENT)
    return Error(ErrorCode::DamagedPackage, "file 'manifest.json' is missing");
  Descriptor file = TRY(openRegularAt(folder, name, shown));
  std::string text = TRY(readAll(file, kMaxManifestBytes, name));
  return manifestFileFromJson(text);
}

static Error unlisted(const std::string &path) {
  return Error(ErrorCode::DamagedPackage,
               "file '{}': expected only files that the manifest lists", path);
}

/// Reads the files of `present` behind `prefix`. Only listed paths are opened,
/// and only regular files: a link could lead out of the folder.
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
                 "file '{}': expected SHA-256 {}, got {} ({} bytes)", path,
                 index.files.at(path), hash, text.size());
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
    return invalidArgument("package {} is of {}, and rank {} was asked for",
                           name, describeRanks(ranks), *rank);
  return invalidArgument(
      "package {} is of {}, with {} shares of several sizes: expected a rank "
      "(`--rank` of moec-run, rank_plus_one of moec_load_options), got none",
      name, describeRanks(ranks), shares);
}

namespace {
enum class Wanted { All, OfRank };
} // namespace

/// Reads what an open folder holds.
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
  // A writer that replaces the package removes the old files while they are
  // read. What was read is then wrong only if the path names another folder
  // by now. A bound keeps a writer without end from holding readers for ever.
  constexpr int kMostReplacements = 100;
  for (int attempt = 0;; ++attempt) {
    if (!isFolder(path))
      return Error(ErrorCode::FileSystem, "package '{}': expected a folder",
                   path);
    Descriptor folder = TRY(openFolder(path));
    Result<Shares> read = readFolder(folder, path, wanted, rank);
    if (read)
      return read;
    Result<Descriptor> now = openFolder(path);
    if (attempt < kMostReplacements && now && !isSameFile(folder, *now))
      continue;
    Error error = read.takeError();
    error.message = fmt::format("package '{}': {}", path, error.message);
    return error;
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
// Writing
//===----------------------------------------------------------------------===//

/// Whether something may be replaced by a package: nothing, an empty folder, or
/// a package, in which nobody keeps other files.
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

/// Writes what was validated.
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

//===----------------------------------------------------------------------===//
// Choosing a target
//===----------------------------------------------------------------------===//

Result<const Target *> moec::selectTarget(const Manifest &manifest,
                                          int64_t computeMajor,
                                          int64_t computeMinor) {
  // Larger is better: the exact arch before lower minors, and for one number
  // `a` before `f` before plain.
  const Target *best = nullptr;
  std::pair<int64_t, int> bestRank;
  for (const Target &target : manifest.targets) {
    bool exact = target.computeMajor == computeMajor &&
                 target.computeMinor == computeMinor;
    bool serves = exact || (target.compatibility != "exact" &&
                            target.computeMajor == computeMajor &&
                            target.computeMinor <= computeMinor);
    if (!serves)
      continue;
    int kind = target.compatibility == "exact"    ? 2
               : target.compatibility == "family" ? 1
                                                  : 0;
    std::pair<int64_t, int> rank = {target.computeMinor, kind};
    if (!best || rank > bestRank) {
      best = &target;
      bestRank = rank;
    }
  }
  if (best)
    return best;
  std::vector<std::string_view> archs;
  for (const Target &target : manifest.targets)
    archs.push_back(target.arch);
  std::string own = fmt::format("sm_{}{}", computeMajor, computeMinor);
  return Error(
      ErrorCode::NoMatchingTarget,
      "package '{}' has code for {}, none of which runs on a device of compute "
      "capability {}.{}; compile it with `moec compile --arch={}{}`",
      manifest.name, fmt::join(archs, ", "), computeMajor, computeMinor, own,
      computeMajor >= 9 ? "a" : "");
}
