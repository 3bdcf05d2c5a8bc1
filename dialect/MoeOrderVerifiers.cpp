//===- MoeOrderVerifiers.cpp - verifiers of column orders -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers of the stages that permute columns or gather rows.
//
//===----------------------------------------------------------------------===//

#include "dialect/Expect.h"

using namespace mlir;
using namespace moec::moe;
using namespace moec::moe::detail;

/// Checks an order of the columns of each expert's weight.
static ParseResult verifyOrder(Operation *op, StringRef name, Value order) {
  if (tensor(order).hasStaticShape())
    return success();
  return op->emitOpError() << "'" << name << "' must have static sizes, got "
                           << tensor(order);
}

LogicalResult PermuteColumnsOp::verify() {
  if (bool(getRows()) != bool(getPairs()))
    return emitOpError()
           << "'pairs' must be given with a gather, and only then";
  if ((getPairs() && expectPositive(*this, "pairs", *getPairs())) ||
      verifyOrder(*this, "order", getOrder()) ||
      expect(*this, "offsets", getOffsets(), {getNumExperts() + 1}) ||
      expect(*this, "input", getInput(), {kAny, getColumns()}) ||
      expect(*this, "rows", getRows(), {kAny}))
    return failure();
  return expect(*this, "result", getResult(), {kAny, getColumns()},
                tensor(getInput()).getElementType());
}

LogicalResult GatherRowsOp::verify() {
  if (bool(getRows()) == bool(getPositions()) ||
      bool(getRows()) != bool(getOffsets()))
    return emitOpError()
           << "expected either 'rows' and 'offsets', or 'positions'";
  if (expect(*this, "rows", getRows(), {kAny}) ||
      expect(*this, "input", getInput(), {kAny, getColumns()}))
    return failure();
  return expect(*this, "result", getResult(), {kAny, getColumns()},
                tensor(getInput()).getElementType());
}

LogicalResult PackOrderOp::verify() {
  if (expectPositive(*this, "group", getGroup()))
    return failure();
  return verifyOrder(*this, "index", getIndex());
}
