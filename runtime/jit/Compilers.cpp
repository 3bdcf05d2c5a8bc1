//===- Compilers.cpp - the compilers of one load --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles in worker processes if that saves time, otherwise in this process.
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/Compilers.h"

#include "runtime/support/Env.h"
#include "runtime/support/Log.h"

#include <algorithm>

using namespace moec;
using namespace moec::runtime;

/// With one or two jobs, threads rarely wait for NVRTC's lock, so worker
/// processes are not started.
static constexpr int kFewestJobsOfWorkers = 3;

//===----------------------------------------------------------------------===//
// State shared by threads
//===----------------------------------------------------------------------===//

void Compilers::noteOpen(double milliseconds) {
  if (summary.nvrtcPath.empty()) {
    summary.nvrtcPath = location->library;
    summary.nvrtcFoundBy = location->foundBy;
    summary.nvrtcOpenMilliseconds = milliseconds;
  }
}

Result<const Nvrtc *> Compilers::openNvrtc() {
  std::lock_guard lock(mutex);
  if (nvrtc)
    return nvrtc;
  if (!location)
    return location.error();
  bool wasOpen = Nvrtc::everOpened();
  nvrtc = TRY(Nvrtc::open(*location));
  noteOpen(wasOpen ? 0 : nvrtc->openMilliseconds());
  return nvrtc;
}

std::optional<CompileWorker> Compilers::startWorker() {
  std::string path;
  {
    std::lock_guard lock(mutex);
    if (!searched) {
      searched = true;
      if (Result<std::string> found = findWorker())
        program = *found;
      else
        log(LogLevel::Info, "threads of this process compile: {}",
            found.error().message);
    }
    if (!program)
      return std::nullopt;
    path = *program;
  }
  // The mutex is not held here, so that threads start their workers
  // concurrently.
  Result<CompileWorker> worker = CompileWorker::start(path);
  std::lock_guard lock(mutex);
  if (worker) {
    ++summary.workers;
    return *std::move(worker);
  }
  if (program)
    log(LogLevel::Warning, "threads of this process compile: {}{}",
        worker.error().message,
        envString("MOEC_WORKER").empty() ? "" : " (MOEC_WORKER)");
  program.reset();
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Compiler of one thread
//===----------------------------------------------------------------------===//

static LogLevel shownLevel() {
  LogLevel level = LogLevel::Debug;
  while (level != LogLevel::None && !logs(level))
    level = static_cast<LogLevel>(static_cast<int>(level) - 1);
  return level;
}

std::optional<Result<Cubin>>
Compilers::OfThread::compileInWorker(const Recipe &recipe) {
  if (!all.location || all.jobs < kFewestJobsOfWorkers)
    return std::nullopt;
  if (!worker) {
    auto started = all.startWorker();
    if (!started)
      return std::nullopt;
    worker.emplace(*std::move(started));
  }
  auto answer =
      worker->compile({*all.location, recipe, shownLevel()}, all.stop);
  if (!answer && answer.error().code == ErrorCode::Interrupted) {
    worker.reset();
    return answer.takeError();
  }
  if (!answer) {
    const bool crashed = worker->crashed();
    worker.reset();
    // A kernel that crashes a worker would also crash this process, so this
    // process does not retry it.
    if (crashed)
      return Error(answer.error().code,
                   "{}; MOEC_WORKER=off compiles it in the process that loads",
                   answer.error().message);
    log(LogLevel::Warning, "{}; this process compiles it",
        answer.error().message);
    std::lock_guard lock(all.mutex);
    all.program.reset();
    return std::nullopt;
  }
  for (const auto &[level, text] : answer->log)
    logMessage(level, text);
  if (answer->openMilliseconds > 0) {
    std::lock_guard lock(all.mutex);
    all.noteOpen(answer->openMilliseconds);
  }
  return std::move(answer->cubin);
}

Result<Cubin> Compilers::OfThread::compile(const Recipe &recipe) {
  if (all.stop)
    return Error(ErrorCode::Interrupted, "kernel {} was interrupted",
                 recipe.entry);
  if (auto cubin = compileInWorker(recipe))
    return *std::move(cubin);
  auto nvrtc = TRY(all.openNvrtc());
  return nvrtc->compile(recipe);
}
