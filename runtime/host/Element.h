//===- Element.h - element types on the host ---------------*- C++ -*- ===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conversions between f32 and the storage types for the host device. They use
// the conversion functions of the kernels (templates/moe/math), selected by the
// name of an element type.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_HOST_ELEMENT_H
#define MOEC_RUNTIME_HOST_ELEMENT_H

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace moec::host {

/// The storage type of a tensor's elements; None for a type that the host
/// device cannot compute with. Elements of 4 and 6 bits are packed without
/// gaps, the first element in the lowest bits. I4 holds unsigned codes
/// (quantized values) from 0 to 15, before a zero point is subtracted.
enum class Storage {
  None,
  F32,
  F16,
  BF16,
  E4M3,
  E5M2,
  E3M2,
  E2M3,
  E2M1,
  UE8M0,
  I4,
  I8,
  I32,
  I64
};

/// Returns the storage type of an element type name, or None.
Storage storageOf(std::string_view elementType);
/// storageBits() returns the bits of one element; storageBytes() returns the
/// bytes of `count` elements.
int64_t storageBits(Storage storage);
inline int64_t storageBytes(Storage storage, int64_t count = 1) {
  return (count * storageBits(storage) + 7) / 8;
}

/// Functions for scales in blocks of 128 rows x 4 columns (the scale layout of
/// block-scaled MMA instructions). countOfAtoms() returns the number of scales
/// including padding. placeInAtoms() returns the index of one scale.
int64_t countOfAtoms(int64_t rows, int64_t columns);
int64_t placeInAtoms(int64_t row, int64_t column, int64_t columns);

/// Convert f32 to the nearest bf16 or f16, ties to even, and back to f32.
uint16_t toBf16(float value);
uint16_t toF16(float value);
float fromBf16(uint16_t bits);
float fromF16(uint16_t bits);
/// Rounds to f8E4M3FN: ties to even, saturated to +-448. NaN becomes 0x7f.
uint8_t toE4m3(float value);
float fromE4m3(uint8_t bits);
/// Rounds to i8: ties to even, saturated to +-127. NaN becomes 0.
int8_t toI8(float value);
/// Returns the value of a code of 8 bits or fewer; NaN for another storage
/// type.
float fromCode(Storage storage, uint8_t code);

/// Converts `count` elements at `source`, of any alignment, to f32. The first
/// element must start at a byte boundary.
void loadFloats(Storage storage, const std::byte *source, int64_t count,
                float *destination);
/// Converts `count` values from f32 to `storage`; each is rounded once.
void storeFloats(Storage storage, const float *source, int64_t count,
                 std::byte *destination);

/// Load and store element `index` as an integer. For a storage type other than
/// I8, I32 and I64, loading returns 0 and storing does nothing.
int64_t loadInteger(Storage storage, const std::byte *source, int64_t index);
void storeInteger(Storage storage, std::byte *destination, int64_t index,
                  int64_t value);

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_ELEMENT_H
