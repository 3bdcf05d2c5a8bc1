//===- Fragments.cpp - weights in the order of fragments ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Fragments.h"

#include "templates/moe/math/host.h"

#include <algorithm>
#include <cstring>

using namespace moec::host;

int64_t moec::host::fragmentNumber(int64_t row, int64_t group, int64_t groups) {
  return moe::SlabScales::index(int(row), int(group), int(groups));
}

uint32_t moec::host::loadBits(const std::byte *from, int64_t bit,
                              int64_t bits) {
  uint32_t value = 0;
  const int64_t bytes = (bit % 8 + bits + 7) / 8;
  std::memcpy(&value, from + bit / 8, static_cast<size_t>(bytes));
  return bits == 32 ? value : value >> bit % 8 & ((1U << bits) - 1);
}

void moec::host::storeBits(std::byte *to, int64_t bit, int64_t bits,
                           uint32_t value) {
  const uint32_t mask = bits == 32 ? UINT32_MAX : (1U << bits) - 1;
  const auto bytes = static_cast<size_t>((bit % 8 + bits + 7) / 8);
  uint32_t word = 0;
  std::memcpy(&word, to + bit / 8, bytes);
  word = (word & ~(mask << bit % 8)) | (value & mask) << bit % 8;
  std::memcpy(to + bit / 8, &word, bytes);
}

FragmentKind moec::host::codesFor(Storage operand) {
  return storageBits(operand) == 8 ? FragmentKind::CodesOfBytes
                                   : FragmentKind::Codes;
}

int64_t moec::host::fragmentColumns(FragmentKind kind) {
  return kind == FragmentKind::Codes          ? moe::Slabs<4>::kColumns
         : kind == FragmentKind::CodesOfBytes ? moe::Slabs<4, 8>::kColumns
                                              : 1;
}

int64_t moec::host::fragmentBit(FragmentKind kind, Storage storage, int64_t row,
                                int64_t column, int64_t columns) {
  const int64_t bits = storageBits(storage);
  const int r = int(row), c = int(column), all = int(columns);
  if (kind == FragmentKind::Numbers)
    return fragmentNumber(row, column, columns) * bits;
  if (kind == FragmentKind::CodesOfBytes)
    return moe::Slabs<4, 8>::bit(r, c, all);
  return bits == 4   ? moe::Slabs<4>::bit(r, c, all)
         : bits == 6 ? moe::Slabs<6>::bit(r, c, all)
                     : moe::Slabs<8>::bit(r, c, all);
}

void moec::host::loadFragmentRow(FragmentKind kind, Storage storage,
                                 const std::byte *expert, int64_t row,
                                 int64_t columns, std::byte *to) {
  const int64_t bits = storageBits(storage);
  std::fill_n(to, storageBytes(storage, columns), std::byte{});
  for (int64_t c = 0; c < columns; ++c)
    storeBits(
        to, c * bits, bits,
        loadBits(expert, fragmentBit(kind, storage, row, c, columns), bits));
}
