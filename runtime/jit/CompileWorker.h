//===- CompileWorker.h - a process that compiles kernels --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// NVRTC holds a process-wide lock while it parses, which is a fifth of a
// compilation, so more than a few threads wait for each other. The program
// moec-nvrtc compiles one kernel after the other. Several of these processes
// share no lock.
//
// The host process may be anything: Python, or an engine with signal handlers
// and forks. A worker therefore inherits only the environment, the current
// folder and one socket: no descriptor, no signal mask, no handler, no
// terminal. It has its own process group, and ends with the thread that started
// it. The host waits only for the worker's own process id.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_JIT_COMPILEWORKER_H
#define MOEC_RUNTIME_JIT_COMPILEWORKER_H

#include "runtime/jit/WorkerMessages.h"
#include "runtime/support/Descriptor.h"
#include "runtime/support/Result.h"

#include <atomic>
#include <chrono>
#include <initializer_list>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace moec::runtime {

/// Returns the path of the program moec-nvrtc: MOEC_WORKER, else the program
/// next to this library or program. An error states why there is none.
Result<std::string> findWorker();

/// Returns the path of a helper program of a binary. It is in the binary's
/// folder (a wheel), or in libexec/moec of the prefix whose bin/, lib/ or
/// lib/<triplet>/ contains the binary. Other `folders` are relative to the
/// binary's. A program that more users may write than the binary is an error.
Result<std::string>
programBeside(const std::string &binary, const std::string &name,
              std::initializer_list<const char *> folders = {
                  "", "/../libexec/moec", "/../../libexec/moec"});

/// Returns the path of the moec-nvrtc that belongs to a binary.
Result<std::string> workerBeside(const std::string &binary);

/// Time limits after which a silent worker is ended.
struct WorkerPatience {
  using Time = std::chrono::milliseconds;
  /// From its start until its greeting, which takes milliseconds; a disk may be
  /// slow.
  Time greeting = std::chrono::seconds(10);
  /// From a job until its answer. A compilation takes at most seconds.
  Time answer = std::chrono::seconds(120);
  /// Between the bytes of a message.
  Time pause = std::chrono::seconds(10);
};

/// One worker process. The thread that starts it must keep it, because the
/// worker ends with that thread.
class CompileWorker {
public:
  /// Starts `program` and waits for its greeting. An error states why this
  /// process has to compile.
  static Result<CompileWorker> start(const std::string &program,
                                     WorkerPatience patience = {});
  CompileWorker(CompileWorker &&other) noexcept;
  CompileWorker &operator=(CompileWorker &&) = delete;
  /// Ends the process and waits for its end.
  ~CompileWorker();

  /// Compiles one kernel. The messages of NVRTC are in the answer. Returns an
  /// error if there is no answer in time, or one without the kernel; crashed()
  /// is then true if a signal of its own ended the worker. Setting `stop` kills
  /// the worker, and the error is Interrupted.
  Result<WorkerAnswer> compile(const WorkerJob &job,
                               const std::atomic<bool> &stop);
  bool crashed() const { return hasCrashed; }

private:
  CompileWorker(std::string program, pid_t process, Descriptor socket,
                WorkerPatience patience)
      : program(std::move(program)), process(process),
        socket(std::move(socket)), patience(patience) {}
  /// Ends the process, by a signal if it has not ended after `time`. Returns
  /// how it ended, for example "exit status 3".
  std::string end(std::chrono::milliseconds time);

  std::string program;
  pid_t process = -1;
  Descriptor socket;
  WorkerPatience patience;
  bool hasCrashed = false;
};

/// Returns why bytes are not a cubin with the kernel `entry`, or "" if they may
/// be one. The driver checks more, but the cache entry is written before the
/// driver loads it.
std::string notCubin(std::string_view bytes, std::string_view entry);

/// Runs the program moec-nvrtc: sends the greeting and answers jobs until the
/// other end of the socket is closed. Returns the exit status.
int serveCompiles(int socket);

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_COMPILEWORKER_H
