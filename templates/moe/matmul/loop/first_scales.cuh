//===- first_scales.cuh - scales of the first stage -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The per-token scales of a Fragment whose rows are tokens. They are copied to
// shared memory with the first pipeline stage of a tile.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_async.cuh"

namespace moe {

/// Reads the scales that arrive with a tile's first pipeline stage, if `scales`
/// has readFirst().
template <class Scales, class Operands, class Ring>
__device__ __forceinline__ void
readFirst(Scales &scales, const Operands &operands, const Ring &ring, int k) {
  if constexpr (requires { scales.readFirst(0u); }) {
    operands.await(ring);
    scales.readFirst(operands.scales(k, ring.stage));
    // All lanes must have read the scales before one lane releases the stage.
    __syncwarp();
  }
}

} // namespace moe
