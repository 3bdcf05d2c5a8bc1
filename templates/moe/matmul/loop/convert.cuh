//===- convert.cuh - weights from codes to registers ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The mainloops of engines whose weights are codes (quantized values) in slabs.
// A warp converts the codes of its weight rows in registers, which are operand
// A of the MMAs.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_wgmma.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/roles/split.cuh"

namespace moe {

/// Converts weights in registers, one step of k (16 columns) of 64 rows at a
/// time, and accumulates over all of k. Two register sets alternate: one set is
/// converted while MMAs read the other set. A pipeline stage is released after
/// the first MMAs of the next stage were issued.
struct FromRegisters {
  /// Converts and multiplies the steps of one pipeline stage. `release()`
  /// releases the previous pipeline stage.
  template <bool kLeavesRegisters, class Worker, class Slabs, class Release>
  static __device__ __forceinline__ void
  multiply(Worker &worker, const Slabs &slabs, unsigned columns,
           Release release) {
    constexpr int kAtoms = Worker::kSize / Worker::kAtomSize;
    // Number of MMAs per wgmma group. Each MMA needs four more registers.
    constexpr int kBatch = kLeavesRegisters || Worker::kSize <= 16 ? 2 : 1;
    unsigned registers[2][kBatch][4];
#pragma unroll
    for (int first = 0; first < 4 * kAtoms; first += kBatch) {
      auto &set = registers[first / kBatch % 2];
      // Waits until the MMAs that read this register set have completed.
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
      // The shuffle that makes the address warp-uniform overlaps with the wait,
      // and the loads of codes overlap with the fence.
      const unsigned columns = ptx::sameInWarp(operands.columns(k, ring.stage));
      operands.awaitCopies(ring);
      typename Scales::Slab slabs[kAtoms];
#pragma unroll
      for (int atom = 0; atom < kAtoms; ++atom)
        slabs[atom] = scales.load(operands.weights(ring.stage),
                                  operands.block + atom, warp, lane);
      operands.fenceCopies();
      auto release = [&] {
        if (k > steps.first)
          operands.giveBack(last);
      };
      multiply<Scales::leavesRegisters()>(worker, slabs, columns, release);
      last = ring.stage;
      ring.advance();
    }
    ptx::waitForMultiplies<0>();
    worker.finish();
    operands.giveBack(last);
  }
};

/// Converts weights like FromRegisters, and adds the partial accumulators of
/// each pipeline stage to totals. Meanwhile the MMAs of other warpgroups keep
/// the tensor cores busy.
struct PromoteFromRegisters {
  template <class Worker, class Scales, class Operands, class Ring>
  static __device__ __forceinline__ void run(Worker &worker, Scales &,
                                             const Operands &operands,
                                             Ring &ring, SplitSteps steps) {
    // Number of register sets. The totals of two pieces leave few registers.
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
          // Waits until the MMA that reads this register set has completed.
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
        const bool isLast = piece == Worker::kPieces - 1;
        if (!Scales::kTokenGroups && isLast)
          operands.giveBack(ring.stage);
        Scales::add(worker, worker.sums[0], piece,
                    operands.scales(k, ring.stage), scale);
        if (Scales::kTokenGroups && isLast)
          operands.giveBack(ring.stage);
      }
      ring.advance();
    }
  }
};

/// Like PromoteFromRegisters, for weights with separate scales for each step of
/// k. If enough registers are left, one step is multiplied while the partial
/// accumulators of the previous step are added to totals.
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
          Scales::add(worker, of, piece, operands.scales(k, ring.stage), scale);
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
            const bool isLast = step == 3 && piece == Worker::kPieces - 1;
            if (!Scales::kTokenGroups && isLast)
              operands.giveBack(ring.stage);
            add(step);
            if (Scales::kTokenGroups && isLast)
              operands.giveBack(ring.stage);
          }
        }
      }
      ring.advance();
    }
  }
};

/// Like PromoteFromRegisters, for weights with ue8m0 scales for each step of k.
/// The scales become factors of the elements (Scales::FoldedScales), and the
/// totals of each weight row have a power of two as their unit. While the MMAs
/// run, the warpgroup finds out whether the elements of its rows are exact. If
/// not, their accumulators are dropped, and the partial accumulators of each
/// step are added to totals.
struct PromoteFolded {
  template <class Worker, class Scales, class Operands, class Ring>
  static __device__ __forceinline__ void run(Worker &worker, Scales &,
                                             const Operands &operands,
                                             Ring &ring, SplitSteps steps) {
    constexpr int kSets = Worker::kPieces > 1 ? 2 : 4;
    constexpr float kAsTheyAre[2] = {1, 1};
    typename Scales::Units units[Worker::kPieces];
    int warp = ptx::threadIndex() % 128 / 32, lane = ptx::threadIndex() % 32;
#pragma unroll 1
    for (int k = steps.first; k < steps.end; ++k) {
      operands.await(ring);
#pragma unroll
      for (int piece = 0; piece < Worker::kPieces; ++piece) {
        auto slab = Scales::load(operands.weights(ring.stage),
                                 operands.block + piece, warp, lane);
        const typename Scales::FoldedScales folded(slab);
        if (k == steps.first)
          units[piece] = folded.units();
        unsigned registers[kSets][4];
#pragma unroll
        for (int step = 0; step < 4; ++step) {
          auto &set = registers[step % kSets];
          // Waits until the MMA that reads this register set has completed.
          if (step >= kSets)
            ptx::waitForMultiplies<kSets - 1>();
          slab.convert(step, folded.tables(step, units[piece]), set);
          ptx::beginMultiply();
          worker.multiply(piece, step, set, operands.columns(k, ring.stage));
          ptx::commitMultiplies();
        }
        const bool isExact =
            ptx::allOf(operands.barrier(), 128, folded.isExact(units[piece]));
        ptx::waitForMultiplies<0>();
        worker.finish();
        const bool isLast = piece == Worker::kPieces - 1;
        const unsigned tokens = operands.scales(k, ring.stage);
        if (isExact) {
          if (!Scales::kTokenGroups && isLast)
            operands.giveBack(ring.stage);
          Scales::add(worker, worker.sums[0], piece, tokens, kAsTheyAre);
        } else {
          units[piece].apply(worker, piece);
          addSteps<Scales>(worker, operands, piece, k, ring.stage);
        }
        if ((Scales::kTokenGroups || !isExact) && isLast)
          operands.giveBack(ring.stage);
      }
      ring.advance();
    }
#pragma unroll
    for (int piece = 0; piece < Worker::kPieces; ++piece)
      units[piece].apply(worker, piece);
  }

  /// Multiplies the steps of a pipeline stage one at a time, and adds them to
  /// totals without a unit.
  template <class Scales, class Worker, class Operands>
  static __device__ __forceinline__ void addSteps(Worker &worker,
                                                  const Operands &operands,
                                                  int piece, int k, int stage) {
    int warp = ptx::threadIndex() % 128 / 32, lane = ptx::threadIndex() % 32;
    auto slab = Scales::load(operands.weights(stage), operands.block + piece,
                             warp, lane);
    const typename Scales::FoldedScales folded(slab);
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      unsigned registers[4];
      slab.convert(step, Scales::kTables, registers);
      ptx::beginMultiply();
      Worker::multiplyStep(worker.sums[0], step, registers,
                           operands.columns(k, stage));
      ptx::commitMultiplies();
      const float scale[2] = {folded.scale(step, 0), folded.scale(step, 1)};
      ptx::waitForMultiplies<0>();
      worker.finish();
      Scales::add(worker, worker.sums[0], piece, operands.scales(k, stage),
                  scale);
    }
  }
};

} // namespace moe
