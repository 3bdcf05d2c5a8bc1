//===- TensorMemory.cpp - tensor memory of an SM --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Free columns, and columns that CTAs have.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/machine/TensorMemory.h"

#include <algorithm>

using namespace moec::emulator;

/// A NaN that no result survives.
static constexpr uint32_t kGarbage = 0x7FC0DEAD;

TensorMemory::TensorMemory()
    : words(kLanes * kColumns, kGarbage),
      contents(kLanes * kColumns, Content::Nothing), owners(kColumns) {}

std::optional<uint32_t> TensorMemory::findFree(uint32_t count,
                                               bool isHighest) const {
  std::optional<uint32_t> found;
  uint32_t length = 0;
  for (uint32_t column = 0; column < kColumns; ++column) {
    length = owners[column] ? 0 : length + 1;
    if (length >= count) {
      found = column + 1 - count;
      if (!isHighest)
        break;
    }
  }
  return found;
}

void TensorMemory::take(uint32_t begin, uint32_t count, uint64_t cta) {
  std::fill_n(owners.begin() + begin, count, cta);
  std::fill_n(words.begin() + begin * kLanes, count * kLanes, kGarbage);
  std::fill_n(contents.begin() + begin * kLanes, count * kLanes,
              Content::Nothing);
  shadow.clear(begin, count);
}

void TensorMemory::give(uint32_t begin, uint32_t count) {
  std::fill_n(owners.begin() + begin, count, 0);
}
