//===- DeviceInfo.h - properties of a GPU -----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The properties of a GPU, which are read once when a package is loaded: the
// name, the compute capability, the SM count and the limits against which a
// manifest is checked.
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
  /// SM count of the context. It may be smaller than the device's SM
  /// count.
  int64_t smCount = 0;
  int64_t maxThreadsPerBlock = 0;
  int64_t maxThreadsPerSm = 0;
  /// Static plus dynamic shared memory, with opt-in.
  int64_t sharedBytesPerBlock = 0;
  int64_t sharedBytesPerSm = 0;
  int64_t l2Bytes = 0;
  int64_t memoryBytes = 0;
  bool cooperative = false;
};

Result<DeviceInfo> readDeviceInfo(const cuda::CudaDriver &driver,
                                  cuda::CUdevice device);

/// Returns the number of SMs that kernels of a context may use. This is the
/// device's SM count, or a smaller count in a green context or with an MPS
/// limit. The context must be current.
int64_t smsOfContext(const cuda::CudaDriver &driver, cuda::CUcontext context,
                     int64_t smsOfDevice);

/// Makes `context` current for the calling thread during the lifetime of this
/// object. If another context or none is current, pushes `context` and pops it
/// in the destructor.
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
