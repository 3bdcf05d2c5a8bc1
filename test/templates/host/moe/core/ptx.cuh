//===- ptx.cuh - what kernels ask of a GPU ----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In place of the instructions, for unit tests that run parts of kernels on the
// host. Copies arrive when they are waited for, and not before.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "test/templates/DeviceFunctions.h"

#include <array>
#include <cstring>
#include <deque>
#include <vector>

namespace moe::ptx {

/// 16 bytes on their way, or zeros.
struct Copy {
  unsigned destination;
  const void *from;
};
/// A thread's groups of copies; the last one is not committed yet.
inline thread_local std::deque<std::vector<Copy>> copies(1);

inline void waitForPredecessor() {}
inline void launchDependents() {}
template <class T> T loadFresh(const T *pointer) { return *pointer; }
inline float warpMaximum(float value) {
  for (int distance = 16; distance > 0; distance /= 2)
    value = std::fmax(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}
inline void loadShared(unsigned address, unsigned (&words)[4]) {
  std::memcpy(words, warps::sharedMemory + address, sizeof words);
}
template <int kBytes> void loadShared(unsigned address, unsigned (&words)[2]) {
  std::memcpy(words, warps::sharedMemory + address, kBytes);
}
inline unsigned loadShared(unsigned address) {
  unsigned word;
  std::memcpy(&word, warps::sharedMemory + address, sizeof word);
  return word;
}
inline unsigned loadSharedHalf(unsigned address) {
  unsigned short half;
  std::memcpy(&half, warps::sharedMemory + address, sizeof half);
  return half;
}
template <class T> void storeShared(unsigned address, const T &value) {
  std::memcpy(warps::sharedMemory + address, &value, sizeof value);
}

template <bool>
void copy16(unsigned destination, const void *base, unsigned chunk,
            bool valid) {
  const auto *from = static_cast<const char *>(base) + chunk * 16ull;
  copies.back().push_back({destination, valid ? from : nullptr});
}
/// Declared for name lookup only: no test copies such codes.
template <bool, int> void copyCodes(unsigned, const void *, bool);
inline void commitCopies() { copies.emplace_back(); }
template <int kPending> void waitForCopies() {
  static constexpr std::array<unsigned, 4> kZeros = {};
  for (; copies.size() > size_t(kPending) + 1; copies.pop_front())
    for (const Copy &copy : copies.front())
      std::memcpy(warps::sharedMemory + copy.destination,
                  copy.from ? copy.from : kZeros.data(), 16);
}

/// Tells the other lanes words and reads theirs: body(words of each lane).
template <int kCount, class Body>
void exchange(const std::array<unsigned, kCount> &words, Body body) {
  static_assert(kCount <= 8);
  warps::Warp &warp = *warps::warp;
  std::memcpy(warp.words[threadIdx.x % 32], words.data(), sizeof words);
  warp.barrier.arrive_and_wait();
  body(warp.words);
  warp.barrier.arrive_and_wait();
}

inline void loadMatrices(unsigned (&to)[4], unsigned address) {
  const unsigned lane = threadIdx.x % 32;
  exchange<1>({address}, [&](const auto &all) {
    for (unsigned i = 0; i < 4; ++i)
      to[i] = loadShared(all[i * 8 + lane / 4][0] + lane % 4 * 4);
  });
}

inline unsigned transpose(unsigned word) {
  const unsigned lane = threadIdx.x % 32, row = lane / 4, column = lane % 4 * 2;
  unsigned turned = 0;
  exchange<1>({word}, [&](const auto &all) {
    for (unsigned i = 0; i < 2; ++i)
      turned |= (all[(column + i) * 4 + row / 2][0] >> row % 2 * 16 & 0xffffu)
                << i * 16;
  });
  return turned;
}

/// m16n8k16 with the fragments that the PTX ISA says.
template <class Element>
void multiply(float *sums, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  const unsigned lane = threadIdx.x % 32;
  exchange<6>({a[0], a[1], a[2], a[3], b0, b1}, [&](const auto &all) {
    const auto number = [](unsigned word, unsigned i) {
      return toFloat(Element{(unsigned short)(word >> i * 16)});
    };
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      for (unsigned k = 0; k < 16; ++k) {
        const auto &ofA = all[row % 8 * 4 + k % 8 / 2];
        const auto &ofB = all[column * 4 + k % 8 / 2];
        sums[i] += number(ofA[row / 8 + k / 8 * 2], k % 2) *
                   number(ofB[4 + k / 8], k % 2);
      }
    }
  });
}
inline void multiplyBfloat(float *sums, const unsigned (&a)[4], unsigned b0,
                           unsigned b1) {
  multiply<bf16>(sums, a, b0, b1);
}
inline void multiplyHalf(float *sums, const unsigned (&a)[4], unsigned b0,
                         unsigned b1) {
  multiply<f16>(sums, a, b0, b1);
}
// No test on the host multiplies these.
void multiplyBytes(int *sums, const unsigned (&a)[4], unsigned b0, unsigned b1);
template <bool>
void multiplyE4m3(float *sums, const unsigned (&a)[4], unsigned b0,
                  unsigned b1);

inline bool anyOfWarp(bool value) {
  bool any = false;
  exchange<1>({unsigned(value)}, [&](const auto &all) {
    for (const auto &words : all)
      any |= words[0] != 0;
  });
  return any;
}

} // namespace moe::ptx

/// By all lanes of a warp.
inline bool __any_sync(unsigned, bool value) {
  return moe::ptx::anyOfWarp(value);
}
