//===- Machine.cpp - memory and streams of either device ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every driver call is checked; the words come from CudaDriver::check.
//
//===----------------------------------------------------------------------===//

#include "runtime/tools/run/Machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

using namespace moec;
using namespace moec::run;
using namespace moec::runtime;
using namespace moec::runtime::cuda;

using Clock = std::chrono::steady_clock;

static double since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

static CUdeviceptr devicePointer(const void *pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Memory::Memory(Memory &&other) noexcept
    : owner(other.owner), pointer(std::exchange(other.pointer, nullptr)),
      size(other.size) {}

Memory &Memory::operator=(Memory &&other) noexcept {
  std::swap(owner, other.owner);
  std::swap(pointer, other.pointer);
  std::swap(size, other.size);
  return *this;
}

Memory::~Memory() {
  if (!pointer)
    return;
  if (owner->onHost())
    std::free(pointer);
  else
    owner->place.driver->memFree(devicePointer(pointer));
}

Result<Memory> Machine::allocate(int64_t bytes) {
  Memory memory;
  memory.owner = this;
  memory.size = bytes;
  constexpr int64_t kAlignment = Package::kMemoryAlignment;
  int64_t rounded =
      std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (onHost()) {
    memory.pointer =
        std::aligned_alloc(kAlignment, static_cast<size_t>(rounded));
    if (!memory.pointer)
      return Error{ErrorCode::InvalidArgument,
                   fmt::format("no memory for {} bytes", bytes)};
    return memory;
  }
  CUdeviceptr pointer = 0;
  if (auto ok = place.driver->check(
          place.driver->memAlloc(&pointer, static_cast<size_t>(rounded)),
          "cuMemAlloc");
      !ok)
    return Error{ok.error().code,
                 fmt::format("{} ({} bytes)", ok.error().message, bytes)};
  memory.pointer = reinterpret_cast<void *>(pointer);
  return memory;
}

Result<void> Machine::upload(void *to, const void *from, int64_t bytes) {
  if (bytes == 0)
    return {};
  if (onHost()) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return {};
  }
  return place.driver->upload(devicePointer(to), from,
                              static_cast<size_t>(bytes));
}

Result<void> Machine::download(void *to, const void *from, int64_t bytes) {
  if (bytes == 0)
    return {};
  if (onHost()) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return {};
  }
  return place.driver->check(
      place.driver->memcpyDtoH(to, devicePointer(from),
                               static_cast<size_t>(bytes)),
      "cuMemcpyDtoH");
}

Result<void> Machine::fill(void *to, int byte, int64_t bytes) {
  if (bytes == 0)
    return {};
  if (onHost()) {
    std::memset(to, byte, static_cast<size_t>(bytes));
    return {};
  }
  if (auto ok = place.driver->check(
          place.driver->memsetD8(devicePointer(to),
                                 static_cast<unsigned char>(byte),
                                 static_cast<size_t>(bytes)),
          "cuMemsetD8");
      !ok)
    return ok;
  return place.driver->check(place.driver->ctxSynchronize(),
                             "cuCtxSynchronize");
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

Result<std::unique_ptr<Machine>> Machine::create(DeviceKind kind) {
  std::unique_ptr<Machine> machine(new Machine);
  machine->kind = kind;
  if (kind == DeviceKind::Host)
    return machine;
  auto found = CudaDriver::get();
  if (!found)
    return found.takeError();
  auto start = Clock::now();
  auto place = CudaPlace::find(/*ordinal=*/0);
  if (!place)
    return place.takeError();
  machine->place = std::move(*place);
  const CudaDriver &driver = *machine->place.driver;
  if (auto ok = driver.check(driver.ctxPushCurrent(machine->place.context),
                             "cuCtxPushCurrent");
      !ok)
    return ok.takeError();
  machine->contextTime = since(start);
  for (void *&stream : machine->streams) {
    CUstream made = nullptr;
    if (auto ok = driver.check(driver.streamCreate(&made, kStreamNonBlocking),
                               "cuStreamCreate");
        !ok)
      return ok.takeError();
    stream = made;
  }
  return machine;
}

Machine::~Machine() {
  if (onHost() || !place.driver)
    return;
  if (occupyModule)
    place.driver->moduleUnload(occupyModule);
  for (void *stream : streams)
    if (stream)
      place.driver->streamDestroy(static_cast<CUstream>(stream));
  CUcontext popped = nullptr;
  place.driver->ctxPopCurrent(&popped);
  if (place.retained)
    place.driver->primaryCtxRelease(place.device);
}

Result<void> Machine::synchronize(int stream) {
  if (onHost())
    return {};
  return place.driver->check(
      place.driver->streamSynchronize(static_cast<CUstream>(streams[stream])),
      "cuStreamSynchronize");
}

Result<void> Machine::synchronizeAll() {
  if (onHost())
    return {};
  return place.driver->check(place.driver->ctxSynchronize(),
                             "cuCtxSynchronize");
}

Result<void> Machine::occupyHalf(int stream, int milliseconds) {
  if (onHost())
    return {};
  const CudaDriver &driver = *place.driver;
  if (!occupyModule)
    if (auto ok =
            driver.check(driver.moduleLoadData(&occupyModule, kOccupyText),
                         "cuModuleLoadData (the kernel that holds SMs)");
        !ok)
      return ok;
  CUfunction function = nullptr;
  if (auto ok = driver.check(
          driver.moduleGetFunction(&function, occupyModule, "occupy"),
          "cuModuleGetFunction");
      !ok)
    return ok;
  // All of its shared memory, so that a CTA has an SM and other kernels' do not
  // fit beside it.
  auto shared = static_cast<int>(place.info.sharedBytesPerBlock);
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
      static_cast<unsigned>(std::max<int64_t>(1, place.info.smCount / 2));
  config.blockX = kThreads;
  config.sharedBytes = static_cast<unsigned>(shared);
  config.stream = static_cast<CUstream>(streams[stream]);
  return driver.check(
      driver.launchKernelEx(&config, function, parameters, nullptr),
      "cuLaunchKernelEx");
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

struct Machine::Graph {
  const CudaDriver &driver;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  explicit Graph(const CudaDriver &driver) : driver(driver) {}
  ~Graph() {
    if (executable)
      driver.graphExecDestroy(executable);
    if (graph)
      driver.graphDestroy(graph);
  }
};

Result<void> Machine::capture(const std::function<Result<void>()> &body,
                              Graph &graph) {
  const CudaDriver &driver = *place.driver;
  auto stream = static_cast<CUstream>(streams[0]);
  if (auto ok =
          driver.check(driver.streamBeginCapture(stream, kCaptureModeThread),
                       "cuStreamBeginCapture");
      !ok)
    return ok;
  auto done = body();
  auto ended = driver.check(driver.streamEndCapture(stream, &graph.graph),
                            "cuStreamEndCapture");
  if (!done)
    return done;
  if (!ended)
    return ended;
  return driver.check(
      driver.graphInstantiate(&graph.executable, graph.graph, 0),
      "cuGraphInstantiate");
}

Result<void> Machine::runCaptured(const std::function<Result<void>()> &body) {
  Graph graph(*place.driver);
  if (auto ok = capture(body, graph); !ok)
    return ok;
  if (auto ok = place.driver->check(
          place.driver->graphLaunch(graph.executable,
                                    static_cast<CUstream>(streams[0])),
          "cuGraphLaunch");
      !ok)
    return ok;
  return synchronize(0);
}

static double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

Result<double> Machine::medianTime(const std::function<Result<void>()> &body) {
  constexpr int kMeasurements = 15;
  std::vector<double> times;
  if (onHost()) {
    for (int i = 0; i < 3; ++i) {
      auto start = Clock::now();
      if (auto ok = body(); !ok)
        return ok.takeError();
      times.push_back(since(start) * 1000);
    }
    return median(times);
  }
  const CudaDriver &driver = *place.driver;
  auto stream = static_cast<CUstream>(streams[0]);
  Graph graph(driver);
  if (auto ok = capture(body, graph); !ok)
    return ok.takeError();
  struct Events {
    const CudaDriver &driver;
    CUevent start = nullptr, end = nullptr;
    ~Events() {
      if (start)
        driver.eventDestroy(start);
      if (end)
        driver.eventDestroy(end);
    }
  } events{driver};
  int status = driver.eventCreate(&events.start, 0);
  if (status == kSuccess)
    status = driver.eventCreate(&events.end, 0);
  // Milliseconds of so many replays, back to back.
  auto measure = [&](int replays) {
    float milliseconds = 0;
    if (status == kSuccess)
      status = driver.eventRecord(events.start, stream);
    for (int i = 0; i < replays && status == kSuccess; ++i)
      status = driver.graphLaunch(graph.executable, stream);
    if (status == kSuccess)
      status = driver.eventRecord(events.end, stream);
    if (status == kSuccess)
      status = driver.eventSynchronize(events.end);
    if (status == kSuccess)
      status = driver.eventElapsedTime(&milliseconds, events.start, events.end);
    return static_cast<double>(milliseconds);
  };
  measure(3); // warm
  double once = measure(3) / 3;
  constexpr double kAtLeast = 2; // milliseconds
  int replays =
      static_cast<int>(std::clamp(kAtLeast / std::max(once, 1e-3), 1.0, 500.0));
  for (int i = 0; i < kMeasurements; ++i)
    times.push_back(measure(replays) / replays * 1000);
  if (auto ok = driver.check(status, "timing with graph replays"); !ok)
    return ok.takeError();
  return median(times);
}
