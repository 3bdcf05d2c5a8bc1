//===- ResolveParallel.cpp - what this rank holds of each layer -----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Flattens dp, pcp and tp: without expert parallelism the intermediate is
// split over all of them, with it the experts are. And says what the rank
// expects of the others: tokens before it runs, sums behind.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"
#include "compiler/passes/Targets.h"
#include "compiler/plan/Communication.h"
#include "compiler/plan/ProgramValues.h"

#include <numeric>

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

/// A rank's columns of the intermediate.
struct Shard {
  int64_t begin, count;
};

/// What a shard consists of whole numbers of: 16 bytes of the second matmul's
/// operands, runs of gate rows, and rows or columns that share a weight scale.
int64_t shardUnit(moe::LayerOp layer) {
  constexpr int64_t kRowBytes = 16, kInterleave = 8;
  const moe::QuantAttr quant = layer.getQuant();
  const Type multiplied = quant.dequantizesWeights()
                              ? layer.getComputeType()
                              : quant.getA2().getElement();
  int64_t unit = kRowBytes * 8 / multiplied.getIntOrFloatBitWidth();
  if (layer.isGated())
    unit = std::lcm(unit, kInterleave);
  if (!quant.getW1().isPlain() && quant.getW1().getGroup()[0] > 1)
    unit = std::lcm(unit, quant.getW1().getGroup()[0]);
  if (!quant.getW2().isPlain() && quant.getW2().getGroup()[1] > 1)
    unit = std::lcm(unit, quant.getW2().getGroup()[1]);
  // Shards of the intermediate are quantized as the whole of it.
  if (!quant.getA2().isPlain() && quant.getA2().getGroup()[1] > 1)
    unit = std::lcm(unit, quant.getA2().getGroup()[1]);
  return unit;
}

/// Equal shards where they consist of whole units. Else units are dealt out, of
/// which the first ranks get the remainder and the last one may be cut: shards
/// of several sizes, but no padding.
FailureOr<Shard> placeShard(moe::LayerOp layer) {
  const int64_t shards = layer.getParallel().getShardSize();
  const int64_t shard = layer.getParallel().getShardRank();
  const int64_t whole = layer.getIntermediate();
  const int64_t unit = shardUnit(layer);
  if (shards == 1 || whole % (shards * unit) == 0)
    return Shard{shard * (whole / shards), whole / shards};
  const int64_t units = llvm::divideCeil(whole, unit);
  if (units < shards) {
    (void)compiler::refuse(
        layer, "size_not_supported",
        "intermediate " + Twine(whole) + " does not give each of " +
            Twine(shards) + " shards (dp * pcp * tp) " + Twine(unit) +
            " columns; accepted: at most " + Twine(units) + " shards");
    return failure();
  }
  const int64_t base = units / shards, rest = units % shards;
  const int64_t begin = unit * (shard * base + std::min(shard, rest));
  const int64_t count = unit * (base + (shard < rest ? 1 : 0));
  return Shard{begin, std::min(count, whole - begin)};
}

/// A way to send rows to the ranks of their experts and results back.
struct Transport {
  StringRef name;
  /// Rows come as [local experts, most tokens, hidden] with a count of each.
  bool batched;
};

constexpr StringLiteral kGatherScatter = "allgather_reducescatter";

/// What earlier versions of vLLM called a transport, and what became of it.
struct FormerTransport {
  StringRef name;
  StringRef successor;       ///< that does the same; "" if there is none
  StringRef successors = {}; ///< those that a refusal names
};

const FormerTransport kFormerTransports[] = {
    // ParallelConfig takes it so.
    {"naive", kGatherScatter},
    {"flashinfer_all2allv", "flashinfer_nvlink_two_sided"},
    // MoriAll2AllManager had the kernels of it alone (InterNodeV1).
    {"mori", "mori_high_throughput"},
    // Its rows came by expert; ParallelConfig takes it as one of which they do
    // not.
    {"pplx", "",
     "deepep_low_latency or nixl_ep, which bring rows by expert likewise, or "
     "allgather_reducescatter, which vLLM takes in its place"},
};

const Transport kTransports[] = {
    {kGatherScatter, false},
    {"deepep_high_throughput", false},
    {"deepep_low_latency", true},
    {"deepep_v2", false},
    {"flashinfer_nvlink_one_sided", false},
    {"flashinfer_nvlink_two_sided", false},
    {"mori_high_throughput", false},
    {"mori_low_latency", false},
    {"nixl_ep", true},
};

/// As vLLM's FusedMoEParallelConfig: an all-to-all is between ranks that have
/// tokens of their own, and of those there are dp * pcp * sp.
LogicalResult resolveCommunication(moe::LayerOp layer) {
  const moe::ParallelAttr parallel = layer.getParallel();
  const int64_t tp = parallel.getTp(), sp = parallel.getSp();
  if (sp > 1 && sp != tp)
    return compiler::refuse(layer, "size_not_supported",
                            "sp is " + Twine(sp) +
                                ", but the ranks that split a sequence are "
                                "those of tp; accepted: 1 or " +
                                Twine(tp));
  StringRef name = layer.getAllToAll().value_or(kGatherScatter);
  for (const FormerTransport &former : kFormerTransports) {
    if (former.name != name)
      continue;
    if (former.successor.empty())
      return compiler::refuse(layer, "option_not_supported",
                              "vLLM has removed all_to_all '" + name +
                                  "'; accepted: " + former.successors);
    name = former.successor;
    break;
  }
  const Transport *found = llvm::find_if(
      kTransports, [&](const Transport &row) { return row.name == name; });
  if (found == std::end(kTransports)) {
    std::string known;
    for (const Transport &row : kTransports)
      known += (known.empty() ? "" : ", ") + row.name.str();
    return compiler::refuse(layer, "option_not_supported",
                            "unknown all_to_all '" + name +
                                "'; accepted: " + known);
  }
  // What is the default anyway needs no saying.
  if (name == kGatherScatter)
    layer.removeAllToAllAttr();
  else
    layer.setAllToAll(name);
  if (parallel.getFlatSize() == 1)
    return success();
  compiler::Communication expected;
  const int64_t own = parallel.getDp() * parallel.getPcp() * sp;
  if (parallel.usesExpertParallelism() && own > 1 && name != kGatherScatter) {
    expected.exchange = name.str();
    if (found->batched)
      layer.setActivationFormat("batched");
  } else {
    expected.gather = expected.scatter = own;
    expected.reduce = tp / sp;
    expected.deferred = layer.getSkipFinalAllReduce() && expected.reduce > 1;
  }
  compiler::setCommunication(layer, expected);
  return success();
}

LogicalResult resolve(moe::LayerOp layer) {
  const moe::ParallelAttr parallel = layer.getParallel();
  const FailureOr<Shard> shard = placeShard(layer);
  if (failed(shard) || failed(resolveCommunication(layer)))
    return failure();
  const int64_t ranks = parallel.getExpertSize();
  if (ranks > layer.getPhysicalExperts())
    return compiler::refuse(layer, "size_not_supported",
                            Twine(layer.getPhysicalExperts()) +
                                " experts do not give each of " + Twine(ranks) +
                                " ranks one; accepted: at most as many ranks "
                                "(dp * pcp * tp) as experts");
  const Placement placement =
      placeExperts(layer.getPhysicalExperts(), parallel);
  layer.setLocalIntermediate(shard->count);
  compiler::setFirstColumn(layer, shard->begin);
  layer.setLocalBegin(placement.begin);
  // Shared experts are sharded as the others are, or refused later.
  layer.setLocalExperts(
      placement.count +
      (ranks == 1 ? layer.getNumSharedExperts().value_or(0) : 0));
  if (placement.stride != 1) {
    layer.setLocalStride(placement.stride);
    // Experts that do not follow each other are found by the caller's map. Who
    // sends rows by expert has found them.
    if (!layer.isBatched())
      layer.setExpertMap(true);
  }
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
