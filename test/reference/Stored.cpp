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

/// Rows and columns of a tensor of experts by its name.
static std::pair<int64_t, int64_t> extentsOf(const Layer &layer,
                                             std::string_view name) {
  if (name == "w13")
    return {layer.gateUpRows(), layer.hidden};
  if (name == "w2")
    return {layer.hidden, layer.intermediate};
  if (name == "w13_scale" || name == "w13_zero_point")
    return {layer.w13ScaleRows(), layer.w13ScaleColumns()};
  if (name == "w2_scale" || name == "w2_zero_point")
    return {layer.w2ScaleRows(), layer.w2ScaleColumns()};
  if (name == "b13" ||
      (name == "w13_second_scale" && layer.w1Scaling.secondPerRow))
    return {layer.gateUpRows(), 1};
  if (name == "b2" ||
      (name == "w2_second_scale" && layer.w2Scaling.secondPerRow))
    return {layer.hidden, 1};
  return {0, 0};
}

/// Adds the padding of the matrix, if there is some.
static void pad(const Layer &layer, std::string_view name,
                StoredMatrix &matrix) {
  matrix.paddedRows = matrix.rows, matrix.paddedColumns = matrix.columns;
  Layer padded = layer;
  if (layer.storedHidden)
    padded.hidden = layer.storedHidden;
  if (layer.storedIntermediate)
    padded.intermediate = layer.storedIntermediate;
  const auto [rows, columns] = extentsOf(padded, name);
  if (rows == 0)
    return;
  matrix.paddedRows = rows, matrix.paddedColumns = columns;
  // Gates and ups follow each other, but for rows that alternate.
  const bool first = name.starts_with("w13") || name == "b13";
  const bool ofEachRow = rows == padded.gateUpRows();
  if (first && layer.gated && !(ofEachRow && layer.rowsInTurn()))
    matrix.parts = 2;
}

StoredMatrix storedMatrix(const Layer &layer, std::string_view name,
                          int64_t rows, int64_t columns,
                          const Element &element) {
  StoredMatrix matrix;
  matrix.rows = rows, matrix.columns = columns;
  matrix.bits = matrix.storedBits = element.bits();
  pad(layer, name, matrix);
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

/// The least multiple that is not less.
static int64_t raised(int64_t number, int64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

int64_t StoredMatrix::storedBytes() const {
  if (how.atoms)
    return raised(paddedRows, 128) * raised(paddedColumns, 4) * storedBits / 8;
  return paddedRows * paddedColumns * storedBits / 8;
}

int64_t StoredMatrix::placeOf(int64_t row, int64_t column) const {
  int64_t slot = 0, height = paddedRows, width = paddedColumns;
  const int64_t ofPart = rows / parts;
  row = row / ofPart * (paddedRows / parts) + row % ofPart;
  // [row blocks, column blocks, row in 32, row block of 32, column in 4]
  if (how.atoms) {
    const int64_t blocks[] = {row / 128, column / 4, row % 32, row / 32 % 4,
                              column % 4};
    const int64_t extents[] = {0, raised(width, 4) / 4, 32, 4, 4};
    int64_t place = 0;
    for (int i = 0; i < 5; ++i)
      place = place * extents[i] + blocks[i];
    return place * storedBits;
  }
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
  // Elements of 6 bits may begin in one byte and end in the next.
  if (bits < 8) {
    const unsigned next = at % 8 + bits > 8 ? bytes[1] : 0U;
    return (*bytes | next << 8) >> at % 8 & ((1U << bits) - 1);
  }
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
  const unsigned moved = unsigned(value) << at % 8 & mask;
  bytes[0] = uint8_t((bytes[0] & ~mask) | moved);
  if (mask >> 8)
    bytes[1] = uint8_t((bytes[1] & ~(mask >> 8)) | moved >> 8);
}

/// The bits to flip in integers whose sign is an offset as stored.
static uint64_t flipped(const StoredMatrix &matrix) {
  return !matrix.how.packed.empty() && matrix.storedBits == 8 ? 0x80 : 0;
}

void toStored(const StoredMatrix &matrix, const void *rows, void *stored,
              int padding) {
  std::memset(stored, padding, static_cast<size_t>(matrix.storedBytes()));
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
