//===- CopyMatrix.h - copies parts of matrices ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Views of matrices in memory of any alignment, row-major or column-major, and
// copies between them. A copy may convert the element type, but only if every
// element can be represented in the new type.
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

/// A row-major or column-major matrix with elements of `bits` bits. It may also
/// consist of every n-th row of another matrix. If elements have fewer than 8
/// bits, columnStride must be 1.
template <typename Byte> struct MatrixOf {
  Byte *data = nullptr;
  int64_t bits = 8;
  /// Type of the elements; None: elements are never converted.
  host::Storage storage = host::Storage::None;
  int64_t rows = 0, columns = 0;
  int64_t rowStride = 0, columnStride = 1; ///< strides in elements

  /// Returns the view of rows begin, begin + step, ... (`count` rows) and
  /// columns [column, column + columnCount). The view must start at a byte
  /// boundary.
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

/// The conversion from a stored tensor's element type to a value's element
/// type.
enum class Conversion {
  None,     ///< not supported
  Copy,     ///< the bits are copied unchanged
  Round,    ///< rounds to nearest, ties to even
  Integers, ///< i64 to i32; an error if an element does not fit
};

/// A condition that all elements of a tensor must meet.
enum class NumberRule {
  Any,
  Finite,
  Scale, ///< finite and below 2^31; a nonzero scale must not be rounded to 0
  PositiveScale ///< finite and above 0; must not be rounded to 0
};

/// Returns the conversion from `type`, a safetensors type name, to `element`,
/// an element type of the manifest. `packed`: one element may hold several
/// codes (quantized values).
Conversion conversionOf(std::string_view type, std::string_view element,
                        bool packed);

/// Returns the storage type of a safetensors type name, or None.
host::Storage storageOfType(std::string_view type);

/// Copies `from` to `to`, which must have the same row and column counts.
/// `inverse`: the tensor stores the reciprocals of the values. An error
/// contains the stored value that does not meet `rule` or does not fit, and the
/// reason.
Result<void> copyMatrix(const SourceMatrix &from, const TargetMatrix &to,
                        Conversion conversion, bool inverse,
                        NumberRule rule = NumberRule::Any);

/// Checks the elements of a tensor without copying them.
Result<void> checkNumbers(const SourceMatrix &from, bool inverse,
                          NumberRule rule);

} // namespace moec::weights

#endif // MOEC_RUNTIME_WEIGHTS_COPYMATRIX_H
