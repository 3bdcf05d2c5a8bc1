//===- Element.h - the reference's own element types ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An element type, as the reference needs it: its name, its size,
// how its bytes become a double and how a double is rounded to it. Written
// from the formats' definitions (exponent and mantissa widths), on purpose
// without the conversions that host device and kernels use.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_REFERENCE_ELEMENT_H
#define MOEC_TEST_REFERENCE_ELEMENT_H

#include <cstdint>
#include <string_view>

namespace moec::reference {

/// One element type. Rows live in Element.cpp; compare by address. Elements of
/// 4 and 6 bits lie one behind the other, the first in the lowest bits.
struct Element {
  std::string_view name; ///< as in manifests: "f32", "f16", "bf16", "i32", ...
  int64_t bytes;         ///< of one; 1 where it has fewer than 8 bits
  /// An integer of 4 bits is 0 to 15, others have a sign.
  bool isFloat;
  int exponentBits; ///< of a float
  int mantissaBits; ///< explicit bits of a float
  /// A float without infinities: the largest exponent is of numbers too, all
  /// bits set are the one NaN, and an overflow becomes the largest number.
  bool finiteOnly = false;
  bool hasNan = true; ///< false with finiteOnly: all codes are numbers
  /// A power of two: no sign, no mantissa, no zero; all bits set are NaN.
  bool isPower = false;
  int64_t fewBits = 0; ///< where there are fewer than 8

  int64_t bits() const { return fewBits ? fewBits : 8 * bytes; }
  /// The bytes of `count` elements, the first of which begins a byte.
  int64_t bytesOf(int64_t count) const { return (count * bits() + 7) / 8; }
};

/// The row called `name`, or null.
const Element *findElement(std::string_view name);

/// The element at `index` of a contiguous array of `element` as a double;
/// exact for every float type and for integers below 2^53.
double load(const Element &element, const void *array, int64_t index);

/// `value` rounded to the nearest of `element`, ties to even, overflow to
/// infinity (see finiteOnly), subnormals kept; NaN stays NaN. Integers round to
/// nearest too, those of 4 and 8 bits saturate (8 bits: to +-127).
double roundTo(const Element &element, double value);

/// Stores roundTo(element, value). Neighbours in one byte stay as they are, so
/// two threads must not store to one byte.
void store(const Element &element, void *array, int64_t index, double value);

/// `count` elements from `source` (contiguous) as doubles.
void loadMany(const Element &element, const void *source, int64_t count,
              double *destination);

} // namespace moec::reference

#endif // MOEC_TEST_REFERENCE_ELEMENT_H
