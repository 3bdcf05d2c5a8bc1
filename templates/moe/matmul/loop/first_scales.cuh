//===- first_scales.cuh - scales of the first stage -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// If tokens are the rows of an instruction, the scales of whole tokens are
// copied with the first pipeline stage of a tile.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_async.cuh"

namespace moe {

/// Reads the scales that arrive with the first pipeline stage of a tile, if the
/// scales have that form.
template <class Scales, class Operands, class Ring>
__device__ __forceinline__ void
readFirst(Scales &scales, const Operands &operands, const Ring &ring, int k) {
  if constexpr (requires { scales.readFirst(0u); }) {
    operands.await(ring);
    scales.readFirst(operands.scales(k, ring.stage));
    // All lanes must have read the scales, because one lane releases the stage.
    __syncwarp();
  }
}

} // namespace moe
