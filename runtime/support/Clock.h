//===- Clock.h - elapsed time -----------------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_CLOCK_H
#define MOEC_RUNTIME_SUPPORT_CLOCK_H

#include <chrono>

namespace moec {

using Clock = std::chrono::steady_clock;

inline double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_CLOCK_H
