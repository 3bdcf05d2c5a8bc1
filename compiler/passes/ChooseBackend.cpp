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
    const Choices choices{backend, engine, exclude, allow, variables};
    if (moe::ReportAttr report = program.getReportAttr())
      return agrees(program, report, choices);
    if (program.getPart())
      return choosesNothing(program, choices);
    if (!findIn<moe::GroupedMatmulOp>(program))
      return program.emitError() << "no stage of the program is a matmul";
    std::vector<Candidate> judged;
    auto resolution = resolve(factsOf(program.getLayerOp()),
                              program.getTarget().getArch().str(), choices,
                              realizationOf(program), &judged);
    if (!resolution) {
      // A report that chose nothing keeps the reasons for who asks for them.
      Resolution none;
      none.candidates = std::move(judged);
      report(program, none, choices);
      return program.emitError() << resolution.error().message;
    }
    report(program, *resolution, choices);
    return success();
  }

  /// Nothing but an earlier phase's choice may be asked.
  static LogicalResult agrees(moe::ProgramOp program, moe::ReportAttr report,
                              const Choices &choices) {
    const Choices earlier = choicesOf(report);
    const bool isExcluded = choices.isExcluded(report.getBackend().str()) ||
                            choices.isExcluded(report.getEngine().str()) ||
                            choices.isExcluded(report.getRealization().str());
    if ((choices.backend.empty() || report.getBackend() == choices.backend) &&
        (choices.engine.empty() || report.getEngine() == choices.engine) &&
        !isExcluded &&
        llvm::all_of(choices.allow, [&](const std::string &word) {
          return earlier.isAllowed(word);
        }))
      return success();
    return program.emitError()
           << "backend '" << report.getBackend() << "' with engine '"
           << report.getEngine() << "' was chosen in an earlier phase, "
           << "realization '" << report.getRealization()
           << "'; compile the layer again to ask for another";
  }

  /// A part of a layer has no matmul.
  static LogicalResult choosesNothing(moe::ProgramOp program,
                                      const Choices &choices) {
    if (choices.isOpen())
      return success();
    const auto [option, value] = choices.asked().front();
    return program.emitError()
           << "part '" << *program.getPart()
           << "' has no matmul, which a backend or an engine would serve; "
              "expected neither, got "
           << option << " '" << value << "'" << choices.byVariable(option);
  }

  void report(moe::ProgramOp program, const Resolution &resolution,
              const Choices &choices) {
    MLIRContext *context = &getContext();
    SmallVector<moe::CandidateAttr> candidates;
    for (const Candidate &c : resolution.candidates)
      candidates.push_back(moe::CandidateAttr::get(context, c.backend, c.engine,
                                                   c.realization, c.bits,
                                                   c.code, c.reason));
    SmallVector<moe::ChoiceAttr> asked;
    for (const auto &[option, value] : choices.asked())
      asked.push_back(
          moe::ChoiceAttr::get(context, option, value, choices.saidBy(option)));
    program.setReportAttr(moe::ReportAttr::get(
        context, resolution.backend, resolution.engine, candidates,
        resolution.degraded, resolution.realization, asked));
  }
};
} // namespace
