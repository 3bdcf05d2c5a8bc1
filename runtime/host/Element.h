//===- Element.h - element types on the host ---------------*- C++ -*- ===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conversions of the host device between f32 and the storage types: those of
// the kernels (templates/moe/math), by the names of element types.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_HOST_ELEMENT_H
#define MOEC_RUNTIME_HOST_ELEMENT_H

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace moec::host {

/// How the elements of a tensor are stored; None for what the host device
/// cannot compute with. Elements of 4 and 6 bits lie one behind the other, the
/// first in the lowest bits; I4 is 0 to 15, before a zero point is subtracted.
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

/// By an element type's name.
Storage storageOf(std::string_view elementType);
/// Bits of one element, and bytes of `count` of them.
int64_t storageBits(Storage storage);
inline int64_t storageBytes(Storage storage, int64_t count = 1) {
  return (count * storageBits(storage) + 7) / 8;
}

/// Scales in atoms of 128 x 4: how many a matrix has with its padding, and the
/// place of one in it.
int64_t countOfAtoms(int64_t rows, int64_t columns);
int64_t placeInAtoms(int64_t row, int64_t column, int64_t columns);

uint16_t toBf16(float value);
uint16_t toF16(float value);
float fromBf16(uint16_t bits);
float fromF16(uint16_t bits);
/// To f8E4M3FN: nearest even, saturated to +-448; a NaN becomes 0x7f.
uint8_t toE4m3(float value);
float fromE4m3(uint8_t bits);
/// To i8: nearest even, saturated to +-127; a NaN becomes 0.
int8_t toI8(float value);
/// The number that a code of 8 bits or fewer stands for.
float fromCode(Storage storage, uint8_t code);

/// `count` elements from memory of any alignment to floats; the first one
/// begins a byte.
void loadFloats(Storage storage, const std::byte *source, int64_t count,
                float *destination);
/// And back, each rounded once.
void storeFloats(Storage storage, const float *source, int64_t count,
                 std::byte *destination);

/// Element `index` of a tensor of whole bytes as an integer; of floats and
/// smaller elements 0 is read, and nothing written.
int64_t loadInteger(Storage storage, const std::byte *source, int64_t index);
void storeInteger(Storage storage, std::byte *destination, int64_t index,
                  int64_t value);

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_ELEMENT_H
