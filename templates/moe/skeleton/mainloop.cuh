//===- mainloop.cuh - multiplies over all of k ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The loops of a warpgroup over the steps of k of a tile. Operands say where a
// step lies and whose turn it is:
// * kTakesTurns: two warpgroups multiply in turn;
// * await(ring) returns when the stage is filled;
// * rows(k, stage) is the shared address of the rows of the instruction;
// * weights(stage) is that of the weights of the CTA, and block that of the
// warpgroup's first block of 64 rows among them;
// * columns(k, stage) is that of its columns;
// * scales(k, stage) is that of the tokens' scales;
// * weightScales(stage) is that of the scales of the warpgroup's weights;
// * giveBack(stage) says that this warpgroup is done with the stage;
// * beginTurn() and endTurn(), with kTakesTurns, wait for a turn and pass it
// on.
//
// The engine chooses the loop. Promote multiplies partial sums by their scales;
// Accumulate uses none; FromRegisters converts weights, PromoteFromRegisters
// does both, and PromoteSteps does so with the sums of each step.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_async.cuh"
#include "moe/core/ptx_wgmma.cuh"
#include "moe/core/types.cuh"
#include "moe/skeleton/split.cuh"

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

/// The loop whose sums stay where instructions add to them. A group of
/// multiplies is always in flight, so a stage is given back one step late.
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

/// The sums of each stage are added to totals, a piece at a time. Other
/// multiplies fill the tensor cores meanwhile: those of another CTA, or those
/// of the other warpgroup, which begins when most of this one's are done where
/// tokens are so many that adding takes time.
struct Promote {
  template <class Worker, class Scales, class Operands, class Ring>
  static __device__ __forceinline__ void run(Worker &worker, Scales &scales,
                                             const Operands &operands,
                                             Ring &ring, SplitSteps steps) {
    constexpr bool kTurns = Operands::kTakesTurns && Worker::kPieceSize >= 32;
    constexpr int kLast = Worker::kPieces - 1;
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
          // The other one's multiplies queue up behind the last group.
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
          // Nobody reads scales of the stage any more, either.
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

/// Weights are converted into registers, 16 columns of 64 rows at a time. Two
/// sets of registers alternate: one is converted while the other is multiplied.
/// A stage is given back when the multiplies of the next one have begun.
struct FromRegisters {
  /// The steps of a stage. release(): gives the stage before it back.
  template <bool kLeavesRegisters, class Worker, class Slabs, class Release>
  static __device__ __forceinline__ void
  multiply(Worker &worker, const Slabs &slabs, unsigned columns,
           Release release) {
    constexpr int kAtoms = Worker::kSize / Worker::kAtomSize;
    // Multiplies of a group: each takes four registers more.
    constexpr int kBatch = kLeavesRegisters || Worker::kSize <= 16 ? 2 : 1;
    unsigned registers[2][kBatch][4];
#pragma unroll
    for (int first = 0; first < 4 * kAtoms; first += kBatch) {
      auto &set = registers[first / kBatch % 2];
      // The multiplies of this set are done.
      ptx::waitForMultiplies<1>();
      if (first == kBatch)
        release();
#pragma unroll
      for (int i = 0; i < kBatch; ++i)
        slabs[(first + i) % kAtoms].convert((first + i) / kAtoms, set[i]);
      ptx::beginMultiply();
#pragma unroll
      for (int i = 0; i < kBatch; ++i)
        worker.multiply((first + i) % kAtoms, (first + i) / kAtoms, set[i],
                        columns);
      ptx::commitMultiplies();
    }
  }

  template <class Worker, class Scales, class Operands, class Ring>
  static __device__ __forceinline__ void run(Worker &worker, Scales &scales,
                                             const Operands &operands,
                                             Ring &ring, SplitSteps steps) {
    constexpr int kAtoms = Worker::kSize / Worker::kAtomSize;
    int last = 0;
    int warp = ptx::threadIndex() % 128 / 32, lane = ptx::threadIndex() % 32;
#pragma unroll 1
    for (int k = steps.first; k < steps.end; ++k) {
      operands.await(ring);
      typename Scales::Slab slabs[kAtoms];
#pragma unroll
      for (int atom = 0; atom < kAtoms; ++atom)
        slabs[atom] = scales.load(operands.weights(ring.stage),
                                  operands.block + atom, warp, lane);
      auto release = [&] {
        if (k > steps.first)
          operands.giveBack(last);
      };
      multiply<Scales::leavesRegisters()>(
          worker, slabs, ptx::sameInWarp(operands.columns(k, ring.stage)),
          release);
      last = ring.stage;
      ring.advance();
    }
    ptx::waitForMultiplies<0>();
    worker.finish();
    operands.giveBack(last);
  }
};

/// Likewise, with the sums of each stage added to totals. Other warpgroups fill
/// the tensor cores meanwhile.
struct PromoteFromRegisters {
  template <class Worker, class Scales, class Operands, class Ring>
  static __device__ __forceinline__ void run(Worker &worker, Scales &,
                                             const Operands &operands,
                                             Ring &ring, SplitSteps steps) {
    // Registers are few beside the totals of two pieces.
    constexpr int kSets = Worker::kPieces > 1 ? 2 : 4;
    int warp = ptx::threadIndex() % 128 / 32, lane = ptx::threadIndex() % 32;
#pragma unroll 1
    for (int k = steps.first; k < steps.end; ++k) {
      operands.await(ring);
#pragma unroll
      for (int piece = 0; piece < Worker::kPieces; ++piece) {
        auto slab = Scales::load(operands.weights(ring.stage),
                                 operands.block + piece, warp, lane);
        unsigned registers[kSets][4];
#pragma unroll
        for (int step = 0; step < 4; ++step) {
          auto &set = registers[step % kSets];
          // The multiplies of this set are done.
          if (step >= kSets)
            ptx::waitForMultiplies<kSets - 1>();
          slab.convert(step, set);
          ptx::beginMultiply();
          worker.multiply(piece, step, set, operands.columns(k, ring.stage));
          ptx::commitMultiplies();
        }
        float scale[2];
        slab.loadScales(0, scale);
        ptx::waitForMultiplies<0>();
        worker.finish();
        if (piece == Worker::kPieces - 1)
          operands.giveBack(ring.stage);
        worker.template add<Worker::kPieceSize>(
            piece, 0, [&](int i) { return scale[i % 4 / 2]; });
      }
      ring.advance();
    }
  }
};

/// Likewise, with the sums of each step, which has scales of its own. One step
/// is multiplied while the sums of the one before it are added, where registers
/// are left.
struct PromoteSteps {
  template <class Worker, class Scales, class Operands, class Ring>
  static __device__ __forceinline__ void run(Worker &worker, Scales &,
                                             const Operands &operands,
                                             Ring &ring, SplitSteps steps) {
    constexpr int kSize = Worker::kPieceSize;
    constexpr int kSets = kSize <= 32 ? 2 : 1;
    int warp = ptx::threadIndex() % 128 / 32, lane = ptx::threadIndex() % 32;
#pragma unroll 1
    for (int k = steps.first; k < steps.end; ++k) {
      operands.await(ring);
#pragma unroll
      for (int piece = 0; piece < Worker::kPieces; ++piece) {
        auto slab = Scales::load(operands.weights(ring.stage),
                                 operands.block + piece, warp, lane);
        unsigned registers[2][4];
        float sums[kSets][kSize];
        float scale[2];
        auto add = [&](int step) {
          auto &of = sums[step % kSets];
#pragma unroll
          for (int i = 0; i < kSize; ++i)
            ptx::keep(of[i]);
          worker.template add<kSize>(of, piece, 0,
                                     [&](int i) { return scale[i % 4 / 2]; });
        };
        slab.convert(0, registers[0]);
#pragma unroll
        for (int step = 0; step < 4; ++step) {
          ptx::beginMultiply();
          Worker::multiplyStep(sums[step % kSets], step, registers[step % 2],
                               operands.columns(k, ring.stage));
          ptx::commitMultiplies();
          if (kSets == 2 && step > 0) {
            slab.loadScales(step - 1, scale);
            ptx::waitForMultiplies<1>();
            add(step - 1);
          }
          if (step < 3)
            slab.convert(step + 1, registers[(step + 1) % 2]);
          if (kSets == 1 || step == 3) {
            slab.loadScales(step, scale);
            ptx::waitForMultiplies<0>();
            if (step == 3 && piece == Worker::kPieces - 1)
              operands.giveBack(ring.stage);
            add(step);
          }
        }
      }
      ring.advance();
    }
  }
};

/// The loop of a Config's engine.
template <class Config> constexpr auto mainloopOf() {
  using Mma = typename Config::Mma;
  constexpr bool kStepGroups =
      Config::Quant::kPromoteK == 32 / int(sizeof(typename Config::Input));
  if constexpr (takesSlabs<Mma> && Mma::kPromoted && kStepGroups)
    return PromoteSteps{};
  else if constexpr (takesSlabs<Mma> && Mma::kPromoted)
    return PromoteFromRegisters{};
  else if constexpr (takesSlabs<Mma>)
    return FromRegisters{};
  else if constexpr (Mma::kPromoted)
    return Promote{};
  else
    return Accumulate{};
}

} // namespace moe
