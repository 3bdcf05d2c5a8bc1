//===- CompileWorker.h - a process that compiles kernels --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// NVRTC holds one lock of the process while it parses, a fifth of a compile:
// more than a few threads wait for each other. The program moec-nvrtc takes
// one kernel after the other; several of them share no lock.
//
// The host process may be anything: Python, an engine with handlers of signals
// and with forks. A worker therefore has nothing of it but the environment, the
// folder and one socket: no descriptor, no signal mask, no handler, no
// terminal. It is a process group of its own, and ends with the thread that
// started it. Only its own process id is waited for.
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

/// The program moec-nvrtc: MOEC_WORKER, else what lies beside this library or
/// program. An error says why there is none.
Result<std::string> findWorker();

/// Returns the path of a helper program of a binary. It is in the binary's
/// folder (a wheel), or in libexec/moec of the prefix whose bin/, lib/ or
/// lib/<triplet>/ has the binary. Other `folders` are relative to the binary's.
/// A program that more users may write than the binary is an error.
Result<std::string>
programBeside(const std::string &binary, const std::string &name,
              std::initializer_list<const char *> folders = {
                  "", "/../libexec/moec", "/../../libexec/moec"});

/// The moec-nvrtc of a binary.
Result<std::string> workerBeside(const std::string &binary);

/// How long a worker may say nothing before it is ended.
struct WorkerPatience {
  using Time = std::chrono::milliseconds;
  /// From its start. It greets within milliseconds; a disk may be slow.
  Time greeting = std::chrono::seconds(10);
  /// Before an answer. A compile takes seconds at most.
  Time answer = std::chrono::seconds(120);
  /// Within a message.
  Time pause = std::chrono::seconds(10);
};

/// One worker. The thread that starts it keeps it: with that thread it ends.
class CompileWorker {
public:
  /// Starts `program` and hears its greeting. An error says why this process
  /// has to compile.
  static Result<CompileWorker> start(const std::string &program,
                                     WorkerPatience patience = {});
  CompileWorker(CompileWorker &&other) noexcept;
  CompileWorker &operator=(CompileWorker &&) = delete;
  /// Ends the process and waits for its end.
  ~CompileWorker();

  /// An error if there is no answer in time, or one without the kernel;
  /// `crashed` then says whether a signal of its own ended the worker. What
  /// NVRTC says is in the answer. `stop` kills the worker, and the error is
  /// Interrupted.
  Result<WorkerAnswer> compile(const WorkerJob &job,
                               const std::atomic<bool> &stop);
  bool crashed() const { return hasCrashed; }

private:
  CompileWorker(std::string program, pid_t process, Descriptor socket,
                WorkerPatience patience)
      : program(std::move(program)), process(process),
        socket(std::move(socket)), patience(patience) {}
  /// Ends it, by a signal if it has not ended after `time`; how it ended,
  /// "exit status 3" say.
  std::string end(std::chrono::milliseconds time);

  std::string program;
  pid_t process = -1;
  Descriptor socket;
  WorkerPatience patience;
  bool hasCrashed = false;
};

/// Why bytes are no cubin that has the kernel `entry`; "" if they may be one.
/// A driver says more, but an entry of the cache is made before it looks.
std::string notCubin(std::string_view bytes, std::string_view entry);

/// The program moec-nvrtc: greets, and answers jobs until the other end of the
/// socket is gone. Gives its exit status.
int serveCompiles(int socket);

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_COMPILEWORKER_H
