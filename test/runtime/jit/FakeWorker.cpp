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

#include <cstdint>
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

/// The header of a cubin, the name of its kernel and a text.
static std::string cubinOf(const std::string &entry, const std::string &text) {
  std::string bytes("\x7f"
                    "ELF\x02\x01");
  bytes.resize(64);
  bytes[18] = '\xbe'; // the machine
  return bytes + ".text." + entry + '\0' + text;
}

/// Bytes that a worker may send in place of a kernel's cubin.
static std::string bytesFor(const std::string &entry) {
  std::string bytes =
      cubinOf(entry, fmt::format("fake {}; {}", entry, inherited()));
  if (entry.find("empty") != std::string::npos)
    return "";
  if (entry.find("garbage") != std::string::npos)
    return std::string(1000, 'g');
  if (entry.find("host") != std::string::npos)
    bytes[18] = '\x3e';
  if (entry.find("cut") != std::string::npos)
    bytes[41] = '\x10'; // sections at byte 4096
  if (entry.find("other") != std::string::npos)
    return cubinOf("moec_unknown", "");
  return bytes;
}

int main(int, char **argv) {
  const std::string name = std::filesystem::path(argv[0]).filename();
  WorkerMessage greeting = workerGreeting();
  if (name == "old-worker")
    greeting[1] = "0.0.1";
  if (name == "ending-worker")
    return 7;
  if (name == "stalled-worker") {
    const uint64_t parts = greeting.size();
    (void)!write(STDIN_FILENO, &parts, sizeof parts);
    pause();
  }
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
    if (entry.find("hang") != std::string::npos)
      pause();
    if (entry.find("stopped") != std::string::npos)
      raise(SIGSTOP);
    if (entry.find("stalled") != std::string::npos) {
      const uint64_t parts = 4;
      (void)!write(STDIN_FILENO, &parts, sizeof parts);
      pause();
    }
    if (entry.find("nonsense") != std::string::npos) {
      sendMessage(STDIN_FILENO, {"no number"});
      continue;
    }
    if (entry.find("refused") != std::string::npos)
      answer.cubin = moec::Error(moec::ErrorCode::CompileFailed,
                                 "kernel {} is refused: \xff\n", entry);
    else
      answer.cubin = Cubin{bytesFor(entry), ""};
    answer.log = {{moec::LogLevel::Warning, "said by a worker"}};
    answer.openMilliseconds = 2.5;
    if (!sendMessage(STDIN_FILENO, toMessage(answer)))
      return 1;
  }
  return 0;
}
