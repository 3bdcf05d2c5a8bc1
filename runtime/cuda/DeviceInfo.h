//===- DeviceInfo.h - properties of a GPU -----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Read once when a package is loaded: the name, compute capability, number of
// SMs and the limits against which a manifest is checked.
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
  /// SMs of the context, which may have fewer than the device.
  int64_t smCount = 0;
  int64_t maxThreadsPerBlock = 0;
  int64_t maxThreadsPerSm = 0;
  int64_t sharedBytesPerBlock = 0; ///< static and dynamic, with opt-in
  int64_t sharedBytesPerSm = 0;
  int64_t l2Bytes = 0;
  int64_t memoryBytes = 0;
  bool cooperative = false;
};

Result<DeviceInfo> readDeviceInfo(const cuda::CudaDriver &driver,
                                  cuda::CUdevice device);

/// Returns the number of SMs that kernels of a context may use: that of the
/// device, or fewer in a green context or with an MPS limit. The context must
/// be current.
int64_t smsOfContext(const cuda::CudaDriver &driver, cuda::CUcontext context,
                     int64_t smsOfDevice);

/// Makes `context` current for the calling thread during the lifetime of this
/// object. It pushes `context` if another one (or none) is current, and pops it
/// at the end.
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
