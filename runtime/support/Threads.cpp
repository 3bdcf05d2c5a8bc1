//===- Threads.cpp - how many threads may run here ------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// std::thread::hardware_concurrency() counts the machine where the C library
// is old; the affinity mask counts what a container or taskset leaves.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Threads.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <thread>

int moec::usableThreads() {
  // The kernel refuses a mask that is smaller than its own: larger ones are
  // tried until one fits.
  for (int cpus = 1024; cpus <= (1 << 18); cpus *= 4) {
    cpu_set_t *mask = CPU_ALLOC(cpus);
    if (!mask)
      break;
    size_t bytes = CPU_ALLOC_SIZE(cpus);
    CPU_ZERO_S(bytes, mask);
    int count =
        sched_getaffinity(0, bytes, mask) == 0 ? CPU_COUNT_S(bytes, mask) : 0;
    CPU_FREE(mask);
    if (count > 0)
      return count;
    if (errno != EINVAL)
      break;
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}
