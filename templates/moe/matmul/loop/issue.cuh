//===- issue.cuh - MMAs issued by one thread --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The mainloops of engines whose MMAs are issued by one thread and accumulate
// in tensor memory. In Issue, the first warp of a warpgroup iterates over the
// pipeline stages. The completion of a stage's MMAs arrives at the stage's
// mbarrier `empty`. All warps then wait for the tile's last MMAs and load the
// accumulators.
//
// IssuePromoted adds partial accumulators to f32 totals. All warps load the
// accumulators of each pipeline stage while the next stage is multiplied.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_async.cuh"
#include "moe/core/ptx_tcgen05.cuh"
#include "moe/matmul/roles/split.cuh"

namespace moe {

struct Issue {
  template <class Worker, class Scales, class Operands, class Ring>
  static __device__ __forceinline__ void run(Worker &worker, Scales &,
                                             const Operands &operands,
                                             Ring &ring, SplitSteps steps) {
    const int thread = ptx::threadIndex() % 128;
    const bool isFirstWarp = thread < 32;
    const int tokens = operands.paddedTokens();
#pragma unroll 1
    for (int k = steps.first; k < steps.end; ++k) {
      if (isFirstWarp) {
        operands.await(ring);
        ptx::fenceAfterBarrier();
        if (thread == 0) {
          if constexpr (requires { Worker::kScaleColumns; })
            Worker::issue(operands.sums, operands.rows(k, ring.stage),
                          operands.columns(k, ring.stage), tokens,
                          k == steps.first, operands.scales(k, ring.stage),
                          operands.sums +
                              unsigned(Worker::kSumColumns +
                                       ring.stage * Worker::kScaleColumns));
          else
            Worker::issue(operands.sums, operands.rows(k, ring.stage),
                          operands.columns(k, ring.stage), tokens,
                          k == steps.first);
          ptx::arriveAfterMultiplies(operands.emptyBarrier(ring.stage));
          if (k == steps.end - 1)
            ptx::arriveAfterMultiplies(operands.multiplied(0));
        }
        __syncwarp();
      }
      ring.advance();
    }
    ptx::waitForBarrier(operands.multiplied(0), operands.endPhase(ring));
    ptx::fenceAfterBarrier();
    worker.read(operands.sums, tokens);
    // Orders these reads before the next tile's MMAs, which overwrite the
    // accumulators.
    ptx::fenceBeforeBarrier();
    ptx::synchronize(operands.barrier(), 128);
  }
};

struct IssuePromoted {
  template <class Worker, class Scales, class Operands, class Ring>
  static __device__ __forceinline__ void run(Worker &worker, Scales &scales,
                                             const Operands &operands,
                                             Ring &ring, SplitSteps steps) {
    constexpr int kLast = Worker::kPieces - 1;
    const int thread = ptx::threadIndex() % 128;
    const int tokens = operands.paddedTokens();
    auto sumsOf = [&](int k) {
      return operands.sums + unsigned(k % 2 * (Worker::kSumColumns / 2));
    };
    Ring ahead = ring;
    auto issue = [&](int k) {
      if (thread < 32) {
        operands.await(ahead);
        ptx::fenceAfterBarrier();
        if (thread == 0) {
          Worker::issue(sumsOf(k), operands.rows(k, ahead.stage),
                        operands.columns(k, ahead.stage), tokens, true);
          ptx::arriveAfterMultiplies(operands.multiplied(ahead.stage));
        }
        __syncwarp();
      }
      ahead.advance();
    };
    issue(steps.first);
#pragma unroll 1
    for (int k = steps.first; k < steps.end; ++k) {
      if (k + 1 < steps.end)
        issue(k + 1);
      operands.await(ring);
      scales.fetchWeights(operands.weightScales(ring.stage));
      ptx::waitForBarrier(operands.multiplied(ring.stage), ring.phase());
      ptx::fenceAfterBarrier();
#pragma unroll
      for (int piece = 0; piece <= kLast; ++piece) {
        const unsigned ofTokens =
            Scales::ofThread(operands.scales(k, ring.stage), piece, worker);
        worker.readPiece(sumsOf(k), piece, tokens);
#pragma unroll
        for (int chunk = 0; chunk < Scales::kChunks; ++chunk) {
          typename Scales::OfTokens some;
          scales.fetchTokens(ofTokens, chunk, some);
          worker.template add<Scales::kChunk>(
              piece, chunk * Scales::kChunk,
              [&](int i) { return scales.ofGroup(some, piece, i); });
        }
      }
      operands.giveBack(ring.stage);
      // Orders these reads before the MMAs of the stage after the next one,
      // which overwrite the same accumulators.
      ptx::fenceBeforeBarrier();
      ptx::synchronize(operands.barrier(), 128);
      ring.advance();
    }
  }
};

} // namespace moe
