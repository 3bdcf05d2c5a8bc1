//===- CudaDriver.h - the CUDA driver, opened on demand ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Opens libcuda.so.1 with dlopen, using moec's own declarations. The runtime
// can therefore be built without a CUDA toolkit and started without a driver.
// Only the functions of CudaSymbols.def are used. The structures below follow
// the driver's ABI, which has been stable since CUDA 12.0. If a build has
// cuda.h, test/runtime/cuda/CudaAbiTest.cpp compares the structures with it.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_CUDA_CUDADRIVER_H
#define MOEC_RUNTIME_CUDA_CUDADRIVER_H

#include "runtime/support/Result.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace moec::runtime::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct ContextTag *;
using CUmodule = struct ModuleTag *;
using CUfunction = struct FunctionTag *;
using CUstream = struct StreamTag *;
using CUevent = struct EventTag *;
using CUgraph = struct GraphTag *;
using CUgraphExec = struct GraphExecTag *;

/// A TMA descriptor. The driver requires 64-byte alignment; cuda.h specifies
/// 128 bytes.
struct alignas(128) CUtensorMap {
  uint64_t opaque[16];
};

/// Handle of device memory, with which another process opens the memory.
struct CUipcMemHandle {
  char bytes[64] = {};
};

/// One attribute of a launch. Its value is a union of 64 bytes.
struct CUlaunchAttribute {
  int id = 0;
  int padding = 0;
  union alignas(8) {
    char bytes[64];
    int number;
    struct {
      unsigned x, y, z;
    } cluster;
  } value = {};
};

struct CUlaunchConfig {
  unsigned gridX = 1, gridY = 1, gridZ = 1;
  unsigned blockX = 1, blockY = 1, blockZ = 1;
  unsigned sharedBytes = 0;
  CUstream stream = nullptr;
  CUlaunchAttribute *attributes = nullptr;
  unsigned numAttributes = 0;
};

/// The maximum SM count of a context under MPS.
struct CUexecAffinityParam {
  int type = 0;
  unsigned smCount = 0;
};

/// The part of a device that a context may use. If the resource is SMs, the
/// first field after the padding is the SM count. The struct has room for the
/// larger versions of later drivers.
struct CUdevResource {
  int type = 0;
  unsigned char padding[92] = {};
  unsigned smCount = 0;
  unsigned char more[156] = {};
};

// The constants that moec uses, with their names in cuda.h.
inline constexpr int kSuccess = 0;                   // CUDA_SUCCESS
inline constexpr int kNotReady = 600;                // CUDA_ERROR_NOT_READY
inline constexpr int kPeerAccessAlready = 704;       // ..._ALREADY_ENABLED
inline constexpr int kErrorNoDevice = 100;           // CUDA_ERROR_NO_DEVICE
inline constexpr int kErrorCaptureUnsupported = 900; // STREAM_CAPTURE_*
inline constexpr int kErrorCaptureInvalidated = 901;
inline constexpr int kErrorCaptureImplicit = 906;
inline constexpr int kErrorCaptureWrongThread = 908;

inline constexpr int kLaunchCooperative = 2; // CU_LAUNCH_ATTRIBUTE_*
inline constexpr int kLaunchCluster = 4;
inline constexpr int kLaunchProgrammatic = 6;

inline constexpr int kFuncMaxThreads = 0; // CU_FUNC_ATTRIBUTE_*
inline constexpr int kFuncSharedBytes = 1;
inline constexpr int kFuncLocalBytes = 3;
inline constexpr int kFuncRegisters = 4;
inline constexpr int kFuncMaxDynamicShared = 8;
inline constexpr int kFuncNonPortableCluster = 14;

inline constexpr int kDeviceWarpSize = 10; // CU_DEVICE_ATTRIBUTE_*
inline constexpr int kDeviceSmCount = 16;
inline constexpr int kDeviceMaxThreads = 1;
inline constexpr int kDeviceL2Bytes = 38;
inline constexpr int kDeviceThreadsPerSm = 39;
inline constexpr int kDeviceMajor = 75;
inline constexpr int kDeviceMinor = 76;
inline constexpr int kDeviceSharedPerSm = 81;
inline constexpr int kDeviceCooperative = 95;
inline constexpr int kDeviceSharedOptin = 97;

inline constexpr int kAffinitySmCount = 0; // CU_EXEC_AFFINITY_TYPE_SM_COUNT
inline constexpr int kResourceSm = 1;      // CU_DEV_RESOURCE_TYPE_SM

inline constexpr int kCaptureNone = 0;       // CU_STREAM_CAPTURE_STATUS_NONE
inline constexpr int kCaptureModeThread = 1; // ..._MODE_THREAD_LOCAL
inline constexpr int kCaptureModeRelaxed = 2;

inline constexpr unsigned kHostAllocPortable = 1; // CU_MEMHOSTALLOC_*
inline constexpr unsigned kHostAllocMapped = 2;   // ..._DEVICEMAP
inline constexpr unsigned kIpcLazyPeerAccess = 1; // CU_IPC_MEM_*
inline constexpr unsigned kEventNoTiming = 2;     // CU_EVENT_DISABLE_TIMING
inline constexpr unsigned kStreamNonBlocking = 1;
/// Returns CU_STREAM_LEGACY, the null stream. Querying it detects captures of
/// other streams.
inline CUstream legacyStream() { return reinterpret_cast<CUstream>(1); }

/// The driver's functions. Immutable after opening.
struct CudaDriver {
// The macro declares a member, so `member` must not be parenthesized.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define MOEC_CUDA(member, symbol, parameters)                                  \
  CUresult(*member) parameters = nullptr;
#include "runtime/cuda/CudaSymbols.def"
  // NOLINTEND(bugprone-macro-parentheses)

  /// Opens the driver and calls cuInit, once per process. Returns a NoDriver
  /// error with the reason if the library or a function is missing, or if the
  /// machine has no GPU.
  static Result<const CudaDriver *> get();
  /// Opens libmoec-emulator.so, once per process, from the folder of this
  /// binary, ../lib or ../../lib. `arch` is the arch of the emulated GPUs; if
  /// it is not empty, it overrides MOEC_EMULATOR. Later calls return the same
  /// driver, whatever `arch` is.
  static Result<const CudaDriver *> emulator(const std::string &arch);

  /// Returns success, or a DriverFailed error (Capturing if the status is a
  /// capture error). The error contains `what` and the driver's name and
  /// description of the status.
  Result<void> check(CUresult status, const char *what) const;

  /// Copies host memory to the device and waits until the bytes are in device
  /// memory. cuMemcpyHtoD alone does not suffice, because it returns when the
  /// driver has read the pageable memory. A kernel in a stream that does not
  /// wait for the legacy stream could then still read the old content.
  Result<void> upload(CUdeviceptr to, const void *from, size_t bytes) const;

  /// True if the GPUs are emulated.
  bool emulated = false;
  /// Durations of dlopen (openMilliseconds) and cuInit, in milliseconds.
  double openMilliseconds = 0, initMilliseconds = 0;
};

} // namespace moec::runtime::cuda

#endif // MOEC_RUNTIME_CUDA_CUDADRIVER_H
