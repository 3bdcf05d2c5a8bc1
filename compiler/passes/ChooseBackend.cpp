//===- ChooseBackend.cpp - chooses backend and engine ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the resolver (compiler/plan/Resolver.h) and stores its result on the
// program as a report that includes all rejected candidates. There is one
// choice for each program, because all variants read the same packed weights.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"
#include "compiler/plan/LayerFacts.h"
#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/ProgramValues.h"
#include "compiler/plan/Resolver.h"
#include "dialect/catalog/Backends.h"

#include "mlir/IR/BuiltinOps.h"

#include <fmt/core.h>

namespace moec::compiler {
#define GEN_PASS_DEF_CHOOSEBACKENDPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

namespace {
/// A backend, engine or realization that an earlier phase chose.
struct Standing {
  std::string kind, name;
  std::string
      where; ///< suffix for messages, " of variant @up_to_1"; "": program
};
} // namespace

/// Returns the engines that the program uses or may use: those that its report,
/// variants and schedules name, and those that may still be selected for a
/// matmul without a schedule.
static std::vector<Standing> enginesIn(moe::ProgramOp program,
                                       moe::ReportAttr report) {
  std::vector<Standing> made = {{"engine", report.getEngine().str(), ""}};
  const auto add = [&](StringRef name, const std::string &where) {
    if (llvm::none_of(made, [&](const Standing &s) { return s.name == name; }))
      made.push_back({"engine", name.str(), where});
  };
  for (auto variant : program.getBody().getOps<moe::VariantOp>())
    if (variant.getEngine())
      add(*variant.getEngine(), " of variant @" + variant.getSymName().str());
  program.walk([&](moe::GroupedMatmulOp matmul) {
    auto kernel = matmul->getParentOfType<moe::KernelOp>();
    if (kernel && kernel.getSchedule())
      return add(kernel.getScheduleAttr().getEngine(),
                 " of kernel @" + kernel.getSymName().str());
    // Kernels of other kinds have a fixed engine, which the variant specifies.
    auto variant = matmul->getParentOfType<moe::VariantOp>();
    if (kernel ? kernel.getKind() != "grouped_matmul"
               : bool(variant.getEngine()))
      return;
    for (const Engine *engine : servingEngines(report, matmul))
      add(engine->row.name,
          ", which may compute a matmul that has no schedule");
  });
  // If the variants do not exist yet, few-token kernels may still be chosen.
  const auto *backend = catalog::find(catalog::kBackends, report.getBackend());
  if (auto permute = findIn<moe::PermuteOp>(program);
      permute && permute.getTileRows() == 0 && backend &&
      !backend->fewTokens.empty() && !report.getRefusalOf(backend->fewTokens))
    add(backend->fewTokens, ", which may compute few tokens");
  return made;
}

/// Returns everything that the program uses and that the user's choices may
/// name.
static std::vector<Standing> standingIn(moe::ProgramOp program,
                                        moe::ReportAttr report) {
  std::vector<Standing> made = {
      {"backend", report.getBackend().str(), ""},
      {"realization", report.getRealization().str(), ""}};
  const LayerFacts facts = factsOf(program);
  for (const Standing &engine : enginesIn(program, report)) {
    made.push_back(engine);
    if (const auto *row = catalog::find(catalog::kEngines, engine.name))
      made.push_back(
          {"realization",
           realizationWith(facts, *row, program.getTarget().getArchRow()),
           fmt::format(" of engine '{}'", engine.name)});
  }
  return made;
}

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
    if (!program.hasMatmul())
      return choosesNothing(program, choices.withoutVariables());
    if (!findIn<moe::GroupedMatmulOp>(program))
      return program.emitError() << "no stage of the program is a matmul";
    std::vector<Candidate> judged;
    moe::LayerOp layer = program.getLayerOp();
    // The layer's realization applies even if the stages of the input were
    // edited, because the manifest contains the layer's realization.
    const std::optional<StringRef> said = layer.getRealization();
    auto resolution =
        resolve(factsOf(layer), program.getTarget().getArch().str(), choices,
                said ? said->str() : realizationOf(program), &judged);
    if (!resolution) {
      // The program gets a report without a choice, so that callers can read
      // why each candidate was rejected.
      Resolution none;
      none.candidates = std::move(judged);
      report(program, none, choices);
      return program.emitError() << resolution.error().message;
    }
    report(program, *resolution, choices);
    return success();
  }

  /// Checks that the choices do not contradict what an earlier phase chose.
  static LogicalResult agrees(moe::ProgramOp program, moe::ReportAttr report,
                              const Choices &choices) {
    const Choices earlier = choicesOf(report);
    const auto disagrees = [&](StringRef option, StringRef value,
                               const Twine &chosen) {
      return program.emitError()
             << option << " '" << value << "'"
             << choices.byVariable(option.str())
             << " does not fit what an earlier phase chose: " << chosen
             << "; compile the layer again to ask for another";
    };
    for (const std::string &word : choices.allow)
      if (!earlier.isAllowed(word))
        return disagrees("allow", word,
                         "realization '" + report.getRealization() +
                             "', without allow");
    for (const Standing &its : standingIn(program, report)) {
      const std::string chosen =
          fmt::format("{} '{}'{}", its.kind, its.name, its.where);
      const std::string &forced = its.kind == "backend"  ? choices.backend
                                  : its.kind == "engine" ? choices.engine
                                                         : its.name;
      if (!forced.empty() && forced != its.name)
        return disagrees(its.kind, forced, chosen);
      if (choices.isExcluded(its.name))
        return disagrees("exclude", its.name, chosen);
    }
    return success();
  }

  /// Checks that no backend or engine is requested for a part of a layer
  /// without a matmul. Choices of environment variables are ignored, because
  /// they apply to everything that is compiled.
  static LogicalResult choosesNothing(moe::ProgramOp program,
                                      const Choices &options) {
    const auto asked = options.asked();
    if (asked.empty())
      return success();
    return program.emitError()
           << "part '" << *program.getPart()
           << "' has no matmul, so a backend or an engine has no effect; "
              "expected neither, got "
           << asked.front().first << " '" << asked.front().second << "'";
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
