//===- FewTokens.cpp - token counts of the few-token kernels --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"

#include "compiler/matmul/Gemv.h"
#include "compiler/plan/Choices.h"
#include "compiler/plan/LayerFacts.h"
#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/ProgramValues.h"
#include "dialect/catalog/Backends.h"
#include "dialect/catalog/Engines.h"
#include "dialect/catalog/Kernels.h"
#include "runtime/package/Limits.h"

#include <fmt/core.h>

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

/// Returns true if both few-token kernels fit the GPU with this token count.
static bool fits(moe::VariantOp stages, int64_t tokens,
                 const Hardware &hardware) {
  return llvm::all_of(
      matmulsOf(stages, /*ofSharedRows=*/false), [&](auto matmul) {
        return gemvSchedule(gemvProblem(matmul, tokens), hardware).has_value();
      });
}

/// Returns the first stage that no few-token kernel supports, or "".
static StringRef stageWithoutKernel(moe::VariantOp stages) {
  for (Operation &op : stages.getBody().front().without_terminator()) {
    // In a few-token variant, these stages have kernels of their own.
    if (isa<moe::DispatchOp, moe::SendBackOp, moe::FinalizeOp>(op) ||
        isOfSharedRows(&op))
      continue;
    const StringRef word = op.getName().stripDialect();
    const std::string optional = (word + "?").str();
    if (llvm::none_of(catalog::kKernelKinds, [&](const auto &kind) {
          return kind.routesItself &&
                 (kind.stages.contains(word) || kind.stages.contains(optional));
        }))
      return word;
  }
  return {};
}

namespace {
/// The program and stages for which the predicates below check the few-token
/// kernels.
struct Path {
  moe::ProgramOp program;
  moe::VariantOp stages;
  const catalog::Engine &engine;
  std::string realization;
  moe::GroupedMatmulOp first = findIn<moe::GroupedMatmulOp>(program);
  moe::DispatchOp dispatch = findIn<moe::DispatchOp>(program);
  SmallVector<moe::GroupedMatmulOp> matmuls =
      matmulsOf(stages, /*ofSharedRows=*/false);

  /// Returns true if weights are dequantized to the operand type.
  bool converts() {
    return first.getRealization() == moe::Realization::Dequantized;
  }
  const catalog::Architecture &arch() {
    return program.getTarget().getArchRow();
  }
  template <typename Op> bool has() {
    return !stages.getBody().getOps<Op>().empty();
  }
};

struct Refusal {
  std::string code, reason;
};

/// Returns why the few-token kernels do not support the program, or nullopt.
using Predicate = std::optional<Refusal> (*)(Path &path);
} // namespace

static std::optional<Refusal> excluded(Path &path) {
  const Choices choices = choicesOf(path.program.getReportAttr());
  for (const std::string &word :
       {std::string(path.engine.name), path.realization})
    if (choices.isExcluded(word))
      return Refusal{"excluded", fmt::format("'{}' is excluded{}", word,
                                             choices.byVariable("exclude"))};
  return std::nullopt;
}

static std::optional<Refusal> options(Path &path) {
  moe::ProgramOp program = path.program;
  const bool weighs = llvm::any_of(
      path.stages.getBody().getOps<moe::QuantizeOp>(),
      [](auto quantize) { return bool(quantize.getRowWeights()); });
  const bool defers = !path.has<moe::CombineOp>() &&
                      !path.has<moe::CombineNormedOp>() &&
                      !path.has<moe::CombineConstantsOp>();
  auto route = findIn<moe::RouteOp>(program);
  const std::pair<bool, StringRef> notDone[] = {
      {program.getBatchInvariant(), "batch_invariant"},
      {defers, "defer_moe_finalize"},
      {bool(program.getInput("x_scale")), "input_quantized"},
      {bool(findIn<moe::PermuteColumnsOp>(program)), "group_index"},
      {weighs, "apply_router_weight_on_input"},
      {route && route.getZero(), "num_zero_experts"}};
  for (const auto &[asked, option] : notDone)
    if (asked)
      return Refusal{"option_not_supported",
                     fmt::format("engine '{}' does not do option '{}'",
                                 path.engine.name, option.str())};
  return std::nullopt;
}

static std::optional<Refusal> stagesHaveKernels(Path &path) {
  const StringRef stage = stageWithoutKernel(path.stages);
  if (stage.empty())
    return std::nullopt;
  return Refusal{"stage_not_supported",
                 fmt::format("engine '{}' has no kernel that does stage '{}'",
                             path.engine.name, stage.str())};
}

static std::optional<Refusal> readsX(Path &path) {
  moe::QuantizeOp changesType;
  for (auto quantize : path.stages.getBody().getOps<moe::QuantizeOp>())
    if (!quantize.getRowWeights() && quantize.getDescriptor().isPlain())
      changesType = quantize;
  if (changesType)
    return Refusal{"dtype_not_supported",
                   fmt::format("engine '{}' multiplies x as it comes, and does "
                               "not convert {} to {}",
                               path.engine.name,
                               elementTypeOf(changesType.getInput()),
                               elementTypeOf(changesType.getData()))};
  // x is an argument of the program unless it is quantized before the dispatch.
  if (path.dispatch && !isa<BlockArgument>(path.dispatch.getX()))
    return Refusal{"stage_not_supported",
                   fmt::format("engine '{}' quantizes x itself, and stage "
                               "'dispatch' sends it quantized",
                               path.engine.name)};
  return std::nullopt;
}

static std::optional<Refusal> archFeatures(Path &path) {
  const std::string_view missing =
      path.arch().features.firstMissing(path.engine.features);
  if (missing.empty())
    return std::nullopt;
  return Refusal{"feature_missing",
                 fmt::format("engine '{}' needs {}, which {} lacks",
                             path.engine.name, missing, path.arch().name)};
}

static std::optional<Refusal> elementTypes(Path &path) {
  const moe::Realization realization = path.first.getRealization();
  const auto isOther = [&](moe::GroupedMatmulOp matmul) {
    return matmul.getRealization() != realization ||
           realization == moe::Realization::Emulated;
  };
  if (llvm::any_of(path.matmuls, isOther))
    return Refusal{"quant_not_supported",
                   fmt::format("engine '{}' computes both matmuls the same way "
                               "and does not emulate",
                               path.engine.name)};
  if (realization == moe::Realization::Blocks)
    return Refusal{"quant_not_supported",
                   fmt::format("engine '{}' does not multiply scales of blocks "
                               "along k",
                               path.engine.name)};
  const std::string multiplied = elementTypeOf(path.first.getLhs());
  const std::string weight = elementTypeOf(path.first.getRhs());
  if (realization == moe::Realization::Native &&
      !path.engine.elements.contains(multiplied))
    return Refusal{"dtype_not_supported",
                   fmt::format("engine '{}' does not multiply {}",
                               path.engine.name, multiplied)};
  if (realization != moe::Realization::Native &&
      (!path.converts() || !path.engine.weights.contains(weight)))
    return Refusal{"dtype_not_supported",
                   fmt::format("engine '{}' does not convert weights of {} to "
                               "what it multiplies",
                               path.engine.name, weight)};
  return std::nullopt;
}

static std::optional<Refusal> layout(Path &path) {
  const auto readsRows = [](moe::GroupedMatmulOp matmul) {
    return !matmul.readsFragments();
  };
  if (!path.converts() || llvm::none_of(path.matmuls, readsRows))
    return std::nullopt;
  return Refusal{
      "layout_not_supported",
      fmt::format("engine '{}' converts weights in the order of fragments, and "
                  "engine '{}' reads rows",
                  path.engine.name,
                  path.program.getReportAttr().getEngine().str())};
}

static std::optional<Refusal> sizes(Path &path) {
  if (path.first.getK() % 8 != 0)
    return Refusal{"size_not_supported",
                   fmt::format("engine '{}' reads x 8 values at a time: hidden "
                               "size {} is no multiple of 8",
                               path.engine.name, path.first.getK())};
  for (auto matmul : path.matmuls)
    if (const int64_t bytes = matmul.getNumExperts() * matmul.getN() *
                              matmul.getK() * operandBytes(path.stages);
        !path.converts() && bytes >= kOperandBytes)
      return Refusal{"size_not_supported",
                     fmt::format("engine '{}' counts the 16-byte pieces of a "
                                 "weight in 32 bits: those of all experts are "
                                 "{} bytes, and below {} are possible",
                                 path.engine.name, bytes, kOperandBytes)};
  return std::nullopt;
}

/// The predicates in the order of evaluation. The first reason is reported.
static constexpr Predicate kPredicates[] = {
    excluded, options, stagesHaveKernels, readsX, archFeatures, elementTypes,
    layout,   sizes};

/// Returns the maximum token count that the rules and the shared memory permit.
static int64_t mostTokens(Path &path, const Hardware &hardware) {
  const int64_t bytes = operandBytes(path.stages);
  const bool converts = path.converts();
  const std::string weight = elementTypeOf(path.first.getRhs());
  const auto descriptor = path.first.getRhsDescriptor();
  const int64_t groupK = descriptor ? descriptor->getGroup()[1] : 0;
  const auto elements = int64_t(path.first.getN() * path.first.getK());
  const auto *rule =
      llvm::find_if(kFewTokensRules, [&](const FewTokensRule &row) {
        const FewTokensRule::When &when = row.when;
        return when.elementBytes == bytes &&
               (converts ? when.weights.contains(weight)
                         : when.weights.empty()) &&
               (when.groupK == 0 || when.groupK == groupK) &&
               elements >= when.leastElements;
      });
  if (rule == std::end(kFewTokensRules))
    return 0;
  int64_t most = std::min<int64_t>({rule->then.tokens, path.engine.mostTokens,
                                    kFewPairs / rowsOfToken(path.program),
                                    int64_t(path.stages.getMaxTokens())});
  while (most > 0 && !fits(path.stages, most, hardware))
    --most;
  return most;
}

FewTokens compiler::fewTokensOf(moe::ProgramOp program, moe::VariantOp stages) {
  FewTokens few;
  const moe::ReportAttr report = program.getReportAttr();
  const moe::TargetAttr target = program.getTarget();
  const catalog::Backend *backend =
      catalog::find(catalog::kBackends, report.getBackend());
  const catalog::Engine *engine =
      backend ? catalog::find(catalog::kEngines, backend->fewTokens) : nullptr;
  // If the user requests an engine, it is used for all token counts.
  if (!engine || report.getChoice("engine"))
    return few;
  few.engine = engine->name;
  few.realization =
      realizationWith(factsOf(program), *engine, target.getArchRow());
  Path path{program, stages, *engine, few.realization};
  const auto refuse = [&](Refusal refusal) {
    few.code = std::move(refusal.code);
    few.reason = std::move(refusal.reason);
    return few;
  };
  for (const Predicate predicate : kPredicates)
    if (std::optional<Refusal> refusal = predicate(path))
      return refuse(*std::move(refusal));
  Hardware hardware;
  if (!findHardware(target.getArch().str(), target.getGpu().str(), hardware))
    return few;
  const int64_t most = mostTokens(path, hardware);
  if (most == 0)
    return refuse(
        {"shared_memory",
         fmt::format("engine '{}' keeps a token's rows and the prefetched "
                     "weights in shared memory, of which a CTA on {} has {} "
                     "bytes",
                     few.engine, path.arch().name, hardware.sharedPerBlock)});
  // Each rank contributes at least one token.
  if (path.dispatch && most < int64_t(path.dispatch.getRanks()))
    return refuse(
        {"size_not_supported",
         fmt::format("engine '{}' supports {} tokens at most, and {} ranks "
                     "have one token each",
                     few.engine, most, int64_t(path.dispatch.getRanks()))});
  few.tokens = most;
  return few;
}
