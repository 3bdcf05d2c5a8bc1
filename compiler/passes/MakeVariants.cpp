//===- MakeVariants.cpp - one copy of the stages per token range ----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The ranges and their tiles follow from the rules of the program's engine and
// the size of its operands' elements (schedule/TileRules.h).
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"
#include "compiler/passes/ProgramValues.h"
#include "compiler/schedule/TileRules.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

namespace moec::compiler {
#define GEN_PASS_DEF_MAKEVARIANTSPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;
using compiler::kAnyRows;
using compiler::kTileRules;
using compiler::TileRule;

namespace {

/// Up to here one CTA can route, count and permute; a range never crosses it,
/// so that form-kernels may fuse the three in all of a variant or in none.
constexpr int64_t kFusedRouting = 128;

struct Range {
  int64_t last;
  TileRule rule;
};

SmallVector<Range> rangesFor(moe::LayerOp layer, StringRef engine,
                             int64_t elementBytes, int64_t maxTokens) {
  const double rowsPerToken =
      double(layer.getTopK()) / double(layer.getExperts());
  SmallVector<Range> ranges;
  const auto add = [&](int64_t last, const TileRule &rule) {
    last = std::min(last, maxTokens);
    if (last > (ranges.empty() ? 0 : ranges.back().last))
      ranges.push_back({last, rule});
  };
  for (const TileRule &rule : kTileRules) {
    if (!rule.serves(std::string_view(engine), elementBytes,
                     layer.accumulatesFast()))
      continue;
    int64_t last = maxTokens;
    if (rule.most < kAnyRows) {
      const auto tokens = static_cast<uint64_t>(rule.most / rowsPerToken);
      if (tokens == 0)
        continue;
      last = static_cast<int64_t>(llvm::bit_floor(tokens));
    }
    if (last > kFusedRouting)
      add(kFusedRouting, rule);
    add(last, rule);
  }
  return ranges;
}

/// Of an element of what the matmuls read; both matmuls' are equal.
int64_t operandBytes(moe::VariantOp variant) {
  for (auto matmul : variant.getBody().getOps<moe::GroupedMatmulOp>())
    return compiler::elementBytes(compiler::elementTypeOf(matmul.getLhs()));
  return 0;
}

/// Decided, or of a later phase: not to be cloned again.
bool isDecided(moe::VariantOp variant) {
  for (auto permute : variant.getBody().getOps<moe::PermuteOp>())
    if (permute.getTileRows() == 0)
      return false;
  return true;
}

void cloneStages(moe::ProgramOp program, moe::VariantOp stages) {
  OpBuilder builder(stages);
  int64_t first = stages.getMinTokens();
  for (const Range &range :
       rangesFor(program.getLayerOp(), program.getReportAttr().getEngine(),
                 operandBytes(stages), stages.getMaxTokens())) {
    if (range.last < first)
      continue;
    auto variant = cast<moe::VariantOp>(builder.clone(*stages));
    variant.setSymName("up_to_" + std::to_string(range.last));
    variant.setMinTokens(first);
    variant.setMaxTokens(range.last);
    for (auto permute : variant.getBody().getOps<moe::PermuteOp>()) {
      permute.setTileRows(range.rule.rows);
      if (range.rule.step > 0)
        permute.setRowStep(range.rule.step);
    }
    first = range.last + 1;
  }
  stages.erase();
}

struct MakeVariantsPass
    : compiler::impl::MakeVariantsPassBase<MakeVariantsPass> {
  using Base::Base;

  void runOnOperation() override {
    for (auto program : getOperation().getOps<moe::ProgramOp>()) {
      SmallVector<moe::VariantOp> variants(
          program.getBody().getOps<moe::VariantOp>());
      if (variants.size() != 1 || isDecided(variants.front()))
        continue;
      if (!program.getReport()) {
        program.emitError() << "no backend is chosen; run moe-choose-backend "
                               "first";
        return signalPassFailure();
      }
      cloneStages(program, variants.front());
    }
  }
};

} // namespace
