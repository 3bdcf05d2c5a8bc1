//===- FakeCuda.cpp - a driver of a GPU that is not there -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Devices with one context each; a function is the name of its entry.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/cuda/FakeCuda.h"

#include "runtime/cuda/CudaDriver.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

using namespace moec::runtime::cuda;

static constexpr CUresult kNotSupported = 801; // CUDA_ERROR_NOT_SUPPORTED

static CUcontext contextOf(CUdevice device) {
  static int contexts[8];
  return reinterpret_cast<CUcontext>(&contexts[device]);
}
static CUcontext theContext() { return contextOf(0); }

static const std::string &entryOf(CUfunction function) {
  return *reinterpret_cast<const std::string *>(function);
}

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
  *count = fakeGpu()->devices;
  return kSuccess;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return kSuccess;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice) {
  const char *given = std::getenv("FAKE_GPU_NAME");
  std::strncpy(name, given ? given : "fake GPU", static_cast<size_t>(length));
  return kSuccess;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice) {
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
  *value = values.at(attribute);
  return kSuccess;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice) {
  *bytes = size_t(80) << 30;
  return kSuccess;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  *context = contextOf(device);
  ++std::atomic_ref<int>(fakeGpu()->contexts);
  return kSuccess;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) {
  --std::atomic_ref<int>(fakeGpu()->contexts);
  return kSuccess;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
  *context = nullptr;
  return kSuccess;
}

CUresult cuCtxPushCurrent_v2(CUcontext) { return kSuccess; }

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  *context = theContext();
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
  note(fakeGpu()->asked, stream);
  *status = fakeGpu()->capturing ? 1 : kCaptureNone;
  return kSuccess;
}

CUresult cuStreamSynchronize(CUstream stream) {
  note(fakeGpu()->waited, stream);
  ++std::atomic_ref<int>(fakeGpu()->synchronizations);
  return fakeGpu()->synchronizationsFail ? kNotSupported : kSuccess;
}

CUresult cuStreamQuery(CUstream) {
  return fakeGpu()->streamsWait ? kNotReady : kSuccess;
}

CUresult cuStreamCreate(CUstream *stream, unsigned) {
  static int one = 0;
  *stream = reinterpret_cast<CUstream>(&one);
  return kSuccess;
}

CUresult cuStreamDestroy_v2(CUstream) { return kSuccess; }

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
  if (fakeGpu()->allocationsFail)
    return kNotSupported;
  void *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (memory) // what was there before
    std::memset(memory, 0xA5, bytes);
  *pointer = reinterpret_cast<CUdeviceptr>(memory);
  ++std::atomic_ref<int>(fakeGpu()->allocated);
  return kSuccess;
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  std::free(reinterpret_cast<void *>(pointer));
  --std::atomic_ref<int>(fakeGpu()->allocated);
  return kSuccess;
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  std::memset(reinterpret_cast<void *>(to), value, count);
  return kSuccess;
}

CUresult cuCtxSynchronize() {
  ++std::atomic_ref<int>(fakeGpu()->contextSynchronizations);
  return kSuccess;
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  *pointer = std::malloc(bytes);
  return flags == (kHostAllocPortable | kHostAllocMapped) ? kSuccess
                                                          : kNotSupported;
}

CUresult cuMemFreeHost(void *pointer) {
  std::free(pointer);
  return kSuccess;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *host,
                                      unsigned) {
  *pointer = reinterpret_cast<CUdeviceptr>(host);
  return kSuccess;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  *can = fakeGpu()->peerAccess && device != peer;
  return kSuccess;
}

CUresult cuCtxEnablePeerAccess(CUcontext, unsigned) {
  return kPeerAccessAlready;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer) {
  std::memcpy(handle->bytes, &pointer, sizeof(pointer));
  return fakeGpu()->handleStatus;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle,
                               unsigned flags) {
  if (fakeGpu()->ipcStatus != kSuccess || flags != kIpcLazyPeerAccess)
    return fakeGpu()->ipcStatus;
  std::memcpy(pointer, handle.bytes, sizeof(*pointer));
  ++std::atomic_ref<int>(fakeGpu()->opened);
  return kSuccess;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr) {
  --std::atomic_ref<int>(fakeGpu()->opened);
  return kSuccess;
}

CUresult cuThreadExchangeStreamCaptureMode(int *) { return kSuccess; }

/// An event is its own order in the stream, counted from 1.
CUresult cuEventCreate(CUevent *event, unsigned) {
  *event = reinterpret_cast<CUevent>(new int(0));
  return kSuccess;
}

CUresult cuEventDestroy_v2(CUevent event) {
  delete reinterpret_cast<int *>(event);
  return kSuccess;
}

CUresult cuEventRecord(CUevent event, CUstream) {
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
  note(fakeGpu()->worked, stream);
  std::memset(reinterpret_cast<void *>(to), value, count);
  return kSuccess;
}

static CUresult copy(void *to, const void *from, size_t bytes) {
  // Ranks are threads.
  if (++std::atomic_ref<int>(fakeGpu()->copies) == fakeGpu()->failAt)
    return kNotSupported;
  std::memcpy(to, from, bytes);
  return kSuccess;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  return copy(reinterpret_cast<void *>(to), from, bytes);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  return copy(to, reinterpret_cast<const void *>(from), bytes);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                              CUstream stream) {
  note(fakeGpu()->worked, stream);
  return copy(reinterpret_cast<void *>(to),
              reinterpret_cast<const void *>(from), bytes);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  if (fakeGpu()->loadsUntilFailure >= 0 &&
      std::atomic_ref<int>(fakeGpu()->loadsUntilFailure)-- == 0)
    return kNotSupported;
  *module = static_cast<CUmodule>(const_cast<void *>(image));
  ++std::atomic_ref<int>(fakeGpu()->modules);
  return kSuccess;
}

CUresult cuModuleUnload(CUmodule) {
  --std::atomic_ref<int>(fakeGpu()->modules);
  return kSuccess;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule, const char *name) {
  // Ranks are threads, which may load at once.
  static std::mutex mutex;
  static std::set<std::string> entries;
  const std::lock_guard lock(mutex);
  const std::string *entry = &*entries.insert(name).first;
  *function = reinterpret_cast<CUfunction>(const_cast<std::string *>(entry));
  return kSuccess;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                          void **parameters, void **) {
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
  const moec::test::FakeMap made = {reinterpret_cast<uint64_t>(address),
                                    {extents[0], rank > 1 ? extents[1] : 1}};
  std::memcpy(static_cast<void *>(map), &made, sizeof(made));
  ++std::atomic_ref<int>(fakeGpu()->mapsEncoded);
  return kSuccess;
}

CUresult cuFuncLoad(CUfunction) {
  ++std::atomic_ref<int>(fakeGpu()->functionsLoaded);
  return kSuccess;
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  fakeGpu()->attributes[entryOf(function)][attribute] = value;
  return kSuccess;
}

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
  if (attribute == kFuncLocalBytes)
    *value = lookUp(fakeGpu()->localBytes, function, 0);
  else if (attribute == kFuncRegisters)
    *value = 168;
  else
    return kNotSupported;
  return kSuccess;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                     CUfunction function, int,
                                                     size_t) {
  *blocks = lookUp(fakeGpu()->ctasPerSm, function, 2);
  return kSuccess;
}

} // extern "C"
