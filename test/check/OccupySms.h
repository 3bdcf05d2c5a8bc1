//===- OccupySms.h - a kernel that holds SMs --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_CHECK_OCCUPYSMS_H
#define MOEC_TEST_CHECK_OCCUPYSMS_H

#include "tools/device/Device.h"

namespace moec::check {

/// PTX of the kernel.
extern const char *const kOccupyText;

/// Holds half of a GPU's SMs, so that kernels beside it are scheduled late.
class OccupySms {
public:
  explicit OccupySms(const tools::Device &device) : device(device) {}
  ~OccupySms();
  OccupySms(const OccupySms &) = delete;
  OccupySms &operator=(const OccupySms &) = delete;

  /// Queues the kernel; nothing on the host.
  Result<void> queue(int stream, int milliseconds);

private:
  const tools::Device &device;
  runtime::cuda::CUmodule module = nullptr;
};

} // namespace moec::check

#endif // MOEC_TEST_CHECK_OCCUPYSMS_H
