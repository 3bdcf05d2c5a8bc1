//===- Expect.h - checks for operation verifiers ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks of ranks, shapes and element types, each with its error message. Every
// check returns true on failure and accepts an absent value. Internal to the
// verifiers.
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

/// Checks that `value` has the given shape and, unless `element` is null, the
/// given element type.
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

/// Checks that `name` is a valid symbol. Symbols become names in the manifest
/// and parts of kernel names.
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

/// Checks the shape of `tile_count` [3 or more]: one value for the number of
/// tiles, followed by at least one counter for each of the two matmuls.
inline mlir::ParseResult verifyTileCount(mlir::Operation *op,
                                         mlir::Value value) {
  constexpr int64_t kLeast = 3;
  return expect(op, "tile_count", value,
                {std::max(tensor(value).getDimSize(0), kLeast)});
}

} // namespace moec::moe::detail

#endif // MOEC_DIALECT_EXPECT_H
