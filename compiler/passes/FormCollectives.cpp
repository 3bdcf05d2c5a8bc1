//===- FormCollectives.cpp - forms collectives between ranks --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A dispatch becomes one collective with all its tensors, so that one library
// call performs it. A finalize becomes one or two collectives.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/GroupStages.h"

using namespace mlir;
using namespace moec;

bool compiler::isBetweenRanks(Operation *stage) {
  if (auto dispatch = dyn_cast<moe::DispatchOp>(stage))
    return !dispatch.getOneSided();
  auto finalize = dyn_cast<moe::FinalizeOp>(stage);
  return finalize && !finalize.getOneSided();
}

bool compiler::isBeforeDispatch(Operation *stage) {
  for (auto dispatch : stage->getBlock()->getOps<moe::DispatchOp>())
    return stage->isBeforeInBlock(dispatch);
  return false;
}

static moe::CollectiveOp create(OpBuilder &builder, Operation *stage,
                                StringRef kind, int64_t ranks, int64_t stride,
                                ArrayRef<StringRef> names, ValueRange values) {
  // The default is omitted, so that the op equals its printed and parsed form.
  return moe::CollectiveOp::create(
      builder, stage->getLoc(), values.getTypes(), builder.getStringAttr(kind),
      builder.getI64IntegerAttr(ranks),
      stride == 1 ? IntegerAttr() : builder.getI64IntegerAttr(stride),
      builder.getStrArrayAttr(names), values);
}

static void form(OpBuilder &builder, moe::DispatchOp dispatch) {
  SmallVector<StringRef> names = {"received_x"};
  for (size_t i = 0; i < dispatch.getScales().size(); ++i)
    names.push_back(i == 0 ? "received_scale" : "received_second_scale");
  names.append({"received_ids", "received_weights"});
  auto gather = create(builder, dispatch, "all_gather", dispatch.getRanks(),
                       dispatch.getStride(), names, dispatch->getOperands());
  dispatch->replaceAllUsesWith(gather->getResults());
}

static void form(OpBuilder &builder, moe::FinalizeOp finalize) {
  Value sum = finalize.getPartials();
  const int64_t ranks = finalize.getRanks(), reduce = finalize.getReduce();
  // If the shared experts' combine adds this result, its name is "routed".
  const StringRef name =
      llvm::any_of(finalize->getUsers(), llvm::IsaPred<moe::CombineOp>)
          ? "routed"
          : "out";
  if (ranks > 1)
    sum =
        create(builder, finalize, "reduce_scatter", ranks, finalize.getStride(),
               {reduce > 1 ? StringRef("scattered") : name}, sum)
            .getValues()
            .front();
  if (reduce > 1)
    sum = create(builder, finalize, "all_reduce", reduce, /*stride=*/1, {name},
                 sum)
              .getValues()
              .front();
  finalize.getOut().replaceAllUsesWith(sum);
}

void compiler::formCollectives(OpBuilder &builder, Operation *stage) {
  builder.setInsertionPoint(stage);
  if (auto dispatch = dyn_cast<moe::DispatchOp>(stage))
    form(builder, dispatch);
  else
    form(builder, cast<moe::FinalizeOp>(stage));
  stage->erase();
}
