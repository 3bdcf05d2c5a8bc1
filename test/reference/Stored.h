//===- Stored.h - weights as checkpoints store them -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Between the rows that the reference reads, [experts, rows, columns], and what
// a checkpoint holds by the manifest's `layer.stored_layout`.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_REFERENCE_STORED_H
#define MOEC_TEST_REFERENCE_STORED_H

#include "test/reference/Reference.h"

#include <string_view>

namespace moec::reference {

/// The matrix of one expert, as stored.
struct StoredMatrix {
  int64_t rows = 0, columns = 0;
  /// Extents in memory. Rows are of so many parts, each of which has padding
  /// behind its own.
  int64_t paddedRows = 0, paddedColumns = 0, parts = 1;
  int64_t bits = 0;       ///< of an element in rows
  int64_t storedBits = 0; ///< and as stored
  StoredTensor how;
  int64_t perWord = 1; ///< elements in one of wordBits, one behind the other
  int64_t wordBits = 0;

  int64_t rowsBytes() const { return rows * columns * bits / 8; }
  int64_t storedBytes() const;
  /// Whether memory is the rows themselves.
  bool isRows() const {
    return how.isRows() && paddedRows == rows && paddedColumns == columns;
  }
  /// The place where an element's bits begin as stored.
  int64_t placeOf(int64_t row, int64_t column) const;
};

/// The stored matrix of a weight by its name, w13_zero_point or another, of
/// `rows` x `columns` elements.
StoredMatrix storedMatrix(const Layer &layer, std::string_view name,
                          int64_t rows, int64_t columns,
                          const Element &element);

/// All bits of padding: NaN as a float, -1 as an integer.
inline constexpr int kNoNumber = 0xff;

/// One expert's elements, there and back. Bytes of padding become `padding`.
void toStored(const StoredMatrix &matrix, const void *rows, void *stored,
              int padding = kNoNumber);
void fromStored(const StoredMatrix &matrix, const void *stored, void *rows);

} // namespace moec::reference

#endif // MOEC_TEST_REFERENCE_STORED_H
