//===- contract.cuh - what the parts of a matmul ask of others --*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A matmul is a machine of parts. Roles say which warps do what, feeds bring
// the operands of a stage to shared memory, a loop goes over the stages, an
// atom issues the instructions, an accumulator holds their sums, and an
// epilogue stores them. An engine is an atom and the accumulator of its sums.
// A kernel checks here, before anything else, that the engine of its Config has
// every member that the other parts use. The first error of a compiler names
// the one that is missing.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/types.cuh"

namespace moe {

namespace detail {
/// Stands for a function of the index of a sum that gives its scale.
struct AnyScale {
  __device__ float operator()(int) const { return 1.0f; }
};
/// Stands for a function that gives the row of lhs of a row of a tile.
struct AnyRow {
  __device__ int operator()(int) const { return 0; }
};
} // namespace detail

/// The members of every engine.
template <class Mma> constexpr bool checkEngine() {
  MOE_REQUIRE_TYPE(Mma, Input, "element type of both operands");
  MOE_REQUIRE_VALUE(Mma, kStepK, "elements of k of one instruction");
  MOE_REQUIRE_VALUE(Mma, kPromoted, "whether sums are added to totals along k");
  return true;
}

/// The sums of a warpgroup for a tile: a Fragment that can be begun, exchanged
/// and scaled. kPromoted: the engine's.
template <class Sums, bool kPromoted>
constexpr bool checkWarpgroupAccumulator() {
  static_assert(checkFragment<Sums>());
  MOE_REQUIRE_VALUE(Sums, kAtomSize, "sums of a thread of 64 rows");
  MOE_REQUIRE_VALUE(Sums, kPieces, "pieces that are multiplied one by one");
  MOE_REQUIRE_VALUE(Sums, kPieceSize, "sums of a thread of a piece");
  MOE_REQUIRE_VALUE(Sums, kPieceColumns, "columns of a piece");
  MOE_REQUIRE_VALUE(Sums, kPiecesOfAtom, "pieces of 64 rows");
  MOE_REQUIRE_CALL(Sums, rowOfThread(0), "first row of a thread's sums");
  MOE_REQUIRE_CALL(Sums, begin(0, 0), "sums of zero, and their place");
  MOE_REQUIRE_CALL(Sums, place(0, 0), "which rows and columns the sums are of");
  MOE_REQUIRE_CALL(Sums, finish(), "called between the last wait and a read");
  MOE_REQUIRE_CALL(Sums, set(0, 0.0f), "what value(i) gives");
  MOE_REQUIRE_CALL(Sums, scale(0, 0.0f), "multiplies what value(i) gives");
  MOE_REQUIRE_CALL(Sums, increase(0, 0.0f), "adds to what value(i) gives");
  if constexpr (kPromoted)
    MOE_REQUIRE_CALL(Sums,
                     template add<Sums::kPieceSize>(0, 0, detail::AnyScale()),
                     "adds the scaled sums of a piece to the totals");
  return true;
}

/// An engine whose warpgroups multiply out of shared memory, for
/// roles/produce_consume.cuh. kTokens: of a tile.
template <class Mma, int kTokens> constexpr bool checkWarpgroupEngine() {
  MOE_REQUIRE_VALUE(Mma, kTokensAreColumns,
                    "whether the rows of an instruction are weight rows");
  MOE_REQUIRE_VALUE(Mma, kRows, "rows of a warpgroup, 64 or 128");
  MOE_REQUIRE_VALUE(Mma, kRowBytes, "bytes of an operand's row in a stage");
  static_assert(
      requires { typename Mma::template Worker<kTokens>; },
      "Mma lacks the type Worker<kTokens> (sums, and the multiplies that add "
      "to "
      "them)");
  using Worker = typename Mma::template Worker<kTokens>;
  static_assert(checkWarpgroupAccumulator<Worker, Mma::kPromoted>());
  if constexpr (sumsInTensorMemory<Mma>) {
    MOE_REQUIRE_VALUE(Worker, kSumColumns, "columns of tensor memory");
    if constexpr (scalesBlocks<Mma>) {
      MOE_REQUIRE_VALUE(Worker, kScaleColumns, "columns of a stage's scales");
      MOE_REQUIRE_CALL(Worker, issue(0u, 0u, 0u, 0, false, 0u, 0u),
                       "begins to copy the scales of a stage to tensor memory "
                       "and to multiply");
    } else {
      MOE_REQUIRE_CALL(Worker, issue(0u, 0u, 0u, 0, false),
                       "begins to multiply a stage into tensor memory");
    }
    if constexpr (Mma::kPromoted)
      MOE_REQUIRE_CALL(Worker, readPiece(0u, 0, 0),
                       "reads the sums of a piece");
    else
      MOE_REQUIRE_CALL(Worker, read(0u, 0), "reads the sums of so many tokens");
  } else if constexpr (takesSlabs<Mma>)
    MOE_REQUIRE_MEMBER(Worker, multiply,
                       "(atom, step, weights, tokens) begins to multiply "
                       "registers by shared memory");
  else if constexpr (Mma::kPromoted)
    MOE_REQUIRE_CALL(Worker, multiplyPiece(0, 0u, 0u),
                     "begins to multiply a piece of a stage");
  else
    MOE_REQUIRE_CALL(Worker, multiplyAll(0u, 0u),
                     "begins to multiply all pieces of a stage");
  return true;
}

/// The sums of a thread whose tokens are rows, where they have scales: the
/// thread's different rows and columns (feed/scales.cuh).
template <class Sums> constexpr bool checkScaledFragment() {
  MOE_REQUIRE_VALUE(Sums, kWarpN, "weight rows of a warp");
  MOE_REQUIRE_VALUE(Sums, kRows, "different rows of a thread's sums");
  MOE_REQUIRE_VALUE(Sums, kColumns, "different columns");
  MOE_REQUIRE_CALL(Sums, heldRow(0), "each of the rows");
  MOE_REQUIRE_CALL(Sums, heldCol(0), "each of the columns");
  MOE_REQUIRE_CALL(Sums, firstHeldCol(), "the first column");
  MOE_REQUIRE_CALL(Sums, rowSlot(0), "which of the rows sum i is in");
  MOE_REQUIRE_CALL(Sums, colSlot(0), "which of the columns");
  return true;
}

/// An engine whose warps form a grid, for roles/grid.cuh. kScaled: its sums
/// have scales.
template <class Mma, class Schedule, bool kScaled>
constexpr bool checkGridEngine() {
  static_assert(
      requires { typename Mma::template Worker<Schedule>; },
      "Mma lacks the type Worker<Schedule> (sums of a warp, its operands, and "
      "the multiplies that add to them)");
  using Worker = typename Mma::template Worker<Schedule>;
  static_assert(checkFragment<Worker>());
  MOE_REQUIRE_TYPE(Worker, Operands, "registers of a step's operands");
  if constexpr (takesSlabs<Mma>) {
    MOE_REQUIRE_VALUE(Worker, kSlabs, "slabs of 16 weight rows of a warp");
    MOE_REQUIRE_VALUE(Worker, kParts, "parts in which tokens are read");
    MOE_REQUIRE_MEMBER(Worker, load,
                       "(operands, tokens, step, part) reads them");
    MOE_REQUIRE_MEMBER(Worker, multiply, "(weights, operands, part)");
  } else {
    using Operands = typename Worker::Operands;
    static_assert(
        requires(Worker &worker, Operands &operands) {
          worker.load(operands, 0u, 0u, 0);
        }, "Worker lacks load(operands, lhs, rhs, step) (reads the operands of "
           "a step out of shared memory)");
    if constexpr (kScaled)
      static_assert(checkScaledFragment<Worker>());
    if constexpr (scalesBlocks<Mma>)
      MOE_REQUIRE_CALL(Worker, scale(0, 0.0f),
                       "multiplies what value(i) gives");
    static_assert(
        requires(Worker &worker, const Operands &operands) {
          worker.multiply(operands);
        }, "Worker lacks multiply(operands)");
  }
  if constexpr (Mma::kPromoted)
    MOE_REQUIRE_CALL(Worker, promote(detail::AnyScale()),
                     "moves the scaled sums to the totals");
  return true;
}

/// A feed brings the weights of a stage to roles/produce_consume.cuh.
template <class Feed> constexpr bool checkWeightFeed() {
  MOE_REQUIRE_VALUE(Feed, kBytes, "bytes of a stage");
  MOE_REQUIRE_VALUE(Feed, kRowBytes, "bytes of a weight row of a stage");
  MOE_REQUIRE_CALL(Feed, prefetch(), "before the first copy");
  MOE_REQUIRE_CALL(Feed, copy(0u, 0, 0, 0, 0u),
                   "begins to copy a step of k, which arrives at a barrier");
  return true;
}

/// A feed brings the scales of blocks of both operands to a stage of
/// loop/multistage.cuh.
template <class Feed, class Args> constexpr bool checkBlockScaleFeed() {
  MOE_REQUIRE_CALL(
      Feed, set(*static_cast<const Args *>(nullptr), 0, 0, 0, detail::AnyRow()),
      "where the rows of a tile have their scales");
  MOE_REQUIRE_CALL(Feed, copy(0u, 0), "begins to copy those of a step of k");
  return true;
}

} // namespace moe
