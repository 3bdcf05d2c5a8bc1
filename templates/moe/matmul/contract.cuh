//===- contract.cuh - interface between the parts of a matmul ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interfaces between the six parts of a matmul kernel:
//
//   roles        assign work to warps (moe/matmul/roles)
//   feed         copies the operands of a pipeline stage to shared memory
//                (moe/matmul/feed)
//   loop         iterates over the pipeline stages (moe/matmul/loop)
//   atom         issues the MMA instructions (moe/matmul/atom)
//   accumulator  holds the MMA results (moe/matmul/accumulator)
//   epilogue     stores the result (moe/matmul/epilogue)
//
// Scales that change along k multiply the accumulators of each pipeline stage,
// in the loop. Scales per row or column multiply the final accumulators: before
// the epilogue in warp-specialized kernels, and in it in grid kernels.
//
// An engine is an atom together with its accumulator. Each kernel first checks
// here that the engine of its Config has all members that the other parts use,
// so that the first compiler error names the missing member. The last argument
// of each check describes the member.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/types.cuh"

namespace moe {

namespace detail {
/// A placeholder for a callable that maps an accumulator index to a scale.
struct AnyScale {
  __device__ float operator()(int) const { return 1.0f; }
};
/// A placeholder for a callable that maps a row of the tile to a row of lhs.
struct AnyRow {
  __device__ int operator()(int) const { return 0; }
};
} // namespace detail

/// Checks the members of every engine.
template <class Mma> constexpr bool checkEngine() {
  MOE_REQUIRE_TYPE(Mma, Input, "element type of both operands");
  MOE_REQUIRE_VALUE(Mma, kStepK, "elements along k per MMA instruction");
  MOE_REQUIRE_VALUE(Mma, kPromoted,
                    "true if accumulators are added to totals along k");
  return true;
}

/// Checks a warpgroup's accumulators for a tile. `Sums`: the class that holds
/// them. It is a Fragment (moe/core/concepts.cuh) that can also be cleared, set
/// and scaled. `kPromoted`: the engine adds partial accumulators to f32 totals
/// along k, and value(i) returns a total.
///
/// A thread's accumulators are ordered by row block, then by piece. A row
/// block, called atom in identifiers, is the 64 rows of an MMA instruction;
/// accumulator i belongs to row block i / kAtomSize. A piece is a block of 64
/// rows by kPieceColumns columns, kPieceSize accumulators per thread. A wgmma
/// instruction writes one piece, and a tcgen05 instruction, which has 128 rows,
/// writes two. The instructions of successive k steps add to the same piece.
///
///   begin(thread, warpgroup)  clears the accumulators, and calls place()
///   place(thread, warpgroup)  stores the position of the accumulators
///   finish()                  is called after each wait for MMAs whose
///                             accumulators are read next, before add() or
///                             value()
///   add<kCount>(piece, first, scale)
///                             adds kCount accumulators of a piece, from index
///                             `first` on, to the totals; accumulator first + i
///                             is multiplied by scale(i)
template <class Sums, bool kPromoted>
constexpr bool checkWarpgroupAccumulator() {
  static_assert(checkFragment<Sums>());
  MOE_REQUIRE_VALUE(Sums, kAtomSize, "accumulators per thread for 64 rows");
  MOE_REQUIRE_VALUE(Sums, kPieces,
                    "pieces, each an accumulator block of 64 MMA rows");
  MOE_REQUIRE_VALUE(Sums, kPieceSize, "accumulators per thread of a piece");
  MOE_REQUIRE_VALUE(Sums, kPieceColumns, "columns of a piece");
  MOE_REQUIRE_VALUE(Sums, kPiecesOfAtom, "pieces per 64 rows");
  MOE_REQUIRE_CALL(Sums, rowOfThread(0),
                   "first row of a thread's accumulators");
  MOE_REQUIRE_CALL(Sums, begin(0, 0),
                   "clears the accumulators and stores their position");
  MOE_REQUIRE_CALL(Sums, place(0, 0),
                   "stores the position of the accumulators");
  MOE_REQUIRE_CALL(Sums, finish(),
                   "called after a wait for MMAs and before a read");
  MOE_REQUIRE_CALL(Sums, set(0, 0.0f), "sets accumulator i");
  MOE_REQUIRE_CALL(Sums, scale(0, 0.0f), "multiplies accumulator i");
  MOE_REQUIRE_CALL(Sums, increase(0, 0.0f), "adds to accumulator i");
  if constexpr (kPromoted)
    MOE_REQUIRE_CALL(Sums,
                     template add<Sums::kPieceSize>(0, 0, detail::AnyScale()),
                     "adds the scaled accumulators of a piece to the totals");
  return true;
}

/// Checks an engine whose warpgroups multiply operands from shared memory, for
/// the warp roles of moe/matmul/roles/produce_consume.cuh. `kTokens`: tokens
/// per tile.
///
/// Each warpgroup has one Worker of type Worker<kTokens>, or of a type with
/// fewer tokens if the tile has few rows (withTokens in
/// moe/matmul/roles/ring.cuh). A new Worker is uninitialized until begin(). The
/// engine has one of the following interfaces. Each member issues MMAs and does
/// not wait for them.
///
///   multiplyAll(rows, columns)             accumulators in registers
///   multiplyPiece(piece, rows, columns)    accumulators in registers, promoted
///   multiply(atom, step, weights, tokens)  weights in registers (takesSlabs)
///   issue(sums, rows, columns, tokens, isFirst)
///                                          accumulators in tensor memory
///   issue(..., scales, columnsOfScales)    like issue(), with block scales
///
/// `rows`, `columns`: shared-memory addresses of the operands in a pipeline
/// stage, at the warpgroup's first row and at the tile's first column.
/// Accumulators in tensor memory are afterwards loaded with read(address,
/// tokens), or with readPiece(address, piece, tokens) if kPromoted.
template <class Mma, int kTokens> constexpr bool checkWarpgroupEngine() {
  MOE_REQUIRE_VALUE(Mma, kTokensAreColumns,
                    "true if the rows of an instruction are weight rows");
  MOE_REQUIRE_VALUE(Mma, kRows, "rows of a warpgroup, 64 or 128");
  MOE_REQUIRE_VALUE(Mma, kRowBytes, "bytes of an operand row in a stage");
  static_assert(
      requires { typename Mma::template Worker<kTokens>; },
      "Mma lacks the type Worker<kTokens> (accumulators, and the MMAs that add "
      "to them)");
  using Worker = typename Mma::template Worker<kTokens>;
  static_assert(checkWarpgroupAccumulator<Worker, Mma::kPromoted>());
  if constexpr (sumsInTensorMemory<Mma>) {
    MOE_REQUIRE_VALUE(Worker, kSumColumns,
                      "tensor-memory columns of the accumulators");
    if constexpr (scalesBlocks<Mma>) {
      MOE_REQUIRE_VALUE(Worker, kScaleColumns,
                        "tensor-memory columns of a stage's scales");
      MOE_REQUIRE_CALL(Worker, issue(0u, 0u, 0u, 0, false, 0u, 0u),
                       "issues the copies of a stage's scales to tensor "
                       "memory, and the stage's MMAs");
    } else {
      MOE_REQUIRE_CALL(Worker, issue(0u, 0u, 0u, 0, false),
                       "issues a stage's MMAs into tensor memory");
    }
    if constexpr (Mma::kPromoted)
      MOE_REQUIRE_CALL(Worker, readPiece(0u, 0, 0),
                       "reads the accumulators of a piece");
    else
      MOE_REQUIRE_CALL(Worker, read(0u, 0),
                       "reads the accumulators of `tokens` tokens");
  } else if constexpr (takesSlabs<Mma>)
    MOE_REQUIRE_MEMBER(Worker, multiply,
                       "(atom, step, weights, tokens) issues the MMAs of "
                       "weights in registers and tokens in shared memory");
  else if constexpr (Mma::kPromoted)
    MOE_REQUIRE_CALL(Worker, multiplyPiece(0, 0u, 0u),
                     "issues a stage's MMAs for one piece");
  else
    MOE_REQUIRE_CALL(Worker, multiplyAll(0u, 0u),
                     "issues a stage's MMAs for all pieces");
  return true;
}

/// Checks a thread's accumulators whose rows are tokens and whose operands have
/// scales. moe/matmul/feed/scales.cuh queries the thread's distinct rows and
/// columns to load one scale for each.
template <class Sums> constexpr bool checkScaledFragment() {
  MOE_REQUIRE_VALUE(Sums, kWarpN, "weight rows of a warp");
  MOE_REQUIRE_VALUE(Sums, kRows, "rows that a thread accumulates");
  MOE_REQUIRE_VALUE(Sums, kColumns, "columns that a thread accumulates");
  MOE_REQUIRE_CALL(Sums, heldRow(0), "row i of the thread's accumulators");
  MOE_REQUIRE_CALL(Sums, heldCol(0), "column i of the thread's accumulators");
  MOE_REQUIRE_CALL(Sums, firstHeldCol(), "the first column");
  MOE_REQUIRE_CALL(Sums, rowSlot(0),
                   "row index of accumulator i among the thread's rows");
  MOE_REQUIRE_CALL(Sums, colSlot(0),
                   "column index of accumulator i among the thread's columns");
  return true;
}

/// Checks an engine whose warps form a grid over the tile, for
/// moe/matmul/roles/grid.cuh. `kScaled`: the accumulators are multiplied by
/// scales. Each thread has one Worker, which is constructed from threadIdx.x.
///
///   load(operands, lhs, rhs, step)  loads the operand registers of one step
///                                   along k. `lhs`, `rhs`: shared-memory
///                                   addresses of the stage's operand tiles
///   multiply(operands)              multiplies a step and adds the products to
///                                   the accumulators
///   promote(scale)                  if kPromoted: adds accumulator i times
///                                   scale(i) to total i, and clears the
///                                   accumulator
///
/// An engine whose weights are in slabs (takesSlabs) has these members instead:
///
///   load(operands, tokens, step, part)  loads the token operands of part
///                                       `part` (0 <= part < kParts) for one
///                                       step. `tokens`: shared-memory address
///                                       of the token tile
///   multiply(weights, operands, part)   multiplies the weights of all slabs by
///                                       the tokens of part `part`. `weights`:
///                                       A registers of each slab for the step
template <class Mma, class Schedule, bool kScaled>
constexpr bool checkGridEngine() {
  static_assert(
      requires { typename Mma::template Worker<Schedule>; },
      "Mma lacks the type Worker<Schedule> (a warp's accumulators, its "
      "operands, and the MMAs that add to them)");
  using Worker = typename Mma::template Worker<Schedule>;
  static_assert(checkFragment<Worker>());
  MOE_REQUIRE_TYPE(Worker, Operands, "registers of a step's operands");
  if constexpr (takesSlabs<Mma>) {
    MOE_REQUIRE_VALUE(Worker, kSlabs, "slabs of 16 weight rows per warp");
    MOE_REQUIRE_VALUE(Worker, kParts, "parts in which tokens are loaded");
    MOE_REQUIRE_MEMBER(
        Worker, load,
        "(operands, tokens, step, part) loads the token operands");
    MOE_REQUIRE_MEMBER(Worker, multiply, "(weights, operands, part)");
  } else {
    using Operands = typename Worker::Operands;
    static_assert(
        requires(Worker &worker, Operands &operands) {
          worker.load(operands, 0u, 0u, 0);
        }, "Worker lacks load(operands, lhs, rhs, step) (loads a step's "
           "operands from shared memory)");
    if constexpr (kScaled)
      static_assert(checkScaledFragment<Worker>());
    if constexpr (scalesBlocks<Mma>)
      MOE_REQUIRE_CALL(Worker, scale(0, 0.0f), "multiplies accumulator i");
    static_assert(
        requires(Worker &worker, const Operands &operands) {
          worker.multiply(operands);
        }, "Worker lacks multiply(operands)");
  }
  if constexpr (Mma::kPromoted)
    MOE_REQUIRE_CALL(Worker, promote(detail::AnyScale()),
                     "adds the scaled accumulators to the totals");
  return true;
}

/// Checks a feed that copies a pipeline stage's weights to shared memory, for
/// moe/matmul/roles/produce_consume.cuh.
///
///   prefetch()  prefetches tensor maps; one thread calls it before the first
///               copy
///   copy(to, firstN, k, expert, barrier)
///               issues the copy of k tile `k` of the expert's weight rows,
///               from row firstN on, to shared-memory address `to`; one thread
///               calls it, and the copy completes on the mbarrier
template <class Feed> constexpr bool checkWeightFeed() {
  MOE_REQUIRE_VALUE(Feed, kBytes, "bytes of a stage");
  MOE_REQUIRE_VALUE(Feed, kRowBytes, "bytes per weight row and pipeline stage");
  MOE_REQUIRE_CALL(Feed, prefetch(), "called before the first copy");
  MOE_REQUIRE_CALL(
      Feed, copy(0u, 0, 0, 0, 0u),
      "issues the copy of a k tile, which completes on an mbarrier");
  return true;
}

/// Checks a feed that copies both operands' block scales to a pipeline stage,
/// for moe/matmul/loop/multistage.cuh.
///
///   set(args, expert, firstN, rows, source)
///                       computes the scale addresses of a tile, which starts
///                       at weight row firstN; source(r) is the row of lhs for
///                       row r of the tile
///   copy(offset, tile)  issues the copy of the scales of k tile `tile` to the
///                       stage at byte offset `offset` in the ring
template <class Feed, class Args> constexpr bool checkBlockScaleFeed() {
  MOE_REQUIRE_CALL(
      Feed, set(*static_cast<const Args *>(nullptr), 0, 0, 0, detail::AnyRow()),
      "computes the scale addresses of a tile");
  MOE_REQUIRE_CALL(Feed, copy(0u, 0), "issues the copies of a k tile");
  return true;
}

} // namespace moe
