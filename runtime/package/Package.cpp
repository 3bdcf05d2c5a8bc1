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
#include "runtime/support/Descriptor.h"
#include "runtime/support/Files.h"
#include "runtime/support/Sha256.h"
#include "runtime/support/StagedFolder.h"

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

static Result<Manifest> readManifest(const Descriptor &folder,
                                     const std::string &shown) {
  struct stat info;
  std::string name(kManifestFile);
  if (::fstatat(folder.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 &&
      errno == ENOENT)
    return Error(ErrorCode::DamagedPackage, "file 'manifest.json' is missing");
  Descriptor file = TRY(openRegularAt(folder, name, shown));
  std::string text = TRY(readAll(file, kMaxManifestBytes, name));
  return fromJson(text);
}

/// Reads what an open folder holds.
static Result<PackageFiles> readPackage(const Descriptor &folder,
                                        const std::string &shown) {
  Manifest manifest = TRY(readManifest(folder, shown));
  PackageFiles package;
  package.manifest = std::move(manifest);
  std::vector<std::string> present = TRY(listFilesAt(folder, shown));
  for (const std::string &path : present) {
    if (path == kManifestFile)
      continue;
    // Only listed paths are opened, and only regular files: a link could lead
    // out of the folder.
    if (!package.manifest.files.count(path))
      return Error(ErrorCode::DamagedPackage,
                   "file '{}': expected only files that the manifest lists",
                   path);
    Result<Descriptor> file = openRegularAt(folder, path, shown);
    if (!file)
      return Error(ErrorCode::DamagedPackage, file.error().message);
    package.files[path] = TRY(readAll(*file, kMostPackageFileBytes, path));
  }
  TRY(validate(package));
  return package;
}

Result<PackageFiles> moec::readPackage(const std::string &path) {
  // A writer that replaces the package removes the old files while they are
  // read. What was read is then wrong only if the path names another folder
  // by now. A bound keeps a writer without end from holding readers for ever.
  constexpr int kMostReplacements = 100;
  for (int attempt = 0;; ++attempt) {
    if (!isFolder(path))
      return Error(ErrorCode::FileSystem, "package '{}': expected a folder",
                   path);
    Descriptor folder = TRY(openFolder(path));
    Result<PackageFiles> read = ::readPackage(folder, path);
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
  Result<Manifest> manifest = readManifest(folder, path);
  if (!manifest)
    return refuse("a folder without a moec manifest.json");
  for (const std::string &file : files)
    if (file != kManifestFile && !manifest->files.count(file))
      return refuse(
          fmt::format("a package with the file '{}', which its manifest does "
                      "not list",
                      file));
  return {};
}

static Result<void> fill(const PackageFiles &package,
                         const std::string &folder) {
  std::set<std::string> folders;
  for (const auto &[path, content] : package.files) {
    std::string full = joinPath(folder, path);
    if (folders.insert(parentFolder(full)).second)
      TRY(createFolders(parentFolder(full)));
    TRY(writeFile(full, content));
  }
  TRY(writeFile(joinPath(folder, kManifestFile), toJson(package.manifest)));
  return syncFolder(folder);
}

Result<void>
moec::writePackage(PackageFiles package, const std::string &folder,
                   const std::function<Result<void>()> &beforeItAppears) {
  if (folder.empty())
    return invalidArgument("expected a path for the package, got an empty one");
  hashFiles(package);
  TRY(validate(package));
  TRY(checkReplaceable(folder));
  StagedFolder staged = TRY(StagedFolder::create(folder));
  TRY(fill(package, staged.path()));
  if (beforeItAppears)
    TRY(beforeItAppears());
  TRY(staged.replace());
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
  return Error(
      ErrorCode::NoMatchingTarget,
      "package '{}' has code for {}, none of which runs on a device of compute "
      "capability {}.{}; compile it with `moec compile --arch={}{}`",
      manifest.name, fmt::join(archs, ", "), computeMajor, computeMinor, own,
      computeMajor >= 9 ? "a" : "");
}
