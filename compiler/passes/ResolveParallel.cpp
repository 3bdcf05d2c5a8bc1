//===- ResolveParallel.cpp - the share of each layer on this rank ---------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Flattens dp, pcp and tp. Without expert parallelism, the intermediate
// columns are divided over all ranks. With expert parallelism, the experts are.
// A layer whose ranks have shares of several sizes is cloned for each size. The
// pass also stores what the rank exchanges with other ranks: gathered tokens
// before it runs, and reduced outputs after it.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"
#include "compiler/plan/Communication.h"
#include "compiler/plan/Shares.h"

namespace moec::compiler {
#define GEN_PASS_DEF_RESOLVEPARALLELPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;

namespace {

/// A transport that sends rows to the ranks of their experts and returns
/// results.
struct Transport {
  StringRef name;
  /// Rows arrive as [local experts, most tokens, hidden], with a row count per
  /// expert.
  bool batched;
};

constexpr StringLiteral kGatherScatter = "allgather_reducescatter";

/// A transport's name in earlier versions of vLLM, and its successor.
struct FormerTransport {
  StringRef name;
  StringRef successor;       ///< equivalent transport; "" if there is none
  StringRef successors = {}; ///< transports that an error suggests
};

const FormerTransport kFormerTransports[] = {
    // ParallelConfig of vLLM still accepts this name.
    {"naive", kGatherScatter},
    {"flashinfer_all2allv", "flashinfer_nvlink_two_sided"},
    // MoriAll2AllManager had only the InterNodeV1 kernels of its successor.
    {"mori", "mori_high_throughput"},
    // Rows of this transport arrived grouped by expert. vLLM's ParallelConfig
    // replaces it by a transport whose rows are not grouped.
    {"pplx", "",
     "deepep_low_latency or nixl_ep, which also order rows by expert, or "
     "allgather_reducescatter, which vLLM uses instead"},
};

/// Transports for which the package moves rows, not the caller: with
/// collectives of a library, or with kernels that write into other ranks'
/// memory.
constexpr StringLiteral kByPackage = "gather_scatter";
constexpr StringLiteral kOneSided = "one_sided";

const Transport kTransports[] = {
    {kGatherScatter, false},
    {kByPackage, false},
    {kOneSided, false},
    {"deepep_high_throughput", false},
    {"deepep_low_latency", true},
    {"deepep_v2", false},
    {"flashinfer_nvlink_one_sided", false},
    {"flashinfer_nvlink_two_sided", false},
    {"mori_high_throughput", false},
    {"mori_low_latency", false},
    {"nixl_ep", true},
};

/// Resolves the transport and the exchange with other ranks. As in vLLM's
/// FusedMoEParallelConfig, an all-to-all is between the dp * pcp * sp ranks
/// that have different tokens.
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
  // The default is omitted.
  if (name == kGatherScatter)
    layer.removeAllToAllAttr();
  else
    layer.setAllToAll(name);
  if (parallel.getFlatSize() == 1)
    return success();
  compiler::Communication expected;
  const int64_t own = parallel.getDp() * parallel.getPcp() * sp;
  expected.oneSided = name == kOneSided;
  expected.byPackage = name == kByPackage || expected.oneSided;
  if (parallel.usesExpertParallelism() && own > 1 && name != kGatherScatter &&
      !expected.byPackage) {
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

/// Checks that each rank gets a share.
LogicalResult checkShares(moe::LayerOp layer) {
  const moe::ParallelAttr parallel = layer.getParallel();
  const int64_t shards = parallel.getShardSize();
  const compiler::ShardUnits units = compiler::shardUnitsOf(layer);
  const int64_t whole = layer.getIntermediateSize();
  if (const int64_t most = compiler::mostShards(whole, units);
      shards > 1 && most < shards)
    return compiler::refuse(
        layer, "size_not_supported",
        "intermediate " + Twine(whole) + " does not give each of " +
            Twine(shards) + " shards (dp * pcp * tp) " + Twine(units.piece) +
            " columns; accepted: at most " + Twine(most) + " shards");
  if (const int64_t ranks = parallel.getExpertSize();
      ranks > layer.getPhysicalExperts())
    return compiler::refuse(layer, "size_not_supported",
                            Twine(layer.getPhysicalExperts()) +
                                " experts do not give each of " + Twine(ranks) +
                                " ranks one; accepted: at most as many ranks "
                                "(dp * pcp * tp) as experts");
  if (const int64_t most = compiler::mostShards(layer.getSharedWidth(), units),
      parts = compiler::sharedShards(layer);
      !compiler::whySharedMlp(layer).empty() && most < parts)
    return compiler::refuse(
        layer, "size_not_supported",
        "the shared experts' intermediate of " + Twine(layer.getSharedWidth()) +
            " does not give each of " + Twine(parts) +
            " ranks that have the same tokens " + Twine(units.piece) +
            " columns; accepted: at most " + Twine(most) + " such ranks");
  if (const std::optional<int64_t> stored =
          layer.getStoredIntermediateSizePerPartition())
    for (const int64_t rank : layer.getRanksOfPackage())
      if (const int64_t columns = compiler::shareOf(layer, rank).columns;
          columns > *stored)
        return compiler::refuse(
            layer, "size_not_supported",
            "stored_intermediate_size_per_partition is " + Twine(*stored) +
                ", and rank " + Twine(rank) + " computes " + Twine(columns) +
                " columns of the intermediate; accepted: at least as many, "
                "those that pad the rank's weights counted");
  return success();
}

/// Sets the attributes for the share of the rank in `parallel`.
void writeShare(moe::LayerOp layer) {
  const compiler::Share share =
      compiler::shareOf(layer, layer.getParallel().getFlatRank());
  layer.setIntermediateSizePerPartition(share.columns);
  compiler::setFirstColumn(layer, share.firstColumn);
  if (share.sharedColumns > 0)
    layer.setSharedIntermediateSizePerPartition(share.sharedColumns);
  layer.setLocalBegin(share.firstExpert);
  layer.setLocalExperts(share.experts);
  if (share.stride != 1) {
    layer.setLocalStride(share.stride);
    // The caller's expert map is needed to find experts that are not
    // consecutive. For batched layers the sender has already found them.
    if (!layer.isBatched())
      layer.setExpertMap(true);
  }
  layer.setW2Bias(share.addsW2Bias);
}

/// Groups the ranks of a package by the sizes of their shares.
SmallVector<SmallVector<int64_t>> groupsOfRanks(moe::LayerOp layer) {
  SmallVector<SmallVector<int64_t>> groups;
  for (const int64_t rank : layer.getRanksOfPackage()) {
    const compiler::Share share = compiler::shareOf(layer, rank);
    auto *group = llvm::find_if(groups, [&](ArrayRef<int64_t> others) {
      return compiler::shareOf(layer, others.front()).hasSizesOf(share);
    });
    if (group == groups.end())
      groups.push_back({rank});
    else
      group->push_back(rank);
  }
  return groups;
}

void setRanks(moe::LayerOp layer, ArrayRef<int64_t> ranks) {
  moe::Parallel fields = layer.getParallel().getFields();
  const int64_t rank = ranks.front();
  fields.rank = std::nullopt;
  fields.tpRank = rank % fields.tp;
  fields.pcpRank = rank / fields.tp % fields.pcp;
  fields.dpRank = rank / (fields.tp * fields.pcp);
  layer.setParallelAttr(moe::ParallelAttr::get(layer.getContext(), fields));
  layer.setRanks(ranks);
}

LogicalResult resolve(moe::LayerOp layer) {
  if (failed(checkShares(layer)) || failed(resolveCommunication(layer)))
    return failure();
  const SmallVector<SmallVector<int64_t>> groups = groupsOfRanks(layer);
  if (groups.size() == 1) {
    writeShare(layer);
    return success();
  }
  // A program implements one share.
  if (layer.isResolved())
    return layer.emitError() << "layer @" << layer.getSymName()
                             << " is resolved, but its 'ranks' "
                             << "have shares of " << groups.size() << " sizes";
  const std::string name = layer.getSymName().str();
  for (const auto &[i, ranks] : llvm::enumerate(groups)) {
    moe::LayerOp share =
        i + 1 == groups.size() ? layer : cast<moe::LayerOp>(layer->clone());
    if (share != layer)
      layer->getBlock()->getOperations().insert(Block::iterator(layer), share);
    compiler::setWholeLayer(share, name);
    share.setSymName(name + "_share" + std::to_string(i));
    setRanks(share, ranks);
    writeShare(share);
  }
  return success();
}

struct ResolveParallelPass
    : compiler::impl::ResolveParallelPassBase<ResolveParallelPass> {
  using Base::Base;

  void runOnOperation() override {
    bool failed = false;
    for (auto layer : llvm::to_vector(getOperation().getOps<moe::LayerOp>()))
      failed |= mlir::failed(resolve(layer));
    if (failed)
      signalPassFailure();
  }
};

} // namespace
