//===- Expect.h - what verifiers ask of operands ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks, shapes and element types, with the message where they are others.
// Internal to the verifiers.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_EXPECT_H
#define MOEC_DIALECT_EXPECT_H

#include "dialect/Moe.h"

namespace moec::moe::detail {

using namespace mlir;

inline constexpr int64_t kAny = ShapedType::kDynamic;

inline RankedTensorType tensor(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// `value` must have this shape and, unless null, this element type.
inline LogicalResult expect(Operation *op, StringRef name, Value value,
                            ArrayRef<int64_t> shape, Type element = {}) {
  const RankedTensorType type = tensor(value);
  if (!element)
    element = type.getElementType();
  if (type.getShape() == shape && type.getElementType() == element)
    return success();
  return op->emitOpError() << "'" << name << "' must be "
                           << RankedTensorType::get(shape, element) << ", got "
                           << type;
}

inline LogicalResult expectRank(Operation *op, StringRef name, Value value,
                                int64_t rank) {
  if (tensor(value).getRank() == rank)
    return success();
  return op->emitOpError() << "'" << name << "' must have " << rank
                           << " dimensions, got " << tensor(value);
}

inline LogicalResult expectPositive(Operation *op, StringRef name,
                                    int64_t value) {
  if (value > 0)
    return success();
  return op->emitOpError() << "'" << name << "' must be positive, got "
                           << value;
}

inline Type i32(Operation *op) {
  return IntegerType::get(op->getContext(), 32);
}
inline Type f32(Operation *op) { return Float32Type::get(op->getContext()); }

} // namespace moec::moe::detail

#endif // MOEC_DIALECT_EXPECT_H
