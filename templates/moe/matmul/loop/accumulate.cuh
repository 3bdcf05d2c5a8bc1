//===- accumulate.cuh - accumulators over all of k --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The mainloop of engines whose MMA instructions accumulate over all of k.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_wgmma.cuh"
#include "moe/matmul/loop/first_scales.cuh"
#include "moe/matmul/roles/split.cuh"

namespace moe {

/// Accumulates in the registers that the MMAs write. One wgmma group is always
/// in flight, so a pipeline stage is released one k tile late.
struct Accumulate {
  template <class Worker, class Scales, class Operands, class Ring>
  static __device__ __forceinline__ void run(Worker &worker, Scales &scales,
                                             const Operands &operands,
                                             Ring &ring, SplitSteps steps) {
    readFirst(scales, operands, ring, steps.first);
    int last = 0;
#pragma unroll 1
    for (int k = steps.first; k < steps.end; ++k) {
      operands.await(ring);
      worker.multiplyAll(operands.rows(k, ring.stage),
                         operands.columns(k, ring.stage));
      ptx::waitForMultiplies<1>();
      if (k > steps.first)
        operands.giveBack(last);
      last = ring.stage;
      ring.advance();
    }
    ptx::waitForMultiplies<0>();
    worker.finish();
    operands.giveBack(last);
  }
};

} // namespace moe
