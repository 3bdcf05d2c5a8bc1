//===- DeviceInfo.h - what a GPU is and how much it has ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Read once when a package is loaded: name, compute capability, SMs and the
// limits that a manifest is checked against.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_CUDA_DEVICEINFO_H
#define MOEC_RUNTIME_CUDA_DEVICEINFO_H

#include "runtime/cuda/CudaDriver.h"

#include <cstdint>
#include <string>

namespace moec::runtime {

struct DeviceInfo {
  std::string name;
  int64_t computeMajor = 0, computeMinor = 0;
  int64_t smCount = 0; ///< of the context, where it has fewer than the device
  int64_t maxThreadsPerBlock = 0;
  int64_t maxThreadsPerSm = 0;
  int64_t sharedBytesPerBlock = 0; ///< with opt-in, static and dynamic
  int64_t sharedBytesPerSm = 0;
  int64_t l2Bytes = 0;
  int64_t memoryBytes = 0;
  bool cooperative = false;
};

Result<DeviceInfo> readDeviceInfo(const cuda::CudaDriver &driver,
                                  cuda::CUdevice device);

/// How many SMs kernels of a context may use: those of the device, or fewer in
/// a green context or with a share of MPS. The context is current.
int64_t smsOfContext(const cuda::CudaDriver &driver, cuda::CUcontext context,
                     int64_t smsOfDevice);

/// The context of the calling thread for as long as this lives: pushes
/// `context` when another one (or none) is current, and pops it again.
class ContextScope {
public:
  ContextScope(const cuda::CudaDriver &driver, cuda::CUcontext context);
  ~ContextScope();
  ContextScope(const ContextScope &) = delete;
  ContextScope &operator=(const ContextScope &) = delete;

  Result<void> status() const;

private:
  const cuda::CudaDriver &driver;
  bool pushed = false;
  int code = cuda::kSuccess;
};

} // namespace moec::runtime

#endif // MOEC_RUNTIME_CUDA_DEVICEINFO_H
