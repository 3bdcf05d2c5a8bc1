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
#include "compiler/plan/LayerFacts.h"
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
    if (program.getPart())
      return choosesNothing(program);
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

  /// A part of a layer has no matmul.
  LogicalResult choosesNothing(moe::ProgramOp program) {
    if (backend.empty() && engine.empty())
      return success();
    return program.emitError()
           << "part '" << *program.getPart()
           << "' has no matmul, which a backend or an engine would serve; "
              "expected neither, got "
           << (backend.empty() ? "engine '" + engine + "'"
                               : "backend '" + backend + "'");
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
