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

static std::unique_lock<std::mutex> locked() {
  return std::unique_lock(Emulator::get().mutex);
}

extern "C" {

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
  *device = 0;
  return ordinal == 0 ? kSuccess : 101; // CUDA_ERROR_INVALID_DEVICE
}

CUresult cuDeviceGetCount(int *count) {
  *count = 1;
  return kSuccess;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice) {
  std::snprintf(name, size_t(length), "emulated %s",
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

static CUcontext theContext() {
  static int context;
  return reinterpret_cast<CUcontext>(&context);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice) {
  *context = theContext();
  return kSuccess;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return kSuccess; }

CUresult cuCtxGetCurrent(CUcontext *context) {
  *context = theContext();
  return kSuccess;
}
CUresult cuCtxGetDevice(CUdevice *device) {
  *device = 0;
  return kSuccess;
}
CUresult cuCtxPushCurrent_v2(CUcontext) { return kSuccess; }
CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  *context = theContext();
  return kSuccess;
}

CUresult cuCtxSynchronize() {
  auto lock = locked();
  return Emulator::get().synchronize(lock, {});
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam *, int) {
  return kNotSupported;
}
CUresult cuCtxGetDevResource(CUcontext, CUdevResource *, int) {
  return kNotSupported;
}
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned) { return kNotSupported; }
CUresult cuDeviceCanAccessPeer(int *can, CUdevice, CUdevice) {
  *can = 0;
  return kSuccess;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
  auto lock = locked();
  uint64_t address = 0;
  const int status =
      Emulator::get().allocate(bytes, /*isDefined=*/false, address);
  *pointer = address;
  return status;
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  auto lock = locked();
  // As the driver: memory is free once nothing uses it.
  const int status = Emulator::get().synchronize(lock, {});
  const int released = Emulator::get().release(pointer);
  return released ? released : status;
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
  auto lock = locked();
  *total = size_t(16) << 30;
  *available = *total - Emulator::get().allocated;
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

static void markDefined(Region &region, uint64_t address, size_t bytes) {
  if (!region.defined.empty())
    std::memset(&region.defined[address - region.begin], 1, bytes);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  auto lock = locked();
  if (bytes == 0)
    return kSuccess;
  Emulator &emulator = Emulator::get();
  const int status = emulator.synchronize(lock, 0);
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
  Emulator &emulator = Emulator::get();
  const int status = emulator.synchronize(lock, 0);
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
       }});
  return kSuccess;
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  const CUresult status = cuMemsetD8Async(to, value, count, nullptr);
  auto lock = locked();
  const CUresult done = Emulator::get().synchronize(lock, 0);
  return status ? status : done;
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned) {
  auto lock = locked();
  uint64_t address = 0;
  const int status =
      Emulator::get().allocate(bytes, /*isDefined=*/true, address);
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
  *stream = reinterpret_cast<CUstream>(new StreamState);
  return kSuccess;
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  auto lock = locked();
  const int status = Emulator::get().synchronize(lock, idOf(stream));
  delete stateOf(stream);
  return status;
}

CUresult cuStreamSynchronize(CUstream stream) {
  auto lock = locked();
  return Emulator::get().synchronize(lock, idOf(stream));
}

CUresult cuStreamQuery(CUstream stream) {
  auto lock = locked();
  // Who polls waits: the emulator runs while it is asked.
  return Emulator::get().synchronize(lock, idOf(stream));
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
  const int status = Emulator::get().synchronize(lock, tag->stream);
  tag->steps = Emulator::get().device->steps;
  return status;
}

CUresult cuEventSynchronize(CUevent event) {
  auto lock = locked();
  return Emulator::get().synchronize(
      lock, reinterpret_cast<EventState *>(event)->stream);
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
