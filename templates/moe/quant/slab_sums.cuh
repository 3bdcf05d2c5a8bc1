//===- slab_sums.cuh - slabs whose scales multiply sums ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conversion of 4-bit codes in slabs (moe/math/slabs.cuh) to e4m3 operands. An
// e2m1 code, or an i4 code minus 8, is representable in e4m3, so codes are
// multiplied without their scales. A group along k is a whole pipeline stage or
// one step of k. Its partial accumulators are multiplied by the weight row's
// scale for the group and added to totals.
//
// Adding them for each step takes longer than the MMAs if a tile has many
// tokens. e4m3 has more exponents than e2m1, so a step's power of two can be a
// factor of its elements instead, relative to a power of two of the weight row
// (FoldedScales), which multiplies the totals after the mainloop.
//
// One scale per token, or one for all, multiplies the totals at the end. Scales
// per token and stage multiply the partial accumulators.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/code_bytes.cuh"
#include "moe/matmul/feed/scales_swapped.cuh"
#include "moe/quant/slab_codes.cuh"

namespace moe {

template <class Config, class Fragment>
struct SlabSums : TokenScales<Config, Fragment> {
  using Numbers = SlabNumbers<Config>;
  using Codes = typename Numbers::Codes;
  using Scale = typename Config::Scale;
  /// For each of a thread's two weight rows, the e4m3 elements of e2m1 codes 0
  /// to 7.
  struct Tables {
    detail::SmallFloatTable ofRow[2];
  };
  static constexpr int kStepWords = Codes::kStepWords;
  static constexpr bool kIntegers = kSame<typename Config::Weight, i4>;
  static_assert((kIntegers || kSame<typename Config::Weight, e2m1>) &&
                    kSame<typename Config::Input, e4m3> &&
                    !Config::kZeroPoint &&
                    (!Config::kSecondScale || Config::kSecondPerRow),
                "e4m3 operands need i4 or e2m1 codes without zero points");
  /// True if each token has a scale per pipeline stage, which multiplies the
  /// partial accumulators, too.
  static constexpr bool kTokenGroups = ScaleLayout<Config>::kByGroup;
  /// Number of groups along k in a pipeline stage: 1, or 4 (one per step).
  static constexpr int kGroups = Numbers::kBlockGroups;
  static_assert(kGroups == 1 || kGroups == 4,
                "a group along k must be whole stages, or one step");
  /// Second scales of the thread's weight rows.
  static constexpr int kSecond = WeightScales<Config>::kCount;
  float second[kSecond];
  __device__ __forceinline__ SlabSums(const float (&ofRows)[kSecond]) {
#pragma unroll
    for (int i = 0; i < kSecond; ++i)
      second[i] = ofRows[i];
  }

  /// Power of two that is a factor of each converted code. It lets the
  /// conversion use few instructions; finish() divides it out.
  static constexpr float kPower = kIntegers             ? 0x1p-9f
                                  : foldsScales<Config> ? 0x1p6f
                                                        : 0x1p-6f;

  /// The part of a slab that one lane holds, for one pipeline stage.
  struct Slab {
    unsigned words[4 * kStepWords];
    unsigned scales; ///< shared-memory address of the first group's scales

    /// Converts the codes of step `step` to the four operand registers of an
    /// MMA.
    __device__ __forceinline__ void convert(int step, unsigned (&to)[4]) const {
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        unsigned word = words[step * kStepWords + Codes::wordOf(part)];
        if constexpr (kIntegers)
          to[part] = detail::floatsOfHalves(word >> Codes::inWord(part) * 4);
        else if (Codes::inWord(part))
          to[part] = detail::smallFloatsOfHalves<true>(word);
        else
          to[part] = detail::smallFloatsOfHalves<false>(word);
      }
    }
    /// Like convert() above, with the elements for codes 0 to 7 of each row in
    /// `tables`.
    __device__ __forceinline__ void convert(int step, const Tables &tables,
                                            unsigned (&to)[4]) const {
#pragma unroll
      for (int row = 0; row < 2; ++row)
        detail::smallFloatsByTable(words[step * kStepWords + row],
                                   tables.ofRow[row], to[row], to[row + 2]);
    }

    /// Loads a group's scales for the thread's two weight rows, r and r + 8.
    __device__ __forceinline__ void loadScales(int group,
                                               float (&to)[2]) const {
      Scale of[2];
      loadNeighbours(scales + unsigned(group * 64 * int(sizeof(Scale))), of);
      to[0] = toFloat(of[0]), to[1] = toFloat(of[1]);
    }
  };

  /// The power of two that the totals of a thread's two weight rows are divided
  /// by, for one piece: exponents with the bias of ue8m0.
  struct Units {
    static constexpr unsigned kOne = 127;
    unsigned ofRow[2] = {kOne, kOne};

    __device__ __forceinline__ float value(int row) const {
      return toFloat(ue8m0{static_cast<unsigned char>(ofRow[row])});
    }
    /// Multiplies the totals of a piece by the units, which become 1.
    template <class Worker>
    __device__ __forceinline__ void apply(Worker &worker, int piece) {
#pragma unroll
      for (int i = 0; i < Worker::kPieceSize; ++i)
        worker.scale(piece * Worker::kPieceSize + i, value(i % 4 / 2));
      ofRow[0] = ofRow[1] = kOne;
    }
  };

  /// The ue8m0 scales of the four groups of a pipeline stage, for a thread's
  /// two weight rows. A group's scale divided by the row's unit is a factor of
  /// the group's e4m3 elements. The elements are exact if the factors are at
  /// most 1 and at least 2^-kMostApart.
  struct FoldedScales {
    static constexpr unsigned kMostApart = 11;
    /// Binades between the largest scale of the first stage and the unit.
    static constexpr unsigned kAbove = 4;
    unsigned exponents[4]; ///< of each group; row 1 in the upper byte

    __device__ __forceinline__ explicit FoldedScales(const Slab &slab) {
#pragma unroll
      for (int group = 0; group < 4; ++group)
        exponents[group] =
            ptx::loadSharedHalf(slab.scales + unsigned(group * 64));
    }
    __device__ __forceinline__ unsigned exponent(int group, int row) const {
      return row ? exponents[group] >> 8 : exponents[group] & 0xffu;
    }
    /// Returns units for totals to which nothing has been added.
    __device__ __forceinline__ Units units() const {
      Units made;
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        unsigned largest = exponent(0, row);
#pragma unroll
        for (int group = 1; group < 4; ++group)
          largest = max(largest, exponent(group, row));
        made.ofRow[row] = min(largest + kAbove, 254u);
      }
      return made;
    }
    __device__ __forceinline__ bool isExact(const Units &units) const {
      unsigned apart = 0;
#pragma unroll
      for (int row = 0; row < 2; ++row)
#pragma unroll
        for (int group = 0; group < 4; ++group)
          // Wraps around for a scale above the unit.
          apart = max(apart, units.ofRow[row] - exponent(group, row));
      return apart <= kMostApart;
    }
    /// Returns the elements of a group.
    __device__ __forceinline__ Tables tables(int group,
                                             const Units &units) const {
      Tables made = kTables;
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const unsigned apart = units.ofRow[row] - exponent(group, row);
        made.ofRow[row].low -= apart * 0x08080800u; // code 0 stays 0
        made.ofRow[row].high -= apart * 0x08080808u;
      }
      return made;
    }
    /// Returns the scale of a group for a row.
    __device__ __forceinline__ float scale(int group, int row) const {
      return toFloat(ue8m0{static_cast<unsigned char>(exponent(group, row))});
    }
  };
  /// The elements without scales: values of e2m1 times kPower.
  static constexpr Tables kTables = {
      {{0x6c686000u, 0x7c787470u}, {0x6c686000u, 0x7c787470u}}};

  /// Loads this lane's registers of one slab. `stage`: shared-memory address of
  /// the pipeline stage. `block`: block of 64 weight rows.
  static __device__ __forceinline__ Slab load(unsigned stage, int block,
                                              int warp, int lane) {
    using Stage = SlabStage<Config>;
    Slab slab;
    loadCodes<Codes>(
        stage + unsigned(block * Codes::kBlockBytes + warp * Codes::kSlabBytes),
        lane, slab.words);
    slab.scales =
        stage + unsigned(Stage::kScales + block * Stage::kScaleBytes +
                         (warp * 16 + lane / 4 * 2) * int(sizeof(Scale)));
    return slab;
  }

  /// Adds the partial accumulators of piece `piece` to the totals.
  ///
  ///   tokens  shared-memory address of the stage's token scales; not read
  ///           without kTokenGroups
  ///   scale   factors of the thread's two weight rows
  template <class Worker>
  static __device__ __forceinline__ void
  add(Worker &worker, const float (&from)[Worker::kPieceSize], int piece,
      unsigned tokens, const float (&scale)[2]) {
    if constexpr (!kTokenGroups) {
      worker.template add<Worker::kPieceSize>(
          from, piece, 0, [&](int i) { return scale[i % 4 / 2]; });
    } else {
      const unsigned own = tokens + unsigned(piece % Worker::kPiecesOfAtom *
                                                 Worker::kPieceColumns * 4 +
                                             ptx::threadIndex() % 4 * 16);
      // The four token scales of 8 accumulators at a time.
#pragma unroll
      for (int first = 0; first < Worker::kPieceSize; first += 8) {
        float ofTokens[4];
        TokenScales<Config, Fragment>::load(own + unsigned(first * 8),
                                            ofTokens);
        worker.template add<8>(from, piece, first, [&](int i) {
          return ofTokens[i / 4 * 2 + i % 2] * scale[i % 4 / 2];
        });
      }
    }
  }

  /// Divides the totals by kPower, then multiplies them by the tokens' scales
  /// (see TokenScales). Two separate multiplications prevent a large scale from
  /// overflowing when it is combined with 1 / kPower.
  __device__ __forceinline__ void finish(Fragment &fragment, unsigned shared,
                                         int barrier, int thread) {
#pragma unroll
    for (int i = 0; i < Fragment::kSize; ++i)
      fragment.scale(i, 1 / kPower);
    const auto ofRow = [&](int row) {
      return Config::kSecondPerRow ? second[row] : 1.0f;
    };
    if constexpr (!kTokenGroups)
      this->multiply(fragment, shared, barrier, thread, ofRow);
    else if constexpr (Config::kSecondPerRow)
#pragma unroll
      for (int i = 0; i < Fragment::kSize; ++i)
        fragment.scale(i, ofRow(i / Fragment::kAtomSize * 2 + i % 4 / 2));
  }
};

} // namespace moe
