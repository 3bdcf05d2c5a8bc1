//===- Package.h - a package as a folder ------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads and writes a package: manifest.json, and all other files with their
// SHA-256 in Manifest::files. Chooses the target for a device and checks it
// against the device's limits.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_PACKAGE_PACKAGE_H
#define MOEC_RUNTIME_PACKAGE_PACKAGE_H

#include "runtime/package/Manifest.h"

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moec {

/// A package in memory. `files` holds the content of every file except
/// manifest.json, by path in the package.
struct PackageFiles {
  Manifest manifest;
  std::map<std::string, std::string> files;
};

inline constexpr std::string_view kManifestFile = "manifest.json";

/// Returns the path within the package of the header that kernels include as
/// `name`: "include/<name>". This allows tools to use `-I include`.
std::string headerPath(std::string_view name);

/// The packages in a folder: one package, or one package per share if the ranks
/// have shares of different sizes. Each rank belongs to exactly one of the
/// packages.
using Shares = std::vector<PackageFiles>;

/// Returns the share that contains the rank. Without a rank there must be only
/// one share.
Result<const PackageFiles *> shareOf(std::span<const PackageFiles> shares,
                                     std::optional<int64_t> rank);

/// Sets manifest.files to the SHA-256 hashes of `files`.
void hashFiles(PackageFiles &package);

/// Checks that the manifest is consistent and agrees with the files. Every file
/// must be listed with its hash, every listed file must exist, and so must
/// every source, header and cubin that a kernel names.
Result<void> validate(const PackageFiles &package);

/// Reads a package folder and checks its format, its content and every file's
/// hash. Missing, extra, truncated or corrupted files are DamagedPackage errors
/// that contain the path. If the package is replaced concurrently, either the
/// old or the new package is read as a whole. A folder with several shares is
/// an error.
Result<PackageFiles> readPackage(const std::string &path);
/// Like readPackage(), for a folder with any number of shares.
Result<Shares> readShares(const std::string &path);
/// Reads the share that contains the rank. Files of other shares are not read.
Result<PackageFiles> readShare(const std::string &path,
                               std::optional<int64_t> rank);

/// Validates the package, writes it to a temporary folder next to `folder` and
/// renames that folder, so that a failure leaves no files. An existing package
/// is replaced. It is an error if `folder` is a file, or a folder with a file
/// that no manifest lists. manifest.files is filled in. `beforeItAppears` is
/// called right before the rename; if it returns an error, the package is not
/// written.
Result<void>
writePackage(PackageFiles package, const std::string &folder,
             const std::function<Result<void>()> &beforeItAppears = {});
/// Like writePackage(), for the shares of one layer, whose ranks must be
/// disjoint. If there are several shares, they are written to subfolders
/// share0, share1, ... next to a share index.
Result<void>
writeShares(Shares shares, const std::string &folder,
            const std::function<Result<void>()> &beforeItAppears = {});

/// Returns the target for compute capability major.minor. A target whose arch
/// is exactly the device's arch is preferred (`a` first, then `f`, then plain).
/// Otherwise the binary-compatible target with the highest version is returned
/// ("major" and "family": same major version, minor version at most the
/// device's). A NoMatchingTarget error lists the available archs and the `moec
/// compile --arch=` option that would help.
Result<const Target *> selectTarget(const Manifest &manifest,
                                    int64_t computeMajor, int64_t computeMinor);

/// The limits of a device, as reported by cuDeviceGetAttribute.
struct DeviceLimits {
  std::string name; ///< name for messages
  int64_t computeMajor = 0, computeMinor = 0;
  int64_t smCount = 1;
  int64_t sharedBytesPerBlock = 49152; ///< the opt-in maximum
  int64_t sharedBytesPerSm = 49152;
  int64_t threadsPerBlock = 1024;
  int64_t threadsPerSm = 2048;
  std::array<int64_t, 3> maxGrid = {2147483647, 65535, 65535};
  int64_t maxCluster = 1; ///< in CTAs; 1: no clusters
  bool cooperative = true;
};

/// Checks every kernel and the largest grids of a target against a device.
/// DeviceLimit errors report what is needed and what the device has.
Result<void> validateForDevice(const Manifest &manifest, const Target &target,
                               const DeviceLimits &limits);

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_PACKAGE_H
