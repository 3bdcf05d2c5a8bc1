//===- Package.h - a package as a folder -----------------*- C++ -*- ===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reading and writing a package: manifest.json, and every other file with its
// SHA-256 in Manifest::files. Choosing the target that serves a device, and
// checking it against the device's limits.
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

/// A package in memory. `files` holds the content of every file but
/// manifest.json, by path in the package.
struct PackageFiles {
  Manifest manifest;
  std::map<std::string, std::string> files;
};

inline constexpr std::string_view kManifestFile = "manifest.json";

/// The place in the package of a header that kernels include as `name`:
/// "include/<name>", so that `-I include` serves tools.
std::string headerPath(std::string_view name);

/// The packages of a folder: one, or where ranks have shares of several sizes
/// one for each. A rank is of one of them.
using Shares = std::vector<PackageFiles>;

/// The share that holds the rank; without a rank there must be one share.
Result<const PackageFiles *> shareOf(std::span<const PackageFiles> shares,
                                     std::optional<int64_t> rank);

/// Fills manifest.files with the hashes of `files`.
void hashFiles(PackageFiles &package);

/// Checks that the manifest agrees with itself and with the files: every file
/// is listed with its hash, every listed file is there, every source, header
/// and cubin that a kernel names is there.
Result<void> validate(const PackageFiles &package);

/// Reads a folder: format, validation, every file's hash. Missing, extra,
/// truncated or garbled files are DamagedPackage errors with their path. A
/// package that is replaced meanwhile is read as it was or as it is. A folder
/// of several shares is an error.
Result<PackageFiles> readPackage(const std::string &path);
/// Reads a folder with any number of shares.
Result<Shares> readShares(const std::string &path);
/// The share that holds the rank, and no file of others.
Result<PackageFiles> readShare(const std::string &path,
                               std::optional<int64_t> rank);

/// Validates, then writes into a temporary folder beside `folder` and renames
/// it, so that a failure leaves nothing behind. A package that is already
/// there is replaced; a folder with a file that no manifest there lists, or a
/// file, is refused. `files` of the manifest is filled here. An error of
/// `beforeItAppears` is the last that can keep the package from appearing.
Result<void>
writePackage(PackageFiles package, const std::string &folder,
             const std::function<Result<void>()> &beforeItAppears = {});
/// The same of shares of one layer, which must have ranks of their own. Several
/// lie in folders share0, share1, ... beside an index.
Result<void>
writeShares(Shares shares, const std::string &folder,
            const std::function<Result<void>()> &beforeItAppears = {});

/// The target for compute capability major.minor: one whose arch is exactly
/// the device's (an `a` arch on itself first, then `f`, then plain), else the
/// highest binary-compatible one ("major": same major, minor not above the
/// device's; "family": same major, minor not above). NoMatchingTarget names the
/// archs that are there and the `moec compile --arch=` that would help.
Result<const Target *> selectTarget(const Manifest &manifest,
                                    int64_t computeMajor, int64_t computeMinor);

/// The limits of a device, as cuDeviceGetAttribute says.
struct DeviceLimits {
  std::string name; ///< for messages
  int64_t computeMajor = 0, computeMinor = 0;
  int64_t smCount = 1;
  int64_t sharedBytesPerBlock = 49152; ///< the opt-in maximum
  int64_t sharedBytesPerSm = 49152;
  int64_t threadsPerBlock = 1024;
  int64_t threadsPerSm = 2048;
  std::array<int64_t, 3> maxGrid = {2147483647, 65535, 65535};
  int64_t maxCluster = 1; ///< CTAs; 1 = no clusters
  bool cooperative = true;
};

/// Checks every kernel and the largest grids of a target against a device:
/// DeviceLimit errors say what is needed and what the device has.
Result<void> validateForDevice(const Manifest &manifest, const Target &target,
                               const DeviceLimits &limits);

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_PACKAGE_H
