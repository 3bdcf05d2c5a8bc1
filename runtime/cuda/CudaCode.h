//===- CudaCode.h - a target's kernels, loaded on a GPU ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Modules and functions of every kernel of one target in one CUDA context,
// constants, and the launch lists with their names resolved. Immutable once
// loaded, hence shared by all threads and layers; a launch allocates nothing.
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

/// The CUDA context that a package lives in.
struct CudaPlace {
  const cuda::CudaDriver *driver = nullptr;
  cuda::CUcontext context = nullptr;
  cuda::CUdevice device = 0;
  bool retained = false; ///< a primary context that must be released
  DeviceInfo info;

  /// ordinal < 0: the context that is current, else the primary context of
  /// device 0; otherwise that of the device.
  static Result<CudaPlace> find(int ordinal);
  /// The primary context of an emulated GPU; `arch` as
  /// CudaDriver::emulator() takes it.
  static Result<CudaPlace> emulate(const std::string &arch, int ordinal);

private:
  static Result<CudaPlace> open(const cuda::CudaDriver &driver, int ordinal);
};

/// Memory of the host that emulated GPUs reach while this lives. On other GPUs
/// it has none.
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

/// A launch with its kernel found.
struct LaunchStep {
  const Launch *launch = nullptr;
  size_t kernel = 0; ///< index into Target::kernels; none of a collective
};

/// Memory of the device, freed with this object.
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
  /// Loads the cubins (in the order of target.kernels) into `place`, which is
  /// current. strict: a kernel that uses local memory is an error, not a
  /// warning. Errors: DeviceLimit, DriverFailed, Capturing, InvalidManifest.
  static Result<std::unique_ptr<CudaCode>>
  load(const Manifest &manifest, const Target &target,
       std::span<const CompiledKernel> cubins, CudaPlace place, bool strict);
  ~CudaCode();
  CudaCode(const CudaCode &) = delete;
  CudaCode &operator=(const CudaCode &) = delete;

  /// Queues one launch. `block` holds largestBlock() bytes, aligned to 64.
  /// `overlap`: the predecessor in the stream may still run when a kernel that
  /// is `programmatic` starts.
  Result<void> launch(const LaunchStep &step, const ArgumentSources &sources,
                      std::byte *block, cuda::CUstream stream,
                      bool overlap) const;

  /// The driver's numbers of a kernel, by index into Target::kernels.
  struct Resources {
    int registers = 0; ///< of a thread
    int localBytes = 0;
    int ctasPerSm = 0; ///< that are resident at a time
  };
  Resources resourcesOf(size_t kernel) const {
    return kernels[kernel].resources;
  }
  /// By index into Target::variants: why it cannot serve here, or "". Another
  /// one serves its tokens.
  const std::vector<std::string> &whyUnfit() const { return unfit; }

  /// By index into Target::variants and Target::pack.
  std::span<const LaunchStep> variantSteps(size_t variant) const {
    return variants[variant];
  }
  std::span<const LaunchStep> packSteps(size_t pack) const {
    return packs[pack];
  }
  int64_t largestBlock() const { return blockBytes; }
  const CudaPlace &place() const { return where; }

  /// Error Capturing when the stream is being captured.
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
