//===- ring.cuh - ring of pipeline stages -----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The indices, phases and mbarriers of a ring of pipeline stages, for all
// kernels whose producers and consumers synchronize with mbarriers. The token
// count of the instruction is also chosen here, since producers and consumers
// must agree on it.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe {

/// A stage of the ring and the parity of its next phase. To save registers,
/// `state` also holds the number of tiles that were taken.
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

/// Shared-memory addresses of the mbarriers of a ring.
template <int kStages> struct RingBarriers {
  unsigned base;
  __device__ __forceinline__ unsigned full(int stage) const {
    return base + unsigned(stage) * 8;
  }
  __device__ __forceinline__ unsigned empty(int stage) const {
    return base + unsigned(kStages + stage) * 8;
  }
};

/// Calls body.template run<kTokens>() with the number of tokens that the
/// instruction multiplies for a tile of `rows` tokens. There are few such
/// sizes, since each one is a mainloop to compile. `kTokens`: the smallest one.
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
