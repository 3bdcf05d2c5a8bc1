//===- MatmulProblems.cpp - matmul problems of a program ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The sizes are stored in the ops. The other members of a problem are derived
// from the ops.
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/MatmulProblems.h"

#include "compiler/matmul/Engine.h"
#include "compiler/plan/ProgramValues.h"
#include "dialect/catalog/Backends.h"
#include "dialect/catalog/Engines.h"

#include <fmt/core.h>

#include <algorithm>

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

std::pair<int64_t, int64_t> compiler::tokenRange(moe::KernelOp kernel) {
  int64_t least = 0, most = 0;
  kernel->getParentOfType<moe::ProgramOp>().walk([&](moe::LaunchOp launch) {
    if (launch.getKernel() != kernel.getSymName())
      return;
    auto variant = launch->getParentOfType<moe::VariantOp>();
    int64_t first = variant.getMinTokens(), last = variant.getMaxTokens();
    least = least ? std::min(least, first) : first;
    most = std::max(most, last);
  });
  return {std::max<int64_t>(least, 1), std::max<int64_t>(most, 1)};
}

Engines compiler::servingEngines(moe::ReportAttr report,
                                 moe::GroupedMatmulOp matmul) {
  Engines engines;
  if (const Engine *chosen = findEngine(report.getEngine()))
    engines.push_back(chosen);
  if (matmul.getRealization() == moe::Realization::Blocks)
    return engines;
  const catalog::Backend *backend =
      catalog::find(catalog::kBackends, report.getBackend());
  const StringRef order = matmul.readsFragments() ? "fragment" : "rows";
  const std::string lhs = elementTypeOf(matmul.getLhs());
  const bool converts = matmul.getRealization() != moe::Realization::Native;
  const std::string rhs = elementTypeOf(matmul.getRhs());
  // Reports do not refuse every engine that the arch lacks.
  const WordList features = matmul->getParentOfType<moe::ProgramOp>()
                                .getTarget()
                                .getArchRow()
                                .features;
  for (const Engine *engine : allEngines()) {
    const catalog::Engine &row = engine->row;
    if (row.multipliesPlain && features.firstMissing(row.features).empty() &&
        !report.getRefusalOf(row.name) &&
        report.getEngine() != StringRef(row.name) && backend &&
        backend->engines.contains(row.name) &&
        (!converts || row.weights.contains(rhs)) &&
        row.orders.contains(order) &&
        (!matmul.readsFragments() || row.fragmentElements.contains(lhs)))
      engines.push_back(engine);
  }
  return engines;
}

/// Sets the members of the problem that follow from the op and its program:
/// expert counts, row sources and element types.
static void addFacts(moe::GroupedMatmulOp matmul, MatmulProblem &p) {
  auto program = matmul->getParentOfType<moe::ProgramOp>();
  // In batched programs, rows are the slots of this rank's experts only.
  const bool isShared = multipliesSharedRows(matmul);
  p.experts = isShared ? 1 : storedExperts(program);
  p.pairs = isShared ? 1 : rowsOfToken(program);
  p.scheme = program.getScheme().value_or("").str();
  p.elementType = elementTypeOf(matmul.getLhs());
  if (matmul.getRealization() != moe::Realization::Native) {
    // The name of the weight type is appended, because measured schedules for
    // unquantized weights do not apply to this matmul.
    p.elementType =
        fmt::format("{} {}", p.elementType, elementTypeOf(matmul.getRhs()));
    const int64_t group = matmul.getRhsDescriptor()->getGroup()[1];
    if (matmul.getRealization() == moe::Realization::Codes && group > 0)
      p.promoteK = group;
  }
  p.first = matmul.isFirst();
  p.gather = bool(matmul.getRows());
  // Fast accumulation permits tile sizes that other accumulation does not. Its
  // measured rows therefore have a separate element type name.
  if (p.addsFast)
    p.elementType += " fast";
}

namespace {
/// The row tiles that a list contains, as the stage that builds the list
/// defines them.
struct Tiles {
  int64_t rows = 0; ///< 0 if no launch reads a list of tiles
  bool alike = false;
};
} // namespace

/// Returns the tiles that the kernel reads. Emits an error if the variants that
/// launch the kernel have different tile sizes.
static FailureOr<Tiles> tilesOf(moe::KernelOp kernel) {
  Tiles tiles;
  int64_t others = 0;
  auto program = kernel->getParentOfType<moe::ProgramOp>();
  const auto add = [&](auto stage) {
    if (tiles.rows && tiles.rows != int64_t(stage.getTileRows()))
      others = stage.getTileRows();
    else
      tiles = {int64_t(stage.getTileRows()), stage.getRowStep().has_value()};
  };
  program.walk([&](moe::LaunchOp launch) {
    if (launch.getKernel() != kernel.getSymName())
      return;
    for (auto [field, value] :
         llvm::zip(kernel.getFields(), launch.getArguments())) {
      auto other = value.getDefiningOp<moe::LaunchOp>();
      if (cast<StringAttr>(field).getValue() != "tiles" || !other)
        continue;
      if (auto permute = findStage<moe::PermuteOp>(other.getKernelOp()))
        add(permute);
      if (auto batch = findStage<moe::BatchOp>(other.getKernelOp()))
        add(batch);
      if (auto shared = findStage<moe::SharedRowsOp>(other.getKernelOp()))
        add(shared);
    }
  });
  if (others)
    return kernel.emitError()
           << "variants with tiles of " << tiles.rows << " and of " << others
           << " rows launch this kernel; one "
           << "schedule has tiles of one size";
  return tiles;
}

FailureOr<MatmulProblem> compiler::tiledProblem(moe::KernelOp kernel) {
  const FailureOr<Tiles> tiles = tilesOf(kernel);
  if (failed(tiles))
    return failure();
  if (tiles->rows == 0)
    return kernel.emitError() << "kernel is launched by no variant that has "
                                 "rows in tiles";
  MatmulProblem p = problemOf(kernel);
  std::tie(p.minTokens, p.maxTokens) = tokenRange(kernel);
  addFacts(findStage<moe::GroupedMatmulOp>(kernel), p);
  p.tileRows = tiles->rows, p.alikeTiles = tiles->alike;
  return p;
}

MatmulProblem compiler::problemOfStages(moe::GroupedMatmulOp matmul) {
  moe::ActivateOp activate;
  for (Operation *user : matmul->getUsers())
    if (auto its = dyn_cast<moe::ActivateOp>(user))
      activate = its;
  MatmulProblem p = problemOf(matmul, activate);
  addFacts(matmul, p);
  return p;
}

MatmulProblem compiler::gemvProblem(moe::GroupedMatmulOp matmul,
                                    int64_t tokens) {
  MatmulProblem p = problemOfStages(matmul);
  p.maxTokens = tokens;
  p.gated = bool(matmul.getGateUp());
  return p;
}

GivenRange compiler::givenRangeOf(moe::VariantOp variant) {
  GivenRange range;
  range.first = variant.getMinTokens(), range.last = variant.getMaxTokens();
  const auto see = [&](auto op) {
    if (op)
      range.tileRows = op.getTileRows(),
      range.step = op.getRowStep().value_or(0);
  };
  for (Operation &op : variant.getBody().front()) {
    see(dyn_cast<moe::PermuteOp>(op));
    see(dyn_cast<moe::BatchOp>(op));
    if (auto launch = dyn_cast<moe::LaunchOp>(op)) {
      see(findStage<moe::PermuteOp>(launch.getKernelOp()));
      see(findStage<moe::BatchOp>(launch.getKernelOp()));
    }
  }
  return range;
}

std::string compiler::printGivenRange(const GivenRange &range) {
  return fmt::format("{}-{}-{}-{}", range.first, range.last, range.tileRows,
                     range.step);
}

std::optional<GivenRange> compiler::parseGivenRange(StringRef text) {
  GivenRange range;
  SmallVector<StringRef> words;
  text.split(words, '-');
  int64_t *const numbers[] = {&range.first, &range.last, &range.tileRows,
                              &range.step};
  if (words.size() != std::size(numbers))
    return std::nullopt;
  for (auto [word, number] : llvm::zip(words, numbers))
    if (word.getAsInteger(10, *number) || *number < 0)
      return std::nullopt;
  if (range.first < 1 || range.last < range.first || range.tileRows < 1)
    return std::nullopt;
  return range;
}
