//===- scale_atoms.cuh - scale blocks of 128 x 4 ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Block-scaled MMAs read scales in blocks of 128 rows and 4 columns (atoms),
// which are 512 scales of 8 bits. cuBLAS and CUTLASS use the same layout for a
// scale matrix. Scale blocks are ordered by columns, then rows; the last blocks
// are padded. A scale block has 32 runs of 16 scales. Run r has rows r, r + 32,
// r + 64 and r + 96, each with its 4 columns.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe {

struct ScalePlace {
  int row, column;
};

struct ScaleAtoms {
  static constexpr int kRows = 128, kColumns = 4, kRuns = 32;

  /// Returns the number of scales of a padded rows x columns matrix.
  static __device__ __forceinline__ constexpr long long count(int rows,
                                                              int columns) {
    return (long long)((rows + kRows - 1) / kRows * kRows) *
           ((columns + kColumns - 1) / kColumns * kColumns);
  }

  /// Returns the index of the scale at (row, column). `columns`: number of
  /// scale columns of the matrix.
  static __device__ __forceinline__ long long place(int row, int column,
                                                    int columns) {
    const int across = (columns + kColumns - 1) / kColumns;
    const long long atom =
        (long long)(row / kRows) * across + column / kColumns;
    const int run = row % kRuns, inRun = row % kRows / kRuns;
    return (atom * kRuns + run) * (kRows / kRuns * kColumns) +
           inRun * kColumns + column % kColumns;
  }

  /// Returns the row of the scales in word `word` of a matrix without padding,
  /// and the column of the first of these four scales. Inverse of place().
  static __device__ __forceinline__ ScalePlace ofWord(int word, int columns) {
    constexpr int kInRun = kRows / kRuns, kWords = kRows;
    const int across = columns / kColumns;
    const int atom = word / kWords, inAtom = word % kWords;
    return {atom / across * kRows + inAtom % kInRun * kRuns + inAtom / kInRun,
            atom % across * kColumns};
  }
};

} // namespace moe
