//===- Fragments.cpp - weights in MMA fragment order ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Fragments.h"

#include "templates/moe/math/host.h"

#include <algorithm>

using namespace moec::host;

int64_t moec::host::fragmentNumber(int64_t row, int64_t group, int64_t groups) {
  return moe::SlabScales::index(int(row), int(group), int(groups));
}

int64_t moec::host::scaleAtomNumber(int64_t row, int64_t group,
                                    int64_t groups) {
  return moe::ScaleAtoms::place(int(row), int(group), int(groups));
}

uint32_t moec::host::loadBits(const std::byte *from, int64_t bit,
                              int64_t bits) {
  const std::byte *first = from + bit / 8;
  const int64_t bytes = (bit % 8 + bits + 7) / 8;
  uint32_t value = 0;
  for (int64_t i = 0; i < bytes; ++i)
    value |= static_cast<uint32_t>(first[i]) << 8 * i;
  return bits == 32 ? value : value >> bit % 8 & ((1U << bits) - 1);
}

void moec::host::storeBits(std::byte *to, int64_t bit, int64_t bits,
                           uint32_t value) {
  std::byte *first = to + bit / 8;
  const int64_t bytes = (bit % 8 + bits + 7) / 8;
  const uint32_t mask = bits == 32 ? UINT32_MAX : (1U << bits) - 1;
  const uint32_t cleared = mask << bit % 8, set = (value & mask) << bit % 8;
  for (int64_t i = 0; i < bytes; ++i)
    first[i] =
        (first[i] & ~std::byte(cleared >> 8 * i)) | std::byte(set >> 8 * i);
}

FragmentKind moec::host::codesFor(Storage operand) {
  return storageBits(operand) == 8 ? FragmentKind::CodesOfBytes
                                   : FragmentKind::Codes;
}

int64_t moec::host::fragmentColumns(FragmentKind kind) {
  return kind == FragmentKind::Codes          ? moe::Slabs<4>::kColumns
         : kind == FragmentKind::CodesOfBytes ? moe::Slabs<4, 8>::kColumns
         : kind == FragmentKind::ScaleAtoms   ? moe::ScaleAtoms::kColumns
                                              : 1;
}

int64_t moec::host::fragmentRows(FragmentKind kind) {
  return kind == FragmentKind::ScaleAtoms ? moe::ScaleAtoms::kRows
                                          : kFragmentRows;
}

/// Calls body(bit) and returns its result. bit(row, column) returns the bit
/// offset of an element within an expert's matrix. This way the layout is
/// selected once per call of withLayout(), not once per element.
template <typename Body>
static auto withLayout(FragmentKind kind, Storage storage, int64_t columns,
                       Body body) {
  const int64_t bits = storageBits(storage);
  auto ofSlabs = [&]<typename Slabs>(Slabs) {
    return body([columns](int64_t row, int64_t column) {
      return int64_t(Slabs::bit(int(row), int(column), int(columns)));
    });
  };
  if (kind == FragmentKind::Numbers)
    return body([=](int64_t row, int64_t column) {
      return fragmentNumber(row, column, columns) * bits;
    });
  if (kind == FragmentKind::ScaleAtoms)
    return body([=](int64_t row, int64_t column) {
      return scaleAtomNumber(row, column, columns) * bits;
    });
  if (kind == FragmentKind::CodesOfBytes)
    return ofSlabs(moe::Slabs<4, 8>());
  return bits == 4   ? ofSlabs(moe::Slabs<4>())
         : bits == 6 ? ofSlabs(moe::Slabs<6>())
                     : ofSlabs(moe::Slabs<8>());
}

int64_t moec::host::fragmentBit(FragmentKind kind, Storage storage, int64_t row,
                                int64_t column, int64_t columns) {
  return withLayout(kind, storage, columns,
                    [&](auto bit) { return bit(row, column); });
}

void moec::host::loadFragmentRow(FragmentKind kind, Storage storage,
                                 const std::byte *expert, int64_t row,
                                 int64_t columns, std::byte *to) {
  const int64_t bits = storageBits(storage);
  std::fill_n(to, storageBytes(storage, columns), std::byte{});
  withLayout(kind, storage, columns, [&](auto bit) {
    for (int64_t c = 0; c < columns; ++c)
      storeBits(to, c * bits, bits, loadBits(expert, bit(row, c), bits));
  });
}
