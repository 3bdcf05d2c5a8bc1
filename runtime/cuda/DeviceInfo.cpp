//===- DeviceInfo.cpp - properties of a GPU -------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads a device's attributes from the driver, and implements ContextScope.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/DeviceInfo.h"

#include <algorithm>

using namespace moec;
using namespace moec::runtime;
using namespace moec::runtime::cuda;

Result<DeviceInfo> moec::runtime::readDeviceInfo(const CudaDriver &driver,
                                                 CUdevice device) {
  DeviceInfo info;
  char name[256] = {};
  TRY(driver.check(driver.deviceGetName(name, sizeof(name), device),
                   "cuDeviceGetName"));
  info.name = name;

  int64_t cooperative = 0;
  const struct {
    int attribute;
    int64_t *value;
  } attributes[] = {
      {kDeviceMajor, &info.computeMajor},
      {kDeviceMinor, &info.computeMinor},
      {kDeviceSmCount, &info.smCount},
      {kDeviceMaxThreads, &info.maxThreadsPerBlock},
      {kDeviceThreadsPerSm, &info.maxThreadsPerSm},
      {kDeviceSharedOptin, &info.sharedBytesPerBlock},
      {kDeviceSharedPerSm, &info.sharedBytesPerSm},
      {kDeviceL2Bytes, &info.l2Bytes},
      {kDeviceCooperative, &cooperative},
  };
  for (const auto &[attribute, value] : attributes) {
    int number = 0;
    TRY(driver.check(driver.deviceGetAttribute(&number, attribute, device),
                     "cuDeviceGetAttribute"));
    *value = number;
  }
  info.cooperative = cooperative != 0;
  size_t bytes = 0;
  TRY(driver.check(driver.deviceTotalMem(&bytes, device), "cuDeviceTotalMem"));
  info.memoryBytes = static_cast<int64_t>(bytes);
  return info;
}

int64_t moec::runtime::smsOfContext(const CudaDriver &driver, CUcontext context,
                                    int64_t smsOfDevice) {
  int64_t sms = smsOfDevice;
  // If the driver or the device does not support execution affinities, no
  // affinity limits the SMs.
  CUexecAffinityParam affinity;
  if (driver.ctxGetExecAffinity &&
      driver.ctxGetExecAffinity(&affinity, kAffinitySmCount) == kSuccess &&
      affinity.smCount > 0)
    sms = std::min<int64_t>(sms, affinity.smCount);
  CUdevResource resource;
  if (driver.ctxGetDevResource &&
      driver.ctxGetDevResource(context, &resource, kResourceSm) == kSuccess &&
      resource.smCount > 0)
    sms = std::min<int64_t>(sms, resource.smCount);
  return sms;
}

ContextScope::ContextScope(const CudaDriver &driver, CUcontext context)
    : driver(driver) {
  CUcontext current = nullptr;
  code = driver.ctxGetCurrent(&current);
  if (code != kSuccess || current == context)
    return;
  code = driver.ctxPushCurrent(context);
  pushed = code == kSuccess;
}

ContextScope::~ContextScope() {
  CUcontext popped = nullptr;
  if (pushed)
    driver.ctxPopCurrent(&popped);
}

Result<void> ContextScope::status() const {
  return driver.check(code, "making the package's CUDA context current");
}
