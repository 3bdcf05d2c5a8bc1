//===- MoeMatmulVerifiers.cpp - verifiers of grouped_matmul ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that the operands match the descriptors, the realization and the
// weight.
//
//===----------------------------------------------------------------------===//

#include "dialect/Expect.h"

using namespace mlir;
using namespace moec::moe;
using namespace moec::moe::detail;

/// Checks that the types of the operands match the descriptors and the
/// realization.
static ParseResult verifyRealizationOfMatmul(GroupedMatmulOp op) {
  const std::optional<DescriptorAttr> lhs = op.getLhsDescriptor(),
                                      rhs = op.getRhsDescriptor();
  const Realization realization = op.getRealization();
  const bool isNative = realization == Realization::Native;
  const bool emulates = realization == Realization::Emulated;
  for (auto [name, descriptor] :
       {std::pair("lhs_descriptor", lhs), std::pair("rhs_descriptor", rhs)})
    if (descriptor && descriptor->isPlain())
      return op.emitOpError()
             << "'" << name << "' is of a quantized operand, got "
             << *descriptor;
  if (!isNative && !rhs)
    return op.emitOpError()
           << "realization '" << stringifyRealization(realization)
           << "' needs a weight with a 'rhs_descriptor'";
  if (bool(rhs) != bool(op.getRhsScale()))
    return op.emitOpError() << "'rhs_scale' must be given with a "
                               "'rhs_descriptor', and only then";
  // An emulated lhs is already dequantized and has no scale.
  if (bool(op.getLhsScale()) != (lhs && !emulates))
    return op.emitOpError()
           << "'lhs_scale' must be given with a 'lhs_descriptor' that is not "
              "emulated, and only then";
  if ((emulates || realization == Realization::Blocks) && !lhs)
    return op.emitOpError()
           << "realization '" << stringifyRealization(realization)
           << "' needs a 'lhs_descriptor'";
  if (realization == Realization::Blocks &&
      (!lhs->isOfBlocks() || lhs->getScale() != rhs->getScale() ||
       lhs->getGroup() != rhs->getGroup()))
    return op.emitOpError() << "realization 'blocks' needs operands with the "
                               "same blocks and scales, got "
                            << *lhs << " and " << *rhs;
  if (bool(op.getLhsSecondScale()) !=
      (realization == Realization::Blocks && bool(lhs->getSecondScale())))
    return op.emitOpError()
           << "'lhs_second_scale' belongs to realization 'blocks' of a "
              "'lhs_descriptor' with a second scale, and only to it";
  if (rhs && tensor(op.getRhs()).getElementType() != rhs->getElement())
    return op.emitOpError() << "'rhs' must be of " << rhs->getElement()
                            << ", got " << tensor(op.getRhs());
  if (lhs && !emulates &&
      tensor(op.getLhs()).getElementType() != lhs->getElement())
    return op.emitOpError() << "'lhs' must be of " << lhs->getElement()
                            << ", got " << tensor(op.getLhs());
  return verifyWord([&] { return op.emitOpError(); },
                    moec::catalog::kGateUpOrders, op.getGateUpOrder(),
                    "gate_up");
}

/// Checks that the weight has one second scale per row, or one for the gate
/// rows and one for the up rows, or one in all if the matmul has no gate.
static ParseResult rhsSecondScaleIsOdd(GroupedMatmulOp op) {
  if (!op.getRhsSecondScale())
    return success();
  const int64_t numbers = op.getRhsDescriptor()->getSecondPerRow() ? op.getN()
                          : op.getGateUp()                         ? 2
                                                                   : 1;
  return expect(op, "rhs_second_scale", op.getRhsSecondScale(),
                {op.getNumExperts(), numbers});
}

/// Checks the second scale of the lhs: [rows, 1] if the descriptor has one
/// second scale per row, otherwise a one-dimensional tensor.
static ParseResult lhsSecondScaleIsOdd(GroupedMatmulOp op) {
  const Value scale = op.getLhsSecondScale();
  if (!scale)
    return success();
  const std::optional<DescriptorAttr> lhs = op.getLhsDescriptor();
  const bool ofRows = lhs && lhs->getSecondPerRow();
  if (expectRank(op, "lhs_second_scale", scale, ofRows ? 2 : 1))
    return failure();
  const SmallVector<int64_t, 2> shape =
      ofRows ? SmallVector<int64_t, 2>{kAny, 1}
             : SmallVector<int64_t, 2>(tensor(scale).getShape());
  return expect(op, "lhs_second_scale", scale, shape);
}

LogicalResult GroupedMatmulOp::verify() {
  if (!tensor(getRhs()).hasStaticShape())
    return emitOpError() << "'rhs' must have static sizes, got "
                         << tensor(getRhs());
  if (bool(getRows()) != bool(getPairs()))
    return emitOpError()
           << "'pairs' must be given with a gather, and only then";
  if (getPairs() && expectPositive(*this, "pairs", *getPairs()))
    return failure();
  if (expect(*this, "lhs", getLhs(), {kAny, getK()}) ||
      expect(*this, "rows", getRows(), {kAny}) ||
      expect(*this, "tiles", getTiles(), {kAny, 4}) ||
      verifyTileCount(*this, getTileCount()) ||
      expect(*this, "bias", getBias(), {getNumExperts(), getN()}) ||
      lhsSecondScaleIsOdd(*this))
    return failure();
  if (getBiasOfRank() && !getBias())
    return emitOpError() << "'bias_of_rank' is of a 'bias', which is not given";
  if (verifyRealizationOfMatmul(*this))
    return failure();
  if (getLhsScale() && !getRhsScale())
    return emitOpError() << "'lhs_scale' must be given with 'rhs_scale'";
  if ((getRhsSecondScale() || getRhsZeroPoint()) && !getRhsScale())
    return emitOpError() << "'rhs_second_scale' and 'rhs_zero_point' must be "
                            "given with 'rhs_scale'";
  if (rhsSecondScaleIsOdd(*this))
    return failure();
  if (getRhsZeroPoint() &&
      tensor(getRhsZeroPoint()).getShape() != tensor(getRhsScale()).getShape())
    return emitOpError() << "'rhs_zero_point' must have the shape of "
                            "'rhs_scale', got "
                         << tensor(getRhsZeroPoint()) << " and "
                         << tensor(getRhsScale());
  if (getRhsScale() && tensor(getRhsScale()).getDimSize(0) != getNumExperts())
    return emitOpError() << "'rhs_scale' must begin with the "
                         << getNumExperts() << " experts, got "
                         << tensor(getRhsScale());
  return expect(*this, "result", getResult(), {kAny, getN()});
}
