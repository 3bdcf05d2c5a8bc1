//===- MoeRankVerifiers.cpp - what moves between ranks --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers of the stages between ranks: groups of ranks, and types that stay
// as they are.
//
//===----------------------------------------------------------------------===//

#include "dialect/Expect.h"

using namespace mlir;
using namespace moec::moe;
using namespace moec::moe::detail;

LogicalResult DispatchOp::verify() {
  if (int64_t(getRanks()) < 2)
    return emitOpError() << "'ranks' must be at least 2, got "
                         << int64_t(getRanks());
  if (expectPositive(*this, "stride", getStride()))
    return failure();
  if (getScales().getTypes() != getReceivedScales().getTypes())
    return emitOpError() << "must receive scales as they are sent";
  for (auto [name, sent, received] :
       {std::tuple<StringRef, Value, Value>("received", getX(), getReceived()),
        {"received_ids", getTopkIds(), getReceivedIds()},
        {"received_weights", getTopkWeights(), getReceivedWeights()}})
    if (expect(*this, name, received, tensor(sent).getShape(),
               tensor(sent).getElementType()))
      return failure();
  return success();
}

LogicalResult FinalizeOp::verify() {
  if (expectPositive(*this, "ranks", getRanks()) ||
      expectPositive(*this, "stride", getStride()) ||
      expectPositive(*this, "reduce", getReduce()))
    return failure();
  if (int64_t(getRanks()) * int64_t(getReduce()) < 2)
    return emitOpError() << "needs several ranks to sum over";
  return expect(*this, "out", getOut(), tensor(getPartial()).getShape(),
                tensor(getPartial()).getElementType());
}
