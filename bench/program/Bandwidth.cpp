//===- Bandwidth.cpp - what the memory reaches in this run ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bench/program/Bandwidth.h"

#include "runtime/jit/Nvrtc.h"

#include <fmt/core.h>

#include <algorithm>
#include <random>

using namespace moec;
using namespace moec::bench;
using tools::Buffer;
using tools::Device;
using namespace moec::runtime;
using namespace moec::runtime::cuda;

namespace {

constexpr int64_t kBlock = int64_t(64) << 20;
constexpr unsigned kThreads = 256, kCtasPerSm = 8;

/// A loaded kernel; unloaded with the object.
struct ReadKernel {
  const CudaDriver &driver;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ~ReadKernel() {
    if (module)
      driver.moduleUnload(module);
  }
};

} // namespace

/// NoCompiler where there is no NVRTC.
static Result<std::string> compileReadKernel(const CudaDriver &driver) {
  int major = 0, minor = 0;
  driver.deviceGetAttribute(&major, kDeviceMajor, 0);
  driver.deviceGetAttribute(&minor, kDeviceMinor, 0);
  Result<NvrtcLocation> location = findNvrtc();
  if (!location)
    return location.takeError();
  Result<const Nvrtc *> nvrtc = Nvrtc::open(*location);
  if (!nvrtc)
    return nvrtc.takeError();
  Recipe recipe;
  recipe.entry = "moec_bench_read";
  recipe.arch = fmt::format("sm_{}{}", major, minor);
  recipe.options = {"-std=c++20", "-arch=" + recipe.arch};
  recipe.source = std::make_shared<const HashedText>(kReadKernelText);
  Result<Cubin> cubin = (*nvrtc)->compile(recipe);
  if (!cubin)
    return cubin.takeError();
  return std::move(cubin->bytes);
}

/// Random data, so that power is what it is in service. Every block stands
/// twice, so the xor of all is 0, but for the words that were changed
/// afterwards at both ends: returns what the sum must be.
static Result<unsigned> fill(const Device &device, const Buffer &data) {
  std::vector<uint64_t> random(kBlock / 8);
  std::mt19937_64 engine(1);
  for (uint64_t &word : random)
    word = engine();
  auto at = [&](int64_t offset) {
    return static_cast<char *>(data.data()) + offset;
  };
  if (Result<void> ok = device.upload(at(0), random.data(), kBlock); !ok)
    return ok.takeError();
  for (int64_t done = kBlock; done < data.bytes(); done += kBlock)
    if (Result<void> ok = device.copy(at(done), at(0), kBlock); !ok)
      return ok.takeError();
  if (Result<void> ok = device.synchronize(); !ok)
    return ok.takeError();
  const unsigned first = 0x12345678, last = 0x9ABCDEF0;
  unsigned begin = unsigned(random.front()) ^ first;
  unsigned end = unsigned(random.back() >> 32) ^ last;
  if (Result<void> ok = device.upload(at(0), &begin, 4); !ok)
    return ok.takeError();
  if (Result<void> ok = device.upload(at(data.bytes() - 4), &end, 4); !ok)
    return ok.takeError();
  return first ^ last;
}

static Result<Bandwidth> measureRead(const Device &device,
                                     const std::string &cubin, int64_t bytes) {
  const CudaDriver &driver = *device.driver();
  ReadKernel kernel{driver};
  if (Result<void> ok =
          driver.check(driver.moduleLoadData(&kernel.module, cubin.data()),
                       "cuModuleLoadData of the read kernel");
      !ok)
    return ok.takeError();
  if (Result<void> ok =
          driver.check(driver.moduleGetFunction(&kernel.function, kernel.module,
                                                "moec_bench_read"),
                       "cuModuleGetFunction of the read kernel");
      !ok)
    return ok.takeError();
  int sms = 0;
  if (Result<void> ok =
          driver.check(driver.deviceGetAttribute(&sms, kDeviceSmCount, 0),
                       "cuDeviceGetAttribute");
      !ok)
    return ok.takeError();

  Result<Buffer> data = device.allocate(bytes);
  if (!data)
    return data.takeError();
  Result<Buffer> sum = device.allocate(4);
  if (!sum)
    return sum.takeError();
  Result<unsigned> expected = fill(device, *data);
  if (!expected)
    return expected.takeError();

  void *dataPointer = data->data(), *sumPointer = sum->data();
  auto count = static_cast<unsigned long long>(bytes / 16);
  void *arguments[] = {&dataPointer, &count, &sumPointer};
  CUlaunchConfig config;
  config.gridX = unsigned(sms) * kCtasPerSm;
  config.blockX = kThreads;
  config.stream = static_cast<CUstream>(device.stream());
  auto launch = [&] {
    return driver.check(
        driver.launchKernelEx(&config, kernel.function, arguments, nullptr),
        "launching the read kernel");
  };
  unsigned got = 0;
  if (Result<void> ok = device.upload(sumPointer, &got, 4); !ok)
    return ok.takeError();
  if (Result<void> ok = launch(); !ok)
    return ok.takeError();
  if (Result<void> ok = device.synchronize(); !ok)
    return ok.takeError();
  if (Result<void> ok = device.download(&got, sumPointer, 4); !ok)
    return ok.takeError();
  if (got != *expected)
    return Error{ErrorCode::Internal,
                 fmt::format("the read kernel's xor of {} bytes is {:08x}, "
                             "expected {:08x}",
                             bytes, got, *expected)};
  Result<double> ms =
      device.median(launch, {.warmups = 5, .least = 20, .budgetMs = 80});
  if (!ms)
    return ms.takeError();
  return Bandwidth{double(bytes) / (*ms * 1e6), true, ""};
}

static Result<Bandwidth> measureCopy(const Device &device, int64_t bytes) {
  Result<Buffer> data = device.allocate(bytes);
  if (!data)
    return data.takeError();
  char *half = static_cast<char *>(data->data()) + bytes / 2;
  Result<double> ms =
      device.median([&] { return device.copy(half, data->data(), bytes / 2); },
                    {.warmups = 3, .least = 10, .budgetMs = 80});
  if (!ms)
    return ms.takeError();
  // Half of it read, half of it written.
  return Bandwidth{double(bytes) / (*ms * 1e6), false, ""};
}

Result<Bandwidth> moec::bench::measureBandwidth(const Device &device) {
  if (device.onHost())
    return Bandwidth{0, false, "the host device has no bandwidth of its own"};
  Result<int64_t> available = device.freeBytes();
  if (!available)
    return available.takeError();
  // An even number of blocks, see fill().
  int64_t bytes = std::clamp(*available / 4 / (2 * kBlock) * (2 * kBlock),
                             2 * kBlock, int64_t(4) << 30);
  Result<std::string> cubin = compileReadKernel(*device.driver());
  if (cubin)
    return measureRead(device, *cubin, bytes);
  if (cubin.error().code != ErrorCode::NoCompiler)
    return cubin.takeError();
  Result<Bandwidth> copied = measureCopy(device, bytes);
  if (copied)
    copied->why = cubin.error().message;
  return copied;
}
