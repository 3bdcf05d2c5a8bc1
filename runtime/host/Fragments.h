//===- Fragments.h - weights in MMA fragment order --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Access by row and column to the elements of packed weights in fragment order
// (manifest: `order = fragment`). Such weights consist of slabs: the codes of
// 16 rows by four MMA steps, in the order in which a warp loads them
// (templates/moe/math/slabs.cuh).
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_HOST_FRAGMENTS_H
#define MOEC_RUNTIME_HOST_FRAGMENTS_H

#include "runtime/host/Element.h"

namespace moec::host {

/// Number of rows in a fragment block. A weight's row count is a multiple of
/// this number.
inline constexpr int64_t kFragmentRows = 64;

/// The content of a matrix in fragment order. Codes: codes (quantized values)
/// of 4, 6 or 8 bits that are converted to 16-bit MMA operands, in blocks of 64
/// columns. CodesOfBytes: 4-bit codes that are converted to 8-bit MMA operands,
/// in blocks of 128 columns. Numbers: one scale or zero point per row and group
/// of columns. ScaleAtoms: 8-bit scales in scale blocks of 128 rows x 4 scales
/// (templates/moe/math/scale_atoms.cuh).
enum class FragmentKind { Codes, CodesOfBytes, Numbers, ScaleAtoms };

/// Returns the fragment kind of a code matrix whose codes are converted to MMA
/// operands of type `operand`.
FragmentKind codesFor(Storage operand);
/// Returns the number of columns in a fragment block; 1 for Numbers.
int64_t fragmentColumns(FragmentKind kind);
/// Returns the number of rows in a fragment block.
int64_t fragmentRows(FragmentKind kind);

/// Returns the bit offset of an element within an expert's matrix. `columns`:
/// number of columns of the matrix (for Numbers: number of groups).
int64_t fragmentBit(FragmentKind kind, Storage storage, int64_t row,
                    int64_t column, int64_t columns);

/// Load and store `bits` bits, at most 32, at bit offset `bit`. Only the bytes
/// that contain these bits are accessed; other bits of these bytes are
/// preserved.
uint32_t loadBits(const std::byte *from, int64_t bit, int64_t bits);
void storeBits(std::byte *to, int64_t bit, int64_t bits, uint32_t value);

/// Returns the index of a scale or zero point within an expert's matrix, given
/// its row and group.
int64_t fragmentNumber(int64_t row, int64_t group, int64_t groups);
/// Returns the same for a matrix of scales in scale blocks.
int64_t scaleAtomNumber(int64_t row, int64_t group, int64_t groups);

/// Copies row `row` of an expert's codes to `to`, without the fragment order:
/// the columns are contiguous.
void loadFragmentRow(FragmentKind kind, Storage storage,
                     const std::byte *expert, int64_t row, int64_t columns,
                     std::byte *to);

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_FRAGMENTS_H
