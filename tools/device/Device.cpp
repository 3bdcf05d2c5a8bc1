//===- Device.cpp - memory, streams and timing ----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every driver call is checked; CudaDriver::check() provides the error texts.
//
//===----------------------------------------------------------------------===//

#include "tools/device/Device.h"

#include "runtime/support/Clock.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

using namespace moec;
using namespace moec::tools;
using namespace moec::runtime;
using namespace moec::runtime::cuda;

using Milliseconds = std::chrono::duration<double, std::milli>;

static CUdeviceptr devicePointer(const void *pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

Buffer::Buffer(Buffer &&other) noexcept
    : driver(other.driver), pointer(std::exchange(other.pointer, nullptr)),
      size(std::exchange(other.size, 0)) {}

Buffer &Buffer::operator=(Buffer &&other) noexcept {
  std::swap(driver, other.driver);
  std::swap(pointer, other.pointer);
  std::swap(size, other.size);
  return *this;
}

Buffer::~Buffer() {
  if (driver && pointer)
    driver->memFree(devicePointer(pointer));
  else
    std::free(pointer);
}

Result<Buffer> Device::allocate(int64_t bytes) const {
  Buffer buffer;
  buffer.size = bytes;
  constexpr int64_t kAlignment = Package::kMemoryAlignment;
  const int64_t rounded =
      std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (onHost()) {
    buffer.pointer =
        std::aligned_alloc(kAlignment, static_cast<size_t>(rounded));
    if (!buffer.pointer)
      return invalidArgument("no memory for {} bytes", bytes);
    return buffer;
  }
  CUdeviceptr pointer = 0;
  if (auto ok = driver()->check(
          driver()->memAlloc(&pointer, static_cast<size_t>(rounded)),
          "cuMemAlloc");
      !ok)
    return Error(ok.error().code, "{} ({} bytes)", ok.error().message, bytes);
  buffer.driver = driver();
  buffer.pointer = reinterpret_cast<void *>(pointer);
  return buffer;
}

Result<void> Device::upload(void *to, const void *from, int64_t bytes) const {
  if (bytes == 0)
    return {};
  if (!onHost())
    return driver()->upload(devicePointer(to), from,
                            static_cast<size_t>(bytes));
  std::memcpy(to, from, static_cast<size_t>(bytes));
  return {};
}

Result<void> Device::download(void *to, const void *from, int64_t bytes) const {
  if (bytes == 0)
    return {};
  if (!onHost())
    return driver()->check(driver()->memcpyDtoH(to, devicePointer(from),
                                                static_cast<size_t>(bytes)),
                           "cuMemcpyDtoH");
  std::memcpy(to, from, static_cast<size_t>(bytes));
  return {};
}

Result<void> Device::fill(void *to, int byte, int64_t bytes) const {
  if (bytes == 0)
    return {};
  if (onHost()) {
    std::memset(to, byte, static_cast<size_t>(bytes));
    return {};
  }
  TRY(driver()->check(driver()->memsetD8(devicePointer(to),
                                         static_cast<unsigned char>(byte),
                                         static_cast<size_t>(bytes)),
                      "cuMemsetD8"));
  return synchronizeAll();
}

Result<void> Device::copy(void *to, const void *from, int64_t bytes) const {
  if (!onHost())
    return driver()->check(
        driver()->memcpyDtoDAsync(devicePointer(to), devicePointer(from),
                                  static_cast<size_t>(bytes),
                                  static_cast<CUstream>(streams[0])),
        "cuMemcpyDtoDAsync");
  std::memcpy(to, from, static_cast<size_t>(bytes));
  return {};
}

Result<int64_t> Device::freeBytes() const {
  constexpr int64_t kOnHost = int64_t(8) << 30;
  if (onHost())
    return kOnHost;
  size_t available = 0, total = 0;
  TRY(driver()->check(driver()->memGetInfo(&available, &total),
                      "cuMemGetInfo"));
  return static_cast<int64_t>(available);
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

Result<Device> Device::open(DeviceKind kind, const std::string &arch) {
  Device device;
  device.place.info.name = "host";
  if (kind == DeviceKind::Host)
    return device;
  // The time of the context excludes loading the driver.
  const bool isEmulated = kind == DeviceKind::Emulated;
  if (isEmulated)
    TRY(CudaDriver::emulator(arch));
  else if (const auto opened = CudaDriver::get(); !opened)
    return Error(opened.error().code, "{}; --device=host needs no GPU",
                 opened.error().message);
  auto start = Clock::now();
  device.place = TRY(isEmulated ? CudaPlace::emulate(arch, /*ordinal=*/0)
                                : CudaPlace::find(/*ordinal=*/0));
  const CudaDriver &driver = *device.place.driver;
  if (Result<void> pushed = driver.check(
          driver.ctxPushCurrent(device.place.context), "cuCtxPushCurrent");
      !pushed) {
    if (device.place.retained)
      driver.primaryCtxRelease(device.place.device);
    // The destructor would pop another context.
    device.place = {};
    return pushed.takeError();
  }
  device.contextTime = millisecondsSince(start);
  for (void *&stream : device.streams) {
    CUstream made = nullptr;
    TRY(driver.check(driver.streamCreate(&made, kStreamNonBlocking),
                     "cuStreamCreate"));
    stream = made;
  }
  return device;
}

Device::Device(Device &&other) noexcept
    : place(std::exchange(other.place, {})),
      streams{std::exchange(other.streams[0], nullptr),
              std::exchange(other.streams[1], nullptr)},
      contextTime(other.contextTime) {}

Device::~Device() {
  if (onHost())
    return;
  for (void *stream : streams)
    if (stream)
      driver()->streamDestroy(static_cast<CUstream>(stream));
  CUcontext popped = nullptr;
  driver()->ctxPopCurrent(&popped);
  if (place.retained)
    driver()->primaryCtxRelease(place.device);
}

int Device::driverVersion() const {
  int version = 0;
  if (!onHost())
    driver()->driverGetVersion(&version);
  return version;
}

Result<void> Device::synchronize(int stream) const {
  if (onHost())
    return {};
  return driver()->check(
      driver()->streamSynchronize(static_cast<CUstream>(streams[stream])),
      "cuStreamSynchronize");
}

Result<void> Device::synchronizeAll() const {
  if (onHost())
    return {};
  return driver()->check(driver()->ctxSynchronize(), "cuCtxSynchronize");
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

/// A captured graph, its executable and its events, destroyed on every path.
struct Device::Graph {
  const CudaDriver &driver;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  CUevent start = nullptr, end = nullptr;
  explicit Graph(const CudaDriver &driver) : driver(driver) {}
  Graph(const Graph &) = delete;
  Graph &operator=(const Graph &) = delete;
  ~Graph() {
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

Result<void> Device::capture(const std::function<Result<void>()> &work,
                             Graph &graph) const {
  auto stream = static_cast<CUstream>(streams[0]);
  TRY(driver()->check(driver()->streamBeginCapture(stream, kCaptureModeThread),
                      "cuStreamBeginCapture"));
  auto queued = work();
  auto ended = driver()->check(driver()->streamEndCapture(stream, &graph.graph),
                               "cuStreamEndCapture");
  if (!queued)
    return queued;
  if (!ended)
    return ended;
  return driver()->check(
      driver()->graphInstantiate(&graph.executable, graph.graph, 0),
      "cuGraphInstantiate");
}

Result<void>
Device::runCaptured(const std::function<Result<void>()> &work) const {
  Graph graph(*driver());
  TRY(capture(work, graph));
  TRY(driver()->check(driver()->graphLaunch(graph.executable,
                                            static_cast<CUstream>(streams[0])),
                      "cuGraphLaunch"));
  return synchronize();
}

Result<double> Device::median(const std::function<Result<void>()> &work,
                              const Replays &replays) const {
  if (!onHost())
    return medianOfGraph(work, replays);
  std::vector<double> times;
  for (int i = 0; i < replays.least; ++i) {
    auto start = Clock::now();
    TRY(work());
    times.push_back(millisecondsSince(start));
  }
  return medianOf(times);
}

Result<double> Device::medianOfGraph(const std::function<Result<void>()> &work,
                                     const Replays &replays) const {
  auto stream = static_cast<CUstream>(streams[0]);
  Graph graph(*driver());
  TRY(capture(work, graph));
  int status = kSuccess;
  const char *what = "";
  auto call = [&](const char *name, const auto &function) {
    if (status != kSuccess)
      return;
    status = function();
    what = name;
  };
  call("cuEventCreate", [&] { return driver()->eventCreate(&graph.start, 0); });
  call("cuEventCreate", [&] { return driver()->eventCreate(&graph.end, 0); });
  // Returns the milliseconds of one of `count` back-to-back replays.
  auto replay = [&](int count) {
    float ms = 0;
    call("cuEventRecord",
         [&] { return driver()->eventRecord(graph.start, stream); });
    for (int i = 0; i < count; ++i)
      call("cuGraphLaunch",
           [&] { return driver()->graphLaunch(graph.executable, stream); });
    call("cuEventRecord",
         [&] { return driver()->eventRecord(graph.end, stream); });
    call("cuEventSynchronize",
         [&] { return driver()->eventSynchronize(graph.end); });
    call("cuEventElapsedTime", [&] {
      return driver()->eventElapsedTime(&ms, graph.start, graph.end);
    });
    return static_cast<double>(ms) / count;
  };
  for (int i = 0; i < replays.warmups && status == kSuccess; ++i) {
    const double ms = replay(1);
    if (i == 0 && replays.idleAboveMs > 0 && ms > replays.idleAboveMs)
      std::this_thread::sleep_for(Milliseconds(replays.idleMs));
  }
  int count = 1;
  if (replays.eachMs > 0) {
    constexpr double kShortest = 1e-3, kMost = 500;
    count = static_cast<int>(std::clamp(
        replays.eachMs / std::max(replay(3), kShortest), 1.0, kMost));
  }
  std::vector<double> times;
  double spent = 0;
  while (status == kSuccess && std::ssize(times) < replays.most &&
         (std::ssize(times) < replays.least || spent < replays.budgetMs)) {
    times.push_back(replay(count));
    spent += times.back() * count;
  }
  TRY(driver()->check(status, what));
  return medianOf(times);
}

double moec::tools::medianOf(std::vector<double> values) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle]
                           : (values[middle - 1] + values[middle]) / 2;
}
