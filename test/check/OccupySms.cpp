//===- OccupySms.cpp - a kernel that holds SMs ----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/check/OccupySms.h"

#include <algorithm>

using namespace moec;
using namespace moec::check;
using namespace moec::runtime::cuda;

OccupySms::~OccupySms() {
  if (module)
    device.driver()->moduleUnload(module);
}

Result<void> OccupySms::queue(int stream, int milliseconds) {
  if (device.onHost())
    return {};
  const CudaDriver &driver = *device.driver();
  if (!module)
    if (auto ok = driver.check(driver.moduleLoadData(&module, kOccupyText),
                               "cuModuleLoadData (the kernel that holds SMs)");
        !ok)
      return ok;
  CUfunction function = nullptr;
  if (auto ok =
          driver.check(driver.moduleGetFunction(&function, module, "occupy"),
                       "cuModuleGetFunction");
      !ok)
    return ok;
  // All of its shared memory, so that a CTA has an SM and other kernels' do not
  // fit beside it.
  auto shared = static_cast<int>(device.info().sharedBytesPerBlock);
  if (auto ok = driver.check(
          driver.funcSetAttribute(function, kFuncMaxDynamicShared, shared),
          "cuFuncSetAttribute");
      !ok)
    return ok;
  constexpr unsigned kThreads = 1024;
  constexpr unsigned long long kNanoseconds = 1000000;
  unsigned long long duration =
      static_cast<unsigned long long>(milliseconds) * kNanoseconds;
  void *parameters[] = {&duration};
  CUlaunchConfig config;
  config.gridX =
      static_cast<unsigned>(std::max<int64_t>(1, device.info().smCount / 2));
  config.blockX = kThreads;
  config.sharedBytes = static_cast<unsigned>(shared);
  config.stream = static_cast<CUstream>(device.stream(stream));
  return driver.check(
      driver.launchKernelEx(&config, function, parameters, nullptr),
      "cuLaunchKernelEx");
}
