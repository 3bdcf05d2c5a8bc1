//===- CopyMatrix.h - parts of matrices between layouts ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A matrix in memory of any alignment, by rows or by columns, and copies of one
// into another. A number changes its type only where it stays the same number.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_WEIGHTS_COPYMATRIX_H
#define MOEC_RUNTIME_WEIGHTS_COPYMATRIX_H

#include "runtime/host/Element.h"
#include "runtime/support/Result.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace moec::weights {

/// Elements of `bits` bits; one stride is 1, or rows alone have one.
template <typename Byte> struct MatrixOf {
  Byte *data = nullptr;
  int64_t bits = 8;
  host::Storage storage = host::Storage::None; ///< None: never converted
  int64_t rows = 0, columns = 0;
  int64_t rowStride = 0, columnStride = 1; ///< in elements

  /// Rows begin, begin + step, ...; whole bytes begin wherever a part does.
  MatrixOf part(int64_t begin, int64_t count, int64_t step, int64_t column,
                int64_t columnCount) const {
    MatrixOf made = *this;
    made.data += (begin * rowStride + column * columnStride) * bits / 8;
    made.rows = count;
    made.columns = columnCount;
    made.rowStride = rowStride * step;
    return made;
  }
};

using SourceMatrix = MatrixOf<const std::byte>;
using TargetMatrix = MatrixOf<std::byte>;

/// How a stored type becomes a value's element type.
enum class Conversion {
  None,     ///< it does not
  Copy,     ///< the bits are the same
  Round,    ///< to the nearest number of the other type, ties to even
  Integers, ///< i64 to i32, in its range
};

/// A condition that all numbers of a tensor meet.
enum class NumberRule {
  Any,
  Finite,
  Scale,        ///< below 2^31; only 0 becomes 0
  PositiveScale ///< finite and above 0; does not become 0
};

/// The conversion of a type as safetensors spells it to a manifest's element
/// type; `packed`: elements may hold several codes.
Conversion conversionOf(std::string_view type, std::string_view element,
                        bool packed);

/// The storage of a type as safetensors spells it.
host::Storage storageOfType(std::string_view type);

/// Both have as many rows and columns. `inverse`: what is stored is one over
/// the number. An error says which stored number does not fit, and why.
Result<void> copyMatrix(const SourceMatrix &from, const TargetMatrix &to,
                        Conversion conversion, bool inverse,
                        NumberRule rule = NumberRule::Any);

/// Verifies numbers that nothing copies, of a type as safetensors spells it.
Result<void> checkNumbers(const SourceMatrix &from, bool inverse,
                          NumberRule rule);

} // namespace moec::weights

#endif // MOEC_RUNTIME_WEIGHTS_COPYMATRIX_H
