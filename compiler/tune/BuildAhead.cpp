//===- BuildAhead.cpp - packages before they are measured -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each worker thread builds one package at a time. Two of the usable threads
// are left to the measuring process.
//
//===----------------------------------------------------------------------===//

#include "compiler/tune/BuildAhead.h"

#include "runtime/support/Env.h"

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

BuildAhead::BuildAhead(size_t count, std::function<Result<void>(size_t)> build)
    : count(count), build(std::move(build)), results(count) {
  constexpr int kKept = 2, kOfPackage = 1;
  const int usable = usableThreads();
  const auto workers = std::min<size_t>(
      size_t(std::max(1, (usable - kKept) / kOfPackage)), count);
  ahead = 2 * workers + 1;
  for (size_t i = 0; i < workers; ++i)
    threads.emplace_back([this] { work(); });
}

BuildAhead::~BuildAhead() {
  {
    const std::lock_guard lock(mutex);
    stopped = true;
  }
  changed.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

void BuildAhead::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] {
      return stopped || next >= count || next < wanted + ahead;
    });
    if (stopped || next >= count)
      return;
    const size_t mine = next++;
    lock.unlock();
    Result<void> done = build(mine);
    lock.lock();
    results[mine] =
        done ? std::optional<Error>() : std::optional<Error>(done.error());
    changed.notify_all();
  }
}

bool BuildAhead::await(size_t i, std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex);
  wanted = std::max(wanted, i);
  changed.notify_all();
  return changed.wait_until(lock, until,
                            [&] { return results[i].has_value(); });
}

Result<void> BuildAhead::result(size_t i) {
  const std::lock_guard lock(mutex);
  const std::optional<Error> &error = *results.at(i);
  return error ? Result<void>(*error) : Result<void>();
}
