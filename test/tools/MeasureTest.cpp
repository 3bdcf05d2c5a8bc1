//===- MeasureTest.cpp - what a failed job says of a schedule -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/moec-measure/Measure.h"

#include <gtest/gtest.h>

using namespace moec;
using namespace moec::measure;

/// As CudaDriver::check() says it.
static Error failed(const char *what, const char *name, int status,
                    const char *text) {
  return Error(ErrorCode::DriverFailed, "{} failed: {} ({}): {}", what, name,
               status, text);
}

// moec tune logs a fault and never measures that schedule again.
TEST(Measure, AFullGpuIsNoFaultOfTheSchedule) {
  EXPECT_EQ(kindOf(failed("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY", 2,
                          "out of memory"),
                   "refused"),
            "transient");
  EXPECT_EQ(kindOf(Error(ErrorCode::FileSystem, "cannot read 'a'"), "refused"),
            "transient");
  EXPECT_EQ(kindOf(failed("cuStreamSynchronize", "CUDA_ERROR_ILLEGAL_ADDRESS",
                          700, "an illegal memory access was encountered"),
                   "refused"),
            "fault");
  EXPECT_EQ(kindOf(Error(ErrorCode::DeviceLimit, "it does not fit"), "refused"),
            "refused");
}
