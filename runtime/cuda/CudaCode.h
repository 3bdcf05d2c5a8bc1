//===- CudaCode.h - loads a target's kernels on a GPU -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The modules and functions of every kernel of one target in one CUDA context,
// and the launch lists with resolved names. Immutable once loaded, hence shared
// by all threads and layers. A launch allocates nothing.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_CUDA_CUDACODE_H
#define MOEC_RUNTIME_CUDA_CUDACODE_H

#include "runtime/cuda/DeviceInfo.h"
#include "runtime/jit/CompilePool.h"
#include "runtime/package/Arguments.h"

#include <memory>
#include <span>
#include <vector>

namespace moec::runtime {

/// The CUDA context of a package.
struct CudaPlace {
  const cuda::CudaDriver *driver = nullptr;
  cuda::CUcontext context = nullptr;
  cuda::CUdevice device = 0;
  bool retained = false; ///< a primary context that must be released
  DeviceInfo info;

  /// Finds the context. ordinal < 0: the current context if there is one, else
  /// the primary context of device 0. Otherwise it is the primary context of
  /// the device `ordinal`.
  static Result<CudaPlace> find(int ordinal);
  /// Returns the primary context of an emulated GPU. `arch` is that of
  /// CudaDriver::emulator().
  static Result<CudaPlace> emulate(const std::string &arch, int ordinal);

private:
  static Result<CudaPlace> open(const cuda::CudaDriver &driver, int ordinal);
};

/// Host memory that emulated GPUs may access during the lifetime of this
/// object. It does nothing for other GPUs.
class AdmittedMemory {
public:
  AdmittedMemory() = default;
  AdmittedMemory(const AdmittedMemory &) = delete;
  AdmittedMemory &operator=(const AdmittedMemory &) = delete;
  ~AdmittedMemory() { clear(); }
  Result<void> add(const CudaPlace &place, uint64_t address, uint64_t bytes);
  void clear();

private:
  const cuda::CudaDriver *driver = nullptr;
  std::vector<void *> all;
};

DeviceLimits limitsOf(const DeviceInfo &info);

/// A launch with its kernel resolved.
struct LaunchStep {
  const Launch *launch = nullptr;
  size_t kernel = 0; ///< index into Target::kernels; unused for a collective
};

/// Device memory, freed with this object.
class DeviceMemory {
public:
  DeviceMemory() = default;
  static Result<DeviceMemory> allocate(const CudaPlace &place, uint64_t bytes);
  DeviceMemory(DeviceMemory &&other) noexcept;
  DeviceMemory &operator=(DeviceMemory &&other) noexcept;
  ~DeviceMemory();
  uint64_t address() const { return pointer; }

private:
  const cuda::CudaDriver *driver = nullptr;
  cuda::CUcontext context = nullptr;
  cuda::CUdeviceptr pointer = 0;
};

class CudaCode {
public:
  /// Loads the cubins (in the order of target.kernels) into `place`, which must
  /// be current. If `strict` is set, a kernel that uses local memory is an
  /// error, else a warning. Errors: DeviceLimit, DriverFailed, Capturing,
  /// InvalidManifest.
  static Result<std::unique_ptr<CudaCode>>
  load(const Manifest &manifest, const Target &target,
       std::span<const CompiledKernel> cubins, CudaPlace place, bool strict);
  ~CudaCode();
  CudaCode(const CudaCode &) = delete;
  CudaCode &operator=(const CudaCode &) = delete;

  /// Queues one launch. `block` points to largestBlock() bytes, aligned to 64.
  /// If `overlap` is set and the kernel is `programmatic`, it may start while
  /// its predecessor in the stream still runs.
  Result<void> launch(const LaunchStep &step, const ArgumentSources &sources,
                      std::byte *block, cuda::CUstream stream,
                      bool overlap) const;

  /// The resource usage of a kernel that the driver reports, by index into
  /// Target::kernels.
  struct Resources {
    int registers = 0; ///< per thread
    int localBytes = 0;
    int ctasPerSm = 0; ///< resident at a time
  };
  Resources resourcesOf(size_t kernel) const {
    return kernels[kernel].resources;
  }
  /// Returns for each index into Target::variants why the variant cannot run on
  /// this device, or "". Another variant then serves its tokens.
  const std::vector<std::string> &whyUnfit() const { return unfit; }

  /// Returns the launches of a variant, by index into Target::variants;
  /// packSteps() does so for Target::pack.
  std::span<const LaunchStep> variantSteps(size_t variant) const {
    return variants[variant];
  }
  std::span<const LaunchStep> packSteps(size_t pack) const {
    return packs[pack];
  }
  int64_t largestBlock() const { return blockBytes; }
  const CudaPlace &place() const { return where; }

  /// Returns the error Capturing if the stream is being captured.
  Result<void> refuseCapture(cuda::CUstream stream, const char *what) const;

private:
  struct LoadedKernel {
    cuda::CUmodule module = nullptr;
    cuda::CUfunction function = nullptr;
    Resources resources;
    std::optional<ArgumentPacker> packer;
  };

  CudaCode(const Target &target, CudaPlace place)
      : target(target), where(std::move(place)) {}
  Result<void> loadKernel(const Kernel &kernel, const CompiledKernel &cubin,
                          LoadedKernel &loaded);
  Result<void> checkLocalMemory(bool strict) const;
  Result<std::vector<LaunchStep>>
  resolve(const std::vector<Launch> &launches) const;

  const Target &target;
  CudaPlace where;
  std::vector<LoadedKernel> kernels;
  std::vector<std::vector<LaunchStep>> variants, packs;
  std::vector<std::string> unfit;
  int64_t blockBytes = 0;
};

} // namespace moec::runtime

#endif // MOEC_RUNTIME_CUDA_CUDACODE_H
