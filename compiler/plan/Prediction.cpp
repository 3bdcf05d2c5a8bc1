//===- Prediction.cpp - predicted time of a layer -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The constants in this file were fitted on an H100
// (bench/notes/cost-model.md).
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/Prediction.h"

#include "compiler/matmul/Engine.h"
#include "compiler/matmul/Gemv.h"
#include "compiler/matmul/Slices.h"
#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/ProgramValues.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

/// Fixed time of a launch that overlaps with the preceding launch.
static constexpr double kLaunchSeconds = 1.2e-6;
/// Fixed time of routing, and of permuting, in addition to the time for the
/// bytes that they move.
static constexpr double kRoutingSeconds = 2.0e-6;
/// Bandwidth of kernels that only move bytes, relative to the bandwidth of a
/// plain read.
static constexpr double kMovingBandwidth = 0.82;
/// Read bandwidth of the L2 cache, relative to the memory bandwidth.
static constexpr double kFromL2 = 1.7;

/// Bandwidth in bytes per second of writes into another GPU's memory, and the
/// round-trip time of a signal. Both were measured between two H200 GPUs in one
/// host.
static constexpr double kLinkBandwidth = 348e9;
static constexpr double kSignalSeconds = 2.7e-6;

static double bytesOf(Value value, double leading) {
  auto type = cast<RankedTensorType>(value.getType());
  double elements = 1;
  for (int64_t extent : type.getShape())
    elements *= ShapedType::isDynamic(extent) ? leading : double(extent);
  return elements *
         double(elementBits(elementTypeName(type.getElementType()))) / 8;
}

/// Returns the number of bytes that a kernel without a matmul reads and writes.
static double bytesMoved(moe::KernelOp kernel, const ExpertRows &rows) {
  const auto tokens = double(rows.tokens());
  if (auto finalize = findStage<moe::FinalizeOp>(kernel)) {
    const double own = tokens / double(finalize.getRanks());
    return bytesOf(finalize.getPartials(), own) +
           bytesOf(finalize.getOut(), own);
  }
  if (auto combine = findStage<moe::CombineOp>(kernel))
    return bytesOf(combine.getPartials(), rows.rows()) +
           bytesOf(combine.getOut(), tokens);
  if (auto combine = findStage<moe::CombineConstantsOp>(kernel))
    return bytesOf(combine.getPartials(), rows.rows()) +
           bytesOf(combine.getOut(), tokens);
  if (auto combine = findStage<moe::CombineNormedOp>(kernel))
    return bytesOf(combine.getPartials(), rows.rows()) +
           bytesOf(combine.getOut(), tokens);
  double bytes = 0;
  for (Operation &op : kernel.getBody().front())
    if (auto stage = dyn_cast<moe::StageOpInterface>(op);
        stage && !isa<moe::CountOp>(op)) {
      const double leading = stage.isOfTokens(cast<OpResult>(op.getResult(0)))
                                 ? tokens
                                 : rows.rows();
      // The first operand is the tensor that the stage converts or sorts.
      if (op.getNumOperands() > 0)
        bytes += bytesOf(op.getOperand(0), leading);
      if (!isa<moe::AmaxOp>(op))
        bytes += bytesOf(op.getResult(0), leading);
    }
  return bytes;
}

static Cost costOfMoving(moe::KernelOp kernel, const ExpertRows &rows,
                         const Hardware &hardware) {
  Cost cost;
  cost.bytes = bytesMoved(kernel, rows);
  double bandwidth = hardware.bandwidth * kMovingBandwidth;
  if (cost.bytes < double(hardware.l2Bytes))
    bandwidth *= kFromL2;
  const bool routes = findStage<moe::RouteOp>(kernel) != nullptr;
  const bool sorts = findStage<moe::PermuteOp>(kernel) != nullptr;
  cost.memorySeconds = cost.bytes / bandwidth;
  cost.fillSeconds =
      kLaunchSeconds + kRoutingSeconds * (double(routes) + double(sorts));
  cost.seconds = cost.memorySeconds + cost.fillSeconds;
  return cost;
}

/// Returns the cost of a kernel that writes into other ranks' windows. Assumes
/// that all ranks have the same number of tokens and that tokens use all
/// experts equally.
static Cost costOfExchange(moe::KernelOp kernel, const ExpertRows &rows,
                           const Hardware &hardware) {
  auto dispatch = findStage<moe::DispatchOp>(kernel);
  auto sendBack = findStage<moe::SendBackOp>(kernel);
  const auto ranks =
      double(dispatch ? dispatch.getRanks() : sendBack.getRanks());
  const bool spreads =
      (dispatch ? dispatch.getExperts() : sendBack.getExperts()).has_value();
  const Value ids = dispatch ? dispatch.getTopkIds() : sendBack.getTopkIds();
  const auto pairs =
      double(cast<RankedTensorType>(ids.getType()).getDimSize(1));
  const double owners =
      spreads ? ranks * (1 - std::pow(1 - 1 / ranks, pairs)) : ranks;
  const double sent = double(rows.tokens()) / ranks * owners;
  Cost cost;
  if (dispatch) {
    cost.bytes = bytesOf(dispatch.getX(), sent);
    for (const Value scale : dispatch.getScales())
      cost.bytes += bytesOf(scale, sent);
  } else {
    cost.bytes = bytesOf(sendBack.getPartials(), sent);
  }
  // Rows for the token's own rank do not cross the link.
  cost.memorySeconds = cost.bytes * (ranks - 1) / ranks / kLinkBandwidth;
  cost.fillSeconds = kLaunchSeconds + kSignalSeconds;
  if (auto combine = findStage<moe::CombineOp>(kernel)) {
    const double read = bytesOf(combine.getPartials(), rows.rows());
    cost.bytes += read;
    cost.memorySeconds = std::max(
        cost.memorySeconds, read / (hardware.bandwidth * kMovingBandwidth));
  }
  cost.seconds = cost.memorySeconds + cost.fillSeconds;
  return cost;
}

static Cost costOfGemv(moe::KernelOp kernel, const ExpertRows &rows,
                       const Hardware &hardware) {
  const MatmulProblem problem = gemvProblem(
      findStage<moe::GroupedMatmulOp>(kernel), tokenRange(kernel).second);
  Cost cost = gemvCost(problem, rows.touched(), hardware);
  cost.flops = 2 * rows.rows() * double(problem.n) * double(problem.k);
  return cost;
}

static Cost costOfSlices(moe::KernelOp kernel, const ExpertRows &rows,
                         const Hardware &hardware) {
  const MatmulProblem problem = slicesProblem(
      findStage<moe::GroupedMatmulOp>(kernel),
      findStage<moe::CombineOp>(kernel), tokenRange(kernel).second);
  return slicesCost(
      problem,
      cast<moe::SlicesScheduleAttr>(kernel.getScheduleAttr()).getFields(),
      hardware, rows);
}

Prediction compiler::predict(moe::VariantOp variant, const ExpertRows &ofRouted,
                             const Hardware &hardware) {
  Prediction made;
  made.tokens = ofRouted.tokens();
  made.touchedExperts = ofRouted.touched();
  made.rows = ofRouted.rows(), made.mostRows = ofRouted.most();
  for (const ExpertGroup &group : ofRouted.ofGroups()) {
    const double rows = group.chance * double(made.tokens);
    made.experts.push_back({group.experts, rows, rows});
  }
  // Shared experts have one row per token of this rank.
  int64_t own = made.tokens;
  for (auto gather : variant.getBody().getOps<moe::CollectiveOp>())
    if (gather.getKind() == "all_gather")
      own = std::max<int64_t>(own / int64_t(gather.getRanks()), 1);
  for (auto launch : variant.getBody().getOps<moe::LaunchOp>())
    if (auto dispatch = findStage<moe::DispatchOp>(launch.getKernelOp()))
      own = std::max<int64_t>(own / int64_t(dispatch.getRanks()), 1);
  const ExpertRows ofShared(own, {{1.0, 1.0}});
  for (auto launch : variant.getBody().getOps<moe::LaunchOp>()) {
    moe::KernelOp kernel = launch.getKernelOp();
    const bool isShared = isOfSharedRows(launch.getOperation());
    const ExpertRows rows = isShared ? ofShared : ofRouted;
    Cost cost;
    if (kernel.getRow().routesItself) {
      cost = costOfGemv(kernel, rows, hardware);
    } else if (kernel.getKind() == "down_slices") {
      cost = costOfSlices(kernel, rows, hardware);
    } else if (findStage<moe::GroupedMatmulOp>(kernel)) {
      // The kernel already has a schedule, so tiledProblem() succeeds.
      const MatmulProblem problem = *tiledProblem(kernel);
      const Schedule &schedule = *kernel.getScheduleAttr().getMatmul();
      cost = estimate(problem, schedule, hardware, rows);
      const int64_t step = engineOf(schedule).rowStep(schedule);
      const ExpertRows::Tiles tiles =
          rows.tiles(schedule.tileM, step, problem.alikeTiles);
      if (problem.first && tiles.rows > 0 && !isShared) {
        made.padding = 1 - rows.rows() / tiles.rows;
        for (size_t i = 0; i < made.experts.size(); ++i)
          if (const ExpertGroup &group = rows.ofGroups()[i]; group.experts > 0)
            made.experts[i].tileRows =
                rows.tilesOf(group, schedule.tileM, step, problem.alikeTiles)
                    .rows /
                group.experts;
      }
    } else if (findStage<moe::DispatchOp>(kernel) ||
               findStage<moe::SendBackOp>(kernel)) {
      cost = costOfExchange(kernel, rows, hardware);
    } else {
      cost = costOfMoving(kernel, rows, hardware);
    }
    made.seconds += cost.seconds;
    made.kernels.push_back({kernel.getSymName().str(), cost});
  }
  return made;
}
