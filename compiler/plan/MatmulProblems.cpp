//===- MatmulProblems.cpp - what schedules of a kernel serve --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/MatmulProblems.h"

#include "compiler/plan/ProgramValues.h"

#include <fmt/format.h>

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

namespace {
/// The tiles of a list, known to the stage that made it.
struct Tiles {
  int64_t rows = 0; ///< 0 where no variant has any
  bool alike = false;
};
} // namespace

/// A refusal where variants that launch the kernel differ.
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
    for (auto other : launch->getBlock()->getOps<moe::LaunchOp>()) {
      if (auto permute = findStage<moe::PermuteOp>(other.getKernelOp()))
        add(permute);
      if (auto batch = findStage<moe::BatchOp>(other.getKernelOp()))
        add(batch);
    }
  });
  if (others)
    return kernel.emitError()
           << "variants with tiles of " << tiles.rows << " and of " << others
           << " rows launch this kernel; one "
           << "schedule serves tiles of one size";
  return tiles;
}

FailureOr<MatmulProblem> compiler::tiledProblem(moe::KernelOp kernel) {
  const FailureOr<Tiles> tiles = tilesOf(kernel);
  if (failed(tiles))
    return failure();
  if (tiles->rows == 0)
    return kernel.emitError() << "kernel is launched by no variant that has "
                                 "rows in tiles";
  auto program = kernel->getParentOfType<moe::ProgramOp>();
  auto matmul = findStage<moe::GroupedMatmulOp>(kernel);
  MatmulProblem p = compiler::problemOf(kernel);
  std::tie(p.minTokens, p.maxTokens) = tokenRange(kernel);
  // Slots of an expert are rows of this rank's experts alone.
  p.experts = storedExperts(program);
  p.pairs = rowsOfToken(program);
  p.elementType = elementTypeOf(matmul.getLhs());
  if (matmul.getRealization() != moe::Realization::Native) {
    // What was measured of plain weights says nothing of these.
    p.elementType =
        fmt::format("{} {}", p.elementType, elementTypeOf(matmul.getRhs()));
    const int64_t group = matmul.getRhsDescriptor()->getGroup()[1];
    if (matmul.getRealization() == moe::Realization::Codes && group > 0)
      p.promoteK = group;
  }
  p.first = matmul.isFirst();
  p.gather = bool(matmul.getRows());
  p.addsFast = matmul.getFast();
  p.tileRows = tiles->rows, p.alikeTiles = tiles->alike;
  return p;
}
