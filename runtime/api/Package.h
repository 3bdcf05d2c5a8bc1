//===- Package.h - a package loaded on a device -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A Package is the code of one layer config for one device. Loading compiles
// and loads every kernel of every variant, and nothing is compiled afterwards.
// A Package is immutable, thread-safe and shared by all layers of equal config.
// The C interface (moec/moec.h) wraps it. The host device has the same
// interface.
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

/// Devices that execute a package. Emulated: kernels run on an emulated GPU. As
/// on the host device, memory is host memory, streams are not used, and a call
/// returns when its work has ended.
enum class DeviceKind { Cuda, Host, Emulated };

struct LoadOptions {
  DeviceKind device = DeviceKind::Cuda;
  /// -1: the current CUDA context, or the primary context of device 0 if there
  /// is no current context.
  int ordinal = -1;
  bool strict = false;
  int jobs = 0;
  std::optional<std::string> cacheFolder;
  std::optional<int64_t> rank; ///< absent: the package must have only one rank
  std::string arch;            ///< target to use; "": chosen by the device
  bool prebuild = false; ///< only fills the cache, loads nothing; needs `arch`
  std::string nvrtcPath; ///< "": findNvrtc() searches for it
};

/// The duration of each step of a load in milliseconds. moec-run and inference
/// engines read this report as JSON.
struct LoadReport {
  double read = 0;       ///< reading and verifying the package folder
  double driverOpen = 0; ///< dlopen of libcuda, once per process
  double cuInit = 0;     ///< once per process
  double context = 0;    ///< finding or creating the CUDA context
  double compile = 0; ///< obtaining all cubins, including the opening of NVRTC
  double moduleLoad = 0; ///< loading modules and functions
  double total = 0;      ///< from the call until all functions are loaded
  CompileSummary jit;
  struct KernelLine {
    std::string name;
    CubinSource source;
    double compileMilliseconds;
    CudaCode::Resources resources; ///< on the GPU that the kernel was loaded on
  };
  std::vector<KernelLine> kernels;
  int64_t smCount = 0; ///< SMs of the context; 0: not loaded on a GPU
  struct UnfitVariant {
    std::string name, reason;
  };
  std::vector<UnfitVariant> unfit; ///< variants that this device cannot run
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

  /// Returns the manifest, narrowed to the loaded rank.
  const Manifest &manifest() const { return contents; }
  const Target &target() const { return *chosen; }
  const LoadReport &report() const { return loadReport; }
  const std::string &deviceName() const { return device; }
  int64_t smCount() const;
  /// Returns for each index into target().variants the reason why this device
  /// cannot run the variant, or "". The span is empty if the device can run all
  /// variants.
  std::span<const std::string> whyUnfit() const;

  /// Returns null on the host device and after prebuild.
  const CudaCode *cuda() const { return code.get(); }
  bool onHost() const { return kind == DeviceKind::Host; }
  bool isEmulated() const { return kind == DeviceKind::Emulated; }

  /// Returns the index into target().variants of the variant for `tokens`
  /// tokens, or TooManyTokens if `tokens` exceeds max_tokens. `forced` may name
  /// the variant to use; its token range must contain `tokens`.
  Result<size_t> variantFor(int64_t tokens, std::string_view forced = "") const;
  /// Returns a workspace size that suffices for every run of at most `tokens`
  /// tokens.
  Result<int64_t> workspaceBytes(int64_t tokens) const;
  /// Returns a scratch size that suffices for every step of every pack.
  Result<int64_t> packScratchBytes() const;

  /// Alignment of workspace, state and scratch memory in bytes.
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
