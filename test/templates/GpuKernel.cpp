//===- GpuKernel.cpp - a kernel that a test compiles and runs -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/templates/GpuKernel.h"

#include <cstdlib>
#include <fmt/core.h>
#include <memory>

using namespace moec;
using namespace moec::gpu_test;
using namespace moec::runtime;

Result<Cubin> gpu_test::compileFor(const std::string &arch,
                                   const std::string &text) {
  Result<NvrtcLocation> location = findNvrtc();
  if (!location)
    return location.takeError();
  Result<const Nvrtc *> nvrtc = Nvrtc::open(*location);
  if (!nvrtc)
    return nvrtc.takeError();
  Recipe recipe;
  recipe.entry = kEntry;
  recipe.arch = arch;
  const char *source = getenv("MOEC_SOURCE_DIR");
  recipe.options = {"-arch=" + arch, "-std=c++20", "-default-device",
                    fmt::format("-I{}/templates", source),
                    fmt::format("-I{}", source)};
  recipe.source = std::make_shared<HashedText>(text);
  return (*nvrtc)->compile(recipe);
}

std::string gpu_test::archOf(const tools::Device &device) {
  return fmt::format("sm_{}{}", device.info().computeMajor,
                     device.info().computeMinor);
}

Result<GpuKernel> GpuKernel::load(const tools::Device &device,
                                  const std::string &cubin) {
  const cuda::CudaDriver &driver = *device.driver();
  GpuKernel kernel;
  kernel.device = &device;
  cuda::CUmodule module = nullptr;
  if (auto ok = driver.check(driver.moduleLoadData(&module, cubin.data()),
                             "cuModuleLoadData");
      !ok)
    return ok.takeError();
  if (auto ok = driver.check(
          driver.moduleGetFunction(&kernel.function, module, kEntry),
          "cuModuleGetFunction");
      !ok)
    return ok.takeError();
  return kernel;
}

Result<void> GpuKernel::run(unsigned blocks, unsigned threads,
                            void **parameters) const {
  const cuda::CudaDriver &driver = *device->driver();
  cuda::CUlaunchConfig config;
  config.gridX = blocks;
  config.blockX = threads;
  config.stream = static_cast<cuda::CUstream>(device->stream());
  if (auto ok = driver.check(
          driver.launchKernelEx(&config, function, parameters, nullptr),
          "cuLaunchKernelEx");
      !ok)
    return ok.takeError();
  return device->synchronize();
}
