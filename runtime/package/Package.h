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

/// Returns the path in the package of the header that kernels include as
/// `name`: "include/<name>", so that tools can use `-I include`.
std::string headerPath(std::string_view name);

/// The packages of a folder: one, or one for each share if ranks have shares of
/// different sizes. Each rank belongs to one of them.
using Shares = std::vector<PackageFiles>;

/// Returns the share of the rank. Without a rank there must be only one share.
Result<const PackageFiles *> shareOf(std::span<const PackageFiles> shares,
                                     std::optional<int64_t> rank);

/// Sets manifest.files to the hashes of `files`.
void hashFiles(PackageFiles &package);

/// Checks that the manifest is consistent and agrees with the files: every file
/// is listed with its hash, every listed file exists, and so does every source,
/// header and cubin that a kernel names.
Result<void> validate(const PackageFiles &package);

/// Reads a folder and checks its format, its content and every file's hash.
/// Missing, extra, truncated or corrupted files are DamagedPackage errors with
/// their path. If the package is replaced concurrently, either the old or the
/// new one is read. A folder with several shares is an error.
Result<PackageFiles> readPackage(const std::string &path);
/// Reads a folder with any number of shares.
Result<Shares> readShares(const std::string &path);
/// Reads the share of the rank, and no files of other shares.
Result<PackageFiles> readShare(const std::string &path,
                               std::optional<int64_t> rank);

/// Validates the package, writes it to a temporary folder next to `folder` and
/// renames that folder, so that a failure leaves no files. An existing package
/// is replaced. If `folder` is a file, or a folder with a file that no manifest
/// lists, it is refused. This function fills manifest.files. An error of
/// `beforeItAppears` is the last one that prevents the package from appearing.
Result<void>
writePackage(PackageFiles package, const std::string &folder,
             const std::function<Result<void>()> &beforeItAppears = {});
/// Like writePackage(), for the shares of one layer, whose ranks must be
/// disjoint. Several shares are written to folders share0, share1, ... next to
/// an index.
Result<void>
writeShares(Shares shares, const std::string &folder,
            const std::function<Result<void>()> &beforeItAppears = {});

/// Returns the target for compute capability major.minor. A target whose arch
/// is exactly the device's is preferred (`a` first, then `f`, then plain).
/// Otherwise it is the highest binary-compatible one ("major" and "family":
/// same major, minor not above the device's). A NoMatchingTarget error names
/// the available archs and the `moec compile --arch=` that would help.
Result<const Target *> selectTarget(const Manifest &manifest,
                                    int64_t computeMajor, int64_t computeMinor);

/// The limits of a device, as cuDeviceGetAttribute reports them.
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
