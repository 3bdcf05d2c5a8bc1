//===- CudaAbiTest.cpp - our declarations of the driver against cuda.h ----===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The runtime declares the few types of the driver itself; where the build has
// a cuda.h, sizes, offsets and numbers are compared.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/CudaDriver.h"

#include <gtest/gtest.h>

#if __has_include(<cuda.h>)
#include <cuda.h>

namespace ours = moec::runtime::cuda;

TEST(CudaAbi, Structures) {
  static_assert(sizeof(ours::CUtensorMap) == sizeof(::CUtensorMap));
  static_assert(alignof(ours::CUtensorMap) == alignof(::CUtensorMap));
  static_assert(sizeof(ours::CUipcMemHandle) == sizeof(::CUipcMemHandle));
  static_assert(sizeof(ours::CUlaunchAttribute) == sizeof(::CUlaunchAttribute));
  static_assert(offsetof(ours::CUlaunchAttribute, value) ==
                offsetof(::CUlaunchAttribute, value));
  static_assert(sizeof(ours::CUexecAffinityParam) ==
                sizeof(::CUexecAffinityParam));
  static_assert(offsetof(ours::CUexecAffinityParam, smCount) ==
                offsetof(::CUexecAffinityParam, param));
  static_assert(sizeof(ours::CUdevResource) >= sizeof(::CUdevResource));
  static_assert(offsetof(ours::CUdevResource, smCount) ==
                offsetof(::CUdevResource, sm));
  static_assert(sizeof(ours::CUlaunchConfig) == sizeof(::CUlaunchConfig));
  static_assert(offsetof(ours::CUlaunchConfig, blockX) ==
                offsetof(::CUlaunchConfig, blockDimX));
  static_assert(offsetof(ours::CUlaunchConfig, sharedBytes) ==
                offsetof(::CUlaunchConfig, sharedMemBytes));
  static_assert(offsetof(ours::CUlaunchConfig, stream) ==
                offsetof(::CUlaunchConfig, hStream));
  static_assert(offsetof(ours::CUlaunchConfig, attributes) ==
                offsetof(::CUlaunchConfig, attrs));
  static_assert(offsetof(ours::CUlaunchConfig, numAttributes) ==
                offsetof(::CUlaunchConfig, numAttrs));
}

TEST(CudaAbi, Numbers) {
  EXPECT_EQ(ours::kErrorNoDevice, CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(ours::kPeerAccessAlready, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  EXPECT_EQ(ours::kHostAllocPortable, CU_MEMHOSTALLOC_PORTABLE);
  EXPECT_EQ(ours::kHostAllocMapped, CU_MEMHOSTALLOC_DEVICEMAP);
  EXPECT_EQ(ours::kIpcLazyPeerAccess, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  EXPECT_EQ(ours::kEventNoTiming, CU_EVENT_DISABLE_TIMING);
  EXPECT_EQ(ours::kCaptureModeRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(ours::kErrorCaptureUnsupported,
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(ours::kErrorCaptureInvalidated,
            CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(ours::kErrorCaptureImplicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(ours::kErrorCaptureWrongThread,
            CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  EXPECT_EQ(ours::kLaunchCooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  EXPECT_EQ(ours::kLaunchCluster, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  EXPECT_EQ(ours::kLaunchProgrammatic,
            CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  EXPECT_EQ(ours::kFuncMaxThreads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  EXPECT_EQ(ours::kFuncSharedBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  EXPECT_EQ(ours::kFuncLocalBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  EXPECT_EQ(ours::kFuncRegisters, CU_FUNC_ATTRIBUTE_NUM_REGS);
  EXPECT_EQ(ours::kFuncMaxDynamicShared,
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  EXPECT_EQ(ours::kFuncNonPortableCluster,
            CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
  EXPECT_EQ(ours::kDeviceWarpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  EXPECT_EQ(ours::kDeviceSmCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  EXPECT_EQ(ours::kDeviceMaxThreads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  EXPECT_EQ(ours::kDeviceL2Bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  EXPECT_EQ(ours::kDeviceThreadsPerSm,
            CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  EXPECT_EQ(ours::kDeviceMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  EXPECT_EQ(ours::kDeviceMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  EXPECT_EQ(ours::kDeviceSharedPerSm,
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  EXPECT_EQ(ours::kDeviceCooperative, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
  EXPECT_EQ(ours::kDeviceSharedOptin,
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  EXPECT_EQ(ours::kAffinitySmCount, CU_EXEC_AFFINITY_TYPE_SM_COUNT);
  EXPECT_EQ(ours::kResourceSm, CU_DEV_RESOURCE_TYPE_SM);
  EXPECT_EQ(ours::kCaptureModeThread, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  EXPECT_EQ(ours::kStreamNonBlocking, unsigned(CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(ours::legacyStream()),
            reinterpret_cast<uintptr_t>(CU_STREAM_LEGACY));
}
#else
TEST(CudaAbi, Structures) { GTEST_SKIP() << "this build has no cuda.h"; }
#endif
