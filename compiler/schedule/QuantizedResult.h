//===- QuantizedResult.h - which tiles a matmul may quantize --*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A matmul that quantizes its result counts the column tiles of each span of
// columns that share scales, for all spans in one word of 32 bits
// (templates/moe/epilogue/quantize_last.cuh, struct Spans). These functions say
// whether the word is wide enough.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_SCHEDULE_QUANTIZEDRESULT_H
#define MOEC_COMPILER_SCHEDULE_QUANTIZEDRESULT_H

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace moec::compiler {

/// Whether the counts fit for `columns` of the result, groupColumns of which
/// share a scale (0: all, always one span), by tiles of `tileColumns`.
constexpr bool countsFit(int64_t columns, int64_t groupColumns,
                         int64_t tileColumns) {
  if (groupColumns == 0)
    return true;
  int64_t span = std::max(groupColumns, tileColumns);
  if (span % groupColumns || span % tileColumns)
    return false;
  int64_t tiles = span / tileColumns, bits = 0;
  if (tiles == 1)
    return true;
  for (int64_t count = tiles; count; count /= 2)
    ++bits;
  return (columns + span - 1) / span * bits <= 32;
}

/// Whether they fit for the widest tile that an engine has for every number of
/// rows: 32 weight rows of 8-bit operands with simt, else 128.
constexpr bool countsOfSomeTileFit(int64_t columns, int64_t groupColumns,
                                   bool gated, std::string_view engine) {
  int64_t weightRows = engine == "simt" ? 32 : 128;
  return countsFit(columns, groupColumns, gated ? weightRows / 2 : weightRows);
}

} // namespace moec::compiler

#endif // MOEC_COMPILER_SCHEDULE_QUANTIZEDRESULT_H
