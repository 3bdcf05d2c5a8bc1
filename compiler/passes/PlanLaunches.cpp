//===- PlanLaunches.cpp - what each launch takes --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The last decisions: shared memory, grids, and how a kernel works beside the
// launches around it. Emitters print them. A plan that stands must be the one
// that is made here.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/Engine.h"
#include "compiler/matmul/Slabs.h"
#include "compiler/matmul/Slices.h"
#include "compiler/passes/Passes.h"
#include "compiler/plan/KernelFacts.h"
#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/ProgramValues.h"

#include "llvm/Support/MathExtras.h"

#include <fmt/core.h>

#include <algorithm>

namespace moec::compiler {
#define GEN_PASS_DEF_PLANLAUNCHESPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

namespace {
/// The plan of one kernel. Members are those of #moe.plan.
class Planner {
public:
  explicit Planner(moe::KernelOp kernel)
      : kernel(kernel), program(kernel->getParentOfType<moe::ProgramOp>()),
        schedule(kernel.getScheduleAttr()),
        matmul(findStage<moe::GroupedMatmulOp>(kernel)) {}

  FailureOr<moe::PlanAttr> plan();

private:
  void planRoute();
  void planPermute();
  void planMatmul();
  void planFewTokens();
  void planSlices();
  void planCombine();
  void planQuantize();
  void planDequantize();
  Expression ctasToQuantize();
  std::string tile() {
    const Schedule &s = *schedule.getMatmul();
    return fmt::format("{}x{}x{}", s.tileM, s.tileN, s.tileK);
  }
  int64_t cluster() {
    return schedule.getCluster().empty() ? 1 : schedule.getCluster()[0];
  }

  moe::KernelOp kernel;
  moe::ProgramOp program;
  moe::ScheduleAttr schedule;
  moe::GroupedMatmulOp matmul;

  Expression grid;
  std::string label;
  int64_t sharedBytes = 0, cursor = 0, awaits = 0, splitTiles = 0,
          columnBlocks = 0;
  bool counts = false;
};
} // namespace

static Expression symbol(std::string_view name) {
  return Expression::symbol(name);
}

static int64_t columnsOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getDimSize(1);
}

/// One CTA, or one cluster, permutes.
void Planner::planRoute() {
  auto count = findStage<moe::CountOp>(kernel);
  grid = kernel.getKind() == "route_permute"
             ? Expression(cluster())
             : tokenBlocks(count.getBlockTokens(), count.getMostBlocks());
  if (!findStage<moe::QuantizeOp>(kernel))
    return;
  // Whole clusters quantize beside it.
  Expression more = ctasToQuantize();
  if (cluster() > 1)
    more = ceilDiv(more, Expression(cluster())) * Expression(cluster());
  grid = grid + more;
}

void Planner::planPermute() {
  auto permute = findStage<moe::PermuteOp>(kernel);
  grid = tokenBlocks(permute.getBlockTokens(), permute.getMostBlocks());
}

void Planner::planMatmul() {
  const MatmulProblem problem = problemOf(kernel);
  const Schedule &numbers = *schedule.getMatmul();
  sharedBytes = compiler::sharedBytes(problem, numbers);
  // The word of tile_count that counts the tiles that CTAs have taken.
  if (schedule.getPersistent())
    cursor = matmul.isFirst() ? 1 : 2;
  if (numbers.hasRoles()) {
    counts = countsColumnTiles(kernel);
    awaits = awaitedColumnTiles(kernel);
    Hardware hardware;
    if (cluster() > 1 &&
        findHardware(program.getTarget().getArch().str(),
                     program.getTarget().getGpu().str(), hardware))
      splitTiles = mostTilesToSplit(hardware);
  }
  label = tile();
  const int64_t columnTiles =
      llvm::divideCeil(problem.n, takenWeightRows(problem, numbers.tileN));
  grid = Expression(columnTiles) *
         tileCapacity(numbers.tileM, problem.localExperts);
  if (schedule.getPersistent())
    grid = Expression(cluster()) * grid;
}

/// The grid has as many CTAs as the GPU holds, or fewer if there are fewer
/// results.
void Planner::planFewTokens() {
  const GemvSchedule &numbers =
      cast<moe::GemvScheduleAttr>(schedule).getFields();
  sharedBytes =
      compiler::sharedBytes(gemvProblem(matmul, numbers.blockTokens), numbers);
  if (matmul.readsFragments()) {
    Hardware hardware;
    if (findHardware(program.getTarget().getArch().str(),
                     program.getTarget().getGpu().str(), hardware))
      sharedBytes = launchBytes(sharedBytes, numbers.ctasPerSm, hardware);
    grid =
        symbol("rows") * Expression(int64_t(matmul.getN()) / numbers.unitRows);
    return;
  }
  const bool gated = problemOf(kernel).gated;
  grid = symbol("rows") *
         Expression(int64_t(llvm::divideCeil(matmul.getN() / (gated ? 2 : 1),
                                             numbers.threads / 32)));
}

/// The grid has as many CTAs as the GPU holds.
void Planner::planSlices() {
  sharedBytes = slicesSharedBytes(
      slicesProblem(matmul, findStage<moe::CombineOp>(kernel), 0),
      cast<moe::SlicesScheduleAttr>(schedule).getFields());
  label = tile();
  grid = symbol("rows");
}

void Planner::planCombine() {
  auto combine = findStage<moe::CombineOp>(kernel);
  auto constants = findStage<moe::CombineConstantsOp>(kernel);
  const int64_t hidden = combine ? combine.getWidth()
                         : constants
                             ? constants.getWidth()
                             : findStage<moe::FinalizeOp>(kernel).getWidth();
  const int64_t columns =
      cast<moe::CombineScheduleAttr>(schedule).getFields().columns;
  columnBlocks = llvm::divideCeil(hidden, columns);
  label = fmt::format("1x{}", columns);
  grid = symbol("tokens") * Expression(columnBlocks);
  // Every CTA waits once for its stores to other ranks.
  constexpr int64_t kCtasPerSm = 4;
  if (findStage<moe::SendBackOp>(kernel))
    grid = min(grid, symbol("sm_count") * Expression(kCtasPerSm));
}

/// CTAs that quantize, and the values that one or each of its parts takes.
Expression Planner::ctasToQuantize() {
  // Columns of a thread whose data are emulated, and threads that share a group
  // of 128.
  constexpr int64_t kWidth = 8, kLanesOfGroup = 16;
  auto quantize = findStage<moe::QuantizeOp>(kernel);
  const moe::DescriptorAttr descriptor = quantize.getDescriptor();
  const int64_t columns = columnsOf(quantize.getInput());
  const Expression rows =
      symbol(quantize.getOffsets() || quantize.getExpertNumTokens() ||
                     quantize.getRowWeights()
                 ? "rows"
                 : "tokens");
  const bool ofTensor = descriptor.isOfTensor();
  int64_t group = descriptor.isPlain() ? 0 : descriptor.getGroup()[1];
  const bool wholeRows =
      descriptor.getSecondPerRow() || (!ofTensor && group == -1);
  if (descriptor.isPlain() || (ofTensor && !quantize.isEmulated())) {
    label = std::to_string(*quantize.getBlockRows());
    return ceilDiv(rows, Expression(int64_t(*quantize.getBlockRows())));
  }
  if (wholeRows) {
    // A row's threads have 16 columns each at most, up to 256 threads.
    const int64_t threads =
        std::clamp<int64_t>(llvm::PowerOf2Ceil((columns + 15) / 16), 32, 256);
    const int64_t rowsOfCta =
        std::max<int64_t>(schedule.getThreads() / threads, 1);
    label = fmt::format("{}x{}", rowsOfCta, columns);
    return ceilDiv(rows, Expression(rowsOfCta));
  }
  // Groups end with the row.
  const bool emulated = quantize.isEmulated() || quantize.scalesBlocks();
  group = emulated ? std::max(group, kWidth) : group;
  const int64_t lanes = emulated ? group / kWidth : kLanesOfGroup;
  label = fmt::format("1x{}", group);
  return ceilDiv(rows * Expression(int64_t(llvm::divideCeil(columns, group))),
                 Expression(schedule.getThreads() / lanes));
}

void Planner::planQuantize() {
  auto amax = findStage<moe::AmaxOp>(kernel);
  if (!amax) {
    grid = ctasToQuantize();
    return;
  }
  const bool ofRows =
      amax.getOffsets() || amax.getExpertNumTokens() || amax.getRowWeights();
  label = std::to_string(amax.getBlockRows());
  grid = ceilDiv(symbol(ofRows ? "rows" : "tokens"),
                 Expression(int64_t(amax.getBlockRows())));
}

void Planner::planDequantize() {
  auto dequantize = findStage<moe::DequantizeOp>(kernel);
  constexpr int64_t kWidth = 8; // columns of a thread
  grid = ceilDiv(symbol(dequantize.getExpertNumTokens() ? "rows" : "tokens") *
                     Expression(columnsOf(dequantize.getInput()) / kWidth),
                 Expression(int64_t(schedule.getThreads())));
}

FailureOr<moe::PlanAttr> Planner::plan() {
  if (!schedule)
    return kernel.emitError()
           << "kernel has no schedule; run moe-select-schedule first";
  struct Row {
    StringRef kind;
    void (Planner::*plan)();
  };
  static constexpr Row rows[] = {{"route", &Planner::planRoute},
                                 {"route_permute", &Planner::planRoute},
                                 {"route_pairs", &Planner::planRoute},
                                 {"permute", &Planner::planPermute},
                                 {"grouped_matmul", &Planner::planMatmul},
                                 {"route_gate_up", &Planner::planFewTokens},
                                 {"down_combine", &Planner::planFewTokens},
                                 {"down_slices", &Planner::planSlices},
                                 {"combine", &Planner::planCombine},
                                 {"combine_constants", &Planner::planCombine},
                                 {"combine_send_back", &Planner::planCombine},
                                 {"finalize", &Planner::planCombine},
                                 {"amax", &Planner::planQuantize},
                                 {"quantize", &Planner::planQuantize},
                                 {"dequantize", &Planner::planDequantize}};
  const catalog::KernelKind &kind = kernel.getRow();
  const auto row = llvm::find_if(
      rows, [&](const Row &r) { return r.kind == kernel.getKind(); });
  if (row != std::end(rows)) {
    (this->*row->plan)();
  } else {
    auto parsed = Expression::parse(withFacts(kernel, kind.grid));
    if (!parsed)
      return kernel.emitError() << parsed.error().message;
    grid = *parsed;
  }
  if (!kind.label.empty())
    label = withFacts(kernel, kind.label);
  grid = sizeIn(kernel, grid);
  const bool early = schedule.getProgrammatic() && !kind.early.empty() &&
                     areOlder(kernel, kind.early);
  return moe::PlanAttr::get(kernel.getContext(), StringRef(grid.text()),
                            sharedBytes, early, cursor, counts, awaits,
                            splitTiles, columnBlocks, StringRef(label));
}

namespace {
struct PlanLaunches : compiler::impl::PlanLaunchesPassBase<PlanLaunches> {
  using PlanLaunchesPassBase::PlanLaunchesPassBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getBody().getOps<moe::KernelOp>())
      if (failed(plan(kernel)))
        return signalPassFailure();
  }

  static LogicalResult plan(moe::KernelOp kernel) {
    const FailureOr<moe::PlanAttr> made = Planner(kernel).plan();
    if (failed(made))
      return failure();
    const moe::PlanAttr stands = kernel.getPlanAttr();
    if (stands && stands != *made)
      return kernel.emitError()
             << "the plan that stands is not one of this kernel: expected "
             << *made << ", got " << stands
             << "; take 'plan' away to have it made again";
    kernel.setPlanAttr(*made);
    return success();
  }
};
} // namespace
