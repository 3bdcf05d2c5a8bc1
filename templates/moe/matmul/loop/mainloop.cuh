//===- mainloop.cuh - mainloops of a warpgroup ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The loops of a warpgroup over the steps of k of a tile. A loop accesses the
// pipeline stages through a type Operands:
//
//   kTakesTurns          two warpgroups issue MMAs in turn
//   await(ring)          returns when the stage is full
//   rows(k, stage)       shared-memory address of the rows of the instruction
//   columns(k, stage)    shared-memory address of the columns
//   weights(stage)       shared-memory address of the CTA's weights
//   block                index of the warpgroup's first block of 64 weight rows
//   scales(k, stage)     shared-memory address of the tokens' scales
//   weightScales(stage)  shared-memory address of the scales of the warpgroup's
//                        weights
//   giveBack(stage)      releases the stage for this warpgroup
//   beginTurn()          with kTakesTurns: waits for the warpgroup's turn
//   endTurn()            with kTakesTurns: passes the turn on
//
// The engine determines the loop. Accumulate uses no scales. Promote multiplies
// partial accumulators by their scales. FromRegisters converts weights,
// PromoteFromRegisters does both, and PromoteSteps promotes after each step.
// Issue and IssuePromoted are for accumulators in tensor memory.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/matmul/loop/accumulate.cuh"
#include "moe/matmul/loop/convert.cuh"
#include "moe/matmul/loop/issue.cuh"
#include "moe/matmul/loop/promote.cuh"

namespace moe {

/// Returns the loop of a Config's engine.
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
