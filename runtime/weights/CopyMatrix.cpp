//===- CopyMatrix.cpp - parts of matrices between layouts -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows of one stride are copied whole; a matrix that changes between rows and
// columns goes in blocks, so that lines of the cache are used up.
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/CopyMatrix.h"

#include "runtime/package/ElementTypes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace moec;
using namespace moec::weights;
using host::Storage;

namespace {

bool isFloat(Storage storage) {
  return storage == Storage::F32 || storage == Storage::F16 ||
         storage == Storage::BF16;
}

constexpr int64_t kBlock = 64;

/// The element at `index` of whole bytes.
template <typename Byte> Byte *at(const MatrixOf<Byte> &matrix, int64_t index) {
  return matrix.data + index * (matrix.bits / 8);
}

void copyBits(const SourceMatrix &from, const TargetMatrix &to) {
  if (from.columnStride == 1 && to.columnStride == 1) {
    const auto bytes = static_cast<size_t>(from.columns * from.bits / 8);
    for (int64_t row = 0; row < from.rows; ++row)
      std::memcpy(to.data + row * to.rowStride * to.bits / 8,
                  from.data + row * from.rowStride * from.bits / 8, bytes);
    return;
  }
  const auto bytes = static_cast<size_t>(from.bits / 8);
  for (int64_t first = 0; first < from.rows; first += kBlock)
    for (int64_t column = 0; column < from.columns; ++column)
      for (int64_t row = first; row < std::min(first + kBlock, from.rows);
           ++row)
        std::memcpy(at(to, row * to.rowStride + column * to.columnStride),
                    at(from, row * from.rowStride + column * from.columnStride),
                    bytes);
}

Error notExact(float number) {
  return refused("holds {}, which is no number of that type", number);
}

Result<void> copyNumber(const std::byte *from, Storage source, std::byte *to,
                        Storage target, Conversion conversion, bool inverse) {
  if (conversion == Conversion::Integers) {
    const int64_t number = host::loadInteger(source, from, 0);
    if (number < INT32_MIN || number > INT32_MAX)
      return refused("holds {}, which is none of 32 bits", number);
    host::storeInteger(target, to, 0, number);
    return {};
  }
  float number = 0, stored = 0;
  host::loadFloats(source, from, 1, &number);
  if (inverse)
    number = 1 / number;
  if (target == Storage::UE8M0) {
    // The exponent, if there is nothing else.
    int exponent = 0;
    if (!(number > 0) || std::frexp(number, &exponent) != 0.5f ||
        exponent < -126)
      return notExact(number);
    *to = static_cast<std::byte>(exponent + 126);
    return {};
  }
  host::storeFloats(target, &number, 1, to);
  host::loadFloats(target, to, 1, &stored);
  if (stored != number && !(std::isnan(stored) && std::isnan(number)))
    return notExact(number);
  return {};
}

} // namespace

Storage weights::storageOfType(std::string_view type) {
  const ElementType *row = elementTypeOfStored(type);
  return row && row->bits >= 8 ? host::storageOf(row->name) : Storage::None;
}

Conversion weights::conversionOf(std::string_view type,
                                 std::string_view element, bool packed) {
  const ElementType *row = elementTypeOfStored(type);
  if (row && row->name == element)
    return Conversion::Copy;
  // Bytes hold what numpy and PyTorch have no type for.
  const bool isByte = type == "U8" || type == "I8";
  if (element == "f8E8M0FNU" && type == "U8")
    return Conversion::Copy;
  const bool isSmall = element == "f4E2M1FN" || element == "f6E2M3FN" ||
                       element == "f6E3M2FN" || element == "i4";
  if (isSmall && isByte)
    return Conversion::Copy;
  if (element == "i4" && packed && type == "I32")
    return Conversion::Copy;
  const Storage from = storageOfType(type);
  const Storage to = host::storageOf(element);
  if (from == Storage::I64 && to == Storage::I32)
    return Conversion::Integers;
  // Exponents are whole numbers of their own; other codes of 8 bits mean
  // nothing without their scales.
  if ((isFloat(to) && (isFloat(from) || from == Storage::UE8M0)) ||
      (to == Storage::UE8M0 && isFloat(from)))
    return Conversion::Exact;
  return Conversion::None;
}

Result<void> weights::copyMatrix(const SourceMatrix &from,
                                 const TargetMatrix &to, Conversion conversion,
                                 bool inverse) {
  if (conversion == Conversion::Copy && !inverse) {
    copyBits(from, to);
    return {};
  }
  for (int64_t row = 0; row < from.rows; ++row)
    for (int64_t column = 0; column < from.columns; ++column)
      TRY(copyNumber(
          at(from, row * from.rowStride + column * from.columnStride),
          from.storage, at(to, row * to.rowStride + column * to.columnStride),
          to.storage, conversion, inverse));
  return {};
}
