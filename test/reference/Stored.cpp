//===- Stored.cpp - weights as checkpoints store them ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Memory is one string of bits, the lowest of a byte first. What stands there
// is less by `added` than what it means, and integers of 8 bits have no sign
// where 32 bits hold several.
//
//===----------------------------------------------------------------------===//

#include "test/reference/Stored.h"

#include <cstring>

namespace moec::reference {

StoredMatrix storedMatrix(const Layer &layer, std::string_view name,
                          int64_t rows, int64_t columns,
                          const Element &element) {
  StoredMatrix matrix;
  matrix.rows = rows, matrix.columns = columns;
  matrix.bits = matrix.storedBits = element.bits();
  const bool isZeroPoint = name.ends_with("_zero_point");
  if (name == "w13" || name == "w2")
    matrix.how = layer.storedWeights;
  else if (isZeroPoint)
    matrix.how = layer.storedZeroPoints;
  else if (name == "w13_scale" || name == "w2_scale")
    matrix.how = layer.storedScales;
  constexpr int64_t kWord = 32;
  if (matrix.how.packed.empty()) {
    matrix.wordBits = matrix.bits;
    return matrix;
  }
  // As wide as the codes that they are subtracted from.
  if (isZeroPoint)
    matrix.storedBits = layer.weightType->bits();
  matrix.wordBits = kWord;
  matrix.perWord = kWord / matrix.storedBits;
  return matrix;
}

int64_t StoredMatrix::placeOf(int64_t row, int64_t column) const {
  int64_t slot = 0, height = rows, width = columns;
  if (how.packed == "rows") {
    slot = row % perWord;
    row /= perWord, height /= perWord;
  } else if (how.packed == "columns") {
    slot = column % perWord;
    column /= perWord, width /= perWord;
  }
  if (!how.slots.empty())
    slot = how.slots[slot];
  const int64_t word =
      how.rowsLast ? column * height + row : row * width + column;
  return word * wordBits + slot * storedBits;
}

static uint64_t readBits(const void *memory, int64_t at, int64_t bits) {
  const auto *bytes = static_cast<const uint8_t *>(memory) + at / 8;
  if (bits < 8)
    return *bytes >> at % 8 & ((1U << bits) - 1);
  uint64_t value = 0;
  std::memcpy(&value, bytes, bits / 8);
  return value;
}

static void writeBits(void *memory, int64_t at, int64_t bits, uint64_t value) {
  auto *bytes = static_cast<uint8_t *>(memory) + at / 8;
  if (bits >= 8) {
    std::memcpy(bytes, &value, bits / 8);
    return;
  }
  const unsigned mask = ((1U << bits) - 1) << at % 8;
  *bytes = uint8_t((*bytes & ~mask) | (unsigned(value) << at % 8 & mask));
}

/// The bits to flip in integers whose sign is an offset as stored.
static uint64_t flipped(const StoredMatrix &matrix) {
  return !matrix.how.packed.empty() && matrix.storedBits == 8 ? 0x80 : 0;
}

void toStored(const StoredMatrix &matrix, const void *rows, void *stored) {
  for (int64_t r = 0; r < matrix.rows; ++r)
    for (int64_t c = 0; c < matrix.columns; ++c) {
      const uint64_t value =
          readBits(rows, (r * matrix.columns + c) * matrix.bits, matrix.bits);
      writeBits(stored, matrix.placeOf(r, c), matrix.storedBits,
                (value ^ flipped(matrix)) - uint64_t(matrix.how.added));
    }
}

void fromStored(const StoredMatrix &matrix, const void *stored, void *rows) {
  for (int64_t r = 0; r < matrix.rows; ++r)
    for (int64_t c = 0; c < matrix.columns; ++c) {
      const uint64_t value =
          readBits(stored, matrix.placeOf(r, c), matrix.storedBits);
      writeBits(rows, (r * matrix.columns + c) * matrix.bits, matrix.bits,
                (value + uint64_t(matrix.how.added)) ^ flipped(matrix));
    }
}

} // namespace moec::reference
