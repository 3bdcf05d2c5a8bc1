//===- ChooseBackend.cpp - who serves the layer, and why ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Asks the resolver (plan/Resolver.h) and writes its answer on the
// program, refusals included. The choice is per program, so that all variants
// read the same packed weights.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"
#include "compiler/plan/ProgramValues.h"
#include "compiler/plan/Resolver.h"

#include "mlir/IR/BuiltinOps.h"

namespace moec::compiler {
#define GEN_PASS_DEF_CHOOSEBACKENDPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

/// The first of the two matmuls comes first.
static LayerFacts factsOf(moe::ProgramOp program) {
  LayerFacts facts;
  facts.name = program.getLayer();
  facts.scheme = program.getScheme().value_or("");
  facts.experts = storedExperts(program);
  facts.localExperts = localExperts(program);
  auto permute = findIn<moe::PermuteOp>(program);
  facts.pairs = permute ? permute.getPairs() : 1;
  facts.format = isBatched(program) ? "batched" : "standard";
  bool isFirst = true;
  facts.nativeScales = true;
  program.walk([&](moe::GroupedMatmulOp matmul) {
    (isFirst ? facts.hidden : facts.intermediate) = matmul.getK();
    isFirst = false;
    facts.gated |= bool(matmul.getGateUp());
    facts.quantized |= matmul.getLhsDescriptor() || matmul.getRhsDescriptor();
    const moe::Realization realization = matmul.getRealization();
    facts.emulated |= realization == moe::Realization::Emulated;
    facts.nativeScales &= matmul.getLhsDescriptor() &&
                          matmul.getRhsDescriptor() &&
                          moe::nativeScales(*matmul.getLhsDescriptor(),
                                            *matmul.getRhsDescriptor());
    facts.elementTypes.push_back(elementTypeOf(matmul.getLhs()));
    (realization == moe::Realization::Native ? facts.elementTypes : facts.codes)
        .push_back(elementTypeOf(matmul.getRhs()));
    if (realization != moe::Realization::Native) {
      const ArrayRef<int64_t> group = matmul.getRhsDescriptor()->getGroup();
      facts.codeGroups.push_back({group[0], group[1]});
    }
  });
  program.walk([&](moe::ActivateOp activate) {
    facts.usesErf |= activate.getActivation().usesErf();
  });
  facts.quantizesWeights = bool(findIn<moe::QuantizeWeightsOp>(program));
  return facts;
}

namespace {
struct ChooseBackend : compiler::impl::ChooseBackendPassBase<ChooseBackend> {
  using ChooseBackendPassBase::ChooseBackendPassBase;

  void runOnOperation() override {
    if (failed(choose(getOperation())))
      signalPassFailure();
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
    if (!findIn<moe::GroupedMatmulOp>(program))
      return program.emitError() << "no stage of the program is a matmul";
    std::vector<Refused> refused;
    auto resolution =
        resolve(factsOf(program), program.getTarget().getArch().str(), backend,
                engine, &refused);
    if (!resolution) {
      // A report that chose nothing keeps the reasons for who asks for them.
      Resolution none;
      none.refused = std::move(refused);
      report(program, none);
      return program.emitError() << resolution.error().message;
    }
    report(program, *resolution);
    return success();
  }

  void report(moe::ProgramOp program, const Resolution &resolution) {
    MLIRContext *context = &getContext();
    SmallVector<moe::RefusalAttr> refusals;
    for (const Refused &r : resolution.refused)
      refusals.push_back(moe::RefusalAttr::get(context, r.backend, r.engine,
                                               r.code, r.reason));
    program.setReportAttr(moe::ReportAttr::get(
        context, resolution.backend, resolution.engine, refusals,
        resolution.degraded, resolution.realization));
  }
};
} // namespace
