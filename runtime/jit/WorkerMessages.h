//===- WorkerMessages.h - what a compile worker is told and says *- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A process that loads kernels and its moec-nvrtc speak over one socket. The
// worker says what it is, then answers one job after the other. A message is
// a list of texts: their count, then the length and the bytes of each. Numbers
// of 8 bytes are the machine's own.
//
// Both ends are of one build. What is malformed all the same ends the
// conversation, and no message makes the reader take more memory than it sends.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_JIT_WORKERMESSAGES_H
#define MOEC_RUNTIME_JIT_WORKERMESSAGES_H

#include "runtime/jit/Nvrtc.h"
#include "runtime/jit/Recipe.h"
#include "runtime/support/Log.h"
#include "runtime/support/Result.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace moec::runtime {

using WorkerMessage = std::vector<std::string>;

/// False where the other end is gone. Raises no SIGPIPE.
bool sendMessage(int socket, const WorkerMessage &message);
/// nullopt where the other end is gone, or what came is no message.
std::optional<WorkerMessage> receiveMessage(int socket);

/// A worker's first message: its name, the version of moec and the version of
/// these messages. The two ends need to agree in all.
WorkerMessage workerGreeting();

struct WorkerJob {
  NvrtcLocation nvrtc;
  Recipe recipe;
  /// Messages up to this level are wanted.
  LogLevel level = LogLevel::Warning;
};
WorkerMessage toMessage(const WorkerJob &job);
std::optional<WorkerJob> jobOf(WorkerMessage message);

struct WorkerAnswer {
  Result<Cubin> cubin = Cubin();
  double openMilliseconds = 0; ///< of NVRTC, in this worker
  std::vector<std::pair<LogLevel, std::string>> log;
};
WorkerMessage toMessage(const WorkerAnswer &answer);
std::optional<WorkerAnswer> answerOf(WorkerMessage message);

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_WORKERMESSAGES_H
