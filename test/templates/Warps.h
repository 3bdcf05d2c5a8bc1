//===- Warps.h - the threads of a CTA on the host ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A CTA, as code of the templates sees it: its index, shared memory, and the
// other lanes of a warp, each of which is a thread of the host.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_TEMPLATES_WARPS_H
#define MOEC_TEST_TEMPLATES_WARPS_H

#include <barrier>
#include <memory>
#include <thread>
#include <vector>

namespace warps {

/// The values that lanes of a warp exchange.
struct Warp {
  std::barrier<> barrier{32};
  float told[32];
  int integers[32];
  unsigned words[32][8]; ///< operands of an instruction of the whole warp
};

struct Index {
  unsigned x = 0;
};

inline thread_local Index threadIndex;
inline thread_local Warp *warp = nullptr;
inline thread_local std::barrier<> *cta = nullptr;
alignas(16) inline unsigned char sharedMemory[128 << 10];

/// Runs body by each of so many threads, in warps.
template <class Body> void run(int threads, Body body) {
  std::vector<std::unique_ptr<Warp>> all;
  for (int i = 0; i < threads / 32; ++i)
    all.push_back(std::make_unique<Warp>());
  std::barrier<> ofCta(threads);
  std::vector<std::jthread> running;
  for (int i = 0; i < threads; ++i)
    running.emplace_back([&, i] {
      threadIndex.x = unsigned(i);
      warp = all[i / 32].get();
      cta = &ofCta;
      body();
    });
}

/// By all lanes of a warp.
inline void synchronize() { warp->barrier.arrive_and_wait(); }

/// The result of `of` on the values of all lanes.
template <class Of> auto exchange(int value, Of of) {
  warp->integers[threadIndex.x % 32] = value;
  synchronize();
  const auto made = of(warp->integers);
  synchronize();
  return made;
}

} // namespace warps

#define threadIdx warps::threadIndex

/// By all lanes of a warp.
inline float __shfl_xor_sync(unsigned, float value, int mask) {
  const unsigned lane = threadIdx.x % 32;
  warps::warp->told[lane] = value;
  warps::warp->barrier.arrive_and_wait();
  const float other = warps::warp->told[lane ^ unsigned(mask)];
  warps::warp->barrier.arrive_and_wait();
  return other;
}

/// The value of the lane so many before, or the lane's own.
inline int __shfl_up_sync(unsigned, int value, int distance) {
  const int from = int(threadIdx.x % 32) - distance;
  return warps::exchange(
      value, [&](const int *told) { return from < 0 ? value : told[from]; });
}
inline int __shfl_sync(unsigned, int value, int lane) {
  return warps::exchange(value, [&](const int *told) { return told[lane]; });
}
/// The lanes that have the same value.
inline unsigned __match_any_sync(unsigned, int value) {
  return warps::exchange(value, [&](const int *told) {
    unsigned lanes = 0;
    for (int lane = 0; lane < 32; ++lane)
      lanes |= unsigned(told[lane] == value) << lane;
    return lanes;
  });
}
/// The lanes for which it holds.
inline unsigned __ballot_sync(unsigned, bool holds) {
  return warps::exchange(int(holds), [&](const int *told) {
    unsigned lanes = 0;
    for (int lane = 0; lane < 32; ++lane)
      lanes |= unsigned(told[lane] != 0) << lane;
    return lanes;
  });
}

/// By all threads of a CTA.
inline void __syncthreads() { warps::cta->arrive_and_wait(); }

#endif // MOEC_TEST_TEMPLATES_WARPS_H
