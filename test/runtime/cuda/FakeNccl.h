//===- FakeNccl.h - a libnccl.so.2 of threads -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A shared library in the place of libnccl.so.2 connects threads of one process
// and moves host memory at once, whatever the stream.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_RUNTIME_CUDA_FAKENCCL_H
#define MOEC_TEST_RUNTIME_CUDA_FAKENCCL_H

#include <atomic>

namespace moec::test {

struct FakeNccl {
  std::atomic<int> version = 22907;
  std::atomic<int> initStatus = 0;  ///< of ncclCommInitRank
  std::atomic<int> asyncStatus = 0; ///< of every communicator
  std::atomic<int> callStatus = 0;  ///< of collectives
  std::atomic<int> alive = 0;       ///< communicators
  std::atomic<int> aborted = 0;     ///< of those that ended
  std::atomic<int> splits = 0;      ///< asked for, by all ranks
  /// How often a communicator is asked before its call is no longer in
  /// progress; 0: calls end at once.
  std::atomic<int> inProgress = 0;
  std::atomic<int> memory = 0; ///< pieces, less those that were freed
  /// Pieces that were freed while a window was in them.
  std::atomic<int> freedEarly = 0;
  std::atomic<int> windows = 0;       ///< that were registered
  std::atomic<bool> noWindow = false; ///< registering makes none
  /// Told of each collective: "all_reduce 64 x f32 over 2".
  void (*onCall)(const char *call) = nullptr;
  /// Told of the stream of each collective.
  void (*onStream)(void *stream) = nullptr;
};

} // namespace moec::test

/// The state of the fake library.
extern "C" moec::test::FakeNccl *fakeNccl();

#endif // MOEC_TEST_RUNTIME_CUDA_FAKENCCL_H
