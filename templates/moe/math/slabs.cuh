//===- slabs.cuh - weights in the order of fragments ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The place of each element of a weight in the layout `order = fragment`, for
// codes of 4 and 8 bits. An expert's weight is blocks of 64 rows by 64 columns,
// those of the same rows one behind the other. A block is four slabs of 16
// rows. A slab is what the 32 lanes of a warp hold of it as the 16-bit A
// operand of four multiplies of 16 columns: vectors of 16 bytes, those of lane
// 0 first.
//
// Lane 4 g + t holds of a step of 16 columns the registers
//   0: row g, columns 2 t, 2 t + 1        2: row g, columns 2 t + 8, 2 t + 9
//   1: row g + 8, as register 0           3: row g + 8, as register 2
// of which the codes stand in words so that the two of a register come out by
// one mask: of 4 bits, nibble r and nibble r + 4 of a word; of 8 bits, bytes
// r % 2 and r % 2 + 2 of word r / 2.
//
// Numbers that rows share along columns (scales, zero points) lie in blocks of
// 64 rows by one group: those of rows g and g + 8 of a slab are neighbours.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe {

struct SlabPlace {
  int row, column;
};

/// Codes of kBits.
template <int kBits> struct Slabs {
  static_assert(kBits == 4 || kBits == 8, "slabs hold codes of 4 or 8 bits");
  /// Rows and columns of a block, and rows of a slab.
  static constexpr int kRows = 64, kColumns = 64, kSlabRows = 16;
  static constexpr int kBlockBytes = kRows * kColumns * kBits / 8;
  static constexpr int kSlabBytes = kSlabRows * kColumns * kBits / 8;
  /// Vectors of a lane in a slab, steps of a vector and words of a step.
  static constexpr int kVectors = kBits / 4;
  static constexpr int kVectorSteps = 4 / kVectors;
  static constexpr int kStepWords = kBits / 4;
  static constexpr int kWordCodes = 32 / kBits;

  /// The first bit of an element, from the begin of its expert.
  static __device__ __forceinline__ long long bit(int row, int column,
                                                  int columns) {
    const long long block =
        (long long)(row / kRows) * (columns / kColumns) + column / kColumns;
    const int inSlab = row % kSlabRows, inStep = column % 16;
    const int step = column % kColumns / 16;
    const int lane = inSlab % 8 * 4 + inStep % 8 / 2;
    const int part = inSlab / 8 + inStep / 8 * 2; // the register
    const int word =
        step % kVectorSteps * kStepWords + (kBits == 8 ? part / 2 : 0);
    const int code =
        kBits == 8 ? part % 2 + inStep % 2 * 2 : part + inStep % 2 * 4;
    const int byte = row % kRows / kSlabRows * kSlabBytes +
                     step / kVectorSteps * 512 + lane * 16 + word * 4;
    return (block * kBlockBytes + byte) * 8 + code * kBits;
  }

  /// The element that is code i of a word of an expert.
  static __device__ __forceinline__ SlabPlace place(int word, int i,
                                                    int columns) {
    constexpr int kBlockWords = kBlockBytes / 4, kSlabWords = kSlabBytes / 4;
    const int block = word / kBlockWords, inBlock = word % kBlockWords;
    const int inSlab = inBlock % kSlabWords, lane = inSlab % 128 / 4;
    const int step = inSlab / 128 * kVectorSteps + inSlab % 4 / kStepWords;
    const int part = kBits == 8 ? inSlab % 2 * 2 + i % 2 : i % 4;
    const int second = kBits == 8 ? i / 2 : i / 4;
    const int blocks = columns / kColumns;
    return {block / blocks * kRows + inBlock / kSlabWords * kSlabRows +
                lane / 4 + part % 2 * 8,
            block % blocks * kColumns + step * 16 + lane % 4 * 2 + second +
                part / 2 * 8};
  }
};

/// Numbers of groups along columns.
struct SlabScales {
  static constexpr int kRows = 64;
  /// The place of a row's number among those of its block.
  static __device__ __forceinline__ int ofRow(int row) {
    return row % kRows / 16 * 16 + row % 8 * 2 + row % 16 / 8;
  }
  /// The index of the number of a row and a group in an expert's.
  static __device__ __forceinline__ long long index(int row, int group,
                                                    int groups) {
    return ((long long)(row / kRows) * groups + group) * kRows + ofRow(row);
  }
  /// The row and the group of a number.
  static __device__ __forceinline__ SlabPlace place(int index, int groups) {
    const int block = index / kRows, in = index % kRows;
    return {block / groups * kRows + in / 16 * 16 + in % 16 / 2 + in % 2 * 8,
            block % groups};
  }
};

} // namespace moe
