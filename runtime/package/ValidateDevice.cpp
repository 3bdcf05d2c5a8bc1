//===- ValidateDevice.cpp - checks of a target against a device -----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The second part of validation, at load time: compares the resources that
// kernels need with the device limits that cuDeviceGetAttribute reports.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Arguments.h"
#include "runtime/package/Package.h"

#include <algorithm>
#include <fmt/core.h>

using namespace moec;

/// Shared memory in bytes that the driver reserves in each CTA.
static constexpr int64_t kReservedSharedBytes = 1024;

static Error tooMuch(const DeviceLimits &limits, std::string_view kernel,
                     std::string what) {
  return {ErrorCode::DeviceLimit,
          "kernel '{}' on {} (compute capability {}.{}): {}",
          kernel,
          limits.name.empty() ? "the device" : limits.name,
          limits.computeMajor,
          limits.computeMinor,
          what};
}

static Result<void> checkLaunch(const Launch &launch, const Kernel &kernel,
                                const Symbols &symbols,
                                const DeviceLimits &limits) {
  std::array<int64_t, 3> grid = TRY(gridOf(launch, kernel, symbols));
  for (size_t i = 0; i < 3; ++i)
    if (grid[i] > limits.maxGrid[i])
      return tooMuch(limits, kernel.name,
                     fmt::format("needs {} CTAs in {} with {}, the device "
                                 "allows {}",
                                 grid[i], "xyz"[i], describe(symbols),
                                 limits.maxGrid[i]));
  if (!kernel.cooperative)
    return {};
  int64_t ctas = grid[0] * grid[1] * grid[2];
  int64_t resident = limits.smCount * kernel.minCtasPerSm;
  if (ctas > resident)
    return tooMuch(limits, kernel.name,
                   fmt::format("is cooperative and needs {} CTAs at once, {} "
                               "SMs hold {}",
                               ctas, limits.smCount, resident));
  return {};
}

Result<void> moec::validateForDevice(const Manifest &manifest,
                                     const Target &target,
                                     const DeviceLimits &limits) {
  for (const Kernel &kernel : target.kernels) {
    auto fail = [&](std::string what) {
      return tooMuch(limits, kernel.name, std::move(what));
    };
    if (kernel.sharedBytes > limits.sharedBytesPerBlock)
      return fail(fmt::format("needs {} bytes of shared memory in a CTA, the "
                              "device has {}",
                              kernel.sharedBytes, limits.sharedBytesPerBlock));
    if (kernel.threads > limits.threadsPerBlock)
      return fail(fmt::format("needs {} threads in a CTA, the device allows {}",
                              kernel.threads, limits.threadsPerBlock));
    if (kernel.threads * kernel.minCtasPerSm > limits.threadsPerSm)
      return fail(fmt::format("needs {} CTAs of {} threads on an SM, the "
                              "device holds {} threads",
                              kernel.minCtasPerSm, kernel.threads,
                              limits.threadsPerSm));
    if ((kernel.sharedBytes + kReservedSharedBytes) * kernel.minCtasPerSm >
        limits.sharedBytesPerSm)
      return fail(fmt::format("needs {} CTAs with {} bytes of shared memory "
                              "(and {} reserved) on an SM, the device has {}",
                              kernel.minCtasPerSm, kernel.sharedBytes,
                              kReservedSharedBytes, limits.sharedBytesPerSm));
    int64_t cluster = kernel.cluster[0] * kernel.cluster[1] * kernel.cluster[2];
    if (cluster > limits.maxCluster)
      return fail(fmt::format("needs clusters of {} CTAs, the device allows {}",
                              cluster, limits.maxCluster));
    if (kernel.cooperative && !limits.cooperative)
      return fail("needs cooperative launches, which the device lacks");
    bool hopper = limits.computeMajor >= 9;
    if (kernel.programmatic && !hopper)
      return fail("needs programmatic launches (compute capability 9.0)");
    if (!hopper && std::ranges::any_of(
                       kernel.arguments.fields, [](const ArgumentField &field) {
                         return field.kind == ArgumentField::Kind::TensorMap;
                       }))
      return fail("needs tensor maps (compute capability 9.0)");
  }
  // Grids grow with the token count, so checking the maximum token count of
  // each variant suffices.
  for (const Variant &variant : target.variants) {
    if (variant.minSms > limits.smCount)
      continue;
    Symbols symbols =
        TRY(symbolsFor(manifest, variant.maxTokens, limits.smCount));
    for (const Launch &launch : variant.launches)
      if (const Kernel *kernel = findKernel(target, launch.kernel))
        TRY(checkLaunch(launch, *kernel, symbols, limits));
  }
  for (const Pack &pack : target.pack) {
    Symbols symbols;
    symbols.maxTokens = manifest.maxTokens;
    symbols.smCount = limits.smCount;
    symbols.experts = pack.expertsPerStep;
    for (const Launch &launch : pack.launches)
      if (const Kernel *kernel = findKernel(target, launch.kernel))
        TRY(checkLaunch(launch, *kernel, symbols, limits));
  }
  return {};
}
