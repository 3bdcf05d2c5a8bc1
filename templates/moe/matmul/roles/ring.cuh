//===- ring.cuh - ring of pipeline stages -----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The indices, phases and mbarriers of a ring of pipeline stages, for all
// kernels whose producers and consumers synchronize with mbarriers. The file
// also selects the token count of the MMA instruction, because producers and
// consumers must agree on it.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe {

/// A position in the ring: the pipeline stage, and the parity of its next phase
/// (bit 0 of `state`). To save registers, the other bits of `state` count the
/// tiles that were processed.
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

/// Calls body.template run<N>(), where N is the number of tokens that the MMA
/// instruction multiplies for a tile of `rows` tokens. N is the first number of
/// this sequence that is at least `rows`: kTokens, doubled until it is at least
/// 64, then increased by 64 at a time; the last number is kTileM. There are few
/// such sizes, because each size is a separate mainloop to compile.
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
