//===- ring.cuh - stages of shared memory in turn ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The places, phases and barriers of a ring of stages, wherever
// producers and consumers wait for each other by barriers. How many tokens are
// multiplied is chosen here, too, since producers and consumers must agree.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe {

/// A place in the ring, and the parity of its next phase; beside that, since
/// registers are few, the number of tiles that were taken.
template <int kStages> struct RingIndex {
  int stage = 0;
  unsigned state = 0;
  __device__ __forceinline__ unsigned phase() const { return state & 1; }
  __device__ __forceinline__ unsigned tiles() const { return state >> 1; }
  __device__ __forceinline__ void countTile() { state += 2; }
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      state ^= 1;
    }
  }
};

/// Shared addresses of the barriers of a ring.
template <int kStages> struct RingBarriers {
  unsigned base;
  __device__ __forceinline__ unsigned full(int stage) const {
    return base + unsigned(stage) * 8;
  }
  __device__ __forceinline__ unsigned empty(int stage) const {
    return base + unsigned(kStages + stage) * 8;
  }
};

/// How many tokens the instruction multiplies for a tile of `rows`: a few
/// sizes, since each is a main loop to compile. kTokens: the fewest. Calls
/// body.template run<kTokens>().
template <int kTileM, int kTokens, class Body>
__device__ __forceinline__ void withTokens(int rows, Body &body) {
  if constexpr (kTokens >= kTileM)
    body.template run<kTileM>();
  else if (rows <= kTokens)
    body.template run<kTokens>();
  else
    withTokens<kTileM, kTokens + minimum(kTokens, 64)>(rows, body);
}

} // namespace moe
