//===- slabs.cuh - weights in the order of fragments ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The place of each element of a weight in the layout `order = fragment`, for
// codes of 4, 6 and 8 bits. An expert's weight is blocks of 64 rows by four
// steps of columns, those of the same rows one behind the other. A step is what
// one multiply takes: 16 columns where operands have 16 bits, 32 where they
// have 8. A block is four slabs of 16 rows. A slab is what the 32 lanes of a
// warp hold of it as the A operand of four multiplies: vectors of 16 bytes, or
// of 12 for codes of 6 bits, those of lane 0 first.
//
// Lane 4 g + t holds of a step of S columns, with e elements in a register,
//   0: row g, columns e t .. e t + e - 1     2: row g, those S / 2 behind
//   1: row g + 8, as register 0              3: row g + 8, as register 2
// of which the codes stand in words so that those of a register come out by
// one mask. Operands of 16 bits: codes of 4 bits are nibbles r and r + 4 of a
// word, codes of 8 bits are bytes r % 2 and r % 2 + 2 of word r / 2; those of 6
// bits are numbers r and r + 4 of the 16 in a vector, which holds two steps,
// and r + 8 and r + 12 in the second one. Operands of 8 bits: codes of 4 bits
// are the low (even r) or high nibbles of word r / 2.
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

/// Codes of kBits that become operands of kOperandBits.
template <int kBits, int kOperandBits = 16> struct Slabs {
  static_assert((kOperandBits == 16 &&
                 (kBits == 4 || kBits == 6 || kBits == 8)) ||
                    (kOperandBits == 8 && kBits == 4),
                "slabs hold codes of 4, 6 or 8 bits for operands of 16, and "
                "codes of 4 bits for operands of 8");
  /// Columns of a step, and elements of a register.
  static constexpr int kStepColumns = 256 / kOperandBits;
  static constexpr int kPerRegister = 32 / kOperandBits;
  /// Rows and columns of a block, and rows of a slab.
  static constexpr int kRows = 64, kColumns = 4 * kStepColumns, kSlabRows = 16;
  static constexpr int kBlockBytes = kRows * kColumns * kBits / 8;
  static constexpr int kSlabBytes = kSlabRows * kColumns * kBits / 8;
  /// Words of a lane in a slab; vectors there, their words and steps.
  static constexpr int kLaneWords = 16 * kBits / kOperandBits;
  static constexpr int kVectorWords = kBits == 6 ? 3 : 4;
  static constexpr int kVectors = kLaneWords / kVectorWords;
  static constexpr int kVectorSteps = 4 / kVectors;
  /// The fewest words that hold whole codes of whole steps or of some of their
  /// registers: those of the words of a step, how many steps and codes.
  static constexpr int kStepWords = kBits == 6 ? 3 : 4 * kBits / kOperandBits;
  static constexpr int kSharedSteps = kBits == 6 ? 2 : 1;
  static constexpr int kRunWords = kBits == 6 ? 3 : 1;
  static constexpr int kRunCodes = 32 * kRunWords / kBits;
  /// Registers whose codes share a run.
  static constexpr int kWordParts = kBits == 6 ? 4 : 4 / kStepWords;

  /// The first bit of an element, from the begin of its expert.
  static __device__ __forceinline__ long long bit(int row, int column,
                                                  int columns) {
    const long long block =
        (long long)(row / kRows) * (columns / kColumns) + column / kColumns;
    const int inSlab = row % kSlabRows, inStep = column % kStepColumns;
    const int inHalf = inStep % (kStepColumns / 2);
    const int step = column % kColumns / kStepColumns;
    const int lane = inSlab % 8 * 4 + inHalf / kPerRegister;
    const int part = inSlab / 8 + inStep / (kStepColumns / 2) * 2;
    const int code = part % kWordParts + inHalf % kPerRegister * kWordParts;
    const int byte = row % kRows / kSlabRows * kSlabBytes +
                     (step / kVectorSteps * 32 + lane) * kVectorWords * 4;
    // Two steps of 8 codes share a run, or registers of one step have their
    // own.
    const int inVector =
        kBits == 6
            ? step % 2 * 8 * kBits
            : (step % kVectorSteps * kStepWords + part / kWordParts) * 32;
    return (block * kBlockBytes + byte) * 8 + inVector + code * kBits;
  }

  /// The element that is code i of a run of an expert.
  static __device__ __forceinline__ SlabPlace place(int run, int i,
                                                    int columns) {
    constexpr int kBlockRuns = kBlockBytes / 4 / kRunWords;
    constexpr int kSlabRuns = kBlockRuns / 4;
    constexpr int kVectorRuns = kVectorWords / kRunWords;
    const int block = run / kBlockRuns, inBlock = run % kBlockRuns;
    const int inSlab = inBlock % kSlabRuns;
    const int lane = inSlab / kVectorRuns % 32, inVector = inSlab % kVectorRuns;
    int step = inSlab / (32 * kVectorRuns) * kVectorSteps;
    int part = i % kWordParts;
    if constexpr (kBits == 6) {
      step += i / 8;
    } else {
      step += inVector / kStepWords;
      part += inVector % kStepWords * kWordParts;
    }
    const int blocks = columns / kColumns;
    return {block / blocks * kRows + inBlock / kSlabRuns * kSlabRows +
                lane / 4 + part % 2 * 8,
            block % blocks * kColumns + step * kStepColumns +
                lane % 4 * kPerRegister +
                i % (kRunCodes / kSharedSteps) / kWordParts +
                part / 2 * (kStepColumns / 2)};
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
