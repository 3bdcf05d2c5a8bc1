//===- FewTokensEmitter.cpp - the two kernels of few tokens ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The fields and members here are those that route_gate_up.cuh and
// down_combine.cuh list. What routing and quantization make stays inside of the
// kernels, but for what the caller may ask for.
//
//===----------------------------------------------------------------------===//

#include "compiler/backend/cuda/FewTokensEmitter.h"

#include "compiler/backend/cuda/PlacementEmitter.h"
#include "compiler/backend/cuda/QuantizeEmitter.h"
#include "compiler/backend/cuda/RoutingEmitter.h"
#include "compiler/backend/cuda/StageWriter.h"
#include "compiler/passes/ProgramValues.h"
#include "dialect/catalog/Schemes.h"

#include <fmt/format.h>

using mlir::cast;
using mlir::StringRef;
using namespace moec;
using namespace moec::compiler;

namespace {
class FewTokensEmitter {
public:
  FewTokensEmitter(moe::KernelOp kernel,
                   llvm::function_ref<std::string(StringRef)> boundTo,
                   EmittedKernel &out)
      : kernel(kernel), boundTo(boundTo), out(out),
        layer(kernel->getParentOfType<moe::ProgramOp>().getLayerOp()),
        schedule(kernel.getScheduleAttr()),
        route(findStage<moe::RouteOp>(kernel)),
        matmul(findStage<moe::GroupedMatmulOp>(kernel)),
        amax(findStage<moe::AmaxOp>(kernel)),
        quantize(findStage<moe::QuantizeOp>(kernel)),
        activate(findStage<moe::ActivateOp>(kernel)),
        combine(findStage<moe::CombineOp>(kernel)) {}

  void emit() {
    addFields();
    addConfig();
    addStages();
    int64_t tokens = schedule.getBlockTokens();
    out.text.sharedBytes = sharedBytes(
        gemvProblem(layer, matmul, tokens),
        {schedule.getThreads() / 32, int64_t(schedule.getStages())});
    out.tile = std::to_string(tokens);
    // As many CTAs as the GPU holds; fewer where there are fewer results.
    int64_t warps = schedule.getThreads() / 32;
    int64_t results = int64_t(matmul.getN()) / (isGated() ? 2 : 1);
    out.grid.persistent = true;
    out.grid.tiles =
        Expression::symbol("rows") * Expression((results + warps - 1) / warps);
    out.grid.ctasPerSm = schedule.getCtasPerSm();
  }

private:
  bool isFirst() const { return !combine; }
  bool isGated() { return activate && activate.getActivation().isGated(); }
  /// Before it is quantized.
  mlir::Value input() {
    return quantize ? quantize.getInput() : matmul.getLhs();
  }
  mlir::Value result() {
    return isFirst() ? activate.getResult() : combine.getOut();
  }

  void pointer(StringRef field, StringRef type, bool written = false) {
    out.text.arguments.pointer(field, type, boundTo(field), written);
  }
  void addFields();
  void addConfig();
  void addStages();
  void addQuantization();

  moe::KernelOp kernel;
  llvm::function_ref<std::string(StringRef)> boundTo;
  EmittedKernel &out;
  moe::LayerOp layer;
  moe::ScheduleAttr schedule;
  moe::RouteOp route;
  moe::GroupedMatmulOp matmul;
  moe::AmaxOp amax;
  moe::QuantizeOp quantize;
  moe::ActivateOp activate;
  moe::CombineOp combine;
};
} // namespace

void FewTokensEmitter::addFields() {
  ArgumentLayout &args = out.text.arguments;
  addRoutingFields(route, boundTo, args);
  addPlacement(route, boundTo, out);
  if (isFirst()) {
    pointer("ids", "int", true);
    pointer("weights", "float", true);
    pointer("counts", "int", true);
  }
  std::string lhs = boundTo(quantize ? "input" : "lhs");
  args.pointer("lhs", cppType(input()), lhs);
  if (isFirst())
    args.rowStride("lhs_row_stride", lhs);
  if (quantize && quantize.getStaticScale())
    pointer("static_scale", "float");
  pointer("rhs", cppType(matmul.getRhs()));
  if (matmul.getRhsScale())
    pointer("rhs_scale", "float");
  if (matmul.getBias())
    pointer("bias", cppType(matmul.getBias()));
  if (activate && activate.getAddend())
    pointer("addend", cppType(activate.getAddend()));
  addNumbers(activate, [&](StringRef f, StringRef type) { pointer(f, type); });
  pointer(isFirst() ? "result" : "out", cppType(result()), true);
  if (combine && combine.getResidual())
    pointer("residual", cppType(combine.getResidual()));
  if (combine && combine.getAddend())
    pointer("addend", cppType(combine.getAddend()));
}

void FewTokensEmitter::addConfig() {
  const catalog::Scheme *scheme = catalog::find(
      catalog::kSchemes, std::string_view(layer.getQuant().getScheme()));
  int64_t experts = layer.getRoutedExperts();
  ConfigPrinter &config = out.text.config;
  addRoutingConfig(route, config);
  config.type("Scaling", quantize ? scalingPolicy(quantize.getDescriptor())
                                  : "moe::quant::Unscaled");
  config.type("Input", cppType(input()));
  config.type("Weight", cppType(matmul.getRhs()));
  config.type("Result", cppType(result()));
  config.type("Quant", scheme ? scheme->policy : "moe::quant::None");
  addActivation(activate ? activate.getActivation() : moe::ActivationAttr(),
                config);
  config.open("Schedule");
  config.number("kStages", schedule.getStages());
  config.number("kOutputs", 1);
  config.close();
  config.number("kExperts", experts);
  config.number("kLocalBegin", layer.getLocalBegin().value_or(0));
  config.number("kLocalExperts",
                layer.getLocalExperts().value_or(layer.getExperts()));
  config.number("kTopK", route.getTopK());
  config.number("kTokens", schedule.getBlockTokens());
  config.number("kN", matmul.getN());
  config.number("kK", matmul.getK());
  config.flag("kBias", bool(matmul.getBias()));
  config.number("kInterleave", matmul.getInterleave());
  addGateUpOrder(matmul.getGateUpOrder(), config);
  config.number("kScales", quantize && quantize.getStaticScale()
                               ? layer.getStoredExperts()
                               : 1);
  // The launch before this one is the other of the two, and writes only what
  // the caller may ask for.
  if (!isFirst())
    config.flag("kRouteEarly", out.programmatic);
}

void FewTokensEmitter::addQuantization() {
  if (amax) {
    Stage &stage = out.stages.emplace_back();
    stage.op = "amax";
    stage.operands = {{"input", "lhs"}};
    stage.results = {{"block_amax", "%block_amax"}};
    stage.attributes["block_rows"] = int64_t(amax.getBlockRows());
  }
  if (!quantize)
    return;
  Stage &stage = out.stages.emplace_back();
  stage.op = "quantize";
  stage.operands = {{"input", "lhs"}};
  if (amax)
    stage.operands["block_amax"] = "%block_amax";
  if (quantize.getStaticScale())
    stage.operands["static_scale"] = "static_scale";
  stage.results = {{"data", "%lhs"}, {"scale", "%lhs_scale"}};
  addQuantizeAttributes(stage, quantize.getDescriptor(),
                        amax ? int64_t(amax.getBlockRows()) : 1);
  for (Stage &each : out.stages) {
    if (each.op != "amax" && each.op != "quantize")
      continue;
    if (!isFirst())
      each.operands["offsets"] = "%offsets";
    else if (amax)
      each.operands["valid_tokens"] = "valid_tokens";
  }
}

void FewTokensEmitter::addStages() {
  out.stages.push_back(routeStage(route, layer));
  out.stages.push_back(
      countStage(findStage<moe::CountOp>(kernel), layer, "%block_counts"));
  out.stages.push_back(
      permuteStage(findStage<moe::PermuteOp>(kernel), layer, "%block_counts"));
  addQuantization();
  out.stages.push_back(matmulStage(matmul, layer));
  Stage &product = out.stages.back();
  if (quantize) {
    product.operands["lhs"] = "%lhs";
    product.operands["lhs_scale"] = "%lhs_scale";
  }
  if (isFirst()) {
    product.results["result"] = "%h";
    out.stages.push_back(activateStage(activate));
    out.stages.back().operands["input"] = "%h";
  } else {
    product.results["result"] = "%partials";
    out.stages.push_back(combineStage(combine, layer));
    out.stages.back().operands["partials"] = "%partials";
  }
  // What is no field of the kernel stays inside of it, and what only the caller
  // asks for is written once.
  static constexpr StringRef kShown[] = {"ids", "weights", "counts"};
  for (Stage &stage : out.stages)
    for (auto *names : {&stage.operands, &stage.results})
      for (auto it = names->begin(); it != names->end();) {
        std::string &name = it->second;
        bool inside = name[0] != '%' && !out.text.arguments.has(name);
        if (inside && llvm::is_contained(kShown, StringRef(name))) {
          it = names->erase(it);
          continue;
        }
        if (inside)
          name.insert(name.begin(), '%');
        ++it;
      }
}

void compiler::emitFewTokens(moe::KernelOp kernel,
                             llvm::function_ref<std::string(StringRef)> boundTo,
                             EmittedKernel &out) {
  FewTokensEmitter(kernel, boundTo, out).emit();
}
