//===- FewTokens.cpp - up to how many tokens dot products serve -----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"

#include "compiler/engine/Gemv.h"
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

/// Whether both kernels fit the GPU with so many tokens.
static bool fits(moe::VariantOp stages, int64_t tokens,
                 const Hardware &hardware) {
  return llvm::all_of(
      matmulsOf(stages, /*ofSharedRows=*/false), [&](auto matmul) {
        return gemvSchedule(gemvProblem(matmul, tokens), hardware).has_value();
      });
}

/// The first stage that no kernel of a few tokens does, or "".
static StringRef stageWithoutKernel(moe::VariantOp stages) {
  for (Operation &op : stages.getBody().front().without_terminator()) {
    // Kernels of their own move tokens and sums, and do shared rows.
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

FewTokens compiler::fewTokensOf(moe::ProgramOp program, moe::VariantOp stages) {
  FewTokens few;
  const moe::ReportAttr report = program.getReportAttr();
  const moe::TargetAttr target = program.getTarget();
  const catalog::Backend *backend =
      catalog::find(catalog::kBackends, report.getBackend());
  const catalog::Engine *engine =
      backend ? catalog::find(catalog::kEngines, backend->fewTokens) : nullptr;
  // Who asks for an engine gets it for all tokens.
  if (!engine || report.getChoice("engine"))
    return few;
  few.engine = engine->name;
  few.realization =
      realizationWith(factsOf(program), *engine, target.getArchRow());
  const auto refuse = [&](std::string code, std::string reason) {
    few.code = std::move(code);
    few.reason = std::move(reason);
    return few;
  };
  const Choices choices = choicesOf(report);
  for (const std::string &word : {few.engine, few.realization})
    if (choices.isExcluded(word))
      return refuse("excluded", fmt::format("'{}' is excluded{}", word,
                                            choices.byVariable("exclude")));
  auto first = findIn<moe::GroupedMatmulOp>(program);
  auto route = findIn<moe::RouteOp>(program);
  moe::QuantizeOp weighs, changesType; // x, before it is multiplied
  for (auto quantize : stages.getBody().getOps<moe::QuantizeOp>()) {
    if (quantize.getRowWeights())
      weighs = quantize;
    else if (quantize.getDescriptor().isPlain())
      changesType = quantize;
  }
  const bool defers =
      stages.getBody().getOps<moe::CombineOp>().empty() &&
      stages.getBody().getOps<moe::CombineNormedOp>().empty() &&
      stages.getBody().getOps<moe::CombineConstantsOp>().empty();
  auto dispatch = findIn<moe::DispatchOp>(program);
  const std::pair<bool, StringRef> notDone[] = {
      {program.getBatchInvariant(), "batch_invariant"},
      {defers, "defer_finalize"},
      {bool(program.getInput("x_scale")), "input_quantized"},
      {bool(findIn<moe::PermuteColumnsOp>(program)), "group_index"},
      {bool(weighs), "apply_router_weight_on_input"},
      {route && route.getZero(), "zero_experts"}};
  for (const auto &[asked, option] : notDone)
    if (asked)
      return refuse("option_not_supported",
                    fmt::format("engine '{}' does not do option '{}'",
                                few.engine, option.str()));
  if (const StringRef stage = stageWithoutKernel(stages); !stage.empty())
    return refuse("stage_not_supported",
                  fmt::format("engine '{}' has no kernel that does stage '{}'",
                              few.engine, stage.str()));
  if (changesType)
    return refuse("dtype_not_supported",
                  fmt::format("engine '{}' multiplies x as it comes, and does "
                              "not convert {} to {}",
                              few.engine, elementTypeOf(changesType.getInput()),
                              elementTypeOf(changesType.getData())));
  // x is an argument of the program unless it is quantized before the dispatch.
  if (dispatch && !isa<BlockArgument>(dispatch.getX()))
    return refuse("stage_not_supported",
                  fmt::format("engine '{}' quantizes x itself, and stage "
                              "'dispatch' sends it quantized",
                              few.engine));
  const std::string_view missing =
      target.getArchRow().features.firstMissing(engine->features);
  if (!missing.empty())
    return refuse("feature_missing",
                  fmt::format("engine '{}' needs {}, which {} lacks",
                              few.engine, missing, target.getArchRow().name));
  const moe::Realization realization = first.getRealization();
  const bool converts = realization == moe::Realization::Dequantized;
  const SmallVector<moe::GroupedMatmulOp> matmuls =
      matmulsOf(stages, /*ofSharedRows=*/false);
  for (auto matmul : matmuls)
    if (matmul.getRealization() != realization ||
        realization == moe::Realization::Emulated)
      return refuse("quant_not_supported",
                    fmt::format("engine '{}' computes both matmuls alike, and "
                                "emulates none",
                                few.engine));
  const std::string multiplied = elementTypeOf(first.getLhs());
  const std::string weight = elementTypeOf(first.getRhs());
  if (realization == moe::Realization::Native &&
      !engine->elements.contains(multiplied))
    return refuse("dtype_not_supported",
                  fmt::format("engine '{}' does not multiply {}", few.engine,
                              multiplied));
  if (realization != moe::Realization::Native &&
      (!converts || !engine->weights.contains(weight)))
    return refuse("dtype_not_supported",
                  fmt::format("engine '{}' does not convert weights of {} to "
                              "what it multiplies",
                              few.engine, weight));
  const auto readsRows = [](moe::GroupedMatmulOp matmul) {
    return !matmul.readsFragments();
  };
  if (converts && llvm::any_of(matmuls, readsRows))
    return refuse("layout_not_supported",
                  fmt::format("engine '{}' converts weights in the order of "
                              "fragments, and engine '{}' reads rows",
                              few.engine, report.getEngine().str()));
  if (first.getK() % 8 != 0)
    return refuse("size_not_supported",
                  fmt::format("engine '{}' reads x 8 values at a time: hidden "
                              "size {} is no multiple of 8",
                              few.engine, first.getK()));
  for (auto matmul : matmuls)
    if (const int64_t bytes = matmul.getNumExperts() * matmul.getN() *
                              matmul.getK() * operandBytes(stages);
        !converts && bytes >= kOperandBytes)
      return refuse("size_not_supported",
                    fmt::format("engine '{}' counts the 16-byte pieces of a "
                                "weight in 32 bits: those of all experts are "
                                "{} bytes, and below {} are possible",
                                few.engine, bytes, kOperandBytes));
  const int64_t groupK =
      first.getRhsDescriptor() ? first.getRhsDescriptor()->getGroup()[1] : 0;
  const auto *rule =
      llvm::find_if(kFewTokensRules, [&](const FewTokensRule &row) {
        return row.elementBytes == operandBytes(stages) &&
               (converts ? row.weights.contains(weight)
                         : row.weights.empty()) &&
               (row.groupK == 0 || row.groupK == groupK);
      });
  int64_t most = rule == std::end(kFewTokensRules)
                     ? 0
                     : std::min<int64_t>(rule->tokens, engine->mostTokens);
  most = std::min(
      {most, kFewPairs / rowsOfToken(program), int64_t(stages.getMaxTokens())});
  Hardware hardware;
  if (!findHardware(target.getArch().str(), target.getGpu().str(), hardware))
    return few;
  while (most > 0 && !fits(stages, most, hardware))
    --most;
  if (most == 0)
    return refuse("shared_memory",
                  fmt::format("engine '{}' keeps the rows of a token and the "
                              "weights on their way in shared memory, of which "
                              "a CTA on {} has {} bytes",
                              few.engine, target.getArchRow().name,
                              hardware.sharedPerBlock));
  // Each rank brings a token at least.
  if (dispatch && most < int64_t(dispatch.getRanks()))
    return refuse("size_not_supported",
                  fmt::format("engine '{}' serves {} tokens at most, and {} "
                              "ranks bring a token each",
                              few.engine, most, int64_t(dispatch.getRanks())));
  few.tokens = most;
  return few;
}
