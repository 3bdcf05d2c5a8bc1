//===- MakeVariants.cpp - one copy of the stages per token range ----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which tile is right depends on r, the mean number of rows of an expert:
// rows beyond an expert's end are computed for nothing, and an expert of more
// rows than a tile has its weight read more than once.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

namespace moec::compiler {
#define GEN_PASS_DEF_MAKEVARIANTSPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;

namespace {

/// Tiles of `rows` serve up to `most` rows an expert in the mean. The counts
/// scatter, so a small tile is left before the mean fills it. Measured on an
/// H100 (bench/notes/mma_sync-h100.md): tiles of 32 rows are nowhere more than
/// 1 % better than these, and each size costs two compilations.
struct TileRule {
  int64_t rows;
  double most;
};
constexpr TileRule kTileRules[] = {{16, 8}, {64, 48}};
constexpr int64_t kLargestTile = 128;

/// Up to here one CTA can route, count and permute; a range never crosses it,
/// so that form-kernels may fuse the three in all of a variant or in none.
constexpr int64_t kFusedRouting = 128;

struct Range {
  int64_t last, tileRows;
};

SmallVector<Range> rangesFor(moe::LayerOp layer, int64_t maxTokens) {
  const double rowsPerToken =
      double(layer.getTopK()) / double(layer.getExperts());
  SmallVector<Range> ranges;
  const auto add = [&](int64_t last, int64_t tileRows) {
    last = std::min(last, maxTokens);
    if (last > (ranges.empty() ? 0 : ranges.back().last))
      ranges.push_back({last, tileRows});
  };
  for (const TileRule &rule : kTileRules) {
    const auto tokens = static_cast<uint64_t>(rule.most / rowsPerToken);
    if (tokens == 0)
      continue;
    const auto last = static_cast<int64_t>(llvm::bit_floor(tokens));
    if (last > kFusedRouting)
      add(kFusedRouting, rule.rows);
    add(last, rule.rows);
  }
  if (maxTokens > kFusedRouting)
    add(kFusedRouting, kLargestTile);
  add(maxTokens, kLargestTile);
  return ranges;
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
       rangesFor(program.getLayerOp(), stages.getMaxTokens())) {
    if (range.last < first)
      continue;
    auto variant = cast<moe::VariantOp>(builder.clone(*stages));
    variant.setSymName("up_to_" + std::to_string(range.last));
    variant.setMinTokens(first);
    variant.setMaxTokens(range.last);
    for (auto permute : variant.getBody().getOps<moe::PermuteOp>())
      permute.setTileRows(range.tileRows);
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
      if (variants.size() == 1 && !isDecided(variants.front()))
        cloneStages(program, variants.front());
    }
  }
};

} // namespace
