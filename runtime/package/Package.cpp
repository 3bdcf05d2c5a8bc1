//===- Package.cpp - a package as a folder -----------------------------------
//===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Files are read whole and hashed; a folder appears by one rename. Paths come
// from foreign JSON, so each is checked to stay inside the folder before it is
// opened.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Package.h"

#include "runtime/support/Files.h"
#include "runtime/support/Sha256.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

using namespace moec;

static Error damaged(std::string message) {
  return {ErrorCode::DamagedPackage, std::move(message)};
}

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
                   : Error{ErrorCode::InvalidManifest,
                           fmt::format("targets[{}].kernels[{}].{}: expected a "
                                       "file of the package, '{}' is not in "
                                       "`files`",
                                       t, k, field, path)};
      };
      if (Result<void> found = listed("source", kernel.source); !found)
        return found;
      for (size_t h = 0; h < kernel.headers.size(); ++h)
        if (Result<void> found = listed(fmt::format("headers[{}]", h),
                                        headerPath(kernel.headers[h]));
            !found)
          return found;
      if (!kernel.cubin.empty())
        if (Result<void> found = listed("cubin", kernel.cubin); !found)
          return found;
    }
  }
  return {};
}

Result<void> moec::validate(const PackageFiles &package) {
  if (Result<void> valid = validate(package.manifest); !valid)
    return valid;
  for (const auto &[path, content] : package.files) {
    auto listed = package.manifest.files.find(path);
    if (listed == package.manifest.files.end())
      return damaged(fmt::format(
          "file '{}': expected only files that the manifest lists", path));
    if (std::string hash = sha256(content); hash != listed->second)
      return damaged(fmt::format("file '{}': expected SHA-256 {}, got {} ({} "
                                 "bytes)",
                                 path, listed->second, hash, content.size()));
  }
  for (const auto &[path, hash] : package.manifest.files)
    if (!package.files.count(path))
      return damaged(fmt::format(
          "file '{}': expected it, since the manifest lists it; it is missing",
          path));
  return checkReferences(package.manifest);
}

Result<PackageFiles> moec::readPackage(const std::string &folder) {
  if (!isFolder(folder))
    return Error{ErrorCode::FileSystem,
                 fmt::format("package '{}': expected a folder", folder)};
  auto inPackage = [&](Error error) {
    error.message = fmt::format("package '{}': {}", folder, error.message);
    return error;
  };
  std::string manifestPath = joinPath(folder, kManifestFile);
  if (!fileExists(manifestPath))
    return inPackage(damaged("file 'manifest.json' is missing"));
  Result<std::string> text = readFile(manifestPath);
  if (!text)
    return text.takeError();
  Result<Manifest> manifest = fromJson(*text);
  if (!manifest)
    return inPackage(manifest.takeError());

  PackageFiles package;
  package.manifest = std::move(*manifest);
  Result<std::vector<std::string>> present = listFiles(folder);
  if (!present)
    return present.takeError();
  for (const std::string &path : *present) {
    if (path == kManifestFile)
      continue;
    // Only listed paths are opened, and only regular files: a link could lead
    // out of the folder.
    if (!package.manifest.files.count(path))
      return inPackage(damaged(fmt::format(
          "file '{}': expected only files that the manifest lists", path)));
    std::string full = joinPath(folder, path);
    struct stat info;
    if (::lstat(full.c_str(), &info) != 0)
      return inPackage(fileError("cannot read", full));
    if (!S_ISREG(info.st_mode))
      return inPackage(
          damaged(fmt::format("file '{}': expected a regular file", path)));
    Result<std::string> content = readFile(full);
    if (!content)
      return content.takeError();
    package.files[path] = std::move(*content);
  }
  if (Result<void> valid = validate(package); !valid)
    return inPackage(valid.takeError());
  return package;
}

/// Whether something may be replaced by a package: nothing, an empty folder, or
/// a package.
static Result<void> checkReplaceable(const std::string &folder) {
  struct stat info;
  if (::lstat(folder.c_str(), &info) != 0)
    return {};
  auto refuse = [&](std::string_view found) {
    return Error{ErrorCode::FileSystem,
                 fmt::format("cannot write package '{}': expected nothing "
                             "there, an empty folder or a moec package, found "
                             "{}; remove it or choose another path",
                             folder, found)};
  };
  if (!S_ISDIR(info.st_mode))
    return refuse("a file");
  Result<std::vector<std::string>> files = listFiles(folder);
  if (!files)
    return files.takeError();
  if (files->empty())
    return {};
  Result<std::string> text = readFile(joinPath(folder, kManifestFile));
  if (!text || text->find("\"moec_manifest\"") == std::string::npos)
    return refuse("a folder without a moec manifest.json");
  return {};
}

Result<void> moec::writePackage(PackageFiles package,
                                const std::string &folder) {
  if (folder.empty())
    return Error{ErrorCode::InvalidArgument,
                 "expected a path for the package, got an empty one"};
  hashFiles(package);
  if (Result<void> valid = validate(package); !valid)
    return valid;
  if (Result<void> free = checkReplaceable(folder); !free)
    return free;
  Result<std::string> temporary = createTemporaryFolderBeside(folder);
  if (!temporary)
    return temporary.takeError();

  auto fill = [&]() -> Result<void> {
    std::set<std::string> folders;
    for (const auto &[path, content] : package.files) {
      std::string full = joinPath(*temporary, path);
      if (folders.insert(parentFolder(full)).second)
        if (Result<void> made = createFolders(parentFolder(full)); !made)
          return made;
      if (Result<void> written = writeFile(full, content); !written)
        return written;
    }
    if (Result<void> written = writeFile(joinPath(*temporary, kManifestFile),
                                         toJson(package.manifest));
        !written)
      return written;
    return syncFolder(*temporary);
  };
  Result<void> done = fill();
  std::string old;
  if (done && fileExists(folder)) {
    // rename(2) does not replace a filled folder: move it aside first.
    Result<std::string> aside = createTemporaryFolderBeside(folder);
    if (!aside)
      done = aside.takeError();
    else
      done = renamePath(folder, old = *aside);
  }
  if (done) {
    done = renamePath(*temporary, folder);
    if (!done && !old.empty())
      (void)static_cast<bool>(renamePath(old, folder));
  }
  if (!done) {
    (void)static_cast<bool>(removeAll(*temporary));
    return done;
  }
  if (!old.empty())
    if (Result<void> removed = removeAll(old); !removed)
      return removed;
  std::string bare = folder;
  while (bare.size() > 1 && bare.back() == '/')
    bare.pop_back();
  return syncFolder(parentFolder(bare));
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
  return Error{
      ErrorCode::NoMatchingTarget,
      fmt::format("package '{}' has code for {}, none of which runs on "
                  "a device of compute capability {}.{}; compile it "
                  "with `moec compile --arch={}{}`",
                  manifest.name, fmt::join(archs, ", "), computeMajor,
                  computeMinor, own, computeMajor >= 9 ? "a" : "")};
}
