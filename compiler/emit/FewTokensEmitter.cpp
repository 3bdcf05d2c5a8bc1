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

#include "compiler/emit/Emitters.h"

#include "compiler/plan/ProgramValues.h"

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
        program(kernel->getParentOfType<moe::ProgramOp>()),
        schedule(kernel.getScheduleAttr()),
        route(findStage<moe::RouteOp>(kernel)),
        matmul(findStage<moe::GroupedMatmulOp>(kernel)),
        quantize(findStage<moe::QuantizeOp>(kernel)),
        activate(findStage<moe::ActivateOp>(kernel)),
        combine(findStage<moe::CombineOp>(kernel)) {}

  void emit() {
    addFields();
    addConfig();
  }

private:
  bool isFirst() const { return !combine; }
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
  void addOperands(moe::StageOpInterface stage);
  void addFields();
  void addConfig();

  moe::KernelOp kernel;
  llvm::function_ref<std::string(StringRef)> boundTo;
  EmittedKernel &out;
  moe::ProgramOp program;
  moe::ScheduleAttr schedule;
  moe::RouteOp route;
  moe::GroupedMatmulOp matmul;
  moe::QuantizeOp quantize;
  moe::ActivateOp activate;
  moe::CombineOp combine;
};
} // namespace

/// A field for each operand that the kernel does not make and that has none.
void FewTokensEmitter::addOperands(moe::StageOpInterface stage) {
  for (mlir::OpOperand &operand : stage->getOpOperands()) {
    const StringRef name = stage.getOperandName(operand.getOperandNumber());
    if (mlir::isa<mlir::BlockArgument>(operand.get()) &&
        operand.get() != input() && !out.text.arguments.has(name))
      pointer(name, cppType(operand.get()));
  }
}

void FewTokensEmitter::addFields() {
  ArgumentLayout &args = out.text.arguments;
  addRoutingFields(route, boundTo, args);
  addPlacement(kernel, route, args, out.text.config);
  if (isFirst()) {
    // Behind a dispatch the caller gets those of its own tokens, from
    // elsewhere.
    if (!boundTo("ids").empty()) {
      pointer("ids", "int", true);
      pointer("weights", "float", true);
    }
    pointer("counts", "int", true);
  }
  pointer("lhs", cppType(input()));
  if (isFirst())
    args.rowStride("lhs_row_stride", boundTo("lhs"));
  if (quantize)
    addOperands(quantize);
  addOperands(matmul);
  if (matmul.getBiasOfRank())
    args.ofRank("add_bias");
  if (activate)
    addOperands(activate);
  pointer(isFirst() ? "result" : "out", cppType(result()), true);
  if (combine)
    addOperands(combine);
}

void FewTokensEmitter::addConfig() {
  auto permute = findStage<moe::PermuteOp>(kernel);
  ConfigPrinter &config = out.text.config;
  addRoutingConfig(route, out.text);
  config.type("Scaling", quantize ? scalingPolicy(quantize.getDescriptor())
                                  : "moe::quant::Unscaled");
  config.type("Input", cppType(input()));
  config.type("Weight", cppType(matmul.getRhs()));
  config.type("Result", cppType(result()));
  addWeightConfig(matmul, config);
  addActivation(activate ? activate.getActivation() : moe::ActivationAttr(),
                out.text);
  config.open("Schedule");
  config.number("kStages", schedule.getStages());
  if (matmul.readsFragments())
    config.number("kUnitRows",
                  cast<moe::GemvScheduleAttr>(schedule).getFields().unitRows);
  else
    config.number("kOutputs", 1);
  config.close();
  config.number("kExperts", route.getNumExperts());
  config.number("kLocalExperts", permute.getNumLocal());
  config.number("kTopK", route.getTopK());
  config.number("kTokens", schedule.getBlockTokens());
  config.number("kN", matmul.getN());
  config.number("kK", matmul.getK());
  config.flag("kBias", bool(matmul.getBias()));
  config.number("kInterleave", matmul.getInterleave());
  addGateUpOrder(matmul.getGateUpOrder(), config);
  config.number("kScales",
                scalesOf(quantize ? quantize.getStaticScale() : mlir::Value()));
  if (!isFirst())
    config.flag("kRouteEarly", kernel.getPlanAttr().getEarly());
}

void compiler::emitFewTokens(moe::KernelOp kernel,
                             llvm::function_ref<std::string(StringRef)> boundTo,
                             EmittedKernel &out) {
  FewTokensEmitter(kernel, boundTo, out).emit();
}
