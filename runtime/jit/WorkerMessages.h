//===- WorkerMessages.h - messages of compile workers ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A process that loads kernels communicates with its moec-nvrtc process over
// one socket. The worker sends a greeting, then answers one job after the
// other. A message is a list of strings. It is sent as the string count, then
// the length and the bytes of each string. The count and the lengths are 8-byte
// integers in the machine's byte order.
//
// Both processes belong to the same build. A malformed message nevertheless
// only ends the connection, and no message makes the reader allocate more
// memory than was sent.
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

/// Sends a message. Returns false if the other end is closed; SIGPIPE is not
/// raised.
bool sendMessage(int socket, const WorkerMessage &message);
/// Receives a message. Returns nullopt if the other end is closed or if the
/// data is not a valid message.
std::optional<WorkerMessage> receiveMessage(int socket);

/// Returns the worker's first message: its name, the version of moec and the
/// message version. Both processes must have the same values.
WorkerMessage workerGreeting();

struct WorkerJob {
  NvrtcLocation nvrtc;
  Recipe recipe;
  /// The maximum log level of the messages that the worker sends.
  LogLevel level = LogLevel::Warning;
};
WorkerMessage toMessage(const WorkerJob &job);
std::optional<WorkerJob> jobOf(WorkerMessage message);

struct WorkerAnswer {
  Result<Cubin> cubin = Cubin();
  double openMilliseconds = 0; ///< time that this worker needed to open NVRTC
  std::vector<std::pair<LogLevel, std::string>> log;
};
WorkerMessage toMessage(const WorkerAnswer &answer);
std::optional<WorkerAnswer> answerOf(WorkerMessage message);

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_WORKERMESSAGES_H
