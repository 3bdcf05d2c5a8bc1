//===- slabs.cuh - weights in MMA fragment order ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The layout `order = fragment` of weights, for codes (quantized values) of 4,
// 6 and 8 bits. An expert's weight is divided into blocks of 64 rows by four
// steps of columns; blocks of the same rows are contiguous. A step is the k
// extent of one MMA: 16 columns for 16-bit operands, 32 for 8-bit operands. A
// block consists of four slabs. A slab is the codes of 16 rows by four steps:
// the A operand of four MMAs, one per step, in the order in which a warp loads
// it. The unit is a vector of 16 bytes (12 bytes for 6-bit codes) per lane: the
// first vector of lanes 0 to 31 is followed by their next vector.
//
// For a step of S columns, with e elements in a register, lane 4 g + t holds:
//
//   register 0: row g, columns e t .. e t + e - 1
//   register 1: row g + 8, columns as register 0
//   register 2: row g, columns S / 2 later
//   register 3: row g + 8, columns as register 2
//
// The codes are placed in words so that one mask extracts the codes of register
// r.
//
//   16-bit operands, 4-bit codes: nibbles r and r + 4 of a word
//   16-bit operands, 8-bit codes: bytes r % 2 and r % 2 + 2 of word r / 2
//   16-bit operands, 6-bit codes: codes r and r + 4 of the 16 in a vector. A
//                                 vector has two steps; in the second one, they
//                                 are codes r + 8 and r + 12.
//   8-bit operands, 4-bit codes: the low (r < 2) or high nibbles of word r % 2,
//                                so that a word has the codes of one row
//
// A group of columns shares one scale and one zero point per row. Scales and
// zero points are stored in blocks of 64 rows by one group. The values of rows
// g and g + 8 of a slab are contiguous.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe {

struct SlabPlace {
  int row, column;
};

/// The layout of codes of kBits bits that become operands of kOperandBits bits.
template <int kBits, int kOperandBits = 16> struct Slabs {
  static_assert((kOperandBits == 16 &&
                 (kBits == 4 || kBits == 6 || kBits == 8)) ||
                    (kOperandBits == 8 && kBits == 4),
                "slabs hold 4-, 6- or 8-bit codes for 16-bit operands, and "
                "4-bit codes for 8-bit operands");
  /// Columns per step.
  static constexpr int kStepColumns = 256 / kOperandBits;
  /// Elements per 32-bit operand register.
  static constexpr int kPerRegister = 32 / kOperandBits;
  /// Rows and columns of a block, and rows of a slab.
  static constexpr int kRows = 64, kColumns = 4 * kStepColumns, kSlabRows = 16;
  static constexpr int kBlockBytes = kRows * kColumns * kBits / 8;
  static constexpr int kSlabBytes = kSlabRows * kColumns * kBits / 8;
  /// Words that a lane loads per slab.
  static constexpr int kLaneWords = 16 * kBits / kOperandBits;
  /// Words per vector.
  static constexpr int kVectorWords = kBits == 6 ? 3 : 4;
  /// Vectors that a lane loads per slab.
  static constexpr int kVectors = kLaneWords / kVectorWords;
  /// Steps whose codes share a vector.
  static constexpr int kVectorSteps = 4 / kVectors;
  /// A run is the smallest group of words that holds whole codes of whole
  /// steps, or of some registers of one step. kStepWords is the number of words
  /// per step.
  static constexpr int kStepWords = kBits == 6 ? 3 : 4 * kBits / kOperandBits;
  /// Steps that share these words.
  static constexpr int kSharedSteps = kBits == 6 ? 2 : 1;
  /// Words per run.
  static constexpr int kRunWords = kBits == 6 ? 3 : 1;
  /// Codes per run.
  static constexpr int kRunCodes = 32 * kRunWords / kBits;
  /// Registers whose codes share a run.
  static constexpr int kWordParts = kBits == 6 ? 4 : 4 / kStepWords;

  /// wordOf: index of the word of a step that holds a register's codes. inWord:
  /// index of the register among those of the word. partOf is the inverse.
  static constexpr bool kByRow = kOperandBits == 8;
  static constexpr int wordOf(int part) {
    return kByRow ? part % 2 : part / kWordParts;
  }
  static constexpr int inWord(int part) {
    return kByRow ? part / 2 : part % kWordParts;
  }
  static constexpr int partOf(int word, int inWord) {
    return kByRow ? inWord * 2 + word : word * kWordParts + inWord;
  }

  /// Returns the bit offset of an element from the start of its expert's
  /// weight. `columns`: number of columns of the weight.
  static __device__ __forceinline__ long long bit(int row, int column,
                                                  int columns) {
    const long long block =
        (long long)(row / kRows) * (columns / kColumns) + column / kColumns;
    const int inSlab = row % kSlabRows, inStep = column % kStepColumns;
    const int inHalf = inStep % (kStepColumns / 2);
    const int step = column % kColumns / kStepColumns;
    const int lane = inSlab % 8 * 4 + inHalf / kPerRegister;
    const int part = inSlab / 8 + inStep / (kStepColumns / 2) * 2;
    const int code = inWord(part) + inHalf % kPerRegister * kWordParts;
    const int byte = row % kRows / kSlabRows * kSlabBytes +
                     (step / kVectorSteps * 32 + lane) * kVectorWords * 4;
    // With 6-bit codes, two steps of 8 codes share a run. Otherwise, groups of
    // kWordParts registers of one step have separate runs.
    const int inVector =
        kBits == 6 ? step % 2 * 8 * kBits
                   : (step % kVectorSteps * kStepWords + wordOf(part)) * 32;
    return (block * kBlockBytes + byte) * 8 + inVector + code * kBits;
  }

  /// Returns the row and column of code i of an expert's run with index `run`.
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
      part = partOf(inVector % kStepWords, part);
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

/// The layout of scales and zero points, of which each row has one per group of
/// columns.
struct SlabScales {
  static constexpr int kRows = 64;
  /// Returns the index of a row's scale within its block of 64 rows.
  static __device__ __forceinline__ int ofRow(int row) {
    return row % kRows / 16 * 16 + row % 8 * 2 + row % 16 / 8;
  }
  /// Returns the index of the scale of `row` and `group`, relative to the start
  /// of the expert's scales.
  static __device__ __forceinline__ long long index(int row, int group,
                                                    int groups) {
    return ((long long)(row / kRows) * groups + group) * kRows + ofRow(row);
  }
  /// Returns the row and the group (as column) of the scale with index `index`.
  static __device__ __forceinline__ SlabPlace place(int index, int groups) {
    const int block = index / kRows, in = index % kRows;
    return {block / groups * kRows + in / 16 * 16 + in % 16 / 2 + in % 2 * 8,
            block % groups};
  }
};

} // namespace moe
