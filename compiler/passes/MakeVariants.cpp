//===- MakeVariants.cpp - one variant for each token range ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The token ranges and their tile sizes follow from the rules of the program's
// engine and the element size of the operands (compiler/matmul/Engine.h). The
// first range uses the few-token kernels (FewTokens.cpp). If these kernels do
// not support the program, the report gets the reason.
//
// On GPUs that are large enough, further ranges fuse the second matmul with the
// combine (compiler/matmul/Slices.h). Each such range is listed before the
// range that contains it. Ranges for which both matmuls were measured replace
// parts of all other ranges (compiler/plan/Tuned.h).
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/Engine.h"
#include "compiler/matmul/Slices.h"
#include "compiler/passes/Passes.h"
#include "compiler/plan/LayerFacts.h"
#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/PlannedRanges.h"
#include "compiler/plan/ProgramValues.h"
#include "compiler/plan/Tuned.h"
#include "dialect/catalog/Backends.h"
#include "dialect/catalog/Engines.h"
#include "runtime/package/Limits.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

#include <fmt/core.h>

namespace moec::compiler {
#define GEN_PASS_DEF_MAKEVARIANTSPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;
using compiler::FewTokens;
using compiler::kAnyRows;
using compiler::kFusedRouting;
using compiler::Planned;
using Ranges = std::vector<Planned>;
using compiler::TileRule;

namespace {

struct Range {
  int64_t last;
  TileRule rule;
};

/// Returns the program's engine. The report always names an engine of tiled
/// matmuls.
const compiler::Engine &engineOf(moe::ProgramOp program) {
  return *compiler::findEngine(program.getReportAttr().getEngine());
}

/// Returns the problem of the first matmul of the routed experts or, with
/// `ofSharedRows`, of shared experts with their own weights. Members that the
/// tile rules read combine the properties of both matmuls.
compiler::MatmulProblem layerProblem(moe::VariantOp variant,
                                     bool ofSharedRows = false) {
  using compiler::Registers;
  constexpr int64_t kWidest = 256;
  compiler::MatmulProblem layer;
  bool addsFast = false, groupScales = false;
  std::string weights;
  Registers registers = Registers::None;
  for (auto matmul : compiler::matmulsOf(variant, ofSharedRows)) {
    const compiler::MatmulProblem problem = compiler::problemOfStages(matmul);
    // A part may have only the second matmul.
    if (problem.first || layer.n == 0)
      layer = problem;
    addsFast |= problem.addsFast;
    groupScales |= problem.groupScales;
    if (problem.inFragments)
      weights = compiler::elementTypeOf(matmul.getRhs());
    if (matmul.getRhsZeroPoint() || matmul.getRhsSecondScale() ||
        matmul.getRealization() == moe::Realization::Emulated ||
        problem.takesManyRegisters)
      registers = Registers::Many;
    else if (problem.hasBias || problem.n % kWidest)
      registers = std::max(registers, Registers::Few);
  }
  layer.elementBytes = compiler::operandBytes(variant);
  layer.first = true;
  layer.addsFast = addsFast, layer.groupScales = groupScales;
  layer.weights = weights, layer.registers = registers;
  return layer;
}

/// Returns the tile rule for shared rows in a variant of up to `tokens` tokens.
/// All these rows belong to one expert.
std::optional<TileRule> sharedRule(moe::ProgramOp program,
                                   moe::VariantOp stages, int64_t tokens) {
  const compiler::Engine &engine = engineOf(program);
  std::optional<TileRule> chosen;
  const compiler::MatmulProblem layer =
      layerProblem(stages, /*ofSharedRows=*/true);
  for (const TileRule &rule : engine.tileRules()) {
    if (!engine.serves(rule.when, layer))
      continue;
    chosen = rule;
    const double most = rule.when.mostRows;
    if (double(tokens) <= most &&
        (most == kAnyRows || !program.getBatchInvariant()))
      break;
  }
  return chosen;
}

SmallVector<Range> rangesFor(moe::ProgramOp program, moe::VariantOp stages) {
  const compiler::Engine &engine = engineOf(program);
  const int64_t maxTokens = stages.getMaxTokens();
  const bool isBatched = compiler::isBatched(program);
  // Mean number of rows per expert that each token adds. In batched programs a
  // token is a slot of an expert, so 1 is an upper bound.
  const double rowsPerToken =
      isBatched ? 1
                : double(compiler::rowsOfToken(program)) /
                      double(compiler::storedExperts(program));
  SmallVector<Range> ranges;
  SmallVector<TileRule> rules;
  const compiler::MatmulProblem layer = layerProblem(stages);
  for (const TileRule &rule : engine.tileRules())
    if (engine.serves(rule.when, layer))
      rules.push_back(rule);
  const auto add = [&](int64_t last, const TileRule &rule) {
    last = std::min(last, maxTokens);
    if (last > (ranges.empty() ? 0 : ranges.back().last))
      ranges.push_back({last, rule});
  };
  // A batch-invariant layer has one tile size for all token counts: the tile
  // size for the largest counts.
  if (program.getBatchInvariant()) {
    for (const TileRule &rule : rules)
      if (rule.when.mostRows == kAnyRows)
        add(maxTokens, rule);
    return ranges;
  }
  for (const TileRule &rule : rules) {
    int64_t last = maxTokens;
    if (rule.when.mostRows < kAnyRows) {
      const auto tokens =
          static_cast<uint64_t>(rule.when.mostRows / rowsPerToken);
      if (tokens == 0)
        continue;
      last = static_cast<int64_t>(llvm::bit_floor(tokens));
    }
    if (last > kFusedRouting && !isBatched)
      add(kFusedRouting, rule);
    add(last, rule);
  }
  return ranges;
}

/// Name of the variant for all token counts, before it is split into ranges.
constexpr StringLiteral kAll = "all";

/// Last token counts of the ranges for a part of a layer. Kernels for fewer
/// tokens use more CTAs per token, or fewer tokens per CTA.
constexpr int64_t kRangesOfPart[] = {kFusedRouting, 2048, 8192};

/// Returns true if the variant already has its token range or was made by a
/// later phase. Such a variant must not be cloned again.
bool isDecided(moe::ProgramOp program, moe::VariantOp variant) {
  if (!program.hasMatmul())
    return variant.getSymName() != kAll;
  for (auto permute : variant.getBody().getOps<moe::PermuteOp>())
    if (permute.getTileRows() == 0)
      return false;
  for (auto batch : variant.getBody().getOps<moe::BatchOp>())
    if (batch.getTileRows() == 0)
      return false;
  for (auto shared : variant.getBody().getOps<moe::SharedRowsOp>())
    if (shared.getTileRows() == 0)
      return false;
  return true;
}

/// Returns the token ranges in which one kernel computes the second matmul and
/// the combine in slices. Returns {} if the program's engine has no such
/// kernel, or if the kernel does not support the layer.
std::vector<compiler::SlicesRange> slicesOf(moe::ProgramOp program,
                                            moe::VariantOp stages,
                                            compiler::Hardware &hardware) {
  const moe::ReportAttr report = program.getReportAttr();
  const moe::TargetAttr target = program.getTarget();
  // Slices are used only if the layer is not batch-invariant (a batch-invariant
  // layer uses the same kernels for all token counts), if this rank has all
  // experts and combines with top-k weights, and if lhs has scales per row. One
  // scale for all rows was not measured. Nor were parts of a layer.
  if (report.getBackend() != "grouped" || !engineOf(program).hasSlices() ||
      program.getBatchInvariant() || program.getPart() ||
      !compiler::findHardware(target.getArch().str(), target.getGpu().str(),
                              hardware))
    return {};
  const int64_t stored = compiler::storedExperts(program);
  for (auto combine : stages.getBody().getOps<moe::CombineOp>()) {
    if (compiler::isOfSharedRows(combine))
      continue;
    auto matmul = combine.getPartials().getDefiningOp<moe::GroupedMatmulOp>();
    const bool mayServe =
        matmul && !matmul.getFast() && matmul.getNumExperts() == stored &&
        matmul.getLhsScale() && matmul.getLhsDescriptor()->getGroup()[0] > 0;
    if (mayServe && combine.getTopkWeights() && !combine.getIdentity() &&
        !combine.getAddend() && !combine.getResidual() &&
        compiler::elementTypeOf(combine.getOut()) != "f32")
      return compiler::slicesRanges(
          compiler::slicesProblem(matmul, combine, stages.getMaxTokens()),
          hardware);
  }
  return {};
}

/// Adds the few-token kernels to the program's report as a rejected candidate.
void report(moe::ProgramOp program, const FewTokens &few) {
  const moe::ReportAttr old = program.getReportAttr();
  SmallVector<moe::CandidateAttr> candidates(old.getCandidates());
  // The candidate gets the realization text of the chosen candidate.
  StringRef computed;
  for (moe::CandidateAttr candidate : candidates)
    if (candidate.getBackend() == old.getBackend() &&
        candidate.getRealization() == old.getRealization())
      computed = candidate.getComputed();
  candidates.push_back(moe::CandidateAttr::get(
      program.getContext(), old.getBackend(), few.engine, few.realization,
      computed, few.code, few.reason));
  program.setReportAttr(moe::ReportAttr::get(
      program.getContext(), old.getBackend(), old.getEngine(), candidates,
      old.getDegraded(), old.getRealization(), old.getChoices()));
}

/// Returns the ranges that the engine's rules determine, without measured
/// ranges.
Ranges plan(moe::ProgramOp program, moe::VariantOp stages, const FewTokens &few,
            ArrayRef<compiler::SlicesRange> slices) {
  Ranges planned;
  int64_t first = stages.getMinTokens();
  if (few.tokens >= first) {
    planned.push_back({Planned::Few, first, few.tokens,
                       std::min(few.tokens, compiler::kFewTileRows)});
    first = few.tokens + 1;
  }
  for (const Range &range : rangesFor(program, stages)) {
    if (range.last < first)
      continue;
    for (const compiler::SlicesRange &part : slices) {
      const int64_t least = std::max(part.first, first);
      const int64_t most = std::min(part.last, range.last);
      if (least <= most)
        planned.push_back({Planned::Slices, least, most, range.rule.then.rows,
                           range.rule.then.step});
    }
    planned.push_back({Planned::Tiles, first, range.last, range.rule.then.rows,
                       range.rule.then.step});
    first = range.last + 1;
  }
  return planned;
}

/// Returns the row step of the tile rule with this number of tile rows.
int64_t stepOf(moe::ProgramOp program, moe::VariantOp stages, int64_t rows) {
  const compiler::Engine &engine = engineOf(program);
  const compiler::MatmulProblem layer = layerProblem(stages);
  for (const TileRule &rule : engine.tileRules())
    if (rule.then.rows == rows && engine.serves(rule.when, layer))
      return rule.then.step;
  return 0;
}

/// Returns the ranges in which both matmuls have measured schedules with the
/// same tile rows.
Ranges measuredRanges(moe::ProgramOp program, moe::VariantOp stages,
                      const std::vector<compiler::TunedRow> &rows) {
  compiler::MatmulProblem problems[2];
  compiler::Engines engines[2];
  for (auto matmul : compiler::matmulsOf(stages, /*ofSharedRows=*/false)) {
    const int index = matmul.isFirst() ? 0 : 1;
    problems[index] = compiler::problemOfStages(matmul);
    engines[index] = compiler::servingEngines(program.getReportAttr(), matmul);
  }
  Ranges planned;
  compiler::Hardware hardware;
  if (!compiler::findHardware(program.getTarget().getArch().str(),
                              program.getTarget().getGpu().str(), hardware))
    return planned;
  for (const compiler::TunedRange &range : compiler::joined(
           compiler::servedRanges(rows, problems[0], engines[0], problems[1],
                                  engines[1], hardware, stages.getMaxTokens())))
    planned.push_back({Planned::Tuned, range.first, range.last, range.tileRows,
                       stepOf(program, stages, range.tileRows)});
  return planned;
}

/// Returns the tuned ranges in an input program. If ranges overlap, only the
/// first range is kept.
Ranges givenRanges(ArrayRef<std::string> texts, int64_t maxTokens) {
  Ranges planned;
  for (const std::string &text : texts)
    if (const auto range = compiler::parseGivenRange(text))
      if (range->last <= maxTokens)
        planned.push_back({Planned::Tuned, range->first, range->last,
                           range->tileRows, range->step});
  llvm::stable_sort(planned, [](const Planned &a, const Planned &b) {
    return a.first < b.first;
  });
  Ranges apart;
  for (const Planned &range : planned)
    if (apart.empty() || apart.back().last < range.first)
      apart.push_back(range);
  return apart;
}

/// Sets the tile rows of an op. Also sets the op's row step, unless `step` is 0
/// (full tiles).
template <typename Op> void setTiles(Op op, int64_t rows, int64_t step) {
  op.setTileRows(rows);
  if (step > 0)
    op.setRowStep(step);
}

/// Clones the stages once for each range. `ranges`: the tuned ranges of an
/// input program. If it is empty, tuned ranges follow from `rows`, the measured
/// schedules.
void cloneStages(moe::ProgramOp program, moe::VariantOp stages,
                 ArrayRef<std::string> ranges,
                 const std::vector<compiler::TunedRow> &rows) {
  OpBuilder builder(stages);
  compiler::Hardware hardware;
  const std::vector<compiler::SlicesRange> slices =
      slicesOf(program, stages, hardware);
  // The tile counts of all variants include the slice counters, so that
  // variants can share the kernels of the first matmul.
  if (!slices.empty())
    for (auto permute : stages.getBody().getOps<moe::PermuteOp>()) {
      auto words = cast<RankedTensorType>(permute.getTileCount().getType());
      permute.getTileCount().setType(
          words.clone({1 + compiler::kSliceCounters}));
    }
  // The few-token kernels compute both matmuls, and so do measured layers.
  const bool isPart = bool(program.getPart());
  const FewTokens few =
      isPart ? FewTokens() : compiler::fewTokensOf(program, stages);
  if (!few.code.empty())
    report(program, few);
  Ranges measured;
  // A batch-invariant layer has one tile size for all token counts.
  if (!program.getBatchInvariant() && !isPart)
    measured = ranges.empty() ? measuredRanges(program, stages, rows)
                              : givenRanges(ranges, stages.getMaxTokens());
  if (!compiler::isBatched(program))
    measured = compiler::splitAt(kFusedRouting, measured);
  for (const Planned &range :
       compiler::cutRanges(plan(program, stages, few, slices), measured)) {
    auto variant = cast<moe::VariantOp>(builder.clone(*stages));
    const bool isSlices = range.kind == Planned::Slices;
    variant.setSymName((isSlices ? "slices_up_to_" : "up_to_") +
                       std::to_string(range.last));
    variant.setMinTokens(range.first);
    variant.setMaxTokens(range.last);
    if (range.kind == Planned::Few)
      variant.setEngine(few.engine);
    if (isSlices)
      variant.setMultiprocessors(hardware.sms);
    variant.setTuned(range.kind == Planned::Tuned);
    const auto decide = [&](auto op) {
      setTiles(op, range.tileRows, range.step);
    };
    for (auto permute : variant.getBody().getOps<moe::PermuteOp>())
      decide(permute);
    for (auto batch : variant.getBody().getOps<moe::BatchOp>())
      decide(batch);
    for (auto shared : variant.getBody().getOps<moe::SharedRowsOp>())
      if (const std::optional<TileRule> rule =
              sharedRule(program, variant, range.last))
        setTiles(shared, rule->then.rows, rule->then.step);
      else
        setTiles(shared, range.tileRows, range.step);
  }
  stages.erase();
}

/// Clones the stages of a part. Kernels of a part without routing do not depend
/// on the token count.
void cloneStagesOfPart(moe::ProgramOp program, moe::VariantOp stages) {
  OpBuilder builder(stages);
  const int64_t most = stages.getMaxTokens();
  SmallVector<int64_t> ranges;
  if (!program.getBatchInvariant() && compiler::findIn<moe::RouteOp>(program))
    llvm::copy_if(kRangesOfPart, std::back_inserter(ranges),
                  [&](int64_t last) { return last < most; });
  ranges.push_back(most);
  int64_t first = stages.getMinTokens();
  for (const int64_t last : ranges) {
    auto variant = cast<moe::VariantOp>(builder.clone(*stages));
    variant.setSymName("up_to_" + std::to_string(last));
    variant.setMinTokens(first);
    variant.setMaxTokens(last);
    first = last + 1;
  }
  stages.erase();
}

struct MakeVariantsPass
    : compiler::impl::MakeVariantsPassBase<MakeVariantsPass> {
  using Base::Base;

  void runOnOperation() override {
    moe::ProgramOp program = getOperation();
    SmallVector<moe::VariantOp> variants(
        program.getBody().getOps<moe::VariantOp>());
    if (variants.size() != 1 || isDecided(program, variants.front()))
      return;
    if (!program.isResolved()) {
      program.emitError() << "no backend is chosen; run moe-choose-backend "
                             "first";
      return signalPassFailure();
    }
    if (!program.hasMatmul()) {
      cloneStagesOfPart(program, variants.front());
      return;
    }
    if (ranges.empty() && !haveRows) {
      auto read = compiler::readTuned(
          std::vector<std::string>(tuned.begin(), tuned.end()));
      if (!read) {
        program.emitError() << read.error().message;
        return signalPassFailure();
      }
      rows = std::move(*read);
      haveRows = true;
    }
    cloneStages(program, variants.front(),
                std::vector<std::string>(ranges.begin(), ranges.end()), rows);
  }

  std::vector<compiler::TunedRow> rows;
  bool haveRows = false;
};

} // namespace
