//===- Compilers.h - the compilers of one load ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each thread of a load has its own worker process. It calls NVRTC in this
// process instead if few kernels are compiled concurrently, if there is no
// worker program, or after a worker has failed. NVRTC and workers are started
// only after the first cache miss.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_JIT_COMPILERS_H
#define MOEC_RUNTIME_JIT_COMPILERS_H

#include "runtime/jit/CompileWorker.h"
#include "runtime/jit/Nvrtc.h"
#include "runtime/support/Result.h"

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

namespace moec::runtime {

/// Statistics about the compilers that a load used, for reports.
struct CompilersUsed {
  std::string nvrtcPath, nvrtcFoundBy; ///< "" if NVRTC was not opened
  double nvrtcOpenMilliseconds = 0;    ///< 0 if it was already open
  int workers = 0;                     ///< number of worker processes
};

class Compilers {
public:
  /// Creates the compilers for `jobs` concurrent compilations.
  Compilers(const Result<NvrtcLocation> &location, int jobs)
      : location(location), jobs(jobs) {}

  /// The compiler that one thread uses. Not thread-safe.
  class OfThread {
  public:
    explicit OfThread(Compilers &all) : all(all) {}
    Result<Cubin> compile(const Recipe &recipe);

  private:
    /// Compiles in a worker. Returns nullopt if this process has to compile.
    std::optional<Result<Cubin>> compileInWorker(const Recipe &recipe);

    Compilers &all;
    std::optional<CompileWorker> worker;
  };

  /// Ends all compilations in workers and prevents new compilations.
  /// Thread-safe.
  void interrupt() { stop = true; }

  /// Returns the statistics. Must be called after all threads have ended.
  const CompilersUsed &used() const { return summary; }

private:
  std::optional<CompileWorker> startWorker();
  Result<const Nvrtc *> openNvrtc();
  void noteOpen(double milliseconds);

  const Result<NvrtcLocation> &location;
  const int jobs;
  std::atomic<bool> stop = false;
  std::mutex mutex;
  bool searched = false;
  /// Path of the worker program; reset if starting a worker fails.
  std::optional<std::string> program;
  const Nvrtc *nvrtc = nullptr;
  CompilersUsed summary;
};

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_COMPILERS_H
