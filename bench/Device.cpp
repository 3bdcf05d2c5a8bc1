//===- Device.cpp - memory, streams and graphs of the bench ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bench/Device.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

using namespace moec;
using namespace moec::bench;
using namespace moec::runtime::cuda;

static CUdeviceptr address(const void *pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

Buffer &Buffer::operator=(Buffer &&other) noexcept {
  std::swap(driver, other.driver);
  std::swap(pointer, other.pointer);
  std::swap(size, other.size);
  return *this;
}

void Buffer::release() {
  if (!pointer)
    return;
  if (driver)
    driver->memFree(address(pointer));
  else
    std::free(pointer);
  pointer = nullptr;
}

Device::Device(Device &&other) noexcept
    : driver(other.driver), context(std::exchange(other.context, nullptr)),
      cudaStream(std::exchange(other.cudaStream, nullptr)),
      deviceName(std::move(other.deviceName)) {}

Device::~Device() {
  if (cudaStream)
    driver->streamDestroy(cudaStream);
  if (context) {
    CUcontext popped;
    driver->ctxPopCurrent(&popped);
    driver->primaryCtxRelease(0);
  }
}

Result<Device> Device::open(bool host) {
  Device device;
  if (host)
    return device;
  Result<const CudaDriver *> opened = CudaDriver::get();
  if (!opened)
    return opened.takeError();
  device.driver = *opened;
  const CudaDriver &driver = **opened;
  CUdevice ordinal;
  if (Result<void> ok =
          driver.check(driver.deviceGet(&ordinal, 0), "cuDeviceGet");
      !ok)
    return ok.takeError();
  char name[256] = {};
  driver.deviceGetName(name, sizeof name - 1, ordinal);
  device.deviceName = name;
  if (Result<void> ok =
          driver.check(driver.primaryCtxRetain(&device.context, ordinal),
                       "cuDevicePrimaryCtxRetain");
      !ok)
    return ok.takeError();
  if (Result<void> ok = driver.check(driver.ctxPushCurrent(device.context),
                                     "cuCtxPushCurrent");
      !ok)
    return ok.takeError();
  if (Result<void> ok = driver.check(
          driver.streamCreate(&device.cudaStream, kStreamNonBlocking),
          "cuStreamCreate");
      !ok)
    return ok.takeError();
  return device;
}

int Device::driverVersion() const {
  int version = 0;
  if (driver)
    driver->driverGetVersion(&version);
  return version;
}

Result<uint64_t> Device::freeBytes() const {
  if (!driver)
    return uint64_t(8) << 30;
  size_t available = 0, total = 0;
  if (Result<void> ok =
          driver->check(driver->memGetInfo(&available, &total), "cuMemGetInfo");
      !ok)
    return ok.takeError();
  return uint64_t(available);
}

Result<Buffer> Device::allocate(uint64_t bytes) const {
  Buffer buffer;
  buffer.size = bytes;
  // A multiple of 256, as aligned_alloc wants it; never nothing.
  uint64_t rounded = (std::max<uint64_t>(bytes, 1) + 255) / 256 * 256;
  if (!driver) {
    buffer.pointer = std::aligned_alloc(256, rounded);
    if (!buffer.pointer)
      return Error{ErrorCode::FileSystem, "out of memory on the host"};
    std::memset(buffer.pointer, 0, rounded);
    return buffer;
  }
  CUdeviceptr pointer = 0;
  if (Result<void> ok =
          driver->check(driver->memAlloc(&pointer, rounded), "cuMemAlloc");
      !ok)
    return ok.takeError();
  buffer.driver = driver;
  buffer.pointer = reinterpret_cast<void *>(pointer);
  return buffer;
}

Result<void> Device::upload(void *to, const void *from, uint64_t bytes) const {
  if (driver)
    return driver->upload(address(to), from, bytes);
  std::memcpy(to, from, bytes);
  return {};
}

Result<void> Device::download(void *to, const void *from,
                              uint64_t bytes) const {
  if (driver)
    return driver->check(driver->memcpyDtoH(to, address(from), bytes),
                         "cuMemcpyDtoH");
  std::memcpy(to, from, bytes);
  return {};
}

Result<void> Device::copy(void *to, const void *from, uint64_t bytes) const {
  if (driver)
    return driver->check(
        driver->memcpyDtoDAsync(address(to), address(from), bytes, cudaStream),
        "cuMemcpyDtoDAsync");
  std::memcpy(to, from, bytes);
  return {};
}

Result<void> Device::synchronize() const {
  if (driver)
    return driver->check(driver->streamSynchronize(cudaStream),
                         "cuStreamSynchronize");
  return {};
}

Result<double> Device::median(const std::function<Result<void>()> &work,
                              const Replays &replays) const {
  if (driver)
    return medianOfGraph(work, replays);
  std::vector<double> times;
  for (int i = 0; i < replays.least; ++i) {
    auto start = std::chrono::steady_clock::now();
    if (Result<void> done = work(); !done)
      return done.takeError();
    times.push_back(std::chrono::duration<double, std::milli>(
                        std::chrono::steady_clock::now() - start)
                        .count());
  }
  return medianOf(times);
}

namespace {

/// Destroys what a measurement made, whichever way it ends.
struct GraphScope {
  const CudaDriver &driver;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  CUevent start = nullptr, end = nullptr;
  ~GraphScope() {
    if (start)
      driver.eventDestroy(start);
    if (end)
      driver.eventDestroy(end);
    if (executable)
      driver.graphExecDestroy(executable);
    if (graph)
      driver.graphDestroy(graph);
  }
};

} // namespace

Result<double> Device::medianOfGraph(const std::function<Result<void>()> &work,
                                     const Replays &replays) const {
  GraphScope scope{*driver};
  if (Result<void> ok = driver->check(
          driver->streamBeginCapture(cudaStream, kCaptureModeThread),
          "cuStreamBeginCapture");
      !ok)
    return ok.takeError();
  Result<void> queued = work();
  Result<void> ended = driver->check(
      driver->streamEndCapture(cudaStream, &scope.graph), "cuStreamEndCapture");
  if (!queued)
    return queued.takeError();
  if (!ended)
    return ended.takeError();

  int status = driver->graphInstantiate(&scope.executable, scope.graph, 0);
  const char *what = "cuGraphInstantiate";
  auto call = [&](const char *name, int code) {
    if (status == kSuccess) {
      status = code;
      what = name;
    }
  };
  call("cuEventCreate", driver->eventCreate(&scope.start, 0));
  call("cuEventCreate", driver->eventCreate(&scope.end, 0));
  auto replay = [&] {
    float ms = 0;
    call("cuEventRecord", driver->eventRecord(scope.start, cudaStream));
    call("cuGraphLaunch", driver->graphLaunch(scope.executable, cudaStream));
    call("cuEventRecord", driver->eventRecord(scope.end, cudaStream));
    call("cuEventSynchronize", driver->eventSynchronize(scope.end));
    call("cuEventElapsedTime",
         driver->eventElapsedTime(&ms, scope.start, scope.end));
    return double(ms);
  };
  for (int i = 0; i < replays.warmups && status == kSuccess; ++i) {
    double ms = replay();
    if (i == 0 && replays.idleAboveMs > 0 && ms > replays.idleAboveMs)
      std::this_thread::sleep_for(
          std::chrono::duration<double, std::milli>(replays.idleMs));
  }
  std::vector<double> times;
  double spent = 0;
  while (status == kSuccess &&
         (int(times.size()) < replays.least ||
          (spent < replays.budgetMs && times.size() < 300))) {
    times.push_back(replay());
    spent += times.back();
  }
  if (Result<void> ok = driver->check(status, what); !ok)
    return ok.takeError();
  return medianOf(times);
}

double moec::bench::medianOf(std::vector<double> values) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle]
                           : (values[middle - 1] + values[middle]) / 2;
}
