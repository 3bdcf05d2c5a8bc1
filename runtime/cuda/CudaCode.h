//===- CudaCode.h - loads a target's kernels on a GPU -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The modules and functions of all kernels of one target in one CUDA context,
// and the launch lists with resolved kernel names. Immutable after loading, so
// all threads and layers share it. A launch allocates nothing.
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

/// The CUDA device and context in which a package is loaded.
struct CudaPlace {
  const cuda::CudaDriver *driver = nullptr;
  cuda::CUcontext context = nullptr;
  cuda::CUdevice device = 0;
  bool retained = false; ///< true: a primary context that must be released
  DeviceInfo info;

  /// Finds the CUDA context. If `ordinal` is negative, this is the current
  /// context, or the primary context of device 0 if there is no current
  /// context. Otherwise it is the primary context of device `ordinal`.
  static Result<CudaPlace> find(int ordinal);
  /// Returns the primary context of an emulated GPU. `arch` is passed to
  /// CudaDriver::emulator().
  static Result<CudaPlace> emulate(const std::string &arch, int ordinal);

private:
  static Result<CudaPlace> open(const cuda::CudaDriver &driver, int ordinal);
};

/// Host memory that an emulated GPU may access during the lifetime of this
/// object. For real GPUs the object does nothing.
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

/// A launch with the index of its kernel.
struct LaunchStep {
  const Launch *launch = nullptr;
  size_t kernel = 0; ///< index into Target::kernels; unused for a collective
};

/// Device memory that is freed with this object.
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
  /// Loads the cubins, in the order of target.kernels, into the context of
  /// `place`, which must be current. A kernel that uses local memory is an
  /// error if `strict` is set, otherwise a warning. Errors: DeviceLimit,
  /// DriverFailed, Capturing, InvalidManifest.
  static Result<std::unique_ptr<CudaCode>>
  load(const Manifest &manifest, const Target &target,
       std::span<const CompiledKernel> cubins, CudaPlace place, bool strict);
  ~CudaCode();
  CudaCode(const CudaCode &) = delete;
  CudaCode &operator=(const CudaCode &) = delete;

  /// Queues one launch. `block` is a buffer of largestBlock() bytes, aligned to
  /// 64 bytes. If `overlap` is set and the kernel is `programmatic`, the kernel
  /// may start while its predecessor in the stream is still running.
  Result<void> launch(const LaunchStep &step, const ArgumentSources &sources,
                      std::byte *block, cuda::CUstream stream,
                      bool overlap) const;

  /// The resource usage of a kernel as reported by the driver. Indexed like
  /// Target::kernels.
  struct Resources {
    int registers = 0; ///< per thread
    int localBytes = 0;
    int ctasPerSm = 0; ///< maximum resident CTAs per SM
  };
  Resources resourcesOf(size_t kernel) const {
    return kernels[kernel].resources;
  }
  /// Returns for each index into Target::variants the reason why this device
  /// cannot run the variant, or "". Another variant is then used for the same
  /// token counts.
  const std::vector<std::string> &whyUnfit() const { return unfit; }

  /// variantSteps() returns the launches of a variant, by index into
  /// Target::variants. packSteps() returns the launches of a pack, by index
  /// into Target::pack.
  std::span<const LaunchStep> variantSteps(size_t variant) const {
    return variants[variant];
  }
  std::span<const LaunchStep> packSteps(size_t pack) const {
    return packs[pack];
  }
  int64_t largestBlock() const { return blockBytes; }
  const CudaPlace &place() const { return where; }

  /// Returns a Capturing error if the stream is being captured.
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
