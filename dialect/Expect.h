//===- Expect.h - what verifiers ask of operands ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks of ranks, shapes and element types, each with its message. A result is
// true on failure; an absent value passes. Internal to the verifiers.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_EXPECT_H
#define MOEC_DIALECT_EXPECT_H

#include "dialect/FieldParser.h"
#include "dialect/Moe.h"

#include "llvm/ADT/StringExtras.h"

namespace moec::moe::detail {

inline mlir::RankedTensorType tensor(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

/// `value` must have this shape and, unless null, this element type.
inline mlir::ParseResult expect(mlir::Operation *op, mlir::StringRef name,
                                mlir::Value value,
                                mlir::ArrayRef<int64_t> shape,
                                mlir::Type element = {}) {
  if (!value)
    return mlir::success();
  const mlir::RankedTensorType type = tensor(value);
  if (!element)
    element = type.getElementType();
  if (type.getShape() == shape && type.getElementType() == element)
    return mlir::success();
  return op->emitOpError() << "'" << name << "' must be "
                           << mlir::RankedTensorType::get(shape, element)
                           << ", got " << type;
}

inline mlir::ParseResult expectRank(mlir::Operation *op, mlir::StringRef name,
                                    mlir::Value value, int64_t rank) {
  if (!value || tensor(value).getRank() == rank)
    return mlir::success();
  return op->emitOpError() << "'" << name << "' must have " << rank
                           << " dimensions, got " << tensor(value);
}

/// Symbols are names in the manifest and parts of kernels' names.
inline mlir::ParseResult expectSymbol(mlir::Operation *op,
                                      mlir::StringRef name) {
  constexpr size_t kLongest = 160;
  if (name.size() > kLongest)
    return op->emitOpError() << "expected a name of at most " << kLongest
                             << " characters, got " << name.size();
  const auto mayStand = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  if (!name.empty() && !llvm::isDigit(name.front()) &&
      llvm::all_of(name, mayStand))
    return mlir::success();
  return op->emitOpError()
         << "expected a name of letters, digits and '_', got '" << name << "'";
}

inline mlir::ParseResult expectPositive(mlir::Operation *op,
                                        mlir::StringRef name, int64_t value) {
  if (value > 0)
    return mlir::success();
  return op->emitOpError() << "'" << name << "' must be positive, got "
                           << value;
}

inline mlir::Type f32(mlir::Operation *op) {
  return mlir::Float32Type::get(op->getContext());
}

/// The number of tiles, and zeros that kernels count with: of both matmuls, at
/// least.
inline mlir::ParseResult verifyTileCount(mlir::Operation *op,
                                         mlir::Value value) {
  constexpr int64_t kLeast = 3;
  return expect(op, "tile_count", value,
                {std::max(tensor(value).getDimSize(0), kLeast)});
}

} // namespace moec::moe::detail

#endif // MOEC_DIALECT_EXPECT_H
