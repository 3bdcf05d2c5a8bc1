//===- Bandwidth.h - what the memory reaches in this run --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The bandwidth of a pure read, by kernels/read.cu, which NVRTC compiles when
// the bench starts. Where there is no NVRTC, that of the driver's copy, which
// is slower, and by how much depends on how the driver copies: no expectation
// is known for it.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_BENCH_PROGRAM_BANDWIDTH_H
#define MOEC_BENCH_PROGRAM_BANDWIDTH_H

#include "tools/device/Device.h"

namespace moec::bench {

struct Bandwidth {
  double gbs = 0;    ///< GB/s
  bool read = false; ///< by the read kernel; else read + written by a copy
  std::string why;   ///< why not by the read kernel
};

/// kernels/read.cu, as CMake found it.
extern const char *const kReadKernelText;

/// Reads up to 4 GiB (at most a quarter of what is free) again and again in a
/// graph; the median. Errors: the driver's, and a sum that is wrong.
Result<Bandwidth> measureBandwidth(const tools::Device &device);

} // namespace moec::bench

#endif // MOEC_BENCH_PROGRAM_BANDWIDTH_H
