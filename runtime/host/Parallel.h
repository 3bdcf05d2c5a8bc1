//===- Parallel.h - loops over several threads ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A loop with independent iterations, split over threads that exist only during
// the loop. The threads take chunks of iterations from a shared counter. Each
// iteration writes only its own results, so the results do not depend on the
// split.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_HOST_PARALLEL_H
#define MOEC_RUNTIME_HOST_PARALLEL_H

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace moec::host {

/// Calls body(begin, end) for chunks of [0, count) of at most `chunk`
/// iterations. The first exception that a body throws, such as std::bad_alloc,
/// is rethrown after all threads have ended.
template <typename Body>
void parallelFor(int64_t threads, int64_t count, int64_t chunk, Body body) {
  std::atomic<int64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr thrown;
  auto work = [&] {
    while (true) {
      int64_t begin = next.fetch_add(chunk);
      if (begin >= count)
        return;
      try {
        body(begin, std::min(begin + chunk, count));
      } catch (...) {
        if (!failed.exchange(true))
          thrown = std::current_exception();
        next = count;
        return;
      }
    }
  };
  int64_t helpers = std::min(threads, (count + chunk - 1) / chunk) - 1;
  std::vector<std::thread> pool;
  for (int64_t i = 0; i < helpers; ++i)
    pool.emplace_back(work);
  work();
  for (std::thread &thread : pool)
    thread.join();
  if (thrown)
    std::rethrow_exception(thrown);
}

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_PARALLEL_H
