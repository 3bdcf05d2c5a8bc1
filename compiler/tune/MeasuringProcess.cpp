//===- MeasuringProcess.cpp - a process that measures packages ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The process's standard input and output are one socket, and its standard
// error is a file.
//
//===----------------------------------------------------------------------===//

#include "compiler/tune/MeasuringProcess.h"

#include "runtime/jit/CompileWorker.h"
#include "runtime/jit/Nvrtc.h"
#include "runtime/support/Clock.h"
#include "runtime/support/Env.h"
#include "runtime/support/Files.h"
#include "runtime/support/Json.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace moec;
using namespace moec::compiler;

Result<std::string> compiler::findMeasure() {
  const std::string given = envString("MOEC_MEASURE");
  if (!given.empty())
    return given;
  return runtime::programBeside(runtime::pathOfOwnBinary(), "moec-measure");
}

/// Returns the JSON object of a line, or nullopt if the line is not an object.
static std::optional<BoxedJson> objectOf(const std::string &line) {
  constexpr size_t kMostBytes = size_t(1) << 20;
  auto parsed =
      parseJsonObject(line, "an answer", ErrorCode::FileSystem, {kMostBytes});
  if (!parsed)
    return std::nullopt;
  return BoxedJson(parsed.take());
}

Result<MeasuringProcess> MeasuringProcess::start(const std::string &program,
                                                 const std::string &device,
                                                 const std::string &errorFile) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fileError("cannot make", "a socket");
  Descriptor ours(ends[0]), theirs(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errorFile.c_str(),
                                     O_CREAT | O_WRONLY | O_APPEND, 0666);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP |
                                              POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  std::string name = program, word = device;
  char *arguments[] = {name.data(), word.data(), nullptr};
  pid_t process = -1;
  const auto spawn = [&] {
    return ::posix_spawn(&process, program.c_str(), &actions, &attributes,
                         arguments, envBlock());
  };
  int failed = spawn();
  // Other programs may temporarily have used all processes or all memory.
  const bool isBusy = failed == EAGAIN || failed == ENOMEM;
  if (isBusy) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    failed = spawn();
  }
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failed) {
    errno = failed;
    const Error error =
        fileError(program == envString("MOEC_MEASURE")
                      ? "environment variable MOEC_MEASURE: cannot start"
                      : "cannot start",
                  program);
    return Error(isBusy ? ErrorCode::DriverFailed : error.code, error.message);
  }
  MeasuringProcess made(process, std::move(ours));
  theirs = Descriptor();
  // Creating a CUDA context may take seconds.
  constexpr double kPatience = 120;
  std::string line;
  made.readLine(kPatience, line);
  const std::optional<BoxedJson> greeting = objectOf(line);
  if (!greeting || (*greeting)->value("moec_measure", 0) != 1) {
    made.end(/*kill=*/true);
    return Error(ErrorCode::FileSystem,
                 "'{}' wrote '{}' first; expected the greeting of moec-measure",
                 program, shortText(line));
  }
  if ((*greeting)->contains("error"))
    return Error(ErrorCode::DriverFailed,
                 "moec tune measures on a GPU, and can use none here; without "
                 "it, compilations take the schedules that are built in: {}",
                 (*greeting)->value("error", std::string()));
  made.device = (*greeting)->value("device", std::string());
  return made;
}

MeasuringProcess::MeasuringProcess(MeasuringProcess &&other) noexcept
    : process(std::exchange(other.process, -1)),
      socket(std::move(other.socket)), device(std::move(other.device)),
      pending(std::move(other.pending)) {}

MeasuringProcess::~MeasuringProcess() {
  if (process >= 0)
    end(/*kill=*/true);
}

bool MeasuringProcess::readLine(double seconds, std::string &line) {
  const auto late = Clock::now() + std::chrono::duration<double>(seconds);
  line.clear();
  for (;;) {
    if (const size_t end = pending.find('\n'); end != std::string::npos) {
      line = pending.substr(0, end);
      pending.erase(0, end + 1);
      return true;
    }
    const double left =
        std::chrono::duration<double>(late - Clock::now()).count();
    if (left <= 0)
      return true;
    pollfd asked = {socket.get(), POLLIN, 0};
    const int ready = ::poll(&asked, 1, int(left * 1000) + 1);
    if (ready < 0 && errno != EINTR)
      return false;
    if (ready <= 0)
      continue;
    char bytes[4096];
    const ssize_t got = ::read(socket.get(), bytes, sizeof bytes);
    if (got > 0)
      pending.append(bytes, size_t(got));
    else if (got == 0 || errno != EINTR)
      return false;
  }
}

JobResult MeasuringProcess::run(const nlohmann::ordered_json &job,
                                double seconds) {
  JobResult result;
  const std::string text = job.dump() + "\n";
  const bool sent = ::send(socket.get(), text.data(), text.size(),
                           MSG_NOSIGNAL) == ssize_t(text.size());
  std::string line;
  const bool open = sent && readLine(seconds, line);
  if (open && !line.empty())
    result.answer = objectOf(line);
  if (result.answer)
    return result;
  result.hung = open && line.empty();
  result.ended = end(/*kill=*/open);
  if (open && !result.hung)
    result.ended = fmt::format("it said '{}'", shortText(line));
  return result;
}

std::string MeasuringProcess::end(bool kill) {
  const pid_t ended = std::exchange(process, -1);
  ::shutdown(socket.get(), SHUT_RDWR);
  constexpr auto kPatience = std::chrono::seconds(5);
  constexpr auto kPause = std::chrono::milliseconds(2);
  auto late = Clock::now() + kPatience;
  if (kill)
    ::kill(ended, SIGKILL);
  int status = 0;
  for (;;) {
    const pid_t got = ::waitpid(ended, &status, WNOHANG);
    if (got == ended)
      break;
    if (got < 0 && errno != EINTR)
      return "its exit status is unknown";
    if (Clock::now() > late) {
      // A driver that waits for an endless kernel may delay the exit for a long
      // time.
      if (kill)
        return "it was killed and has not ended yet";
      ::kill(ended, SIGKILL);
      kill = true;
      late = Clock::now() + kPatience;
    }
    std::this_thread::sleep_for(kPause);
  }
  if (WIFSIGNALED(status)) {
    const char *name = ::sigdescr_np(WTERMSIG(status));
    return fmt::format("signal {}, {}", WTERMSIG(status),
                       name ? name : "unknown");
  }
  return fmt::format("exit status {}", WEXITSTATUS(status));
}
