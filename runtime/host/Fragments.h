//===- Fragments.h - weights in MMA fragment order --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Addresses elements by row and column in packed weights whose layout has
// `order = fragment` (slabs, templates/moe/math/slabs.cuh).
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_HOST_FRAGMENTS_H
#define MOEC_RUNTIME_HOST_FRAGMENTS_H

#include "runtime/host/Element.h"

namespace moec::host {

/// Rows of a block of fragments. The rows of a weight are a multiple of it.
inline constexpr int64_t kFragmentRows = 64;

/// The kind of a matrix in fragment order. Codes: codes (quantized values) of
/// 4, 6 or 8 bits for 16-bit operands, in blocks of 64 columns. CodesOfBytes:
/// 4-bit codes for 8-bit operands, in blocks of 128 columns. Numbers: one scale
/// or zero point for each row and group of columns.
enum class FragmentKind { Codes, CodesOfBytes, Numbers };

/// Returns the kind of a matrix of codes that become operands of type
/// `operand`.
FragmentKind codesFor(Storage operand);
/// Returns the columns of a block; 1 for Numbers.
int64_t fragmentColumns(FragmentKind kind);

/// Returns the bit offset of an element within an expert's matrix of `columns`
/// columns (groups for Numbers).
int64_t fragmentBit(FragmentKind kind, Storage storage, int64_t row,
                    int64_t column, int64_t columns);

/// Load and store `bits` bits, at most 32, at bit offset `bit`. Only the bytes
/// that contain these bits are accessed; other bits of these bytes are
/// preserved.
uint32_t loadBits(const std::byte *from, int64_t bit, int64_t bits);
void storeBits(std::byte *to, int64_t bit, int64_t bits, uint32_t value);

/// Returns the index of the scale or zero point of a row and a group within an
/// expert's matrix.
int64_t fragmentNumber(int64_t row, int64_t group, int64_t groups);

/// Copies row `row` of an expert's codes to `to` in row-major order.
void loadFragmentRow(FragmentKind kind, Storage storage,
                     const std::byte *expert, int64_t row, int64_t columns,
                     std::byte *to);

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_FRAGMENTS_H
