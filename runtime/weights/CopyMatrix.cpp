//===- CopyMatrix.cpp - copies parts of matrices --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// If both matrices have contiguous rows, they are copied row by row. Otherwise
// the copy transposes, and works in blocks so that all bytes of a loaded cache
// line are used.
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

/// Returns the address of element `index`. Elements must consist of whole
/// bytes.
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

/// Returns the reason why a stored value cannot be loaded, or "". `number`: the
/// value, or its reciprocal if the tensor stores reciprocals; `made`: `number`
/// after conversion to the value's type.
std::string_view problemOfNumber(float stored, float number, float made,
                                 NumberRule rule) {
  if (rule != NumberRule::Any && !std::isfinite(stored))
    return rule == NumberRule::Finite ? "expected a finite number"
           : rule == NumberRule::Scale
               ? "expected a scale that is a finite number"
               : "expected a scale that is finite and above 0";
  if (rule == NumberRule::PositiveScale && !(stored > 0))
    return "expected a scale that is finite and above 0";
  if (rule != NumberRule::Any && !std::isfinite(number))
    return "whose inverse is beyond the numbers of f32";
  if (std::isfinite(number) && !std::isfinite(made))
    return "which is beyond the numbers of that type";
  // The limit 2^31 is needed because kernels multiply codes (quantized values)
  // by 2^96 times the scale (templates/moe/quant/slab_codes.cuh).
  if (rule == NumberRule::Scale && std::fabs(number) >= 0x1p31f)
    return "expected a scale below 2^31";
  const bool isScale =
      rule == NumberRule::Scale || rule == NumberRule::PositiveScale;
  if (isScale && number != 0 && made == 0)
    return "which would become 0 in that type";
  return {};
}

Error holds(float number, std::string_view problem) {
  return refused("holds {}, {}", number, problem);
}

/// Converts and copies the values of one row.
class RowCopier {
public:
  RowCopier(const SourceMatrix &from, const TargetMatrix &to, bool inverse,
            NumberRule rule)
      : from(from), to(to), inverse(inverse), rule(rule) {}

  Result<void> copy(int64_t row) {
    const std::byte *source = at(from, row * from.rowStride);
    std::byte *target = to.data ? at(to, row * to.rowStride) : nullptr;
    for (int64_t first = 0; first < from.columns; first += kBlock) {
      const int64_t count = std::min(kBlock, from.columns - first);
      load(from.storage, source + first * from.columnStride * from.bits / 8,
           from.columnStride * from.bits / 8, count, stored);
      for (int64_t i = 0; i < count; ++i)
        numbers[i] = inverse ? 1 / stored[i] : stored[i];
      TRY(put(target ? target + first * to.columnStride * to.bits / 8 : nullptr,
              count));
    }
    return {};
  }

private:
  static void load(Storage storage, const std::byte *data, int64_t stride,
                   int64_t count, float *numbers) {
    if (stride * 8 == host::storageBits(storage))
      return host::loadFloats(storage, data, count, numbers);
    for (int64_t i = 0; i < count; ++i)
      host::loadFloats(storage, data + i * stride, 1, numbers + i);
  }

  Result<void> put(std::byte *data, int64_t count) {
    std::byte bytes[kBlock * sizeof(float)];
    const int64_t size = to.bits / 8;
    if (!data) {
      std::copy_n(numbers, count, made);
    } else if (to.storage == Storage::UE8M0) {
      for (int64_t i = 0; i < count; ++i)
        TRY(putPower(i, bytes + i));
    } else {
      host::storeFloats(to.storage, numbers, count, bytes);
      host::loadFloats(to.storage, bytes, count, made);
    }
    for (int64_t i = 0; i < count; ++i)
      if (const auto problem =
              problemOfNumber(stored[i], numbers[i], made[i], rule);
          !problem.empty())
        return holds(stored[i], problem);
    if (!data)
      return {};
    if (to.columnStride == 1)
      std::memcpy(data, bytes, size_t(count * size));
    else
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(data + i * to.columnStride * size, bytes + i * size,
                    size_t(size));
    return {};
  }

  /// Stores the exponent of value `i`. Returns an error if the value is not a
  /// power of two.
  Result<void> putPower(int64_t i, std::byte *byte) {
    int exponent = 0;
    if (!(numbers[i] > 0) || std::frexp(numbers[i], &exponent) != 0.5f ||
        exponent < -126)
      return holds(stored[i], "expected a power of two from 2^-127 to 2^127");
    *byte = static_cast<std::byte>(exponent + 126);
    made[i] = numbers[i];
    return {};
  }

  const SourceMatrix &from;
  const TargetMatrix &to;
  const bool inverse;
  const NumberRule rule;
  float stored[kBlock], numbers[kBlock], made[kBlock];
};

/// Copies i64 to i32. Returns an error if an element does not fit into i32.
Result<void> copyIntegers(const SourceMatrix &from, const TargetMatrix &to) {
  for (int64_t row = 0; row < from.rows; ++row)
    for (int64_t column = 0; column < from.columns; ++column) {
      const int64_t number = host::loadInteger(
          from.storage,
          at(from, row * from.rowStride + column * from.columnStride), 0);
      if (number < INT32_MIN || number > INT32_MAX)
        return refused("holds {}, which is none of 32 bits", number);
      host::storeInteger(to.storage,
                         at(to, row * to.rowStride + column * to.columnStride),
                         0, number);
    }
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
  // U8 and I8 tensors may hold element types that NumPy and PyTorch do not
  // support.
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
  // An E8M0 element is a complete value, so it can be converted. Any other
  // 8-bit code only has a meaning together with its scale, so it is not
  // converted.
  if ((isFloat(to) && (isFloat(from) || from == Storage::UE8M0)) ||
      (to == Storage::UE8M0 && isFloat(from)))
    return Conversion::Round;
  return Conversion::None;
}

Result<void> weights::checkNumbers(const SourceMatrix &from, bool inverse,
                                   NumberRule rule) {
  if (rule == NumberRule::Any)
    return {};
  const TargetMatrix nowhere;
  RowCopier copier(from, nowhere, inverse, rule);
  for (int64_t row = 0; row < from.rows; ++row)
    TRY(copier.copy(row));
  return {};
}

Result<void> weights::copyMatrix(const SourceMatrix &from,
                                 const TargetMatrix &to, Conversion conversion,
                                 bool inverse, NumberRule rule) {
  if (conversion == Conversion::Integers)
    return copyIntegers(from, to);
  if (conversion == Conversion::Copy && !inverse) {
    // The bits are checked as elements of the value's type, even if the file
    // specifies another type.
    SourceMatrix numbers = from;
    numbers.storage = to.storage;
    TRY(checkNumbers(numbers, inverse, rule));
    copyBits(from, to);
    return {};
  }
  RowCopier copier(from, to, inverse, rule);
  for (int64_t row = 0; row < from.rows; ++row)
    TRY(copier.copy(row));
  return {};
}
