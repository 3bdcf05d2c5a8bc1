//===- promote.cuh - partial sums added to totals ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The mainloop of engines whose MMAs accumulate over one pipeline stage. The
// partial accumulators of a stage are multiplied by the scales of the stage and
// added to f32 totals.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_wgmma.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/loop/first_scales.cuh"
#include "moe/matmul/roles/split.cuh"

namespace moe {

/// Adds the partial accumulators of each pipeline stage to totals, one piece
/// (moe/matmul/contract.cuh) at a time. Meanwhile the MMAs of another CTA or
/// warpgroup keep the tensor cores busy. If a piece has at least 64 columns,
/// the additions take long, and the two warpgroups take turns: a warpgroup
/// issues its MMAs after the other warpgroup has issued its own. If weight rows
/// are the MMA's rows, a warpgroup passes its turn only when all of its MMAs
/// but the last have completed; multiplyPiece() commits the last MMA
/// separately.
///
/// `Scales`: a class such as SwappedScales
/// (moe/matmul/feed/scales_swapped.cuh), which defines kChunks, kAhead and
/// kReleased.
struct Promote {
  template <class Worker, class Scales, class Operands, class Ring>
  static __device__ __forceinline__ void run(Worker &worker, Scales &scales,
                                             const Operands &operands,
                                             Ring &ring, SplitSteps steps) {
    constexpr bool kTurns = Operands::kTakesTurns && Worker::kPieceSize >= 32;
    constexpr int kLast = Worker::kPieces - 1;
    // Per-token scales; there is nothing to read with scales by group.
    readFirst(scales, operands, ring, steps.first);
#pragma unroll 1
    for (int k = steps.first; k < steps.end; ++k) {
      operands.await(ring);
#pragma unroll
      for (int piece = 0; piece <= kLast; ++piece) {
        if constexpr (kTurns)
          operands.beginTurn();
        worker.multiplyPiece(piece, operands.rows(k, ring.stage),
                             operands.columns(k, ring.stage));
        if (piece == 0)
          scales.fetchWeights(operands.weightScales(ring.stage));
        unsigned ofTokens =
            Scales::ofThread(operands.scales(k, ring.stage), piece, worker);
        typename Scales::OfTokens some[Scales::kChunks];
        if constexpr (Scales::kAhead > 0)
          scales.fetchTokens(ofTokens, 0, some[0]);
        if constexpr (kTurns) {
          // The other warpgroup's MMAs then queue up after this warpgroup's
          // last wgmma group.
          if constexpr (Worker::kTokensAreColumns)
            ptx::waitForMultiplies<1>();
          operands.endTurn();
        }
        ptx::waitForMultiplies<0>();
        worker.finish();
        if (Scales::kReleased < 0 && piece == kLast)
          operands.giveBack(ring.stage);
#pragma unroll
        for (int chunk = 0; chunk < Scales::kChunks; ++chunk) {
          if (chunk + Scales::kAhead < Scales::kChunks)
            scales.fetchTokens(ofTokens, chunk + Scales::kAhead,
                               some[chunk + Scales::kAhead]);
          // This thread has loaded all scales that it needs from the stage, so
          // it releases the stage.
          if (piece == kLast && chunk == Scales::kReleased)
            operands.giveBack(ring.stage);
          worker.template add<Scales::kChunk>(
              piece, chunk * Scales::kChunk,
              [&](int i) { return scales.ofGroup(some[chunk], piece, i); });
        }
      }
      ring.advance();
    }
  }
};

} // namespace moe
