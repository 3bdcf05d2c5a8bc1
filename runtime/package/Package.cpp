//===- Package.cpp - the files of a package -------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks a package in memory: the files that kernels name must exist and must
// include no files outside the package. PackageFolder.cpp reads and writes
// folders.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Package.h"

#include "runtime/package/KernelText.h"
#include "runtime/support/Files.h"
#include "runtime/support/Sha256.h"

#include <fmt/format.h>
#include <set>

using namespace moec;

std::string moec::headerPath(std::string_view name) {
  return joinPath("include", name);
}

void moec::hashFiles(PackageFiles &package) {
  package.manifest.files.clear();
  for (const auto &[path, content] : package.files)
    package.manifest.files[path] = sha256(content);
}

/// Checks that every file that a kernel names is listed in the manifest.
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

/// Checks that the sources and headers for NVRTC include only headers of the
/// package. Kernels share files, so the result for each file is cached.
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
            return fail(fmt::format("expected it to include only names of the "
                                    "kernel's `headers`, got '{}'",
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
                   "file '{}': expected SHA-256 {}, got {} ({} bytes); compile "
                   "the package again if the file was changed",
                   path, listed->second, hash, content.size());
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
// Choosing a target
//===----------------------------------------------------------------------===//

Result<const Target *> moec::selectTarget(const Manifest &manifest,
                                          int64_t computeMajor,
                                          int64_t computeMinor) {
  // Targets are compared by (minor version, arch suffix); larger is better. The
  // exact arch is better than lower minor versions. For equal versions, `a` is
  // better than `f`, and `f` is better than the plain arch.
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
