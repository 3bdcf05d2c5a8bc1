//===- slab_codes.cuh - codes of slabs to register operands -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conversion of slabs to MMA operand registers. The input is a pipeline stage's
// slabs (codes, which are quantized values, in MMA fragment order,
// moe/math/slabs.cuh), and their scales and zero points. The output is operand
// registers with two 16-bit elements each. An element is (code - zero point) *
// scale, rounded once, and is bit-identical to the result of
// moe/quant/dequantize.cuh. Some converters leave out a power of two: the
// element is then that value divided by the power, and the accumulators are
// multiplied by it at the end. Second scales also multiply the accumulators.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/gate_up.cuh"
#include "moe/core/ptx.cuh"
#include "moe/core/ptx_pairs.cuh"
#include "moe/math/codes.cuh"
#include "moe/math/slabs.cuh"
#include "moe/matmul/feed/scales.cuh"
#include "moe/matmul/feed/slab_stage.cuh"
#include "moe/quant/dequantize.cuh"

namespace moe {

namespace detail {

/// Decodes the two codes of an operand register to f32. `words`: the lane's
/// words of the step. `part`: index of the register, 0 to 3; if two steps share
/// the words, the second step's registers are 4 to 7.
template <class Weight>
__device__ __forceinline__ void
slabFloats(const unsigned (&words)[Slabs<kBits<Weight>>::kStepWords], int part,
           float (&values)[2]) {
  if constexpr (kBits<Weight> == 6) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int bit = (part / 4 * 8 + part % 4 + 4 * i) * 6;
      unsigned code = words[bit / 32] >> bit % 32;
      if (bit % 32 > 26)
        code |= words[bit / 32 + 1] << (32 - bit % 32);
      values[i] = decode<Weight>(code);
    }
  } else if constexpr (kBits<Weight> == 4) {
    values[0] = decode<Weight>(words[0] >> 4 * part & 15u);
    values[1] = decode<Weight>(words[0] >> (4 * part + 16) & 15u);
  } else {
    unsigned word = words[part / 2] >> part % 2 * 8;
    values[0] = decode<Weight>(word & 0xffu);
    values[1] = decode<Weight>(word >> 16 & 0xffu);
  }
}

/// Converts the thread's two weight-row scales for a group to f32.
template <class Config>
__device__ __forceinline__ void
slabScales(const typename Config::Scale (&scales)[2], float (&to)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i)
    to[i] = toFloat(scales[i]);
}

/// Default members of a converter. A converter has two functions. prepare()
/// receives the scales and zero points of a group for the thread's two weight
/// rows. element() returns operand register `part`.
struct SlabOperands {
  /// True if element() has a separate instruction sequence for large scales,
  /// which is selected by a branch at run time.
  static constexpr bool kBranchesOnLarge = false;
  /// True if the conversion needs so few registers that MMAs may be issued in
  /// pairs (SlabScaling::leavesRegisters).
  static constexpr bool kLeavesRegisters = false;
  /// Registers of a conversion, besides codes and scales.
  static constexpr int kScratch = 0;
  /// Returns the power of two by which accumulators of the thread's weight row
  /// 0 or 1 are multiplied.
  static constexpr float ofRow(int) { return 1.0f; }
};

/// Converts any codes with any scales through f32.
template <class Config> struct SlabByFloats : SlabOperands {
  using Weight = typename Config::Weight;
  using Input = typename Config::Input;
  using Scale = typename Config::Scale;
  float scale[2], zero[2];

  __device__ __forceinline__ void prepare(const Scale (&scales)[2],
                                          const unsigned (&zeros)[2]) {
    slabScales<Config>(scales, scale);
#pragma unroll
    for (int i = 0; i < 2; ++i)
      zero[i] = Config::kZeroPoint ? float(static_cast<signed char>(zeros[i]))
                                   : kZero<Weight>;
  }
  template <bool, int kWords>
  __device__ __forceinline__ unsigned element(const unsigned (&words)[kWords],
                                              int part) const {
    float values[2];
    slabFloats<Weight>(words, part, values);
    int row = part % 2;
    return packPair<Input>((values[0] - zero[row]) * scale[row],
                           (values[1] - zero[row]) * scale[row]);
  }
};

/// Converts i4 to f16, with f16 scales. A code in the lowest bits of the f16
/// constant 1024 yields the value 1024 + code. The zero point is held as 1024 +
/// zero point, so the difference is code - zero point, which is exact.
template <class Config> struct SlabHalves : SlabOperands {
  static constexpr unsigned kMagic = 0x64006400u;
  unsigned scale[2], zero[2]; ///< the same value in both halves

  __device__ __forceinline__ void prepare(const f16 (&scales)[2],
                                          const unsigned (&zeros)[2]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      scale[i] = unsigned(scales[i].bits) * 0x10001u;
      if constexpr (Config::kZeroPoint)
        zero[i] = zeroOf(zeros[i]);
      else
        zero[i] = kMagic + 0x00080008u;
    }
  }
  /// Returns 1024 + zero point as f16 in both halves, for a signed 8-bit zero
  /// point. To convert without an I2F instruction, an unsigned byte is placed
  /// in the lowest bits of the f32 constant 2^23, which yields 2^23 + byte.
  static __device__ __forceinline__ unsigned zeroOf(unsigned byte) {
    float number =
        __uint_as_float(0x4b000000u | (byte ^ 0x80u)) - (0x1p23f + 128 - 1024);
    return packPair<f16>(number, number);
  }
  template <bool>
  __device__ __forceinline__ unsigned element(const unsigned (&words)[1],
                                              int part) const {
    unsigned codes = ptx::maskOr<0x000f000fu, kMagic>(words[0] >> 4 * part);
    int row = part % 2;
    return ptx::multiplyPair<f16>(ptx::subtractPair<f16>(codes, zero[row]),
                                  scale[row]);
  }
};

/// Copies each half of `pair` to both halves of a register: the lower half to
/// to[0], the upper half to to[1].
__device__ __forceinline__ void twice(unsigned pair, unsigned (&to)[2]) {
  to[0] = __byte_perm(pair, 0, 0x1010);
  to[1] = __byte_perm(pair, 0, 0x3232);
}

/// Converts i4 and i8 to bf16, with bf16 scales.
///
/// If all bits of a bf16 above the lowest 8 are 0, its value is the integer in
/// the lowest 8 bits times 2^-133, for subnormal and normal values. Codes that
/// are masked out of a word are thus bf16 values without any conversion. One
/// fma multiplies them by the scale, subtracts zero point * scale, and rounds
/// once. ofRow() is the factor of the accumulators that undoes the power of
/// two. Nibbles of row 1 are 4 bits higher in the word than those of row 0, so
/// the factor of row 1 is that of row 0 times 2^-4.
///
/// For scales of 0 and from 2^-89 to 2^31, an operand times ofRow() equals the
/// operand of SlabByFloats. A smaller scale yields an operand that is off by at
/// most 2^-132. A larger scale yields infinities and NaN.
template <class Config> struct SlabBfloats : SlabOperands {
  static constexpr bool kLeavesRegisters = !Config::kZeroPoint;
  static constexpr int kCodeBits = kBits<typename Config::Weight>;
  static constexpr bool kNibbles = kCodeBits == 4;
  static constexpr float ofRow(int row) {
    return kNibbles && row == 1 ? 0x1p33f : 0x1p37f;
  }
  unsigned scale[2]; ///< each row's scale times 2^96, in both halves
  /// Without zero points: the operand of code 0. With zero points: the zero
  /// point as an integer at the bit position of the row's codes. The value is
  /// in both halves.
  unsigned zero[2];

  __device__ __forceinline__ void prepare(const bf16 (&scales)[2],
                                          const unsigned (&zeros)[2]) {
    constexpr unsigned k2To96 = 0x6f806f80u;
    // Nibbles: -8 / ofRow, which is -2^-34 and -2^-30 for rows 0 and 1. Bytes:
    // -128 / ofRow, which is -2^-30 for both rows.
    constexpr unsigned kOfCode0 = kNibbles ? 0xb080ae80u : 0xb080b080u;
    const unsigned both = unsigned(scales[0].bits) | unsigned(scales[1].bits)
                                                         << 16;
    twice(ptx::multiplyPair<bf16>(both, k2To96), scale);
    if constexpr (Config::kZeroPoint)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        zero[i] = zeroOf(zeros[i], i);
    else
      twice(ptx::multiplyPair<bf16>(both, kOfCode0), zero);
  }
  /// Returns a signed 8-bit zero point at the bit position of the row's codes,
  /// in both halves.
  static __device__ __forceinline__ unsigned zeroOf(unsigned byte, int row) {
    if constexpr (!kNibbles)
      return ((byte & 0xffu) ^ 0x80u) * 0x10001u;
    constexpr unsigned k16 = 0x41804180u;
    const int number = static_cast<signed char>(byte);
    const unsigned size = unsigned(number < 0 ? -number : number);
    const unsigned bits =
        (size | (unsigned(number) >> 16 & 0x8000u)) * 0x10001u;
    return row == 0 ? bits : ptx::multiplyPair<bf16>(bits, k16);
  }
  template <bool, int kWords>
  __device__ __forceinline__ unsigned element(const unsigned (&words)[kWords],
                                              int part) const {
    const int row = part % 2;
    unsigned codes;
    if constexpr (kNibbles)
      codes = words[0] >> 8 * (part / 2) & (row ? 0x00f000f0u : 0x000f000fu);
    else // these are codes plus 128
      codes = (words[part / 2] >> 8 * row & 0x00ff00ffu) ^ 0x00800080u;
    if constexpr (Config::kZeroPoint)
      return ptx::multiplyPair<bf16>(ptx::subtractPair<bf16>(codes, zero[row]),
                                     scale[row]);
    return ptx::multiplyAddBfloats(codes, scale[row], zero[row]);
  }
};

/// Extracts two e2m1 codes from `word` as bf16 values times 2^-126, by moving
/// exponent and mantissa to the bit positions of a bf16.
__device__ __forceinline__ unsigned slabE2m1(unsigned word, int part) {
  unsigned signs = word << (12 - 4 * part);
  unsigned sizes = part < 2 ? word << (6 - 4 * part) : word >> (4 * part - 6);
  return (signs & 0x80008000u) | (sizes & 0x01c001c0u);
}

/// Converts e2m1 codes through f32. slabE2m1 yields codes times 2^-126, which
/// must be undone. If the thread's scales are below 2, the scale is multiplied
/// by 2^126. For a larger scale this product would overflow, so the codes are
/// multiplied by 2^126 instead.
template <class Config> struct SlabE2m1 : SlabOperands {
  using Input = typename Config::Input;
  using Scale = typename Config::Scale;
  /// True if a branch tests whether scales are 2 or larger. e4m3 scales often
  /// are, so their codes are always multiplied by 2^126, without a branch.
  static constexpr bool kBranchesOnLarge = !kSame<Scale, e4m3>;
  static constexpr float kPower = 0x1p126f;
  float scale[2];
  bool isLarge;

  __device__ __forceinline__ void prepare(const Scale (&scales)[2],
                                          const unsigned (&)[2]) {
    slabScales<Config>(scales, scale);
    // A NaN scale counts as large.
    isLarge = !(fabsf(scale[0]) < 2.0f && fabsf(scale[1]) < 2.0f);
  }
  template <bool kLarge>
  __device__ __forceinline__ unsigned element(const unsigned (&words)[1],
                                              int part) const {
    unsigned bits = slabE2m1(words[0], part);
    float first = __uint_as_float(bits << 16);
    float other = __uint_as_float(bits & 0xffff0000u);
    float factor = scale[part % 2];
    if constexpr (kLarge || !kBranchesOnLarge)
      first *= kPower, other *= kPower; // exact
    else
      factor *= kPower;
    return packPair<Input>(first * factor, other * factor);
  }
};

/// Converts e2m1 codes to bf16, with 8-bit scales. The products of codes and
/// scales are exact.
///
/// For scales of 0 and from 2^-89 to 2^31, operands are the weights times
/// 2^-30. A smaller scale yields an operand that is off by at most 2^-132. A
/// larger scale yields infinities and NaN.
template <class Config> struct SlabE2m1Bfloats : SlabOperands {
  using Scale = typename Config::Scale;
  static constexpr bool kLeavesRegisters = kSame<Scale, ue8m0>;
  static constexpr int kScratch = 8;
  static constexpr float ofRow(int) { return 0x1p30f; }
  unsigned scale[2]; ///< each row's scale times 2^96, in both halves

  __device__ __forceinline__ void prepare(const Scale (&scales)[2],
                                          const unsigned (&)[2]) {
    constexpr unsigned k2To96 = 0x6f806f80u;
    unsigned both;
    if constexpr (kSame<Scale, ue8m0>)
      both = unsigned(scales[0].bits) << 7 | unsigned(scales[1].bits) << 23;
    else
      both = packPair<bf16>(toFloat(scales[0]), toFloat(scales[1]));
    twice(ptx::multiplyPair<bf16>(both, k2To96), scale);
  }
  template <bool>
  __device__ __forceinline__ unsigned element(const unsigned (&words)[1],
                                              int part) const {
    return ptx::multiplyPair<bf16>(slabE2m1(words[0], part), scale[part % 2]);
  }
};

template <class Config> constexpr auto slabConverterOf() {
  using Input = typename Config::Input;
  using Weight = typename Config::Weight;
  constexpr bool kAlike = kSame<typename Config::Scale, Input>;
  if constexpr (kAlike && kSame<Input, bf16> &&
                (kSame<Weight, i4> || kSame<Weight, i8>))
    return SlabBfloats<Config>();
  else if constexpr (kAlike && kSame<Weight, i4>)
    return SlabHalves<Config>();
  else if constexpr (kSame<Weight, e2m1> && kSame<Input, bf16> &&
                     sizeof(typename Config::Scale) == 1)
    return SlabE2m1Bfloats<Config>();
  else if constexpr (kSame<Weight, e2m1>)
    return SlabE2m1<Config>();
  else
    return SlabByFloats<Config>();
}

} // namespace detail

/// Loads a lane's codes of a slab. `from`: shared-memory address of the slab.
template <class Codes>
__device__ __forceinline__ void
loadCodes(unsigned from, int lane, unsigned (&words)[Codes::kLaneWords]) {
  constexpr int kWords = Codes::kVectorWords;
  from += unsigned(lane) * kWords * 4;
#pragma unroll
  for (int v = 0; v < Codes::kVectors; ++v) {
    unsigned at = from + unsigned(v * 128 * kWords);
    if constexpr (kWords == 3) {
#pragma unroll
      for (int i = 0; i < kWords; ++i)
        words[v * kWords + i] = ptx::loadShared(at + unsigned(i * 4));
    } else {
      unsigned vector[4];
      ptx::loadShared(at, vector);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        words[v * 4 + i] = vector[i];
    }
  }
}

/// Loads the scales of a thread's two weight rows, which are adjacent in shared
/// memory. `from`: shared-memory address of the first scale.
template <class Scale>
__device__ __forceinline__ void loadNeighbours(unsigned from, Scale (&to)[2]) {
  if constexpr (sizeof(Scale) == 4) {
    unsigned words[2];
    ptx::loadShared<8>(from, words);
    to[0] = __uint_as_float(words[0]), to[1] = __uint_as_float(words[1]);
  } else {
    constexpr int kBitsOf = 8 * int(sizeof(Scale));
    unsigned both =
        sizeof(Scale) == 2 ? ptx::loadShared(from) : ptx::loadSharedHalf(from);
    to[0].bits = decltype(to[0].bits)(both & ((1u << kBitsOf) - 1));
    to[1].bits = decltype(to[1].bits)(both >> kBitsOf);
  }
}

/// Converts the slabs of a thread's weight rows and scales the final
/// accumulators. It has the interface of the classes that scale accumulators
/// (moe/matmul/feed/scales.cuh). `kPairs`: number of row pairs (r, r + 8) that
/// have their own second scales.
template <class Config, int kPairs = 1> struct SlabScaling : NoScales {
  using Numbers = SlabNumbers<Config>;
  using Codes = typename Numbers::Codes;
  using Scale = typename Config::Scale;
  static constexpr int kStepWords = Codes::kStepWords;
  static_assert(kPairs == 1 || Config::kSecondPerRow);
  float second[2 * kPairs]; ///< second scales of each pair's rows r and r + 8

  __device__ __forceinline__ SlabScaling(const float (&ofRows)[2 * kPairs]) {
#pragma unroll
    for (int i = 0; i < 2 * kPairs; ++i)
      second[i] = ofRows[i];
  }

  using Converter = decltype(detail::slabConverterOf<Config>());
  /// Returns true if enough registers are left to issue MMAs in pairs. Partial
  /// weight tiles, 32-bit results, and some converters need these registers. A
  /// small Schedule::kConsumerRegisters, as with several CTAs per SM, does not
  /// leave them either. With fewer registers than counted here, ptxas
  /// serializes the MMAs.
  static constexpr bool leavesRegisters() {
    using Schedule = typename Config::Schedule;
    constexpr int kAtoms = Config::Mma::kRows / 64;
    constexpr int kNeeded = kAtoms * (Schedule::kTileM / 2 + 16) + 40;
    return Converter::kLeavesRegisters && Config::kN % Schedule::kTileN == 0 &&
           Schedule::kTileM <= 128 &&
           kNeeded + Converter::kScratch <= Schedule::kConsumerRegisters &&
           sizeof(typename Config::Result) == 2;
  }

  /// Multiplies the final accumulators by the factors of their weight rows.
  template <class Fragment>
  __device__ __forceinline__ void scaleSums(Fragment &fragment) const {
    static_assert(Fragment::kTokensAreColumns);
#pragma unroll
    for (int i = 0; i < Fragment::kSize; ++i) {
      const int row = i % 4 / 2, pair = i / (Fragment::kSize / kPairs);
      fragment.scale(i, ofSums(row, 2 * pair + row));
    }
  }
  /// Returns the factor of the accumulators in weight row 0 or 1. `i`: index of
  /// the row's second scale in `second`.
  __device__ __forceinline__ float ofSums(int row, int i) const {
    float factor = Converter::ofRow(row);
    if constexpr (Config::kSecondScale)
      factor *= second[i];
    return factor;
  }
  template <class Fragment>
  __device__ __forceinline__ void finish(Fragment &fragment, unsigned, int,
                                         int) const {
    scaleSums(fragment);
  }

  /// The part of a slab that one lane holds, for one pipeline stage.
  struct Slab {
    unsigned words[Codes::kLaneWords];
    Converter converters[Numbers::kBlockGroups];
    bool isLarge; ///< true if any lane of the warp has a large scale

    __device__ __forceinline__ void findLarge() {
      if constexpr (Converter::kBranchesOnLarge) {
        bool any = false;
#pragma unroll
        for (int group = 0; group < Numbers::kBlockGroups; ++group)
          any |= converters[group].isLarge;
        isLarge = __any_sync(0xffffffffu, any);
      }
    }

    /// Converts the codes of step `step` to the four operand registers of an
    /// MMA. A warp with a large scale converts a second time in a branch. The
    /// branch contains no MMA, because all warps of a warpgroup must execute
    /// the same MMA instruction.
    __device__ __forceinline__ void convert(int step, unsigned (&to)[4]) const {
      convertAs<false>(step, to);
      if constexpr (Converter::kBranchesOnLarge)
        if (isLarge) [[unlikely]]
          convertAs<true>(step, to);
    }

    template <bool kLarge>
    __device__ __forceinline__ void convertAs(int step,
                                              unsigned (&to)[4]) const {
      unsigned own[kStepWords];
#pragma unroll
      for (int i = 0; i < kStepWords; ++i)
        own[i] = words[step / Codes::kSharedSteps * kStepWords + i];
      const int first = step % Codes::kSharedSteps * 4;
#pragma unroll
      for (int part = 0; part < 4; ++part)
        to[part] = converters[step * Numbers::kBlockGroups / 4]
                       .template element<kLarge>(own, first + part);
    }
  };

  /// Loads a warp's slab. `stage`: shared-memory address of the pipeline stage.
  /// `block`: block of 64 weight rows. `blockOfK`: index of the block along k.
  static __device__ __forceinline__ Slab load(unsigned stage, int block,
                                              int warp, int lane,
                                              int blockOfK = 0) {
    using Stage = SlabStage<Config>;
    int number = Stage::groupOf(blockOfK) * 64 + warp * 16;
    return read<64>(
        stage +
            unsigned(block * Stage::kCodeBytes + blockOfK * Codes::kBlockBytes +
                     warp * Codes::kSlabBytes),
        stage + unsigned(Stage::kScales + block * Stage::kScaleBytes +
                         number * int(sizeof(Scale))),
        stage + unsigned(Stage::kZeros + block * Stage::kZeroBytes + number),
        lane);
  }

  /// Loads a slab. `codes`, `scales`, `zeros`: shared-memory addresses of its
  /// codes, scales and zero points. `kRows`: stride in elements between the
  /// scales of consecutive groups.
  template <int kRows>
  static __device__ __forceinline__ Slab read(unsigned codes, unsigned scales,
                                              unsigned zeros, int lane) {
    Slab slab;
    loadCodes<Codes>(codes, lane, slab.words);
    int ofLane = lane / 4 * 2;
    scales += unsigned(ofLane * int(sizeof(Scale)));
    zeros += unsigned(ofLane);
#pragma unroll
    for (int group = 0; group < Numbers::kBlockGroups; ++group) {
      Scale of[2];
      loadNeighbours(scales + unsigned(group * kRows * int(sizeof(Scale))), of);
      unsigned zero[2] = {};
      if constexpr (Config::kZeroPoint) {
        unsigned both = ptx::loadSharedHalf(zeros + unsigned(group * kRows));
        zero[0] = both & 0xffu, zero[1] = both >> 8;
      }
      slab.converters[group].prepare(of, zero);
    }
    slab.findLarge();
    return slab;
  }
};

} // namespace moe
