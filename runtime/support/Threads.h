//===- Threads.h - how many threads may run here ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One answer for all who start threads: compilations, the host device.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_THREADS_H
#define MOEC_RUNTIME_SUPPORT_THREADS_H

namespace moec {

/// Hardware threads that the calling thread may run on: those of its affinity
/// mask (taskset, containers' cpusets), at least 1.
int usableThreads();

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_THREADS_H
