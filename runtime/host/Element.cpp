//===- Element.cpp - element types on the host ----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Codes (quantized values) of 8 bits or fewer are converted through tables,
// which are built on first use.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Element.h"

#include "runtime/package/ElementTypes.h"
#include "templates/moe/math/host.h"

#include <array>
#include <cmath>
#include <cstring>

using namespace moec::host;

namespace {
struct StorageRow {
  constexpr StorageRow(std::string_view name, Storage storage)
      : name(name), storage(storage), bits(moec::findElementType(name)->bits) {}
  std::string_view name;
  Storage storage;
  int64_t bits;
};
} // namespace

static constexpr StorageRow kStorages[] = {
    {"f32", Storage::F32},         {"f16", Storage::F16},
    {"bf16", Storage::BF16},       {"f8E4M3FN", Storage::E4M3},
    {"f8E5M2", Storage::E5M2},     {"f6E3M2FN", Storage::E3M2},
    {"f6E2M3FN", Storage::E2M3},   {"f4E2M1FN", Storage::E2M1},
    {"f8E8M0FNU", Storage::UE8M0}, {"i4", Storage::I4},
    {"i8", Storage::I8},           {"i32", Storage::I32},
    {"i64", Storage::I64},
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

int64_t moec::host::countOfAtoms(int64_t rows, int64_t columns) {
  return moe::ScaleAtoms::count(int(rows), int(columns));
}
int64_t moec::host::placeInAtoms(int64_t row, int64_t column, int64_t columns) {
  return moe::ScaleAtoms::place(int(row), int(column), int(columns));
}

uint16_t moec::host::toBf16(float value) {
  return moe::fromFloat<moe::bf16>(value).bits;
}
uint16_t moec::host::toF16(float value) {
  return moe::fromFloat<moe::f16>(value).bits;
}
float moec::host::fromBf16(uint16_t bits) {
  return moe::toFloat(moe::bf16{bits});
}
float moec::host::fromF16(uint16_t bits) {
  return moe::toFloat(moe::f16{bits});
}
uint8_t moec::host::toE4m3(float value) {
  return moe::fromFloat<moe::e4m3>(value).bits;
}
float moec::host::fromE4m3(uint8_t bits) {
  return moe::toFloat(moe::e4m3{bits});
}
int8_t moec::host::toI8(float value) {
  return moe::fromFloat<moe::i8>(value).bits;
}

float moec::host::fromCode(Storage storage, uint8_t code) {
  switch (storage) {
  case Storage::E4M3:
    return moe::decode<moe::e4m3>(code);
  case Storage::E5M2:
    return moe::decode<moe::e5m2>(code);
  case Storage::E3M2:
    return moe::decode<moe::e3m2>(code);
  case Storage::E2M3:
    return moe::decode<moe::e2m3>(code);
  case Storage::E2M1:
    return moe::decode<moe::e2m1>(code);
  case Storage::UE8M0:
    return moe::toFloat(moe::ue8m0{code});
  case Storage::I8:
    return moe::decode<moe::i8>(code);
  case Storage::I4:
    return moe::decode<moe::i4>(code);
  default:
    return std::nanf("");
  }
}

/// Returns the values of all codes of a storage type that has at most 8 bits.
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

/// Converts `count` elements whose size is a whole number of bytes.
template <typename T>
static void loadAll(const std::byte *source, int64_t count,
                    float *destination) {
  for (int64_t i = 0; i < count; ++i)
    destination[i] = moe::toFloat(loadAs<T>(source, i));
}

template <typename T>
static void storeAll(const float *source, int64_t count,
                     std::byte *destination) {
  for (int64_t i = 0; i < count; ++i)
    storeAs(destination, i, moe::fromFloat<T>(source[i]));
}

/// Stores codes of fewer than 8 bits, the first code in the lowest bits. Unused
/// bits of the last byte become 0.
template <typename T>
static void storeCodes(const float *source, int64_t count,
                       std::byte *destination) {
  constexpr int64_t kBits = moe::kBits<T>;
  std::memset(destination, 0, (count * kBits + 7) / 8);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t first = i * kBits;
    const unsigned code = moe::codeOf<T>(source[i]) << first % 8;
    destination[first / 8] |= std::byte(code);
    if (first % 8 + kBits > 8)
      destination[first / 8 + 1] |= std::byte(code >> 8);
  }
}

void moec::host::loadFloats(Storage storage, const std::byte *source,
                            int64_t count, float *destination) {
  if (storage == Storage::F32) {
    loadAll<float>(source, count, destination);
  } else if (storage == Storage::BF16) {
    loadAll<moe::bf16>(source, count, destination);
  } else if (storage == Storage::F16) {
    loadAll<moe::f16>(source, count, destination);
  } else if (const int64_t bits = storageBits(storage); bits == 8) {
    const float *table = codeTable(storage).data();
    for (int64_t i = 0; i < count; ++i)
      destination[i] = table[loadAs<uint8_t>(source, i)];
  } else if (bits == 4 || bits == 6) {
    const float *table = codeTable(storage).data();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t first = i * bits;
      // Reads the second byte only if the code extends into it.
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
    storeAll<float>(source, count, destination);
  else if (storage == Storage::BF16)
    storeAll<moe::bf16>(source, count, destination);
  else if (storage == Storage::F16)
    storeAll<moe::f16>(source, count, destination);
  else if (storage == Storage::E4M3)
    storeAll<moe::e4m3>(source, count, destination);
  else if (storage == Storage::UE8M0)
    storeAll<moe::ue8m0>(source, count, destination);
  else if (storage == Storage::I8)
    storeAll<moe::i8>(source, count, destination);
  else if (storage == Storage::E2M1)
    storeCodes<moe::e2m1>(source, count, destination);
  else if (storage == Storage::E3M2)
    storeCodes<moe::e3m2>(source, count, destination);
  else if (storage == Storage::E2M3)
    storeCodes<moe::e2m3>(source, count, destination);
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
