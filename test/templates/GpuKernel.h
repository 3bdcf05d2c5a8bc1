//===- GpuKernel.h - a kernel that a test compiles and runs -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Text of a kernel that includes templates, by NVRTC for an arch and on the GPU
// that is there.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_TEMPLATES_GPUKERNEL_H
#define MOEC_TEST_TEMPLATES_GPUKERNEL_H

#include "runtime/jit/Nvrtc.h"
#include "tools/device/Device.h"

#include <string>

namespace moec::gpu_test {

/// The kernels of a test have this name.
inline constexpr const char *kEntry = "moec_conversions";

Result<runtime::Cubin> compileFor(const std::string &arch,
                                  const std::string &text);

/// The arch of a device.
std::string archOf(const tools::Device &device);

/// A kernel on a device. The cubin lives as long.
class GpuKernel {
public:
  static Result<GpuKernel> load(const tools::Device &device,
                                const std::string &cubin);
  /// Launches blocks of so many threads and waits for them.
  Result<void> run(unsigned blocks, unsigned threads, void **parameters) const;

private:
  const tools::Device *device = nullptr;
  runtime::cuda::CUfunction function = nullptr;
};

} // namespace moec::gpu_test

#endif // MOEC_TEST_TEMPLATES_GPUKERNEL_H
