//===- Parallel.cpp - loops over threads ----------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The threads of the reference's loops over rows.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Progress.h"
#include "test/reference/TestData.h"

#include <algorithm>
#include <thread>
#include <vector>

namespace moec::reference {

void parallelFor(int64_t count, int64_t steps, unsigned threads,
                 const std::function<void(int64_t, int64_t)> &body) {
  // Some 0.3 ms: where many runs of small layers share the cores, threads that
  // live for less cost several times what they do.
  constexpr int64_t kStepsOfThread = int64_t(1) << 18;
  if (count <= 0)
    return;
  if (threads == 0)
    threads = std::max(1u, std::thread::hardware_concurrency());
  const int64_t worth = count * std::max<int64_t>(steps, 1) / kStepsOfThread;
  const int64_t workers =
      std::min({int64_t(threads), count, std::max<int64_t>(worth, 1)});
  if (workers <= 1) {
    body(0, count);
    return;
  }
  std::vector<std::thread> pool;
  pool.reserve(workers);
  for (int64_t i = 0; i < workers; ++i)
    pool.emplace_back(
        [&, i] { body(count * i / workers, count * (i + 1) / workers); });
  for (std::thread &worker : pool)
    worker.join();
}

void parallelFor(std::string_view what, int64_t count, int64_t steps,
                 unsigned threads,
                 const std::function<void(int64_t, int64_t)> &body) {
  // Some 5 ms: progress is smooth and costs nothing.
  constexpr int64_t kStepsOfPiece = int64_t(1) << 22;
  const int64_t piece =
      std::max<int64_t>(kStepsOfPiece / std::max<int64_t>(steps, 1), 1);
  Progress progress(what, count);
  parallelFor(count, steps, threads, [&](int64_t first, int64_t last) {
    for (int64_t begin = first; begin < last; begin += piece) {
      const int64_t end = std::min(begin + piece, last);
      body(begin, end);
      progress.advance(end - begin);
    }
  });
}

} // namespace moec::reference
