//===- CompileWorker.h - a process that compiles kernels --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Worker processes for compilation. NVRTC holds a process-wide lock while it
// parses, which takes a fifth of a compilation, so only a few threads of one
// process can compile efficiently. The program moec-nvrtc compiles one kernel
// after the other; several moec-nvrtc processes share no lock.
//
// The host process may be any program: Python, or an inference engine with
// signal handlers and forks. A worker therefore inherits only the environment,
// the current folder and one socket, but no other descriptor, no signal mask,
// no signal handler and no terminal. It has its own process group, and it ends
// when the thread that started it ends. The host waits only for the worker's
// process id, never for any other child.
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

/// Returns the path of the program moec-nvrtc: MOEC_WORKER if it is set,
/// otherwise the program next to this library or program. An error contains the
/// reason why there is no program.
Result<std::string> findWorker();

/// Returns the path of a helper program that belongs to a binary. The program
/// is in the binary's folder (in a wheel), or in libexec/moec of the prefix
/// whose bin/, lib/ or lib/<triplet>/ contains the binary. `folders` are
/// relative to the binary's folder. It is an error if users may write the
/// program who may not write the binary.
Result<std::string>
programBeside(const std::string &binary, const std::string &name,
              std::initializer_list<const char *> folders = {
                  "", "/../libexec/moec", "/../../libexec/moec"});

/// Returns the path of the moec-nvrtc program that belongs to a binary.
Result<std::string> workerBeside(const std::string &binary);

/// Time limits. A worker that exceeds one of them is killed.
struct WorkerPatience {
  using Time = std::chrono::milliseconds;
  /// From the worker's start until its greeting. This takes milliseconds,
  /// unless the disk is slow.
  Time greeting = std::chrono::seconds(10);
  /// From sending a job until its answer. A compilation takes at most seconds.
  Time answer = std::chrono::seconds(120);
  /// Maximum time without any new byte in the middle of a message.
  Time pause = std::chrono::seconds(10);
};

/// One worker process. The thread that starts the worker must use it until the
/// end, because the worker ends when this thread ends.
class CompileWorker {
public:
  /// Starts `program` and waits for its greeting. An error means that the host
  /// process has to compile by itself; it contains the reason.
  static Result<CompileWorker> start(const std::string &program,
                                     WorkerPatience patience = {});
  CompileWorker(CompileWorker &&other) noexcept;
  CompileWorker &operator=(CompileWorker &&) = delete;
  /// Ends the worker process and waits until it has ended.
  ~CompileWorker();

  /// Compiles one kernel. The answer contains NVRTC's messages. Returns an
  /// error if the worker does not answer in time, or if its answer contains no
  /// kernel. crashed() is then true if the worker was ended by a signal that it
  /// caused itself. Setting `stop` kills the worker; the error is then
  /// Interrupted.
  Result<WorkerAnswer> compile(const WorkerJob &job,
                               const std::atomic<bool> &stop);
  bool crashed() const { return hasCrashed; }

private:
  CompileWorker(std::string program, pid_t process, Descriptor socket,
                WorkerPatience patience)
      : program(std::move(program)), process(process),
        socket(std::move(socket)), patience(patience) {}
  /// Ends the worker process. If it has not ended after `time`, it is killed.
  /// Returns how it ended, for example "exit status 3".
  std::string end(std::chrono::milliseconds time);

  std::string program;
  pid_t process = -1;
  Descriptor socket;
  WorkerPatience patience;
  bool hasCrashed = false;
};

/// Returns the reason why `bytes` are not a cubin with the kernel `entry`, or
/// "" if no error was found. The driver checks more, but the cache entry is
/// written before the driver loads the cubin.
std::string notCubin(std::string_view bytes, std::string_view entry);

/// Runs the program moec-nvrtc: sends the greeting and answers jobs until the
/// other end of the socket is closed. Returns the exit status.
int serveCompiles(int socket);

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_COMPILEWORKER_H
