//===- first_scales.cuh - scales of the first stage -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Scales of whole tokens come with the first stage of a tile where tokens are
// the rows of an instruction.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_async.cuh"

namespace moe {

/// Reads the scales that come with the first stage of a tile, if some do.
template <class Scales, class Operands, class Ring>
__device__ __forceinline__ void
readFirst(Scales &scales, const Operands &operands, const Ring &ring, int k) {
  if constexpr (requires { scales.readFirst(0u); }) {
    operands.await(ring);
    scales.readFirst(operands.scales(k, ring.stage));
    // One lane gives the stage back for all.
    __syncwarp();
  }
}

} // namespace moe
