//===- mainloop.cuh - mainloops of a warpgroup ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The mainloops of a consumer warpgroup: loops over the k tiles (pipeline
// stages) of an output tile. A loop accesses the pipeline stages through a type
// Operands, which each kernel defines:
//
//   kTakesTurns          true if two warpgroups issue MMAs in turn
//   await(ring)          waits until the stage is full: awaitCopies(ring), then
//                        fenceCopies(), after which MMAs may read the stage
//   rows(k, stage)       returns the shared-memory address of the MMA's row
//                        operand
//   columns(k, stage)    returns the address of the MMA's column operand
//   weights(stage)       returns the address of all of the CTA's weights
//   block                index of the warpgroup's first block of 64 weight rows
//   scales(k, stage)     returns the address of the tokens' scales
//   weightScales(stage)  returns the address of the warpgroup's weight scales
//   giveBack(stage)      releases the stage for this warpgroup
//   beginTurn()          waits for the warpgroup's turn [if kTakesTurns]
//   endTurn()            passes the turn to the other warpgroup [if
//                        kTakesTurns]
//
// Loops for accumulators in tensor memory also use sums, paddedTokens(),
// emptyBarrier(), multiplied() and barrier(), see
// moe/matmul/roles/produce_consume.cuh.
//
// The engine and its weights determine the loop:
//
//   Accumulate            accumulates over all of k; no scales in the loop
//   Promote               scales the partial accumulators of each stage and
//                         adds them to totals
//   FromRegisters         converts weights in registers, then like Accumulate
//   PromoteFromRegisters  converts weights in registers, then like Promote
//   PromoteSteps          like PromoteFromRegisters, but for each step of k
//   PromoteFolded         like PromoteFromRegisters; scales of steps are powers
//                         of two and part of the converted weights
//   Issue                 like Accumulate, for tensor memory
//   IssuePromoted         like Promote, for tensor memory
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/matmul/feed/slab_stage.cuh"
#include "moe/matmul/loop/accumulate.cuh"
#include "moe/matmul/loop/convert.cuh"
#include "moe/matmul/loop/issue.cuh"
#include "moe/matmul/loop/promote.cuh"

namespace moe {

/// Returns the mainloop for a Config's engine and weights.
template <class Config> constexpr auto mainloopOf() {
  using Mma = typename Config::Mma;
  constexpr bool kStepGroups =
      Config::Quant::kPromoteK == 32 / int(sizeof(typename Config::Input));
  if constexpr (takesSlabs<Mma> && Mma::kPromoted) {
    if constexpr (foldsScales<Config>)
      return PromoteFolded{};
    else if constexpr (kStepGroups)
      return PromoteSteps{};
    else
      return PromoteFromRegisters{};
  } else if constexpr (takesSlabs<Mma>)
    return FromRegisters{};
  else if constexpr (sumsInTensorMemory<Mma> && Mma::kPromoted)
    return IssuePromoted{};
  else if constexpr (sumsInTensorMemory<Mma>)
    return Issue{};
  else if constexpr (Mma::kPromoted)
    return Promote{};
  else
    return Accumulate{};
}

} // namespace moe
