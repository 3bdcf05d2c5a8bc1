//===- ChooseWeightLayout.cpp - one packed copy of each weight ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A gated activation needs a gate column and its up column in one thread.
// With rows interleaved by 8 both lie in the two halves of an m16n8 tile pair,
// in one fragment, for mma.sync as for wgmma, plain and swapped. What a
// checkpoint stores in another order than rows is brought into rows.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"

#include "mlir/IR/Builders.h"

namespace moec::compiler {
#define GEN_PASS_DEF_CHOOSEWEIGHTLAYOUTPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;

namespace {

constexpr int64_t kInterleave = 8;

/// Whether the only reader of the matmul's result is a gated activation.
moe::ActivateOp gatedReader(moe::GroupedMatmulOp matmul) {
  for (Operation *user : matmul.getResult().getUsers())
    if (auto activate = dyn_cast<moe::ActivateOp>(user))
      if (activate.getActivation().isGated())
        return activate;
  return {};
}

/// The layout in which kernels read a weight that gated matmuls read, or what
/// is not stored as they read it; null for as stored.
moe::LayoutAttr layoutFor(RankedTensorType weight, bool gated,
                          StringRef gateUpOrder) {
  if (gated)
    return moe::LayoutAttr::get(weight.getContext(), kInterleave, gateUpOrder);
  return weight.getEncoding() ? moe::LayoutAttr::get(weight.getContext(), 0)
                              : moe::LayoutAttr();
}

LogicalResult pack(moe::ProgramOp program) {
  OpBuilder builder(program.getContext());
  builder.setInsertionPointToStart(&program.getBody().front());
  for (BlockArgument weight : program.getBody().getArguments()) {
    // What is packed already stays.
    if (llvm::any_of(weight.getUsers(), llvm::IsaPred<moe::PackOp>))
      continue;
    SmallVector<moe::GroupedMatmulOp> readers;
    for (Operation *user : weight.getUsers())
      if (auto matmul = dyn_cast<moe::GroupedMatmulOp>(user))
        if (matmul.getRhs() == weight && gatedReader(matmul))
          readers.push_back(matmul);
    const auto type = cast<RankedTensorType>(weight.getType());
    const moe::LayoutAttr layout = layoutFor(
        type, !readers.empty(), program.getLayerOp().getGateUpOrder());
    if (!layout)
      continue;
    if (failed(layout.verifyEncoding(type.getShape(), type.getElementType(),
                                     [&] { return program.emitError(); })))
      return failure();
    auto packed = moe::PackOp::create(
        builder, program.getLoc(),
        RankedTensorType::get(type.getShape(), type.getElementType(), layout),
        weight);
    weight.replaceAllUsesExcept(packed.getResult(), packed);
    for (moe::GroupedMatmulOp matmul : readers)
      gatedReader(matmul).setInterleave(kInterleave);
  }
  return success();
}

struct ChooseWeightLayoutPass
    : compiler::impl::ChooseWeightLayoutPassBase<ChooseWeightLayoutPass> {
  using Base::Base;

  void runOnOperation() override {
    for (auto program : getOperation().getOps<moe::ProgramOp>())
      if (failed(pack(program)))
        return signalPassFailure();
  }
};

} // namespace
