//===- few_tokens.cpp - the two few-token kernels -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The fields and Config members are those that
// templates/moe/kernel/route_gate_up.cuh and
// templates/moe/kernel/down_combine.cuh list. Results of routing and
// quantization stay inside the kernels, except those that the caller may
// request.
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/Kind.h"
#include "compiler/kernels/Parts.h"
#include "compiler/matmul/Gemv.h"
#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/ProgramValues.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

static FailureOr<moe::ScheduleAttr> selectGemv(moe::KernelOp kernel,
                                               MeasuredSchedules &) {
  const FailureOr<Hardware> hardware = hardwareOf(kernel);
  if (failed(hardware))
    return failure();
  const int64_t tokens = tokenRange(kernel).second;
  const std::optional<GemvSchedule> chosen = gemvSchedule(
      gemvProblem(findStage<moe::GroupedMatmulOp>(kernel), tokens), *hardware);
  if (!chosen)
    return kernel.emitError()
           << "no schedule of engine 'gemv' fits the shared memory of "
           << hardware->arch << " with " << tokens << " tokens";
  return scheduleAttr<moe::GemvScheduleAttr>(
      kernel->getParentOfType<moe::ProgramOp>(), *chosen);
}

/// Plans the grid: one CTA per block of results, an upper bound that depends on
/// `rows`. The runtime limits the grid to the CTAs that fit on the GPU.
static void planFewTokens(moe::KernelOp kernel, LaunchPlan &plan) {
  auto matmul = findStage<moe::GroupedMatmulOp>(kernel);
  const GemvSchedule &numbers =
      cast<moe::GemvScheduleAttr>(kernel.getScheduleAttr()).getFields();
  plan.sharedBytes =
      sharedBytes(gemvProblem(matmul, numbers.blockTokens), numbers);
  const Expression rows = Expression::symbol("rows");
  if (matmul.readsFragments()) {
    if (const auto hardware = findHardware(kernel))
      plan.sharedBytes =
          launchBytes(plan.sharedBytes, numbers.ctasPerSm, *hardware);
    plan.grid = rows * Expression(int64_t(matmul.getN()) / numbers.unitRows);
    return;
  }
  const bool gated = problemOf(kernel).gated;
  plan.grid =
      rows * Expression(int64_t(llvm::divideCeil(
                 matmul.getN() / (gated ? 2 : 1), numbers.threads / 32)));
}

namespace {
class FewTokensText {
public:
  explicit FewTokensText(Emission &emission)
      : emission(emission), route(findStage<moe::RouteOp>(emission.kernel)),
        matmul(findStage<moe::GroupedMatmulOp>(emission.kernel)),
        quantize(findStage<moe::QuantizeOp>(emission.kernel)),
        activate(findStage<moe::ActivateOp>(emission.kernel)),
        combine(findStage<moe::CombineOp>(emission.kernel)) {}

  void addFields();
  void addConfig();

private:
  bool isFirst() const { return !combine; }
  /// Returns the lhs of the matmul before quantization.
  mlir::Value input() {
    return quantize ? quantize.getInput() : matmul.getLhs();
  }
  mlir::Value result() {
    return isFirst() ? activate.getResult() : combine.getOut();
  }

  void addOperands(moe::StageOpInterface stage);

  Emission &emission;
  moe::RouteOp route;
  moe::GroupedMatmulOp matmul;
  moe::QuantizeOp quantize;
  moe::ActivateOp activate;
  moe::CombineOp combine;
};
} // namespace

/// Adds a field for each operand of `stage` that the kernel reads from memory
/// and that has no field yet.
void FewTokensText::addOperands(moe::StageOpInterface stage) {
  for (mlir::OpOperand &operand : stage->getOpOperands()) {
    const StringRef name = stage.getOperandName(operand.getOperandNumber());
    if (mlir::isa<mlir::BlockArgument>(operand.get()) &&
        operand.get() != input() && !emission.args().has(name))
      emission.pointer(name, cppType(operand.get()));
  }
}

void FewTokensText::addFields() {
  ArgumentLayout &args = emission.args();
  addRoutingFields(route, emission);
  addPlacement(route, emission);
  if (isFirst()) {
    // If tokens were dispatched from other ranks, another kernel returns the
    // ids and weights of this rank's own tokens to the caller.
    if (!emission.boundTo("ids").empty()) {
      emission.pointer("ids", "int", true);
      emission.pointer("weights", "float", true);
    }
    emission.pointer("counts", "int", true);
  }
  emission.pointer("lhs", cppType(input()));
  if (isFirst())
    args.rowStride("lhs_row_stride", emission.boundTo("lhs"));
  if (quantize)
    addOperands(quantize);
  addOperands(matmul);
  if (matmul.getBiasOfRank())
    args.ofRank("add_bias");
  if (activate)
    addOperands(activate);
  emission.pointer(isFirst() ? "result" : "out", cppType(result()), true);
  if (combine)
    addOperands(combine);
}

void FewTokensText::addConfig() {
  auto permute = findStage<moe::PermuteOp>(emission.kernel);
  ConfigPrinter &config = emission.config();
  addRoutingConfig(route, emission.out.text);
  config.type("Scaling", quantize ? scalingPolicy(quantize.getDescriptor())
                                  : "moe::quant::Unscaled");
  config.type("Input", cppType(input()));
  config.type("Weight", cppType(matmul.getRhs()));
  config.type("Result", cppType(result()));
  addWeightConfig(matmul, config);
  addActivation(activate ? activate.getActivation() : moe::ActivationAttr(),
                emission.out.text);
  config.open("Schedule");
  config.number("kStages", emission.schedule.getStages());
  if (matmul.readsFragments())
    config.number(
        "kUnitRows",
        cast<moe::GemvScheduleAttr>(emission.schedule).getFields().unitRows);
  else
    config.number("kOutputs", 1);
  config.close();
  config.number("kExperts", route.getNumExperts());
  config.number("kLocalExperts", permute.getNumLocal());
  config.number("kTopK", route.getTopK());
  config.number("kTokens", emission.schedule.getBlockTokens());
  config.number("kN", matmul.getN());
  config.number("kK", matmul.getK());
  config.flag("kBias", bool(matmul.getBias()));
  config.number("kInterleave", matmul.getInterleave());
  addGateUpOrder(matmul.getGateUpOrder(), config);
  config.number("kScales",
                scalesOf(quantize ? quantize.getStaticScale() : mlir::Value()));
  if (!isFirst())
    config.flag("kRouteEarly", emission.plan.getEarly());
}

static void emitFewTokens(Emission &emission) {
  FewTokensText text(emission);
  text.addFields();
  text.addConfig();
}

constexpr Kind compiler::kernels::few_tokens = {
    .names = "route_gate_up down_combine",
    .schedule = selectGemv,
    .plan = planFewTokens,
    .emit = emitFewTokens};
