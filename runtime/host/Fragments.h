//===- Fragments.h - weights in the order of fragments ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Packed weights whose layout has `order = fragment`
// (templates/moe/math/slabs.cuh), by row and column.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_HOST_FRAGMENTS_H
#define MOEC_RUNTIME_HOST_FRAGMENTS_H

#include "runtime/host/Element.h"

namespace moec::host {

/// Rows of a block of fragments. Rows of a weight are whole blocks.
inline constexpr int64_t kFragmentRows = 64;

/// A matrix in this order holds codes of 4 or 8 bits for operands of 16 bits,
/// in whole blocks of 64 columns; codes of 4 bits for operands of 8, in whole
/// blocks of 128 columns; or the numbers of groups of columns.
enum class FragmentKind { Codes, CodesOfBytes, Numbers };

/// The kind of codes that become operands of this type.
FragmentKind codesFor(Storage operand);
/// Columns of a block; 1 of numbers.
int64_t fragmentColumns(FragmentKind kind);

/// The first bit of an element of an expert's matrix with so many columns, or
/// groups.
int64_t fragmentBit(FragmentKind kind, Storage storage, int64_t row,
                    int64_t column, int64_t columns);

/// So many bits, at most 32, from a bit of memory on; they lie in the fewest
/// bytes, which may be others' in part.
uint32_t loadBits(const std::byte *from, int64_t bit, int64_t bits);
void storeBits(std::byte *to, int64_t bit, int64_t bits, uint32_t value);

/// The index of the number of a row and a group in an expert's.
int64_t fragmentNumber(int64_t row, int64_t group, int64_t groups);

/// One row of an expert's codes, as rows have them.
void loadFragmentRow(FragmentKind kind, Storage storage,
                     const std::byte *expert, int64_t row, int64_t columns,
                     std::byte *to);

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_FRAGMENTS_H
