//===- Overlap.cpp - persistent matmuls that overlap ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/KernelFacts.h"

#include "compiler/matmul/Problem.h"
#include "compiler/plan/ProgramValues.h"

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

static moe::KernelOp kernelOf(moe::LaunchOp launch) {
  auto program = launch->getParentOfType<moe::ProgramOp>();
  for (auto kernel : program.getBody().getOps<moe::KernelOp>())
    if (kernel.getSymName() == launch.getKernel())
      return kernel;
  return {};
}

/// Returns the value that a launch binds to a field of its kernel, or null.
static Value boundTo(moe::LaunchOp launch, moe::KernelOp kernel,
                     StringRef field) {
  for (auto [name, value] :
       llvm::zip(kernel.getFields(), launch.getArguments()))
    if (cast<StringAttr>(name).getValue() == field)
      return value;
  return {};
}

/// Maximum tile rows of matmuls that overlap. For larger tiles, polling the
/// tile's counter costs as much time as the overlap saves
/// (bench/notes/skewed-h100.md).
static constexpr int64_t kOverlappedTileRows = 64;

/// Returns true if the kernel is a persistent grouped matmul that may overlap
/// with the layer's other grouped matmul.
static bool isPersistentMatmul(moe::KernelOp kernel) {
  moe::ScheduleAttr schedule = kernel ? kernel.getScheduleAttr() : nullptr;
  const Schedule *s = schedule ? schedule.getMatmul() : nullptr;
  return s && s->hasRoles() && s->programmatic &&
         s->tileM <= kOverlappedTileRows &&
         kernel.getKind() == "grouped_matmul";
}

int64_t compiler::awaitedColumnTiles(moe::LaunchOp launch) {
  auto before = dyn_cast_or_null<moe::LaunchOp>(launch->getPrevNode());
  if (!before)
    return 0;
  moe::KernelOp second = kernelOf(launch), first = kernelOf(before);
  if (!isPersistentMatmul(first) || !isPersistentMatmul(second))
    return 0;
  auto matmul = findStage<moe::GroupedMatmulOp>(first);
  Value tiles = boundTo(launch, second, "tiles");
  Value lhs = boundTo(launch, second, "lhs");
  if (!matmul.isFirst() || findStage<moe::GroupedMatmulOp>(second).isFirst() ||
      !tiles || tiles != boundTo(before, first, "tiles") || !lhs ||
      lhs.getDefiningOp() != before)
    return 0;
  // A static scale belongs to the whole result and is not covered by the
  // counter of a tile.
  if (auto quantize = findStage<moe::QuantizeOp>(first);
      quantize && quantize.getStaticScale())
    return 0;
  const MatmulProblem problem = problemOf(first);
  int64_t taken =
      takenWeightRows(problem, first.getScheduleAttr().getMatmul()->tileN);
  return (problem.n + taken - 1) / taken;
}

int64_t compiler::awaitedColumnTiles(moe::KernelOp kernel) {
  int64_t tiles = -1;
  kernel->getParentOfType<moe::ProgramOp>().walk([&](moe::LaunchOp launch) {
    if (launch.getKernel() != kernel.getSymName())
      return;
    int64_t its = awaitedColumnTiles(launch);
    tiles = tiles < 0 || tiles == its ? its : 0;
  });
  return tiles < 0 ? 0 : tiles;
}

bool compiler::countsColumnTiles(moe::KernelOp kernel) {
  bool counts = false;
  kernel->getParentOfType<moe::ProgramOp>().walk([&](moe::LaunchOp launch) {
    auto next = dyn_cast_or_null<moe::LaunchOp>(launch->getNextNode());
    if (launch.getKernel() == kernel.getSymName() && next)
      counts |= awaitedColumnTiles(kernelOf(next)) > 0;
  });
  return counts;
}
