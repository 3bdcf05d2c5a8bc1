//===- Shares.cpp - the part of a layer on a rank -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/Shares.h"
#include "compiler/plan/LayerLimits.h"

#include <numeric>

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

ShardUnits compiler::shardUnitsOf(moe::LayerOp layer) {
  // Shares do not depend on the realization (how the layer's operands are
  // multiplied), so they are computed from the user's quantization.
  const moe::QuantAttr quant = layer.getUsersQuant();
  const Type multiplied = quant.dequantizesWeights()
                              ? layer.getComputeType()
                              : quant.getA2().getElement();
  int64_t piece = elementsPerPiece(multiplied.getIntOrFloatBitWidth());
  if (layer.isGated())
    piece = std::lcm(piece, kGateUpRun);
  int64_t group = piece;
  if (!quant.getW1().isPlain() && quant.getW1().getGroup()[0] > 1)
    group = std::lcm(group, quant.getW1().getGroup()[0]);
  if (!quant.getW2().isPlain() && quant.getW2().getGroup()[1] > 1)
    group = std::lcm(group, quant.getW2().getGroup()[1]);
  // Groups of quantized columns must not span shards, so that a shard is
  // quantized like the whole intermediate.
  if (!quant.getA2().isPlain() && quant.getA2().getGroup()[1] > 1)
    group = std::lcm(group, quant.getA2().getGroup()[1]);
  return {piece, group};
}

int64_t compiler::mostShards(int64_t whole, const ShardUnits &units) {
  return llvm::divideCeil(whole, units.piece);
}

/// Assigns experts to a rank. If the number of experts is not a multiple of the
/// number of ranks, the first ranks have one expert more, for every placement.
static void placeExperts(moe::LayerOp layer, int64_t rank, Share &share) {
  const moe::ParallelAttr parallel = layer.getParallel();
  const int64_t size = parallel.getExpertSize();
  const int64_t base = layer.getPhysicalExperts() / size;
  const int64_t rest = layer.getPhysicalExperts() % size;
  share.experts = base + (rank < rest ? 1 : 0);
  if (parallel.getPlacement() == "round_robin") {
    share.firstExpert = rank;
    share.stride = size;
  } else {
    share.firstExpert = rank * base + std::min(rank, rest);
  }
}

namespace {
struct Columns {
  int64_t first = 0, count = 0;
};
} // namespace

/// Distributes `whole` columns over shards in units of `unit` columns, and
/// returns the columns of one shard. If the number of units is not a multiple
/// of the number of shards, the first shards have one unit more. The last unit
/// may be incomplete. Shards may therefore differ in size, but need no padding.
static Columns dealOut(int64_t whole, int64_t unit, int64_t shards,
                       int64_t shard) {
  const int64_t units = llvm::divideCeil(whole, unit);
  const int64_t base = units / shards, rest = units % shards;
  const int64_t first = unit * (shard * base + std::min(shard, rest));
  return {first,
          std::min(unit * (base + (shard < rest ? 1 : 0)), whole - first)};
}

/// Returns the columns of a shard if there are fewer groups than shards.
/// Several shards divide a group, and each shard is inside one group, so that
/// its columns have one scale. Shards are assigned to groups one by one: each
/// further shard goes to the group whose largest shard has the most columns,
/// and on a tie to the first such group.
static Columns placeInGroups(int64_t whole, const ShardUnits &units,
                             int64_t shards, int64_t shard) {
  const int64_t groups = llvm::divideCeil(whole, units.group);
  const auto columnsOf = [&](int64_t group) {
    return std::min(units.group, whole - group * units.group);
  };
  SmallVector<int64_t> shardsOf(groups, 1);
  const auto largestOf = [&](int64_t group) {
    return dealOut(columnsOf(group), units.piece, shardsOf[group], 0).count;
  };
  for (int64_t i = groups; i < shards; ++i) {
    int64_t largest = 0;
    for (int64_t group = 1; group < groups; ++group)
      if (largestOf(group) > largestOf(largest))
        largest = group;
    ++shardsOf[largest];
  }
  int64_t group = 0;
  for (; shard >= shardsOf[group]; ++group)
    shard -= shardsOf[group];
  Columns made = dealOut(columnsOf(group), units.piece, shardsOf[group], shard);
  made.first += group * units.group;
  return made;
}

/// Returns the columns of a shard. Shards have equal sizes if these are whole
/// groups.
static Columns placeColumns(int64_t whole, const ShardUnits &units,
                            int64_t shards, int64_t shard) {
  if (shards == 1 || whole % (shards * units.group) == 0)
    return {shard * (whole / shards), whole / shards};
  if (int64_t(llvm::divideCeil(whole, units.group)) >= shards)
    return dealOut(whole, units.group, shards, shard);
  return placeInGroups(whole, units, shards, shard);
}

/// Returns the number of ranks with different tokens whose tokens the package
/// gathers.
static int64_t gatheredRanks(moe::LayerOp layer) {
  const moe::ParallelAttr parallel = layer.getParallel();
  return layer.communicates()
             ? parallel.getDp() * parallel.getPcp() * parallel.getSp()
             : 1;
}

std::string compiler::whySharedMlp(moe::LayerOp layer) {
  const int64_t count = layer.getNSharedExperts().value_or(0);
  if (count == 0)
    return "";
  const int64_t intermediate = layer.getIntermediateSize();
  if (layer.getSharedWidth() != count * intermediate)
    return ("each has an intermediate of " +
            llvm::Twine(layer.getSharedWidth() / count) + ", the others of " +
            llvm::Twine(intermediate))
        .str();
  if (layer.getParallel().usesExpertParallelism())
    return "the others are spread over ranks, and every token takes these";
  if (gatheredRanks(layer) > 1)
    return "the others take tokens of all ranks, and these of one";
  return "";
}

int64_t compiler::sharedShards(moe::LayerOp layer) {
  return layer.getParallel().getFlatSize() / gatheredRanks(layer);
}

Share compiler::shareOf(moe::LayerOp layer, int64_t rank) {
  const bool spreads = layer.getParallel().usesExpertParallelism();
  Share share;
  placeExperts(layer, spreads ? rank : 0, share);
  const ShardUnits units = shardUnitsOf(layer);
  const Columns columns =
      placeColumns(layer.getIntermediateSize(), units,
                   layer.getParallel().getShardSize(), spreads ? 0 : rank);
  share.firstColumn = columns.first, share.columns = columns.count;
  if (whySharedMlp(layer).empty()) {
    // Shared experts without separate weights are sharded like the routed
    // experts.
    share.experts += layer.getNSharedExperts().value_or(0);
  } else {
    // Ranks with the same tokens are consecutive.
    const int64_t shards = sharedShards(layer);
    const Columns own =
        placeColumns(layer.getSharedWidth(), units, shards, rank % shards);
    share.firstSharedColumn = own.first, share.sharedColumns = own.count;
  }
  // The outputs of all ranks are summed, so exactly one rank must add each of
  // these terms.
  share.addsW2Bias = spreads || rank == 0;
  share.addsZeroExperts = rank == 0;
  return share;
}
