//===- Element.cpp - element types on the host --------------------------------
//===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// f16 is read through a table of its 65536 values, made at first use.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Element.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

using namespace moec::host;

namespace {
struct StorageRow {
  std::string_view name;
  Storage storage;
  int64_t bits;
};
} // namespace

static constexpr StorageRow kStorages[] = {
    {"f32", Storage::F32, 32},        {"f16", Storage::F16, 16},
    {"bf16", Storage::BF16, 16},      {"f8E4M3FN", Storage::E4M3, 8},
    {"f8E5M2", Storage::E5M2, 8},     {"f6E3M2FN", Storage::E3M2, 6},
    {"f6E2M3FN", Storage::E2M3, 6},   {"f4E2M1FN", Storage::E2M1, 4},
    {"f8E8M0FNU", Storage::UE8M0, 8}, {"i4", Storage::I4, 4},
    {"i8", Storage::I8, 8},           {"i32", Storage::I32, 32},
    {"i64", Storage::I64, 64},
};

Storage moec::host::storageOf(std::string_view elementType) {
  for (const StorageRow &row : kStorages)
    if (row.name == elementType)
      return row.storage;
  return Storage::None;
}

int64_t moec::host::storageBits(Storage storage) {
  for (const StorageRow &row : kStorages)
    if (row.storage == storage)
      return row.bits;
  return 0;
}

uint16_t moec::host::toBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) // keep a NaN a NaN
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float moec::host::fromBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t moec::host::toF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return sign | 0x7e00;
  if (magnitude >= 0x47800000) // 2^16: beyond the largest, also unrounded
    return sign | 0x7c00;
  if (magnitude < 0x38800000) {
    // Below 2^-14 the result is a multiple of 2^-24; adding 0.5 (whose last
    // bit weighs 2^-24) lets the float unit round it to nearest even.
    float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(rounded) -
                                        std::bit_cast<uint32_t>(0.5f));
  }
  uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  // A carry into the exponent may reach infinity, which is right.
  return sign | static_cast<uint16_t>((rounded >> 13) - (112 << 10));
}

float moec::host::fromF16(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  if (exponent == 0) {
    float value = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint8_t moec::host::toE4m3(float value) {
  if (std::isnan(value))
    return 0x7f;
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const float size = std::fabs(value);
  constexpr float largest = 448.0f;
  if (size >= largest)
    return sign | 0x7e;
  // The spacing of the codes at this size: 8 steps a power of two, and below
  // 2^-6 steps of 2^-9.
  int exponent = size < 0x1p-6f ? -6 : std::ilogb(size);
  const auto steps =
      static_cast<int>(std::nearbyint(std::ldexp(size, 3 - exponent)));
  // 16 steps are the next power of two, which is where its codes go on.
  return sign | static_cast<uint8_t>(((exponent + 6) << 3) + steps);
}

int8_t moec::host::toI8(float value) {
  if (std::isnan(value))
    return 0;
  return static_cast<int8_t>(
      std::clamp(std::nearbyint(value), -127.0f, 127.0f));
}

float moec::host::fromE4m3(uint8_t bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7)
    return std::nanf("");
  const float size =
      exponent == 0
          ? std::ldexp(static_cast<float>(mantissa), -9)
          : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return bits & 0x80 ? -size : size;
}

/// A float of a sign, `exponentBits` and `mantissaBits` without infinities and
/// NaNs.
static float fromSmall(uint8_t code, int exponentBits, int mantissaBits) {
  const int mantissa = code & ((1 << mantissaBits) - 1);
  const int exponent = code >> mantissaBits & ((1 << exponentBits) - 1);
  const int bias = (1 << (exponentBits - 1)) - 1;
  const float size =
      exponent == 0
          ? std::ldexp(static_cast<float>(mantissa), 1 - bias - mantissaBits)
          : std::ldexp(static_cast<float>(mantissa + (1 << mantissaBits)),
                       exponent - bias - mantissaBits);
  return code >> (exponentBits + mantissaBits) & 1 ? -size : size;
}

float moec::host::fromCode(Storage storage, uint8_t code) {
  switch (storage) {
  case Storage::E4M3:
    return fromE4m3(code);
  case Storage::E5M2: // the upper half of an f16
    return fromF16(static_cast<uint16_t>(code << 8));
  case Storage::E3M2:
    return fromSmall(code, 3, 2);
  case Storage::E2M3:
    return fromSmall(code, 2, 3);
  case Storage::E2M1:
    return fromSmall(code, 2, 1);
  case Storage::UE8M0:
    return code == 255 ? std::nanf("") : std::ldexp(1.0f, code - 127);
  case Storage::I8:
    return static_cast<int8_t>(code);
  case Storage::I4:
    return code & 15;
  default:
    return std::nanf("");
  }
}

/// The numbers of all codes of a storage of 8 bits or fewer.
static const std::array<float, 256> &codeTable(Storage storage) {
  static const auto tables = [] {
    std::array<std::array<float, 256>, std::size(kStorages) + 1> values;
    for (const StorageRow &row : kStorages)
      for (unsigned code = 0; code < 256 && row.bits <= 8; ++code)
        values[static_cast<size_t>(row.storage)][code] =
            fromCode(row.storage, static_cast<uint8_t>(code));
    return values;
  }();
  return tables[static_cast<size_t>(storage)];
}

static const std::vector<float> &f16Table() {
  static const std::vector<float> table = [] {
    std::vector<float> values(65536);
    for (uint32_t i = 0; i < 65536; ++i)
      values[i] = fromF16(static_cast<uint16_t>(i));
    return values;
  }();
  return table;
}

template <typename T> static T loadAs(const std::byte *source, int64_t index) {
  T value;
  std::memcpy(&value, source + index * static_cast<int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

template <typename T>
static void storeAs(std::byte *destination, int64_t index, T value) {
  std::memcpy(destination + index * static_cast<int64_t>(sizeof(T)), &value,
              sizeof(T));
}

void moec::host::loadFloats(Storage storage, const std::byte *source,
                            int64_t count, float *destination) {
  if (storage == Storage::F32) {
    std::memcpy(destination, source, static_cast<size_t>(count) * 4);
  } else if (storage == Storage::BF16) {
    for (int64_t i = 0; i < count; ++i)
      destination[i] = fromBf16(loadAs<uint16_t>(source, i));
  } else if (storage == Storage::F16) {
    const float *table = f16Table().data();
    for (int64_t i = 0; i < count; ++i)
      destination[i] = table[loadAs<uint16_t>(source, i)];
  } else if (const int64_t bits = storageBits(storage); bits == 8) {
    const float *table = codeTable(storage).data();
    for (int64_t i = 0; i < count; ++i)
      destination[i] = table[loadAs<uint8_t>(source, i)];
  } else if (bits == 4 || bits == 6) {
    const float *table = codeTable(storage).data();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t first = i * bits;
      // The second byte only where the code reaches into it.
      unsigned code = loadAs<uint8_t>(source, first / 8) >> first % 8;
      if (first % 8 + bits > 8)
        code |= loadAs<uint8_t>(source, first / 8 + 1) << (8 - first % 8);
      destination[i] = table[code & ((1u << bits) - 1)];
    }
  } else {
    for (int64_t i = 0; i < count; ++i)
      destination[i] = std::nanf("");
  }
}

void moec::host::storeFloats(Storage storage, const float *source,
                             int64_t count, std::byte *destination) {
  if (storage == Storage::F32)
    std::memcpy(destination, source, static_cast<size_t>(count) * 4);
  else if (storage == Storage::BF16)
    for (int64_t i = 0; i < count; ++i)
      storeAs(destination, i, toBf16(source[i]));
  else if (storage == Storage::F16)
    for (int64_t i = 0; i < count; ++i)
      storeAs(destination, i, toF16(source[i]));
  else if (storage == Storage::E4M3)
    for (int64_t i = 0; i < count; ++i)
      storeAs(destination, i, toE4m3(source[i]));
  else if (storage == Storage::I8)
    for (int64_t i = 0; i < count; ++i)
      storeAs(destination, i, toI8(source[i]));
}

int64_t moec::host::loadInteger(Storage storage, const std::byte *source,
                                int64_t index) {
  switch (storage) {
  case Storage::I64:
    return loadAs<int64_t>(source, index);
  case Storage::I32:
    return loadAs<int32_t>(source, index);
  case Storage::I8:
    return loadAs<int8_t>(source, index);
  default:
    return 0;
  }
}

void moec::host::storeInteger(Storage storage, std::byte *destination,
                              int64_t index, int64_t value) {
  if (storage == Storage::I64)
    storeAs(destination, index, value);
  else if (storage == Storage::I32)
    storeAs(destination, index, static_cast<int32_t>(value));
  else if (storage == Storage::I8)
    storeAs(destination, index, static_cast<int8_t>(value));
}
