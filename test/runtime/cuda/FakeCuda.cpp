//===- FakeCuda.cpp - a driver of a GPU that is not there -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Devices with a primary context and one of a caller each. What a real driver
// would refuse or leak is noted: a call without a current context, memory that
// is freed twice, a kernel of another context, a stream after its end.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/cuda/FakeCuda.h"

#include "runtime/cuda/CudaDriver.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <vector>

using namespace moec::runtime::cuda;

static constexpr CUresult kOutOfMemory = 2;    // CUDA_ERROR_OUT_OF_MEMORY
static constexpr CUresult kNotSupported = 801; // CUDA_ERROR_NOT_SUPPORTED

//===----------------------------------------------------------------------===//
// What lives, and what was done wrong
//===----------------------------------------------------------------------===//

namespace {

constexpr int kDevices = 8;

/// The primary contexts of all devices, then those of callers.
int contexts[2 * kDevices];

CUcontext contextOf(CUdevice device, bool ofCaller = false) {
  return reinterpret_cast<CUcontext>(
      &contexts[device + (ofCaller ? kDevices : 0)]);
}
CUcontext theContext() { return contextOf(0); }
CUdevice deviceOf(CUcontext context) {
  return int(reinterpret_cast<int *>(context) - contexts) % kDevices;
}

struct Module {
  CUcontext context;
  std::string image;
};

struct Function {
  std::string entry;
  CUmodule module;
};

struct Ledger {
  std::recursive_mutex mutex;
  std::string mistakes;
  struct Piece {
    CUcontext context;
    size_t bytes;
  };
  std::map<void *, Piece> memory;
  std::set<void *> hosts, streams, graphs, executables;
  std::map<void *, unsigned> events; ///< and their flags
  std::map<CUmodule, Module> modules;
  std::deque<Function> functions;
  std::map<CUdevice, int> retained;
  int opened = 0;
  uint64_t last = 0x1000; ///< of handles, which are never the same

  void blame(const std::string &text) {
    const std::lock_guard lock(mutex);
    mistakes += text + "\n";
  }
};

Ledger &ledger() {
  static Ledger all;
  return all;
}

/// The contexts of a thread; each that was pushed must be popped.
struct Stack {
  std::vector<CUcontext> all;
  ~Stack() {
    if (!all.empty())
      ledger().blame("a thread ended with a context that it pushed");
  }
};
thread_local Stack stack;

/// Calls of this thread that count, and the one that fails, from 1.
thread_local int numCalls = 0, failingCall = 0;
thread_local const char *failedCall = nullptr;

CUcontext current() { return stack.all.empty() ? nullptr : stack.all.back(); }

/// Begins a call that may fail. Returns true if it does.
bool fails(const char *name) {
  if (failingCall == 0 || ++numCalls != failingCall)
    return false;
  failedCall = name;
  return true;
}

void needContext(const char *name) {
  if (!current())
    ledger().blame(std::string(name) + " without a current context");
}

/// The same, for a call that needs a current context.
bool failsIn(const char *name) {
  needContext(name);
  return fails(name);
}

void checkStream(const char *name, CUstream stream) {
  if (!stream || stream == legacyStream())
    return needContext(name);
  const std::lock_guard lock(ledger().mutex);
  const auto handle = reinterpret_cast<uint64_t>(stream);
  // Streams of tests are addresses of theirs.
  if (handle <= ledger().last && !ledger().streams.contains(stream))
    ledger().blame(std::string(name) + " of a stream that was destroyed");
}

template <typename Handle> Handle newHandle() {
  return reinterpret_cast<Handle>(ledger().last += 16);
}

/// Ends the life of a handle in a set of the ledger.
template <typename Set> CUresult end(const char *name, Set &of, void *handle) {
  const std::lock_guard lock(ledger().mutex);
  if (of.erase(handle) == 1)
    return kSuccess;
  ledger().blame(std::string(name) + " of what does not live");
  return kNotSupported;
}

const Function &functionOf(CUfunction function) {
  return *reinterpret_cast<const Function *>(function);
}
const std::string &entryOf(CUfunction function) {
  return functionOf(function).entry;
}

void checkFunction(const char *name, CUfunction function) {
  const std::lock_guard lock(ledger().mutex);
  const auto found = ledger().modules.find(functionOf(function).module);
  if (found == ledger().modules.end())
    ledger().blame(std::string(name) + " of a module that was unloaded");
  else if (found->second.context != current())
    ledger().blame(std::string(name) + " in another context than its module's");
}

} // namespace

static int lookUp(const std::map<std::string, int> &table, CUfunction function,
                  int usual) {
  auto found = table.find(entryOf(function));
  return found == table.end() ? usual : found->second;
}

extern "C" {

moec::test::FakeGpu *fakeGpu() {
  static moec::test::FakeGpu gpu;
  return &gpu;
}

const char *fakeGpuMistakes() {
  static std::string text;
  const std::lock_guard lock(ledger().mutex);
  text = std::exchange(ledger().mistakes, {});
  return text.c_str();
}

const char *fakeGpuAlive() {
  static std::string text;
  const Ledger &all = ledger();
  const std::lock_guard lock(ledger().mutex);
  text.clear();
  const auto alive = [](const char *what, size_t count) {
    if (count)
      text += std::to_string(count) + " " + what + "\n";
  };
  alive("pieces of device memory were not freed", all.memory.size());
  alive("pieces of host memory were not freed", all.hosts.size());
  alive("streams were not destroyed", all.streams.size());
  alive("events were not destroyed", all.events.size());
  alive("graphs were not destroyed", all.graphs.size());
  alive("executable graphs were not destroyed", all.executables.size());
  alive("modules were not unloaded", all.modules.size());
  alive("memory handles were not closed", size_t(all.opened));
  for (const auto &[device, count] : all.retained)
    alive("primary contexts were not released", size_t(count));
  alive("contexts were not popped", stack.all.size());
  return text.c_str();
}

uint64_t fakeGpuPieceBytes(uint64_t address) {
  const std::lock_guard lock(ledger().mutex);
  const auto found = ledger().memory.find(reinterpret_cast<void *>(address));
  return found == ledger().memory.end() ? 0 : found->second.bytes;
}

void *fakeGpuContextOfCaller(int device) { return contextOf(device, true); }

void fakeGpuFail(int call) {
  numCalls = 0, failingCall = call, failedCall = nullptr;
}

const char *fakeGpuFailed() { return failedCall; }

CUresult cuInit(unsigned) { return kSuccess; }

CUresult cuGetErrorName(CUresult, const char **name) {
  *name = "FAKE_ERROR";
  return kSuccess;
}

CUresult cuGetErrorString(CUresult, const char **text) {
  *text = "a test asked for it";
  return kSuccess;
}

CUresult cuDeviceGetCount(int *count) {
  if (fails("cuDeviceGetCount"))
    return kOutOfMemory;
  *count = fakeGpu()->devices;
  return kSuccess;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  if (fails("cuDeviceGet"))
    return kOutOfMemory;
  if (ordinal < 0 || ordinal >= fakeGpu()->devices)
    return 101; // CUDA_ERROR_INVALID_DEVICE
  *device = ordinal;
  return kSuccess;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice) {
  if (fails("cuDeviceGetName"))
    return kOutOfMemory;
  const char *given = std::getenv("FAKE_GPU_NAME");
  std::strncpy(name, given ? given : "fake GPU", static_cast<size_t>(length));
  return kSuccess;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice) {
  if (fails("cuDeviceGetAttribute"))
    return kOutOfMemory;
  const std::map<int, int> values = {
      {kDeviceMajor, 9},
      {kDeviceMinor, 0},
      {kDeviceSmCount, fakeGpu()->sms},
      {kDeviceMaxThreads, 1024},
      {kDeviceThreadsPerSm, 2048},
      {kDeviceSharedOptin, 232448},
      {kDeviceSharedPerSm, 233472},
      {kDeviceL2Bytes, 50 << 20},
      {kDeviceCooperative, 1},
  };
  const auto &given = fakeGpu()->deviceAttributes;
  const auto found = given.find(attribute);
  *value = found == given.end() ? values.at(attribute) : found->second;
  return kSuccess;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice) {
  if (fails("cuDeviceTotalMem"))
    return kOutOfMemory;
  *bytes = size_t(80) << 30;
  return kSuccess;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  if (fails("cuDevicePrimaryCtxRetain"))
    return kOutOfMemory;
  *context = contextOf(device);
  ++std::atomic_ref<int>(fakeGpu()->contexts);
  const std::lock_guard lock(ledger().mutex);
  ++ledger().retained[device];
  return kSuccess;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  --std::atomic_ref<int>(fakeGpu()->contexts);
  const std::lock_guard lock(ledger().mutex);
  if (--ledger().retained[device] < 0)
    ledger().blame("a primary context was released that nobody retained");
  return kSuccess;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
  *context = current();
  return kSuccess;
}

CUresult cuCtxGetDevice(CUdevice *device) {
  if (failsIn("cuCtxGetDevice"))
    return kOutOfMemory;
  *device = deviceOf(current());
  return kSuccess;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  if (fakeGpu()->pushesFail)
    return kNotSupported;
  stack.all.push_back(context);
  return kSuccess;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  *context = current();
  if (stack.all.empty())
    ledger().blame("a context was popped that was not pushed");
  else
    stack.all.pop_back();
  return kSuccess;
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam *affinity, int type) {
  if (type != kAffinitySmCount || fakeGpu()->smsOfAffinity == 0)
    return kNotSupported;
  affinity->smCount = fakeGpu()->smsOfAffinity;
  return kSuccess;
}

CUresult cuCtxGetDevResource(CUcontext context, CUdevResource *resource,
                             int type) {
  if (context != theContext() || type != kResourceSm ||
      fakeGpu()->smsOfResource == 0)
    return kNotSupported;
  resource->smCount = fakeGpu()->smsOfResource;
  return kSuccess;
}

/// Ranks are threads, whose streams may be noted at once.
static void note(std::set<void *> &streams, CUstream stream) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  streams.insert(stream);
}

CUresult cuStreamIsCapturing(CUstream stream, int *status) {
  if (fails("cuStreamIsCapturing"))
    return kOutOfMemory;
  note(fakeGpu()->asked, stream);
  *status = fakeGpu()->capturing ? 1 : kCaptureNone;
  return kSuccess;
}

CUresult cuStreamSynchronize(CUstream stream) {
  checkStream("cuStreamSynchronize", stream);
  if (fails("cuStreamSynchronize"))
    return kOutOfMemory;
  note(fakeGpu()->waited, stream);
  ++std::atomic_ref<int>(fakeGpu()->synchronizations);
  return fakeGpu()->synchronizationsFail ? kNotSupported : kSuccess;
}

CUresult cuStreamQuery(CUstream stream) {
  checkStream("cuStreamQuery", stream);
  note(fakeGpu()->queried, stream);
  if (fails("cuStreamQuery"))
    return kOutOfMemory;
  return fakeGpu()->streamsWait ? kNotReady : kSuccess;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  if (failsIn("cuStreamCreate"))
    return kOutOfMemory;
  if (flags != kStreamNonBlocking)
    ledger().blame("a stream that waits for the null stream");
  const std::lock_guard lock(ledger().mutex);
  *stream = newHandle<CUstream>();
  ledger().streams.insert(*stream);
  return kSuccess;
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  return end("cuStreamDestroy", ledger().streams, stream);
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
  if (failsIn("cuMemAlloc"))
    return kOutOfMemory;
  if (fakeGpu()->allocationsFail)
    return kNotSupported;
  void *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (memory) // what was there before
    std::memset(memory, 0xA5, bytes);
  *pointer = reinterpret_cast<CUdeviceptr>(memory);
  ++std::atomic_ref<int>(fakeGpu()->allocated);
  const std::lock_guard lock(ledger().mutex);
  ledger().memory[memory] = {current(), bytes};
  return kSuccess;
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  const std::lock_guard lock(ledger().mutex);
  auto *memory = reinterpret_cast<void *>(pointer);
  const auto found = ledger().memory.find(memory);
  if (found == ledger().memory.end()) {
    ledger().blame("cuMemFree of what does not live");
    return kNotSupported;
  }
  if (found->second.context != current())
    ledger().blame("cuMemFree in another context than the memory's");
  ledger().memory.erase(found);
  std::free(memory);
  --std::atomic_ref<int>(fakeGpu()->allocated);
  return kSuccess;
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  if (failsIn("cuMemsetD8"))
    return kOutOfMemory;
  std::memset(reinterpret_cast<void *>(to), value, count);
  return kSuccess;
}

CUresult cuCtxSynchronize() {
  if (failsIn("cuCtxSynchronize"))
    return kOutOfMemory;
  ++std::atomic_ref<int>(fakeGpu()->contextSynchronizations);
  return kSuccess;
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  if (failsIn("cuMemHostAlloc"))
    return kOutOfMemory;
  if (flags != (kHostAllocPortable | kHostAllocMapped))
    return kNotSupported;
  *pointer = std::malloc(bytes);
  const std::lock_guard lock(ledger().mutex);
  ledger().hosts.insert(*pointer);
  return kSuccess;
}

CUresult cuMemFreeHost(void *pointer) {
  const CUresult status = end("cuMemFreeHost", ledger().hosts, pointer);
  if (status == kSuccess)
    std::free(pointer);
  return status;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *host,
                                      unsigned) {
  if (failsIn("cuMemHostGetDevicePointer"))
    return kOutOfMemory;
  *pointer = reinterpret_cast<CUdeviceptr>(host);
  return kSuccess;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  if (fails("cuDeviceCanAccessPeer"))
    return kOutOfMemory;
  *can = fakeGpu()->peerAccess && device != peer;
  const std::lock_guard lock(ledger().mutex);
  fakeGpu()->peersAsked.emplace(device, peer);
  return kSuccess;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  if (failsIn("cuCtxEnablePeerAccess"))
    return kOutOfMemory;
  const std::lock_guard lock(ledger().mutex);
  fakeGpu()->peersEnabled.emplace(deviceOf(current()), deviceOf(peer));
  return flags == 0 ? fakeGpu()->peerStatus : kNotSupported;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer) {
  if (failsIn("cuIpcGetMemHandle"))
    return kOutOfMemory;
  std::memcpy(handle->bytes, &pointer, sizeof(pointer));
  return fakeGpu()->handleStatus;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle,
                               unsigned flags) {
  if (failsIn("cuIpcOpenMemHandle"))
    return kOutOfMemory;
  if (fakeGpu()->ipcStatus != kSuccess || flags != kIpcLazyPeerAccess)
    return fakeGpu()->ipcStatus;
  std::memcpy(pointer, handle.bytes, sizeof(*pointer));
  ++std::atomic_ref<int>(fakeGpu()->opened);
  const std::lock_guard lock(ledger().mutex);
  ++ledger().opened;
  return kSuccess;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr) {
  --std::atomic_ref<int>(fakeGpu()->opened);
  needContext("cuIpcCloseMemHandle");
  const std::lock_guard lock(ledger().mutex);
  --ledger().opened;
  return kSuccess;
}

CUresult cuThreadExchangeStreamCaptureMode(int *) { return kSuccess; }

CUresult cuDriverGetVersion(int *version) {
  *version = 13020;
  return kSuccess;
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
  if (failsIn("cuMemGetInfo"))
    return kOutOfMemory;
  *available = 12345, *total = 67890;
  return kSuccess;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
  checkStream("cuStreamBeginCapture", stream);
  if (fails("cuStreamBeginCapture"))
    return kOutOfMemory;
  if (mode != kCaptureModeThread)
    ledger().blame("a capture that other threads may break");
  fakeGpu()->captured = stream;
  return kSuccess;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  if (fakeGpu()->captured != stream)
    ledger().blame("the end of a capture that did not begin");
  fakeGpu()->captured = nullptr;
  if (fails("cuStreamEndCapture"))
    return kOutOfMemory;
  const std::lock_guard lock(ledger().mutex);
  *graph = newHandle<CUgraph>();
  ledger().graphs.insert(*graph);
  return kSuccess;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph,
                                     unsigned long long) {
  if (failsIn("cuGraphInstantiate"))
    return kOutOfMemory;
  const std::lock_guard lock(ledger().mutex);
  *executable = newHandle<CUgraphExec>();
  ledger().executables.insert(*executable);
  return kSuccess;
}

CUresult cuGraphLaunch(CUgraphExec, CUstream stream) {
  checkStream("cuGraphLaunch", stream);
  note(fakeGpu()->worked, stream);
  if (fails("cuGraphLaunch"))
    return kOutOfMemory;
  ++fakeGpu()->graphLaunches;
  return kSuccess;
}

CUresult cuGraphExecDestroy(CUgraphExec executable) {
  return end("cuGraphExecDestroy", ledger().executables, executable);
}

CUresult cuGraphDestroy(CUgraph graph) {
  return end("cuGraphDestroy", ledger().graphs, graph);
}

CUresult cuEventSynchronize(CUevent) {
  return fails("cuEventSynchronize") ? kOutOfMemory : kSuccess;
}

/// The time of the graphs that were launched between the last two records.
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  if (fails("cuEventElapsedTime"))
    return kOutOfMemory;
  const std::lock_guard lock(ledger().mutex);
  for (const CUevent event : {start, end})
    if (ledger().events.at(event) & kEventNoTiming)
      ledger().blame("the time of an event without timing");
  const std::vector<float> &times = fakeGpu()->graphTimes;
  const int launches = fakeGpu()->graphLaunches;
  const auto first = size_t(launches - fakeGpu()->launchesTimed);
  *milliseconds = 0;
  for (size_t i = first; i < size_t(launches); ++i)
    *milliseconds += times.empty() ? 1 : times[std::min(i, times.size() - 1)];
  return kSuccess;
}

/// An event is its own order in the stream, counted from 1.
CUresult cuEventCreate(CUevent *event, unsigned flags) {
  if (failsIn("cuEventCreate"))
    return kOutOfMemory;
  *event = reinterpret_cast<CUevent>(new int(0));
  const std::lock_guard lock(ledger().mutex);
  ledger().events[*event] = flags;
  fakeGpu()->eventFlags.insert(flags);
  return kSuccess;
}

CUresult cuEventDestroy_v2(CUevent event) {
  const CUresult status = end("cuEventDestroy", ledger().events, event);
  if (status == kSuccess)
    delete reinterpret_cast<int *>(event);
  return status;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  if (fails("cuEventRecord"))
    return kOutOfMemory;
  note(fakeGpu()->recorded, stream);
  const std::lock_guard lock(ledger().mutex);
  fakeGpu()->launchesTimed =
      fakeGpu()->graphLaunches - fakeGpu()->launchesRecorded;
  fakeGpu()->launchesRecorded = fakeGpu()->graphLaunches;
  // Ranks are threads.
  *reinterpret_cast<int *>(event) =
      ++std::atomic_ref<int>(fakeGpu()->eventsRecorded);
  return kSuccess;
}

CUresult cuEventQuery(CUevent event) {
  return fakeGpu()->streamsWait &&
                 *reinterpret_cast<int *>(event) > fakeGpu()->eventsEnded
             ? kNotReady
             : kSuccess;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                         CUstream stream) {
  checkStream("cuMemsetD8Async", stream);
  note(fakeGpu()->worked, stream);
  std::memset(reinterpret_cast<void *>(to), value, count);
  return kSuccess;
}

static CUresult copy(const char *name, void *to, const void *from,
                     size_t bytes) {
  if (failsIn(name))
    return kOutOfMemory;
  // Ranks are threads.
  if (++std::atomic_ref<int>(fakeGpu()->copies) == fakeGpu()->failAt)
    return kNotSupported;
  std::memcpy(to, from, bytes);
  return kSuccess;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  return copy("cuMemcpyHtoD", reinterpret_cast<void *>(to), from, bytes);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  return copy("cuMemcpyDtoH", to, reinterpret_cast<const void *>(from), bytes);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                              CUstream stream) {
  checkStream("cuMemcpyDtoDAsync", stream);
  note(fakeGpu()->worked, stream);
  return copy("cuMemcpyDtoDAsync", reinterpret_cast<void *>(to),
              reinterpret_cast<const void *>(from), bytes);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  if (failsIn("cuModuleLoadData"))
    return kOutOfMemory;
  if (fakeGpu()->loadsUntilFailure >= 0 &&
      std::atomic_ref<int>(fakeGpu()->loadsUntilFailure)-- == 0)
    return kNotSupported;
  const std::lock_guard lock(ledger().mutex);
  *module = newHandle<CUmodule>();
  ledger().modules[*module] = {current(), static_cast<const char *>(image)};
  ++std::atomic_ref<int>(fakeGpu()->modules);
  return kSuccess;
}

CUresult cuModuleUnload(CUmodule module) {
  --std::atomic_ref<int>(fakeGpu()->modules);
  const std::lock_guard lock(ledger().mutex);
  const auto found = ledger().modules.find(module);
  if (found == ledger().modules.end()) {
    ledger().blame("cuModuleUnload of what does not live");
    return kNotSupported;
  }
  if (found->second.context != current())
    ledger().blame("cuModuleUnload in another context than the module's");
  ledger().modules.erase(found);
  return kSuccess;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module,
                             const char *name) {
  if (failsIn("cuModuleGetFunction"))
    return kOutOfMemory;
  // Ranks are threads, which may load at once.
  const std::lock_guard lock(ledger().mutex);
  fakeGpu()->images[name] = ledger().modules[module].image;
  ledger().functions.push_back({name, module});
  *function = reinterpret_cast<CUfunction>(&ledger().functions.back());
  return kSuccess;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                          void **parameters, void **) {
  checkStream("cuLaunchKernelEx", config->stream);
  checkFunction("cuLaunchKernelEx", function);
  if (failsIn("cuLaunchKernelEx"))
    return kOutOfMemory;
  note(fakeGpu()->worked, config->stream);
  if (fakeGpu()->onBlock)
    fakeGpu()->onBlock(entryOf(function).c_str(),
                       static_cast<const char *>(parameters[0]));
  if (!fakeGpu()->onLaunch)
    return kNotSupported;
  moec::test::FakeLaunch launch = {
      {config->gridX, config->gridY, config->gridZ},
      config->blockX,
      config->sharedBytes,
      {1, 1, 1},
      false,
      false};
  for (unsigned i = 0; i < config->numAttributes; ++i) {
    const CUlaunchAttribute &attribute = config->attributes[i];
    const bool isSet = attribute.value.number == 1;
    launch.overlaps |= attribute.id == kLaunchProgrammatic && isSet;
    launch.cooperative |= attribute.id == kLaunchCooperative && isSet;
    if (attribute.id == kLaunchCluster) {
      launch.cluster[0] = attribute.value.cluster.x;
      launch.cluster[1] = attribute.value.cluster.y;
      launch.cluster[2] = attribute.value.cluster.z;
    }
  }
  if (fakeGpu()->onConfig)
    fakeGpu()->onConfig(entryOf(function).c_str(), launch);
  fakeGpu()->onLaunch(entryOf(function).c_str(), launch.overlaps);
  return kSuccess;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, int, uint32_t rank,
                                void *address, const uint64_t *extents,
                                const uint64_t *, const uint32_t *,
                                const uint32_t *, int, int, int, int) {
  if (fails("cuTensorMapEncodeTiled"))
    return kOutOfMemory;
  const moec::test::FakeMap made = {reinterpret_cast<uint64_t>(address),
                                    {extents[0], rank > 1 ? extents[1] : 1}};
  std::memcpy(static_cast<void *>(map), &made, sizeof(made));
  ++std::atomic_ref<int>(fakeGpu()->mapsEncoded);
  return kSuccess;
}

CUresult cuFuncLoad(CUfunction function) {
  checkFunction("cuFuncLoad", function);
  if (fails("cuFuncLoad"))
    return kOutOfMemory;
  ++std::atomic_ref<int>(fakeGpu()->functionsLoaded);
  return kSuccess;
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  if (fails("cuFuncSetAttribute"))
    return kOutOfMemory;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  fakeGpu()->attributes[entryOf(function)][attribute] = value;
  return kSuccess;
}

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
  if (fails("cuFuncGetAttribute"))
    return kOutOfMemory;
  if (attribute == kFuncLocalBytes)
    *value = lookUp(fakeGpu()->localBytes, function, 0);
  else if (attribute == kFuncRegisters)
    *value = 168;
  else
    return kNotSupported;
  return kSuccess;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                     CUfunction function,
                                                     int threads,
                                                     size_t sharedBytes) {
  if (fails("cuOccupancyMaxActiveBlocksPerMultiprocessor"))
    return kOutOfMemory;
  {
    const std::lock_guard lock(ledger().mutex);
    fakeGpu()->occupancies[entryOf(function)] = {threads, sharedBytes};
  }
  *blocks = lookUp(fakeGpu()->ctasPerSm, function, 2);
  return kSuccess;
}

} // extern "C"
