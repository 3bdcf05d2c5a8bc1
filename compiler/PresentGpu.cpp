//===- PresentGpu.cpp - the GPU of this machine ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/PresentGpu.h"

#include "dialect/catalog/Architectures.h"
#include "dialect/catalog/Gpus.h"
#include "runtime/cuda/CudaDriver.h"
#include "runtime/cuda/DeviceInfo.h"

#include <algorithm>

using namespace moec;
using namespace moec::runtime;

std::string compiler::presentGpu(const std::vector<std::string> &archs) {
  auto driver = cuda::CudaDriver::get();
  if (!driver)
    return "";
  cuda::CUdevice device = 0;
  cuda::CUcontext context = nullptr;
  bool inContext = (*driver)->ctxGetCurrent(&context) == cuda::kSuccess &&
                   context &&
                   (*driver)->ctxGetDevice(&device) == cuda::kSuccess;
  if (!inContext && (*driver)->deviceGet(&device, 0) != cuda::kSuccess)
    return "";
  auto info = readDeviceInfo(**driver, device);
  if (!info)
    return "";
  const catalog::Gpu *gpu = catalog::findGpuByDevice(info->name);
  if (!gpu)
    return "";
  bool runs = std::ranges::any_of(archs, [&](const std::string &name) {
    const catalog::Architecture *arch =
        catalog::find(catalog::kArchitectures, name);
    return arch && catalog::runsOn(*arch, int(info->computeMajor),
                                   int(info->computeMinor));
  });
  return runs ? std::string(gpu->name) : "";
}
