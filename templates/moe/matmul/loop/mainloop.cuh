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

#include "moe/core/concepts.cuh"
#include "moe/matmul/loop/accumulate.cuh"
#include "moe/matmul/loop/convert.cuh"
#include "moe/matmul/loop/issue.cuh"
#include "moe/matmul/loop/promote.cuh"

namespace moe {

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
