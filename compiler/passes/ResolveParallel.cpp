//===- ResolveParallel.cpp - what this rank holds of each layer -----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Flattens dp, pcp and tp: without expert parallelism the intermediate is
// split over all of them, with it the experts are.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"
#include "compiler/passes/Targets.h"

namespace moec::compiler {
#define GEN_PASS_DEF_RESOLVEPARALLELPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;

namespace {

/// Which experts a rank holds: begin + i * stride, `count` of them.
struct Placement {
  int64_t begin, count, stride;
};

/// The remainder goes to the first ranks, whatever the placement.
Placement placeExperts(int64_t experts, moe::ParallelAttr parallel) {
  const int64_t size = parallel.getExpertSize();
  const int64_t rank = parallel.getExpertRank();
  const int64_t base = experts / size, rest = experts % size;
  const int64_t count = base + (rank < rest ? 1 : 0);
  if (parallel.getPlacement() == "round_robin")
    return {rank, count, size};
  return {rank * base + std::min(rank, rest), count, 1};
}

LogicalResult resolve(moe::LayerOp layer) {
  const moe::ParallelAttr parallel = layer.getParallel();
  const int64_t shards = parallel.getShardSize();
  const int64_t intermediate = layer.getIntermediate();
  if (intermediate % shards != 0)
    return compiler::refuse(
        layer, "size_not_supported",
        "intermediate " + Twine(intermediate) + " does not divide into " +
            Twine(shards) +
            " shards (dp * pcp * tp); accepted: sizes that divide it");
  const int64_t ranks = parallel.getExpertSize();
  if (ranks > layer.getPhysicalExperts())
    return compiler::refuse(layer, "size_not_supported",
                            Twine(layer.getPhysicalExperts()) +
                                " experts do not give each of " + Twine(ranks) +
                                " ranks one; accepted: at most as many ranks "
                                "(dp * pcp * tp) as experts");
  const Placement placement =
      placeExperts(layer.getPhysicalExperts(), parallel);
  layer.setLocalIntermediate(intermediate / shards);
  layer.setLocalBegin(placement.begin);
  // Shared experts are sharded as the others are, or refused later.
  layer.setLocalExperts(
      placement.count +
      (ranks == 1 ? layer.getNumSharedExperts().value_or(0) : 0));
  if (placement.stride != 1)
    layer.setLocalStride(placement.stride);
  // The ranks' outputs are summed, and the bias must be in the sum once.
  layer.setW2Bias(parallel.getShardRank() == 0);
  return success();
}

struct ResolveParallelPass
    : compiler::impl::ResolveParallelPassBase<ResolveParallelPass> {
  using Base::Base;

  void runOnOperation() override {
    bool failed = false;
    for (auto layer : getOperation().getOps<moe::LayerOp>())
      failed |= mlir::failed(resolve(layer));
    if (failed)
      signalPassFailure();
  }
};

} // namespace
