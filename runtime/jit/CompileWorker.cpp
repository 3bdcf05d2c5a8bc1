//===- CompileWorker.cpp - a process that compiles kernels ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds, starts, uses and ends the worker program moec-nvrtc, and implements
// that program.
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/CompileWorker.h"

#include "runtime/jit/Nvrtc.h"
#include "runtime/support/Clock.h"
#include "runtime/support/Env.h"
#include "runtime/support/Files.h"
#include "runtime/support/Paths.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <tuple>

using namespace moec;
using namespace moec::runtime;

//===----------------------------------------------------------------------===//
// Finding the program
//===----------------------------------------------------------------------===//

/// Returns the reason why the program next to `binary` is not trusted, or "" if
/// it is trusted. A program is trusted if only users who may write `binary` may
/// write the program.
static std::string distrust(const struct stat &program,
                            const struct stat &binary) {
  if (program.st_uid != 0 && program.st_uid != ::geteuid() &&
      program.st_uid != binary.st_uid)
    return fmt::format("it belongs to user {}", program.st_uid);
  mode_t others = program.st_mode & (S_IWGRP | S_IWOTH);
  if (program.st_gid == binary.st_gid)
    others &= ~(binary.st_mode & S_IWGRP);
  if (others)
    return fmt::format("others may write it (mode {:04o})",
                       program.st_mode & 07777);
  return "";
}

Result<std::string>
moec::runtime::programBeside(const std::string &own, const std::string &name,
                             std::initializer_list<const char *> folders) {
  struct stat binary;
  if (::stat(own.c_str(), &binary) != 0)
    return Error(ErrorCode::NoCompiler, "the path of this library is unknown");
  std::vector<std::string> searched;
  for (const char *folder : folders) {
    std::string path = parentFolder(own) + folder + "/" + name;
    struct stat program;
    if (::stat(path.c_str(), &program) != 0 || !S_ISREG(program.st_mode)) {
      searched.push_back(path);
      continue;
    }
    if (std::string why = distrust(program, binary); !why.empty())
      return Error(ErrorCode::NoCompiler, "{} is not started: {}", path, why);
    return path;
  }
  return Error(ErrorCode::NoCompiler, "there is no {}",
               fmt::join(searched, ", no "));
}

Result<std::string> moec::runtime::workerBeside(const std::string &own) {
  return programBeside(own, "moec-nvrtc");
}

Result<std::string> moec::runtime::findWorker() {
  std::string given = envString("MOEC_WORKER");
  if (given == "off")
    return Error(ErrorCode::NoCompiler, "MOEC_WORKER is off");
  if (!given.empty())
    return given;
  return workerBeside(pathOfOwnBinary());
}

//===----------------------------------------------------------------------===//
// Starting a worker
//===----------------------------------------------------------------------===//

namespace {
/// The attributes for posix_spawn: file descriptors and signals of the worker.
class Spawning {
public:
  Spawning() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
  }
  ~Spawning() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  Spawning(const Spawning &) = delete;
  Spawning &operator=(const Spawning &) = delete;

  /// Sets the attributes for a worker. Its standard input is the socket, its
  /// outputs are /dev/null, and it inherits no other descriptor of the host
  /// process. No signal is blocked, ignored or handled. The worker has its own
  /// process group, so signals from the terminal do not reach it.
  int prepare(int socket) {
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    int failed = ::posix_spawn_file_actions_adddup2(&actions, socket, 0);
    for (int output : {STDOUT_FILENO, STDERR_FILENO})
      if (!failed)
        failed = ::posix_spawn_file_actions_addopen(&actions, output,
                                                    "/dev/null", O_WRONLY, 0);
    if (!failed)
      failed = ::posix_spawn_file_actions_addclosefrom_np(&actions,
                                                          STDERR_FILENO + 1);
    if (!failed)
      failed = ::posix_spawnattr_setflags(
          &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                           POSIX_SPAWN_SETSIGDEF);
    if (!failed)
      failed = ::posix_spawnattr_setsigmask(&attributes, &none);
    if (!failed)
      failed = ::posix_spawnattr_setsigdefault(&attributes, &all);
    if (!failed)
      failed = ::posix_spawnattr_setpgroup(&attributes, 0);
    return failed;
  }

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};
} // namespace

/// Maximum time until a worker ends after its socket was closed. After that it
/// is killed.
static constexpr auto kPatience = std::chrono::milliseconds(2000);

/// Returns true if bytes arrive at the socket within `patience`.
static bool awaitBytes(int socket, std::chrono::milliseconds patience) {
  const auto end = Clock::now() + patience;
  for (;;) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - Clock::now());
    pollfd asked = {socket, POLLIN, 0};
    int ready = ::poll(&asked, 1, std::max(0, static_cast<int>(left.count())));
    if (ready >= 0 || errno != EINTR)
      return ready > 0;
  }
}

/// Sets a timeout: sends and receives on the socket fail if no data is
/// transferred for `pause`.
static void setPause(int socket, std::chrono::milliseconds pause) {
  timeval time = {};
  time.tv_sec = pause.count() / 1000;
  time.tv_usec = static_cast<suseconds_t>(pause.count() % 1000 * 1000);
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO})
    ::setsockopt(socket, SOL_SOCKET, option, &time, sizeof time);
}

Result<CompileWorker> CompileWorker::start(const std::string &program,
                                           WorkerPatience patience) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fileError("cannot make", "a socket");
  Descriptor ours(ends[0]), theirs(ends[1]);
  Spawning spawning;
  std::string name = program;
  char *arguments[] = {name.data(), nullptr};
  pid_t process = -1;
  int failed = spawning.prepare(theirs.get());
  if (!failed)
    failed = ::posix_spawn(&process, program.c_str(), &spawning.actions,
                           &spawning.attributes, arguments, envBlock());
  if (failed) {
    errno = failed;
    return fileError("cannot start", program);
  }
  CompileWorker worker(program, process, std::move(ours), patience);
  theirs = Descriptor();
  setPause(worker.socket.get(), patience.pause);
  const WorkerMessage expected = workerGreeting();
  std::optional<WorkerMessage> greeting;
  if (awaitBytes(worker.socket.get(), patience.greeting))
    greeting = receiveMessage(worker.socket.get());
  if (greeting == expected)
    return worker;
  std::string how = worker.end(kPatience);
  if (!greeting)
    return Error(ErrorCode::NoCompiler,
                 "'{}' does not write the greeting of moec-nvrtc ({})", program,
                 how);
  return Error(ErrorCode::NoCompiler, "'{}' is '{}'; expected '{}'", program,
               fmt::join(*greeting, " "), fmt::join(expected, " "));
}

CompileWorker::CompileWorker(CompileWorker &&other) noexcept
    : program(std::move(other.program)),
      process(std::exchange(other.process, -1)),
      socket(std::move(other.socket)), patience(other.patience),
      hasCrashed(other.hasCrashed) {}

//===----------------------------------------------------------------------===//
// Jobs and termination
//===----------------------------------------------------------------------===//

Result<WorkerAnswer> CompileWorker::compile(const WorkerJob &job,
                                            const std::atomic<bool> &stop) {
  constexpr auto kPause = std::chrono::milliseconds(50);
  const std::string &entry = job.recipe.entry;
  std::optional<WorkerAnswer> answer;
  bool isLate = false;
  if (sendMessage(socket.get(), toMessage(job))) {
    const auto late = Clock::now() + patience.answer;
    bool comes = false;
    while (!comes && !isLate && !stop) {
      comes = awaitBytes(socket.get(), std::min(kPause, patience.answer));
      isLate = !comes && Clock::now() >= late;
    }
    if (stop && !comes) {
      end(std::chrono::milliseconds(0));
      return Error(ErrorCode::Interrupted, "kernel {} was interrupted", entry);
    }
    if (comes)
      if (auto message = receiveMessage(socket.get()))
        answer = answerOf(std::move(*message));
  }
  std::string why;
  if (answer && answer->cubin)
    why = notCubin(answer->cubin->bytes, entry);
  if (answer && why.empty())
    return *std::move(answer);
  std::string how = end(kPatience);
  if (isLate)
    return Error(ErrorCode::CompileFailed,
                 "kernel {}: '{}' has not compiled it within {} s", entry,
                 program, patience.answer.count() / 1000.0);
  if (answer)
    return Error(ErrorCode::CompileFailed,
                 "kernel {}: '{}' answers with what is no cubin of it: {}",
                 entry, program, why);
  return Error(ErrorCode::CompileFailed,
               "kernel {}: '{}' ended before it had compiled it ({})", entry,
               program, how);
}

std::string moec::runtime::notCubin(std::string_view bytes,
                                    std::string_view entry) {
  // The header size of a 64-bit ELF file, and the ELF machine number of CUDA.
  constexpr size_t kHeaderBytes = 64;
  constexpr unsigned kCuda = 190;
  if (bytes.size() < kHeaderBytes || !bytes.starts_with("\x7f"
                                                        "ELF\x02\x01"))
    return fmt::format("{} bytes, no ELF file", bytes.size());
  const auto number = [&](size_t at, size_t size) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, size);
    return value;
  };
  if (number(18, 2) != kCuda)
    return fmt::format("an ELF file of machine {}, expected {}", number(18, 2),
                       kCuda);
  // Header offsets of three fields (table offset, entry size and entry count),
  // first for the segment table, then for the section table.
  for (const auto &[offset, size, count] :
       {std::tuple(32, 54, 56), std::tuple(40, 58, 60)}) {
    const uint64_t tableBytes = number(size, 2) * number(count, 2);
    if (tableBytes > bytes.size() ||
        number(offset, 8) > bytes.size() - tableBytes)
      return fmt::format("{} bytes, an ELF file that is cut", bytes.size());
  }
  if (bytes.find(fmt::format(".text.{}", entry) + '\0') ==
      std::string_view::npos)
    return fmt::format("an ELF file without a kernel {}", entry);
  return "";
}

std::string CompileWorker::end(std::chrono::milliseconds time) {
  // close() does not end the connection, because a forked child of the host may
  // still have the socket open.
  ::shutdown(socket.get(), SHUT_RDWR);
  socket = Descriptor();
  const pid_t ended = std::exchange(process, -1);
  constexpr auto kPause = std::chrono::microseconds(500);
  const auto late = Clock::now() + time;
  bool killed = false;
  int status = 0;
  for (;;) {
    pid_t got = ::waitpid(ended, &status, WNOHANG);
    if (got == ended)
      break;
    if (got < 0 && errno != EINTR) {
      // The host process ignores SIGCHLD, or its handler has waited for every
      // child.
      hasCrashed = true;
      return "the host process has taken its exit status";
    }
    if (!killed && Clock::now() > late) {
      ::kill(ended, SIGKILL);
      killed = true;
    }
    std::this_thread::sleep_for(kPause);
  }
  if (killed)
    return "it did not end by itself, and was killed";
  if (!WIFSIGNALED(status))
    return fmt::format("exit status {}", WEXITSTATUS(status));
  hasCrashed = true;
  const char *name = ::sigdescr_np(WTERMSIG(status));
  return fmt::format("signal {}, {}", WTERMSIG(status),
                     name ? name : "unknown");
}

CompileWorker::~CompileWorker() {
  if (process >= 0)
    end(kPatience);
}

//===----------------------------------------------------------------------===//
// The worker program
//===----------------------------------------------------------------------===//

static Result<Cubin> compileJob(const WorkerJob &job, WorkerAnswer &answer) {
  auto nvrtc = TRY(Nvrtc::open(job.nvrtc));
  answer.openMilliseconds = nvrtc->openMilliseconds();
  return nvrtc->compile(job.recipe);
}

int moec::runtime::serveCompiles(int socket) {
  if (!sendMessage(socket, workerGreeting()))
    return 1;
  while (auto message = receiveMessage(socket)) {
    auto job = jobOf(std::move(*message));
    if (!job)
      return 1;
    WorkerAnswer answer;
    setLogSink(
        [&](LogLevel level, std::string_view text) {
          answer.log.emplace_back(level, text);
        },
        job->level);
    answer.cubin = compileJob(*job, answer);
    setLogSink({}, LogLevel::None);
    if (!sendMessage(socket, toMessage(answer)))
      return 1;
  }
  return 0;
}
