//===- FakeWorker.cpp - workers that go wrong -----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A worker that compiles nothing. The name that it is started by says how it
// begins, the entry of a kernel what happens to that kernel. A cubin that it
// makes names the kernel and what the worker has of the process that started
// it: open descriptors, blocked and ignored signals, its process group.
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/WorkerMessages.h"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

using namespace moec::runtime;

/// A mask of signals; without the two that the C library has for itself.
static unsigned long long signalsOf(const std::string &name) {
  constexpr unsigned long long kOfTheLibrary = 3ull << 31;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name + ":"))
      return std::stoull(line.substr(name.size() + 1), nullptr, 16) &
             ~kOfTheLibrary;
  return ~0ull;
}

static std::string inherited() {
  int descriptors = 0;
  for ([[maybe_unused]] const auto &entry :
       std::filesystem::directory_iterator("/proc/self/fd"))
    ++descriptors;
  // One more is the iterator's.
  return fmt::format("{} descriptors, {} blocked, {} ignored, {}",
                     descriptors - 1, signalsOf("SigBlk"), signalsOf("SigIgn"),
                     getpgrp() == getpid() ? "own group" : "group of another");
}

static void endBySignal(int number) {
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  signal(number, SIG_DFL);
  raise(number);
}

int main(int, char **argv) {
  const std::string name = std::filesystem::path(argv[0]).filename();
  WorkerMessage greeting = workerGreeting();
  if (name == "old-worker")
    greeting[1] = "0.0.1";
  if (name == "ending-worker")
    return 7;
  if (name != "silent-worker" && !sendMessage(STDIN_FILENO, greeting))
    return 1;
  while (auto message = receiveMessage(STDIN_FILENO)) {
    auto job = jobOf(std::move(*message));
    if (!job)
      return 2;
    const std::string &entry = job->recipe.entry;
    WorkerAnswer answer;
    if (entry.find("crash") != std::string::npos)
      endBySignal(SIGSEGV);
    if (entry.find("exit") != std::string::npos)
      return 3;
    if (entry.find("nonsense") != std::string::npos) {
      sendMessage(STDIN_FILENO, {"no number"});
      continue;
    }
    if (entry.find("refused") != std::string::npos)
      answer.cubin = moec::Error(moec::ErrorCode::CompileFailed,
                                 "kernel {} is refused: \xff\n", entry);
    else
      answer.cubin = Cubin{fmt::format("fake {}; {}", entry, inherited()), ""};
    answer.log = {{moec::LogLevel::Warning, "said by a worker"}};
    answer.openMilliseconds = 2.5;
    if (!sendMessage(STDIN_FILENO, toMessage(answer)))
      return 1;
  }
  return 0;
}
