//===- Fragments.cpp - weights in the order of fragments ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Fragments.h"

#include "templates/moe/math/host.h"

using namespace moec::host;

int64_t moec::host::fragmentNumber(int64_t row, int64_t group, int64_t groups) {
  return moe::SlabScales::index(int(row), int(group), int(groups));
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
  return bits == 4 ? moe::Slabs<4>::bit(r, c, all)
                   : moe::Slabs<8>::bit(r, c, all);
}

void moec::host::loadFragmentRow(FragmentKind kind, Storage storage,
                                 const std::byte *expert, int64_t row,
                                 int64_t columns, std::byte *to) {
  constexpr int64_t kByte = 8;
  const bool isHalf = storageBits(storage) == 4;
  for (int64_t c = 0; c < columns; ++c) {
    const int64_t bit = fragmentBit(kind, storage, row, c, columns);
    const std::byte byte = expert[bit / kByte];
    if (!isHalf) {
      to[c] = byte;
      continue;
    }
    const std::byte code = byte >> (bit % kByte) & std::byte{15};
    to[c / 2] = c % 2 ? to[c / 2] | code << 4 : code;
  }
}
