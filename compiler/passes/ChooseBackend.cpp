//===- ChooseBackend.cpp - who serves the layer, and why ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Asks the resolver (schedule/Resolver.h) and writes its answer on the
// program, refusals included. The choice is per program, so that all variants
// read the same packed weights.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"
#include "compiler/passes/ProgramValues.h"
#include "compiler/schedule/Resolver.h"

#include "mlir/IR/BuiltinOps.h"

namespace moec::compiler {
#define GEN_PASS_DEF_CHOOSEBACKENDPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

static LayerFacts factsOf(moe::LayerOp layer) {
  LayerFacts facts;
  facts.name = layer.getSymName();
  facts.experts = layer.getStoredExperts();
  facts.localExperts = layer.getLocalExperts().value_or(facts.experts);
  facts.topK = layer.getPairsOfToken();
  facts.hidden = layer.getWidth();
  facts.intermediate =
      layer.getLocalIntermediate().value_or(layer.getIntermediate());
  facts.gated = layer.isGated();
  facts.format = layer.getActivationFormat();
  moe::QuantAttr quant = layer.getQuant();
  facts.scheme = quant.getScheme();
  for (moe::DescriptorAttr descriptor :
       {quant.getA1(), quant.getW1(), quant.getA2(), quant.getW2()})
    facts.quantized |= !descriptor.isPlain();
  if (quant.getRealization(true) == moe::Realization::Native) {
    for (moe::DescriptorAttr operand :
         {quant.getA1(), quant.getW1(), quant.getA2(), quant.getW2()})
      facts.elementTypes.push_back(elementTypeName(operand.getElement()));
    return facts;
  }
  for (const bool first : {true, false}) {
    const bool emulated =
        quant.getRealization(first) == moe::Realization::Emulated;
    facts.emulated |= emulated;
    facts.elementTypes.push_back(elementTypeName(
        emulated ? layer.getComputeType()
                 : (first ? quant.getA1() : quant.getA2()).getElement()));
  }
  for (moe::DescriptorAttr weight : {quant.getW1(), quant.getW2()})
    facts.codes.push_back(elementTypeName(weight.getElement()));
  return facts;
}

namespace {
struct ChooseBackend : compiler::impl::ChooseBackendPassBase<ChooseBackend> {
  using ChooseBackendPassBase::ChooseBackendPassBase;

  void runOnOperation() override {
    for (auto program : getOperation().getOps<moe::ProgramOp>())
      if (failed(choose(program)))
        return signalPassFailure();
  }

  LogicalResult choose(moe::ProgramOp program) {
    if (moe::ReportAttr report = program.getReportAttr()) {
      if ((!backend.empty() && report.getBackend() != backend) ||
          (!engine.empty() && report.getEngine() != engine))
        return program.emitError()
               << "backend '" << report.getBackend() << "' with engine '"
               << report.getEngine()
               << "' was chosen in an earlier phase; compile the layer again "
                  "to ask for another";
      return success();
    }
    moe::LayerOp layer = program.getLayerOp();
    auto resolution = resolve(
        factsOf(layer), program.getTarget().getArch().str(), backend, engine);
    if (!resolution)
      return layer.emitError() << resolution.error().message;
    MLIRContext *context = &getContext();
    SmallVector<moe::RefusalAttr> refusals;
    for (const Refused &r : resolution->refused)
      refusals.push_back(moe::RefusalAttr::get(context, r.backend, r.engine,
                                               r.code, r.reason));
    program.setReportAttr(moe::ReportAttr::get(
        context, resolution->backend, resolution->engine, refusals,
        resolution->degraded, resolution->realization));
    return success();
  }
};
} // namespace
