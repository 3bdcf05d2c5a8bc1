//===- Compilers.h - who compiles the kernels of one load -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each thread of a load has a worker of its own, or
// calls NVRTC itself: where few compile at once, where there is no worker, and
// after a worker has failed. Neither NVRTC nor a worker starts before the
// first miss of the cache.
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

/// A summary for reports.
struct CompilersUsed {
  std::string nvrtcPath, nvrtcFoundBy; ///< "" when NVRTC was not opened
  double nvrtcOpenMilliseconds = 0;    ///< 0 when it was open already
  int workers = 0;                     ///< processes that compiled
};

class Compilers {
public:
  /// `jobs` compile at once.
  Compilers(const Result<NvrtcLocation> &location, int jobs)
      : location(location), jobs(jobs) {}

  /// One thread uses it, and no other.
  class OfThread {
  public:
    explicit OfThread(Compilers &all) : all(all) {}
    Result<Cubin> compile(const Recipe &recipe);

  private:
    /// nullopt: this process compiles.
    std::optional<Result<Cubin>> compileInWorker(const Recipe &recipe);

    Compilers &all;
    std::optional<CompileWorker> worker;
  };

  /// Ends compilations in workers, and lets no other begin. Any thread may call
  /// it.
  void interrupt() { stop = true; }

  /// When all threads have ended.
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
  std::optional<std::string> program; ///< of workers, as long as they start
  const Nvrtc *nvrtc = nullptr;
  CompilersUsed summary;
};

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_COMPILERS_H
