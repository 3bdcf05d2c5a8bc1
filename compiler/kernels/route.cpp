//===- route.cpp - kernels that route tokens ------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/Kind.h"
#include "compiler/kernels/Parts.h"
#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/ProgramValues.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

/// Returns the maximum number of threads per CTA such that the registers
/// suffice. Each lane holds every 32nd logit of a row and its sort key. Expert
/// groups and the rounds of sparsemixer need more registers for comparisons, as
/// do more than 512 experts.
static int64_t threadsToRoute(moe::RouteOp route) {
  const bool many = route.getNumExperts() > 512;
  const bool parts = route.getRouting().getGroups() > 0 ||
                     route.getRouting().getMethod() == "sparsemixer";
  return many && parts ? 256 : many || parts ? 512 : 1024;
}

/// Makes a schedule in which each warp routes one token at a time. If the
/// kernel also permutes, the grid for routing is one CTA or one cluster.
static FailureOr<moe::ScheduleAttr> selectRoute(moe::KernelOp kernel,
                                                MeasuredSchedules &) {
  auto program = kernel->getParentOfType<moe::ProgramOp>();
  const int64_t tokens = tokenRange(kernel).second;
  BlockSchedule fields;
  auto count = findStage<moe::CountOp>(kernel);
  fields.blockTokens = count ? int64_t(count.getBlockTokens()) : 0;
  const int64_t most = threadsToRoute(findStage<moe::RouteOp>(kernel));
  const bool permutes = bool(findStage<moe::PermuteOp>(kernel));
  const bool alone = permutes && fields.blockTokens >= tokens;
  fields.threads =
      alone ? most
            : std::clamp<int64_t>(llvm::PowerOf2Ceil(32 * fields.blockTokens),
                                  256, most);
  if (!permutes || alone)
    return scheduleAttr<moe::BlockScheduleAttr>(program, fields);
  moe::TargetAttr target = program.getTarget();
  if (!target.getArchRow().has("clusters"))
    return kernel.emitError()
           << "one CTA routes and permutes " << fields.blockTokens
           << " tokens, up to " << tokens << " are launched, and "
           << target.getArch() << " has no clusters";
  if (kRoutingCluster * fields.blockTokens < tokens)
    return kernel.emitError()
           << "a cluster of " << kRoutingCluster << " CTAs of "
           << fields.blockTokens << " tokens routes and permutes "
           << kRoutingCluster * fields.blockTokens << ", up to " << tokens
           << " are launched";
  fields.cluster = {kRoutingCluster, 1, 1};
  return scheduleAttr<moe::BlockScheduleAttr>(program, fields);
}

/// Plans the grid. If the kernel permutes, the grid for routing is one CTA or
/// one cluster, because the permutation needs the counts of all tokens.
static void planRoute(moe::KernelOp kernel, LaunchPlan &plan) {
  const moe::ScheduleAttr schedule = kernel.getScheduleAttr();
  const int64_t cluster =
      schedule.getCluster().empty() ? 1 : schedule.getCluster()[0];
  auto count = findStage<moe::CountOp>(kernel);
  plan.grid = kernel.getKind() == "route_permute"
                  ? Expression(cluster)
                  : tokenBlocks(count.getBlockTokens(), count.getMostBlocks());
  if (!findStage<moe::QuantizeOp>(kernel))
    return;
  // Additional clusters in the same launch quantize x.
  Expression more = ctasToQuantize(kernel, plan.label);
  if (cluster > 1)
    more = ceilDiv(more, Expression(cluster)) * Expression(cluster);
  plan.grid = plan.grid + more;
}

static void addResults(moe::KernelOp kernel, Emission &emission) {
  emission.pointer("topk_ids", "int", true);
  emission.pointer("topk_weights", "float", true);
  // A package for only a part of a layer may not return ids and weights.
  if (const std::string ids = emission.outputOf("topk_ids"); !ids.empty())
    emission.args().pointer("ids", "int", ids, true);
  if (const std::string weights = emission.outputOf("topk_weights");
      !weights.empty())
    emission.args().pointer("weights", "float", weights, true);
  if (findStage<moe::PermuteOp>(kernel)) {
    for (const StringRef field : {"rows", "positions", "offsets"})
      emission.pointer(field, "int", true);
    emission.pointer("tiles", "int4", true);
    emission.pointer("tile_count", "int", true);
    emission.pointer("counts", "int", true);
  } else if (findStage<moe::PairRowsOp>(kernel)) {
    emission.pointer("positions", "int", true);
  } else if (!emission.boundTo("block_counts").empty()) {
    // A package for only the routing does not use the counts.
    emission.pointer("block_counts", "int", true);
  }
}

static void emitRoute(Emission &emission) {
  moe::KernelOp kernel = emission.kernel;
  auto route = findStage<moe::RouteOp>(kernel);
  auto count = findStage<moe::CountOp>(kernel);
  auto permute = findStage<moe::PermuteOp>(kernel);
  addRoutingFields(route, emission);
  addPlacement(route, emission);
  addResults(kernel, emission);

  ConfigPrinter &config = emission.config();
  addRoutingConfig(route, emission.out.text);
  config.number("kExperts", route.getNumExperts());
  config.number("kTopK", route.getTopK());
  config.number("kBlockTokens", count.getBlockTokens());
  config.number("kMostBlocks", count.getMostBlocks().value_or(0));
  config.flag("kPermute", bool(permute));
  config.number("kCluster", emission.out.cluster[0]);
  config.number("kTileRows", permute ? int64_t(permute.getTileRows()) : 1);
  config.number("kRowStep", permute ? permute.getStepOfRows() : 1);
  config.number("kCounters", permute ? permute.getCounters() : 2);
  config.number("kLocalExperts", count.getNumLocal());
  if (findStage<moe::QuantizeOp>(kernel))
    addQuantization(emission);
}

constexpr Kind compiler::kernels::route = {
    .names = "route route_permute route_pairs",
    .schedule = selectRoute,
    .plan = planRoute,
    .emit = emitRoute};
