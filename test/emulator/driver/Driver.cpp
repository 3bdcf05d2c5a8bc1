//===- Driver.cpp - the driver's functions, on the emulator ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The functions of CudaSymbols.def, with its declarations. Devices, contexts,
// memory, streams and graphs; DriverLaunch.cpp has modules and launches.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/driver/Emulator.h"

#include <fmt/core.h>

#include <cstdio>

using namespace moec::emulator;
using namespace moec::runtime::cuda;

// A definition with other parameters than the list's is a compile error.
#define MOEC_CUDA(member, symbol, parameters)                                  \
  extern "C" CUresult symbol parameters;
#include "runtime/cuda/CudaSymbols.def"

namespace {
/// An event is the stream that it was recorded in, and instructions until then.
struct EventState {
  uint64_t stream = 0, steps = 0;
};

struct StatusName {
  int status;
  const char *name, *text;
};
} // namespace

static constexpr StatusName kStatuses[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT",
     "no context is current for this thread"},
    {kPeerAccessAlready, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
     "peer access is already enabled"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE",
     "the image is no PTX; packages for the emulator have no cubins"},
    {kNoBinary, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "the image is for another architecture"},
    {kInvalidPtx, "CUDA_ERROR_INVALID_PTX", "the emulator refuses this PTX"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED",
     "the emulator has found a fault, which stderr names"},
    {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "not emulated"},
};

static const StatusName *findStatus(int status) {
  for (const StatusName &one : kStatuses)
    if (one.status == status)
      return &one;
  return nullptr;
}

static Lock locked() { return Lock(Emulator::get().mutex); }

/// The primary context of a GPU.
struct moec::runtime::cuda::ContextTag {
  unsigned gpu;
};
static ContextTag contexts[kMaxGpus] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
static thread_local std::vector<CUcontext> current;

int moec::emulator::currentGpu() {
  return current.empty() || !current.back() ? -1 : int(current.back()->gpu);
}

static bool isGpu(int device) {
  return device >= 0 &&
         unsigned(device) < Emulator::get().settings.device.numGpus;
}

extern "C" {

/// Settings of a process, as words of MOEC_EMULATOR. Returns null, or a
/// sentence that says what is wrong with them.
const char *moec_emulator_configure(const char *words) {
  static std::string fault;
  DriverSettings parsed;
  fault = parseSettings(words, parsed);
  setWords(words);
  return fault.empty() ? nullptr : fault.c_str();
}

CUresult cuInit(unsigned) {
  Emulator &emulator = Emulator::get();
  if (emulator.settingsError.empty())
    return kSuccess;
  std::fprintf(stderr, "emulator: %s\n", emulator.settingsError.c_str());
  return kInvalidValue;
}

CUresult cuDriverGetVersion(int *version) {
  *version = 13000;
  return kSuccess;
}

CUresult cuGetErrorName(CUresult error, const char **name) {
  const StatusName *found = findStatus(error);
  *name = found ? found->name : nullptr;
  return found ? kSuccess : kInvalidValue;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  const StatusName *found = findStatus(error);
  *text = found ? found->text : nullptr;
  return found ? kSuccess : kInvalidValue;
}

//===----------------------------------------------------------------------===//
// Devices and contexts
//===----------------------------------------------------------------------===//

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return isGpu(ordinal) ? kSuccess : kInvalidDevice;
}

CUresult cuDeviceGetCount(int *count) {
  *count = int(Emulator::get().settings.device.numGpus);
  return kSuccess;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice) {
  std::snprintf(name, size_t(length), "emulated %s (slow)",
                Emulator::get().settings.arch.c_str());
  return kSuccess;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice) {
  const DriverSettings &settings = Emulator::get().settings;
  const struct {
    int attribute, value;
  } attributes[] = {
      {kDeviceWarpSize, 32},
      {kDeviceMaxThreads, 1024},
      {kDeviceSmCount, int(settings.device.numSms)},
      {kDeviceL2Bytes, 50 << 20},
      {kDeviceThreadsPerSm, int(settings.device.threadsPerSm)},
      {kDeviceMajor, settings.major},
      {kDeviceMinor, settings.minor},
      {kDeviceSharedPerSm, int(settings.device.sharedPerSm)},
      {kDeviceCooperative, 1},
      {kDeviceSharedOptin, int(settings.device.sharedPerCta)},
  };
  for (const auto &one : attributes)
    if (one.attribute == attribute) {
      *value = one.value;
      return kSuccess;
    }
  return kInvalidValue;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice) {
  *bytes = size_t(16) << 30;
  return kSuccess;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  if (!isGpu(device))
    return kInvalidDevice;
  *context = &contexts[device];
  return kSuccess;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return kSuccess; }

CUresult cuCtxGetCurrent(CUcontext *context) {
  *context = current.empty() ? nullptr : current.back();
  return kSuccess;
}
CUresult cuCtxGetDevice(CUdevice *device) {
  *device = currentGpu();
  return *device < 0 ? kInvalidContext : kSuccess;
}
CUresult cuCtxPushCurrent_v2(CUcontext context) {
  current.push_back(context);
  return kSuccess;
}
CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  if (current.empty())
    return kInvalidContext;
  *context = current.back();
  current.pop_back();
  return kSuccess;
}

/// Functions that need a context begin with this.
#define MOEC_CURRENT_GPU(gpu)                                                  \
  const int gpu = currentGpu();                                                \
  if (gpu < 0)                                                                 \
  return kInvalidContext

CUresult cuCtxSynchronize() {
  MOEC_CURRENT_GPU(gpu);
  auto lock = locked();
  return Emulator::get().synchronize(lock, unsigned(gpu));
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam *, int) {
  return kNotSupported;
}
CUresult cuCtxGetDevResource(CUcontext, CUdevResource *, int) {
  return kNotSupported;
}
CUresult cuCtxEnablePeerAccess(CUcontext context, unsigned) {
  MOEC_CURRENT_GPU(gpu);
  const unsigned peer = context->gpu;
  if (peer == unsigned(gpu))
    return kInvalidValue;
  auto lock = locked();
  Device &device = *Emulator::get().device;
  if (device.hasPeer(unsigned(gpu), peer))
    return kPeerAccessAlready;
  device.enablePeer(unsigned(gpu), peer);
  return kSuccess;
}
CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  *can = isGpu(device) && isGpu(peer) && device != peer;
  return kSuccess;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
  MOEC_CURRENT_GPU(gpu);
  auto lock = locked();
  uint64_t address = 0;
  const int status =
      Emulator::get().allocate(bytes, /*isDefined=*/false, gpu, address);
  *pointer = address;
  return status;
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  auto lock = locked();
  // As the driver: memory is free once nothing of its GPU uses it.
  const Region *region = Emulator::get().device->findRegion(pointer, 1);
  const int gpu = region && region->gpu >= 0 ? region->gpu : currentGpu();
  const int status =
      Emulator::get().synchronize(lock, unsigned(std::max(gpu, 0)));
  const int released = Emulator::get().release(pointer);
  return released ? released : status;
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
  MOEC_CURRENT_GPU(gpu);
  auto lock = locked();
  *total = size_t(16) << 30;
  *available = *total - Emulator::get().allocated[size_t(gpu)];
  return kSuccess;
}

/// The allocation that has these bytes; prints and returns null if none has.
static Region *regionOf(uint64_t address, size_t bytes, const char *what) {
  Region *region = Emulator::get().device->findRegion(address, bytes);
  if (!region)
    std::fprintf(stderr,
                 "emulator: %s of %zu bytes at %#llx, which are in no "
                 "allocation\n",
                 what, bytes, static_cast<unsigned long long>(address));
  return region;
}

static int synchronizeNull(Lock &lock) {
  MOEC_CURRENT_GPU(gpu);
  return Emulator::get().synchronize(lock, unsigned(gpu), uint64_t(gpu));
}

static int synchronizeStream(Lock &lock, uint64_t id) {
  return Emulator::get().synchronize(lock, unsigned(id % kMaxGpus), id);
}

static void markDefined(Region &region, uint64_t address, size_t bytes) {
  if (!region.defined.empty())
    std::memset(&region.defined[address - region.begin], 1, bytes);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  auto lock = locked();
  if (bytes == 0)
    return kSuccess;
  const int status = synchronizeNull(lock);
  Region *region = regionOf(to, bytes, "a copy");
  if (!region)
    return kInvalidValue;
  std::memcpy(reinterpret_cast<void *>(to), from, bytes);
  markDefined(*region, to, bytes);
  return status;
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  auto lock = locked();
  if (bytes == 0)
    return kSuccess;
  const int status = synchronizeNull(lock);
  if (!regionOf(from, bytes, "a copy"))
    return kInvalidValue;
  std::memcpy(to, reinterpret_cast<const void *>(from), bytes);
  return status;
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                              CUstream stream) {
  auto lock = locked();
  if (bytes == 0)
    return kSuccess;
  if (!regionOf(to, bytes, "a copy") || !regionOf(from, bytes, "a copy"))
    return kInvalidValue;
  Emulator::get().enqueue(
      stream, {{}, [=] {
                 Device &device = *Emulator::get().device;
                 std::memcpy(reinterpret_cast<void *>(to),
                             reinterpret_cast<const void *>(from), bytes);
                 Region *source = device.findRegion(from, bytes);
                 Region *target = device.findRegion(to, bytes);
                 if (source && target && !source->defined.empty())
                   std::memcpy(&target->defined[to - target->begin],
                               &source->defined[from - source->begin], bytes);
                 return true;
               }});
  return kSuccess;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                         CUstream stream) {
  auto lock = locked();
  if (count == 0)
    return kSuccess;
  if (!regionOf(to, count, "a memset"))
    return kInvalidValue;
  Emulator::get().enqueue(
      stream,
      {{}, [=] {
         std::memset(reinterpret_cast<void *>(to), value, count);
         if (Region *region = Emulator::get().device->findRegion(to, count))
           markDefined(*region, to, count);
         return true;
       }});
  return kSuccess;
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  const CUresult status = cuMemsetD8Async(to, value, count, nullptr);
  auto lock = locked();
  const CUresult done = synchronizeNull(lock);
  return status ? status : done;
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned) {
  auto lock = locked();
  uint64_t address = 0;
  const int status =
      Emulator::get().allocate(bytes, /*isDefined=*/true, /*gpu=*/-1, address);
  *pointer = reinterpret_cast<void *>(address);
  return status;
}

CUresult cuMemFreeHost(void *pointer) {
  return cuMemFree_v2(reinterpret_cast<uint64_t>(pointer));
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *host,
                                      unsigned) {
  *pointer = reinterpret_cast<uint64_t>(host);
  return kSuccess;
}

CUresult cuMemHostRegister_v2(void *host, size_t bytes, unsigned) {
  auto lock = locked();
  Emulator &emulator = Emulator::get();
  Device &device = *emulator.device;
  const auto begin = reinterpret_cast<uint64_t>(host);
  const auto count = emulator.registered.find(begin);
  const Region *region = device.findRegion(begin, 1);
  // Memory of a GPU, or within what is registered: it is reached already.
  if (region && begin + bytes <= region->end) {
    if (count != emulator.registered.end())
      ++count->second;
    return kSuccess;
  }
  const unsigned times = count == emulator.registered.end() ? 0 : count->second;
  if (region && !times)
    return kInvalidValue; // only a part is
  device.removeRegion(begin);
  device.addRegion(begin, bytes, /*isDefined=*/true, /*gpu=*/-1);
  emulator.registered[begin] = times + 1;
  return kSuccess;
}
CUresult cuMemHostUnregister(void *host) {
  auto lock = locked();
  Emulator &emulator = Emulator::get();
  const auto begin = reinterpret_cast<uint64_t>(host);
  const auto count = emulator.registered.find(begin);
  if (count == emulator.registered.end() || --count->second > 0)
    return kSuccess;
  emulator.registered.erase(count);
  emulator.device->removeRegion(begin);
  return kSuccess;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *, CUdeviceptr) {
  return kNotSupported;
}
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *, CUipcMemHandle, unsigned) {
  return kNotSupported;
}
CUresult cuIpcCloseMemHandle(CUdeviceptr) { return kNotSupported; }

//===----------------------------------------------------------------------===//
// Streams, graphs, events
//===----------------------------------------------------------------------===//

CUresult cuStreamCreate(CUstream *stream, unsigned) {
  MOEC_CURRENT_GPU(gpu);
  auto lock = locked();
  static uint64_t made = 0;
  *stream = reinterpret_cast<CUstream>(
      new StreamState{++made * kMaxGpus + unsigned(gpu), false, {}});
  return kSuccess;
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  auto lock = locked();
  const int status = synchronizeStream(lock, idOf(stream));
  delete stateOf(stream);
  return status;
}

CUresult cuStreamSynchronize(CUstream stream) {
  auto lock = locked();
  return synchronizeStream(lock, idOf(stream));
}

CUresult cuStreamQuery(CUstream stream) {
  auto lock = locked();
  // Who polls waits: the emulator runs while it is asked.
  return synchronizeStream(lock, idOf(stream));
}

CUresult cuStreamIsCapturing(CUstream stream, int *status) {
  auto lock = locked();
  const StreamState *state = stateOf(stream);
  *status = state && state->captures;
  return kSuccess;
}

CUresult cuThreadExchangeStreamCaptureMode(int *) { return kSuccess; }

CUresult cuStreamBeginCapture_v2(CUstream stream, int) {
  auto lock = locked();
  StreamState *state = stateOf(stream);
  if (!state || state->captures)
    return kInvalidValue;
  state->captures = true;
  state->records.clear();
  return kSuccess;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  auto lock = locked();
  StreamState *state = stateOf(stream);
  if (!state || !state->captures)
    return kInvalidValue;
  state->captures = false;
  *graph = reinterpret_cast<CUgraph>(
      new std::vector<Record>(std::move(state->records)));
  state->records.clear();
  return kSuccess;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph,
                                     unsigned long long) {
  *executable = reinterpret_cast<CUgraphExec>(
      new std::vector<Record>(*reinterpret_cast<std::vector<Record> *>(graph)));
  return kSuccess;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  auto lock = locked();
  for (const Record &record :
       *reinterpret_cast<std::vector<Record> *>(executable))
    Emulator::get().enqueue(stream, record);
  return kSuccess;
}

CUresult cuGraphExecDestroy(CUgraphExec executable) {
  delete reinterpret_cast<std::vector<Record> *>(executable);
  return kSuccess;
}
CUresult cuGraphDestroy(CUgraph graph) {
  delete reinterpret_cast<std::vector<Record> *>(graph);
  return kSuccess;
}

CUresult cuEventCreate(CUevent *event, unsigned) {
  *event = reinterpret_cast<CUevent>(new EventState);
  return kSuccess;
}
CUresult cuEventDestroy_v2(CUevent event) {
  delete reinterpret_cast<EventState *>(event);
  return kSuccess;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  auto lock = locked();
  auto *tag = reinterpret_cast<EventState *>(event);
  tag->stream = idOf(stream);
  if (StreamState *state = stateOf(stream); state && state->captures)
    return kSuccess;
  // All that came before has ended when the time is taken.
  const int status = synchronizeStream(lock, tag->stream);
  tag->steps = Emulator::get().device->steps;
  return status;
}

CUresult cuEventSynchronize(CUevent event) {
  auto lock = locked();
  return synchronizeStream(lock, reinterpret_cast<EventState *>(event)->stream);
}
CUresult cuEventQuery(CUevent event) { return cuEventSynchronize(event); }

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  // A million instructions count as a millisecond: no time of a GPU.
  *milliseconds = float(double(reinterpret_cast<EventState *>(end)->steps -
                               reinterpret_cast<EventState *>(start)->steps) /
                        1e6);
  return kSuccess;
}

} // extern "C"
