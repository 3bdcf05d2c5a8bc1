//===- grouped_matmul.cpp - kernel of a grouped matmul --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The schedule of a matmul is the first of these that exists: a schedule
// measured on this GPU for this shape, a known good schedule, or the schedule
// that the cost model predicts to be the fastest.
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/Kind.h"
#include "compiler/kernels/Parts.h"
#include "compiler/matmul/CostModel.h"
#include "compiler/matmul/Engine.h"
#include "compiler/plan/KernelFacts.h"
#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/MeasuredSchedules.h"
#include "compiler/plan/ProgramValues.h"
#include "dialect/catalog/Engines.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <fmt/core.h>

#include <algorithm>

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

//===----------------------------------------------------------------------===//
// Schedule
//===----------------------------------------------------------------------===//

static bool mayBeSplit(moe::ProgramOp program, const MatmulProblem &problem,
                       const Schedule &schedule, const Hardware &hardware) {
  // Adding two partial sums over halves of K may change the last bits of the
  // result compared with one sum over K.
  return !program.getBatchInvariant() &&
         program.getTarget().getArchRow().has("clusters") &&
         engineOf(schedule).maySplit(problem, schedule, hardware);
}

static FailureOr<moe::ScheduleAttr> selectMatmul(moe::KernelOp kernel,
                                                 MeasuredSchedules &measured) {
  auto program = kernel->getParentOfType<moe::ProgramOp>();
  const FailureOr<Hardware> hardware = hardwareOf(kernel);
  const FailureOr<MatmulProblem> problem = tiledProblem(kernel);
  if (failed(hardware) || failed(problem))
    return failure();
  Engines engines = servingEngines(program.getReportAttr(),
                                   findStage<moe::GroupedMatmulOp>(kernel));
  std::optional<Schedule> chosen = knownGood(*problem, engines, *hardware);
  const Engine *engine = chosen ? &engineOf(*chosen) : engines.front();
  std::ranges::stable_partition(
      engines, [&](const Engine *other) { return other == engine; });
  const FailureOr<const TunedRow *> row =
      measured.find(kernel, *problem, engines, *hardware);
  if (failed(row))
    return failure();
  if (*row)
    chosen = scheduleOfRow(**row, *problem, *hardware);
  if (!chosen) {
    std::vector<Schedule> legal = engine->candidates(*problem, *hardware);
    if (legal.empty())
      return kernel.emitError()
             << "no schedule of engine '" << engine->row.name
             << "' is legal for tiles "
             << "of " << problem->tileRows << " rows on " << hardware->arch
             << "; " << engine->possibleTileRows(*problem) << " are";
    chosen = best(*problem, legal, *hardware);
  }
  if (mayBeSplit(program, *problem, *chosen, *hardware))
    chosen->cluster = {kSplit, 1, 1};
  return scheduleAttr<moe::MatmulScheduleAttr>(program, *chosen);
}

/// Accepts any legal schedule of an engine that the report admits.
static FailureOr<moe::ScheduleAttr> acceptMatmul(moe::KernelOp kernel) {
  auto program = kernel->getParentOfType<moe::ProgramOp>();
  const moe::ScheduleAttr stands = kernel.getScheduleAttr();
  const FailureOr<Hardware> hardware = hardwareOf(kernel);
  const FailureOr<MatmulProblem> problem = tiledProblem(kernel);
  if (failed(hardware) || failed(problem))
    return failure();
  std::vector<std::string> engines;
  for (const Engine *engine : servingEngines(
           program.getReportAttr(), findStage<moe::GroupedMatmulOp>(kernel)))
    engines.emplace_back(engine->row.name);
  if (!isa<moe::MatmulScheduleAttr>(stands) ||
      !llvm::is_contained(engines, stands.getEngine()))
    return kernel.emitError()
           << stands << " does not support this matmul; the report admits "
           << llvm::join(engines, ", ");
  Schedule s = *stands.getMatmul();
  if (auto reason = whyIllegal(*problem, s, *hardware))
    return kernel.emitError()
           << "the existing schedule is not legal: " << *reason;
  if (!s.cluster.empty()) {
    s.cluster.clear();
    if (mayBeSplit(program, *problem, s, *hardware))
      s.cluster = {kSplit, 1, 1};
  }
  return scheduleAttr<moe::MatmulScheduleAttr>(program, s);
}

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

static void planMatmul(moe::KernelOp kernel, LaunchPlan &plan) {
  const moe::ScheduleAttr schedule = kernel.getScheduleAttr();
  const MatmulProblem problem = problemOf(kernel);
  const Schedule &numbers = *schedule.getMatmul();
  const int64_t cluster =
      schedule.getCluster().empty() ? 1 : schedule.getCluster()[0];
  plan.sharedBytes = sharedBytes(problem, numbers);
  // `cursor` is the index of the word in tile_count from which persistent CTAs
  // draw their next tile.
  if (schedule.getPersistent())
    plan.cursor = findStage<moe::GroupedMatmulOp>(kernel).isFirst() ? 1 : 2;
  if (numbers.hasRoles()) {
    plan.counts = countsColumnTiles(kernel);
    plan.awaits = awaitedColumnTiles(kernel);
    if (const auto hardware = findHardware(kernel); cluster > 1 && hardware)
      plan.splitTiles = mostTilesToSplit(*hardware);
  }
  plan.label = tileLabel(schedule);
  const int64_t columnTiles =
      llvm::divideCeil(problem.n, takenWeightRows(problem, numbers.tileN));
  plan.grid = Expression(columnTiles) *
              tileCapacity(numbers.tileM, problem.localExperts);
  if (schedule.getPersistent())
    plan.grid = Expression(cluster) * plan.grid;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

namespace {
class MatmulText {
public:
  explicit MatmulText(Emission &emission)
      : emission(emission), schedule(*emission.schedule.getMatmul()),
        engine(engineOf(schedule)), problem(problemOf(emission.kernel)),
        matmul(findStage<moe::GroupedMatmulOp>(emission.kernel)),
        activate(findStage<moe::ActivateOp>(emission.kernel)),
        quantize(findStage<moe::QuantizeOp>(emission.kernel)),
        ofBlocks(matmul.getRealization() == moe::Realization::Blocks) {}

  void addFields();
  void addConfig();

private:
  void addOperand(OpOperand &operand);
  std::string multipliedType(mlir::Value value);
  std::string mma();

  Emission &emission;
  const Schedule &schedule;
  const Engine &engine;
  const MatmulProblem problem;
  moe::GroupedMatmulOp matmul;
  moe::ActivateOp activate;
  moe::QuantizeOp quantize;
  const bool ofBlocks; ///< true if the tensor cores apply block scales
};
} // namespace

/// Returns the C++ element type of a matmul operand. Block-scaled MMA
/// instructions read two 4-bit codes as one element.
std::string MatmulText::multipliedType(mlir::Value value) {
  return ofBlocks && elementBits(elementTypeOf(value)) == 4 &&
                 multipliedBits(matmul) == 4
             ? "moe::e2m1x2"
             : cppType(value);
}

void MatmulText::addOperand(OpOperand &operand) {
  const StringRef name = matmul.getOperandName(operand.getOperandNumber());
  const mlir::Value value = operand.get();
  // If weight codes are narrower than lhs elements, producer warps copy and
  // expand them to bytes, because a tensor map cannot do that.
  const auto spreadsCodes = [&] {
    return ofBlocks && elementBits(elementTypeOf(matmul.getRhs())) <
                           elementBits(elementTypeOf(matmul.getLhs()));
  };
  const bool mapsRows = name == "lhs" && !matmul.isFirst() &&
                        !matmul.getRows() && engine.mapsRows(problem, schedule);
  if (name == "rhs" && engine.isPersistent() && !matmul.readsFragments() &&
      !spreadsCodes())
    addWeightMap(matmul, emission.schedule, emission.boundTo(name),
                 emission.out);
  else if (mapsRows)
    addRowMap(matmul, emission.schedule, emission.boundTo(name), emission.out);
  else if (name == "tiles")
    emission.pointer(name, "int4", /*written=*/emission.plan.getCounts());
  else
    emission.pointer(name,
                     name == "lhs" || name == "rhs" ? multipliedType(value)
                                                    : cppType(value),
                     /*written=*/name == "tile_count" && engine.isPersistent());
  if (name == "lhs" && !mapsRows)
    emission.args().rowStride("lhs_row_stride", emission.boundTo(name));
}

void MatmulText::addFields() {
  for (OpOperand &operand : matmul->getOpOperands())
    addOperand(operand);
  if (matmul.getBiasOfRank())
    emission.args().ofRank("add_bias");
  addNumbers(activate, [&](StringRef field, StringRef type) {
    emission.pointer(field, type);
  });
  if (!quantize)
    emission.pointer("result", cppType(resultOfMatmul(emission.kernel)), true);
}

/// Returns the MMA type. Its template arguments are the operand type and, for
/// block scales, the types of the scales and the weights.
std::string MatmulText::mma() {
  const bool isNative = catalog::choosesNative(
      &engine.row, elementTypeOf(matmul.getLhs()),
      emission.program.getTarget().getArchRow().features);
  std::string types = multipliedType(matmul.getLhs());
  const bool scalesGroups = problem.powerGroups && engine.row.scalesBlocks;
  if (ofBlocks || scalesGroups)
    types += fmt::format(", {}, {}",
                         scalesGroups ? std::string("moe::ue8m0")
                                      : cppType(matmul.getRhsScale()),
                         multipliedType(matmul.getRhs()));
  return engine.mma(problem, schedule, types, isNative);
}

/// Returns true if the weight's scales are packed in blocks of 128 rows by 4
/// scales, and the codes are not in fragment order.
static bool readsScaleAtoms(moe::GroupedMatmulOp matmul) {
  if (!matmul.getRhsScale() || matmul.readsFragments())
    return false;
  const auto layout = dyn_cast_or_null<moe::LayoutAttr>(
      cast<RankedTensorType>(matmul.getRhsScale().getType()).getEncoding());
  return layout && layout.getOrder() == "fragment";
}

void MatmulText::addConfig() {
  const moe::PlanAttr plan = emission.plan;
  ConfigPrinter &config = emission.config();
  config.type("Input", multipliedType(matmul.getLhs()));
  config.type("Weight", multipliedType(matmul.getRhs()));
  config.type("Result", cppType(resultOfMatmul(emission.kernel)));
  addWeightConfig(matmul, config);
  addActivation(activate ? activate.getActivation() : moe::ActivationAttr(),
                emission.out.text);
  addEngineHeader(engine.row.name, emission.out);
  config.type("Mma", mma());
  addSchedule(schedule, config);
  if (plan.getCursor())
    config.number("kCursor", plan.getCursor());
  if (engine.isPersistent()) {
    config.flag("kCounts", plan.getCounts());
    config.number("kAwaited", plan.getAwaits());
    if (plan.getSplitTiles()) {
      config.number("kSplit", emission.out.cluster[0]);
      config.number("kSplitTiles", plan.getSplitTiles());
    }
  }
  const int64_t k = matmul.getK();
  config.number("kN", matmul.getN());
  config.number("kK", ofBlocks ? k * multipliedBits(matmul) / 8 : k);
  config.number("kExperts", matmul.getNumExperts());
  const bool gathers = bool(matmul.getRows());
  if (gathers)
    config.number("kPairs", *matmul.getPairs());
  config.flag("kGather", gathers);
  config.flag("kBias", bool(matmul.getBias()));
  config.number("kInterleave", matmul.getInterleave());
  addGateUpOrder(matmul.getGateUpOrder(), config);
  if (readsScaleAtoms(matmul))
    config.flag("kScaleAtoms", true);
  config.flag("kTilesEarly", plan.getEarly());
}

static void emitMatmul(Emission &emission) {
  MatmulText text(emission);
  text.addFields();
  text.addConfig();
  if (findStage<moe::QuantizeOp>(emission.kernel))
    addQuantizedResult(emission);
}

constexpr Kind compiler::kernels::grouped_matmul = {.names = "grouped_matmul",
                                                    .schedule = selectMatmul,
                                                    .accepts = acceptMatmul,
                                                    .plan = planMatmul,
                                                    .emit = emitMatmul};
