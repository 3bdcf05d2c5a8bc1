//===- Package.h - a package loaded on a device -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Code for one device: every kernel of every variant compiled and loaded, after
// which nothing is ever compiled. Immutable, thread-safe, shared by all layers
// of equal config. The C ABI (moec/moec.h) wraps this; the host device stands
// behind the same interface.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_API_PACKAGE_H
#define MOEC_RUNTIME_API_PACKAGE_H

#include "runtime/cuda/CudaCode.h"
#include "runtime/host/HostDevice.h"
#include "runtime/package/Package.h"

#include <memory>
#include <optional>
#include <string>

namespace moec::runtime {

/// Emulated: kernels run on an emulated GPU. As on the host, memory is the
/// host's, there are no streams, and a call returns when its work has ended.
enum class DeviceKind { Cuda, Host, Emulated };

struct LoadOptions {
  DeviceKind device = DeviceKind::Cuda;
  int ordinal = -1; ///< -1: the current CUDA context, else device 0's primary
  bool strict = false;
  int jobs = 0;
  std::optional<std::string> cacheFolder;
  std::optional<int64_t> rank; ///< of the package; absent: it has one alone
  std::string arch;            ///< forces a target; "" chooses by the device
  bool prebuild = false;       ///< fill the cache, load nothing; needs `arch`
  std::string nvrtcPath;       ///< "": as findNvrtc() searches
};

/// The steps of a load, in milliseconds; the JSON is for moec-run and engines.
struct LoadReport {
  double read = 0;       ///< folder to PackageFiles, hashes verified
  double driverOpen = 0; ///< dlopen of libcuda, once a process
  double cuInit = 0;     ///< once a process
  double context = 0;    ///< finding or making the CUDA context
  double compile = 0;    ///< all kernels to cubins, NVRTC's opening with it
  double moduleLoad = 0; ///< modules, functions
  double total = 0;      ///< from the call to all functions loaded
  CompileSummary jit;
  struct KernelLine {
    std::string name;
    CubinSource source;
    double compileMilliseconds;
    CudaCode::Resources resources; ///< of a GPU that it was loaded on
  };
  std::vector<KernelLine> kernels;
  int64_t smCount = 0; ///< that the context has; 0: not loaded on a GPU
  struct UnfitVariant {
    std::string name, reason;
  };
  std::vector<UnfitVariant> unfit; ///< that others serve in place of
  std::string json() const;
};

class Package {
public:
  static Result<std::shared_ptr<const Package>> load(const std::string &folder,
                                                     const LoadOptions &);
  static Result<std::shared_ptr<const Package>> load(const PackageFiles &files,
                                                     const LoadOptions &);
  static Result<std::shared_ptr<const Package>>
  load(std::span<const PackageFiles> shares, const LoadOptions &);

  /// The manifest, narrowed to the rank that was loaded.
  const Manifest &manifest() const { return contents; }
  const Target &target() const { return *chosen; }
  const LoadReport &report() const { return loadReport; }
  const std::string &deviceName() const { return device; }
  int64_t smCount() const;
  /// By index into target().variants: why it cannot serve on this device, or
  /// ""; empty where all can.
  std::span<const std::string> whyUnfit() const;

  /// Null on the host device and after prebuild.
  const CudaCode *cuda() const { return code.get(); }
  bool onHost() const { return kind == DeviceKind::Host; }
  bool isEmulated() const { return kind == DeviceKind::Emulated; }

  /// Index into target().variants; TooManyTokens beyond max_tokens. A forced
  /// variant's range must hold the tokens.
  Result<size_t> variantFor(int64_t tokens, std::string_view forced = "") const;
  /// Enough for every run of at most `tokens` tokens.
  Result<int64_t> workspaceBytes(int64_t tokens) const;
  /// Enough for any step of any pack.
  Result<int64_t> packScratchBytes() const;

  /// Alignment of workspace, state and scratch.
  static constexpr int64_t kMemoryAlignment = 256;

private:
  Package() = default;
  static Result<std::shared_ptr<const Package>>
  loadTimed(const PackageFiles &files, const LoadOptions &options,
            LoadReport report);
  Result<void> loadCuda(const PackageFiles &files, const LoadOptions &options,
                        std::optional<CudaPlace> place);

  Manifest contents;
  const Target *chosen = nullptr;
  DeviceKind kind = DeviceKind::Cuda;
  std::string device;
  LoadReport loadReport;
  std::unique_ptr<CudaCode> code;
};

} // namespace moec::runtime

#endif // MOEC_RUNTIME_API_PACKAGE_H
