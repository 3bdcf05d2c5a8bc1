//===- Programs.cpp - commands that run other programs --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// While a program runs, the parent ignores the terminal's signals, as system(3)
// does. The program is terminated when the parent ends.
//
//===----------------------------------------------------------------------===//

#include "compiler/command/Programs.h"

#include "runtime/jit/CompileWorker.h"
#include "runtime/jit/Nvrtc.h"
#include "runtime/support/Descriptor.h"
#include "runtime/support/Env.h"

#include <fmt/core.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace moec;
using namespace moec::compiler;

static constexpr ProgramCommand kProgramCommands[] = {
    {"run", "moec-run", "", "runs, checks and times a package"},
    {"check", "moec-run", "--check",
     "runs a package and compares its outputs with the reference"},
    {"bench", "", "",
     "times a layer on this machine's GPU, next to other implementations"},
    {"warmup", "", "",
     "compiles the kernels of all layers and ranks of a model into the cache"},
    {"opt", "moec-opt", "", "single passes by their names, for IR"},
};

std::span<const ProgramCommand> compiler::programCommands() {
  return kProgramCommands;
}

std::string compiler::pythonName() {
  const std::string given = envString("MOEC_PYTHON");
  return given.empty() ? "python3" : given;
}

/// Python code that runs a module of the package moec. It checks that the
/// module exists before importing it. The current folder is removed from the
/// module path, because it may contain an unrelated package named moec.
static constexpr const char *kModule = R"(
import importlib.util, sys
if sys.path[:1] == [""]:
    del sys.path[0]
found = importlib.util.find_spec("moec")
if found is None or found.origin is None:
    sys.exit(f"moec {sys.argv[1]}: the Python package moec is not installed in {sys.executable}; "
             "write its wheel with ./bootstrap wheel and install it (pip install dist/moec-*.whl), "
             "or set MOEC_PYTHON to a Python that has it")
from moec.cli import main
sys.exit(main(sys.argv[1:]))
)";

namespace {

/// Ignores the terminal's signals during the object's lifetime.
class TerminalSignals {
public:
  TerminalSignals() {
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    ::sigemptyset(&ignore.sa_mask);
    for (size_t i = 0; i < std::size(kSignals); ++i)
      ::sigaction(kSignals[i], &ignore, &before[i]);
  }
  ~TerminalSignals() { restore(); }
  TerminalSignals(const TerminalSignals &) = delete;
  TerminalSignals &operator=(const TerminalSignals &) = delete;

  void restore() const {
    for (size_t i = 0; i < std::size(kSignals); ++i)
      ::sigaction(kSignals[i], &before[i], nullptr);
  }

private:
  static constexpr int kSignals[] = {SIGINT, SIGQUIT};
  struct sigaction before[std::size(kSignals)] = {};
};

} // namespace

/// Starts the program `file` and waits for it. `file` is a path, or a name
/// without a slash that is found through PATH. `words` are the arguments,
/// starting with the program name. `printed`, if not null, receives the
/// standard output. Returns the exit status, 128 plus the signal that
/// terminated the program, or -1 with errno set if it cannot be started.
static int spawn(const std::string &file, std::vector<std::string> words,
                 std::string *printed = nullptr) {
  std::vector<char *> arguments;
  for (std::string &word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::fflush(nullptr);
  int failed[2], output[2] = {-1, -1};
  if (::pipe2(failed, O_CLOEXEC) != 0)
    return -1;
  const Descriptor readFailed(failed[0]);
  Descriptor writeFailed(failed[1]);
  if (printed && ::pipe2(output, O_CLOEXEC) != 0)
    return -1;
  const Descriptor readOutput(output[0]);
  Descriptor writeOutput(output[1]);
  const TerminalSignals signals;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    signals.restore();
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    const int nothing = printed ? ::open("/dev/null", O_WRONLY) : -1;
    if (printed && (::dup2(output[1], STDOUT_FILENO) < 0 ||
                    ::dup2(nothing, STDERR_FILENO) < 0))
      ::_exit(127);
    if (::getppid() == parent)
      ::execvp(file.c_str(), arguments.data());
    const int reason = errno;
    (void)!::write(failed[1], &reason, sizeof(reason));
    ::_exit(127);
  }
  writeFailed = Descriptor();
  writeOutput = Descriptor();
  int reason = child < 0 ? errno : 0;
  if (child > 0 && ::read(failed[0], &reason, sizeof(reason)) <= 0)
    reason = 0;
  char bytes[4096];
  for (ssize_t got = 0;
       printed && (got = ::read(output[0], bytes, sizeof(bytes))) > 0;)
    printed->append(bytes, static_cast<size_t>(got));
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  if (reason != 0) {
    errno = reason;
    return -1;
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::optional<std::string> compiler::outputOf(const std::string &file,
                                              std::vector<std::string> words) {
  std::string printed;
  words.insert(words.begin(), file);
  if (spawn(file, std::move(words), &printed) != 0)
    return std::nullopt;
  return printed;
}

int compiler::runPython(std::string_view name,
                        const std::vector<std::string> &words) {
  const std::string python = pythonName();
  std::vector<std::string> all = {python, "-c", kModule, std::string(name)};
  all.insert(all.end(), words.begin(), words.end());
  const int status = spawn(python, std::move(all));
  if (status >= 0)
    return status;
  fmt::print(stderr,
             "moec {}: {} cannot be started: {}; the command needs Python 3.10 "
             "or newer with the package moec; MOEC_PYTHON names one\n",
             name, python, std::strerror(errno));
  return 1;
}

std::optional<int> compiler::runProgram(std::string_view name,
                                        const std::vector<std::string> &words) {
  const ProgramCommand *command = nullptr;
  for (const ProgramCommand &each : kProgramCommands)
    if (each.name == name)
      command = &each;
  if (!command)
    return std::nullopt;
  if (command->program.empty())
    return runPython(name, words);
  const std::string program(command->program);
  // In a wheel, the program is next to the library. In an installation prefix,
  // it is in bin/.
  const Result<std::string> path = runtime::programBeside(
      runtime::pathOfOwnBinary(), program, {"", "/../bin", "/../../bin"});
  if (!path) {
    fmt::print(stderr, "moec {}: {}\n", name, path.error().message);
    return 1;
  }
  // The program uses argv[0] as its name in messages.
  std::vector<std::string> all = {fmt::format("moec {}", name)};
  if (!command->option.empty())
    all.emplace_back(command->option);
  all.insert(all.end(), words.begin(), words.end());
  const int status = spawn(*path, std::move(all));
  if (status >= 0)
    return status;
  fmt::print(stderr, "moec {}: {} cannot be started: {}\n", name, *path,
             std::strerror(errno));
  return 1;
}
