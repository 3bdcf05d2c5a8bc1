//===- mma_sync_scaled.cuh - tensor cores with block scales -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Engine mma_sync_scaled: ldmatrix and mma.m16n8k32 (m16n8k64 for 4-bit
// elements) with block scales of both operands and f32 accumulators. Sizes
// along k are in bytes. As in mma_sync, tokens are the 16 rows of an MMA
// instruction, and weight rows are its 8 columns.
//
// A lane's scale register has up to four scales along k for one operand row.
// Four lanes share a row of an operand's fragment, and their registers have the
// scales of different row blocks. One register load thus covers several MMAs.
// The instruction's `thread` operand selects the lane whose register it uses.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/ptx_scaled.cuh"
#include "moe/core/swizzle.cuh"
#include "moe/core/types.cuh"
#include "moe/math/codes.cuh"
#include "moe/matmul/accumulator/warp.cuh"

namespace moe::mma {

/// Engine mma_sync_scaled.
///
///   Element  element type of lhs: e4m3, a 6-bit float or e2m1x2
///   Scale    ue8m0 for 32 elements along k, or e4m3 for 16
///   Weight   Element, or a 4- or 6-bit float with e4m3 tokens
///
/// 6-bit floats, and e2m1 weights with e4m3 tokens, are expanded to bytes in
/// registers.
template <class Element, class Scale, class Weight> struct MmaSyncScaled {
  using Input = Element;
  static constexpr int kStepK = 32;
  static constexpr bool kPromoted = false;
  template <class T>
  static constexpr bool kOfSixBits = kSame<T, e3m2> || kSame<T, e2m3>;
  static constexpr bool kOfBytes = kSame<Element, e4m3> || kOfSixBits<Element>;
  static constexpr bool kOfPowers = kSame<Scale, ue8m0>;
  /// Scales (one byte each) of one operand row per step of k.
  static constexpr int kStepScales = kOfBytes ? 1 : kOfPowers ? 2 : 4;
  static constexpr bool kMixed =
      kSame<Element, e4m3> && (kSame<Weight, e2m1> || kOfSixBits<Weight>);
  static_assert(kMixed || kSame<Element, Weight>,
                "Weight must equal the element type of lhs, or have fewer bits "
                "than e4m3 lhs");
  static_assert(kOfBytes ? kOfPowers
                         : kSame<Element, e2m1x2> &&
                               (kOfPowers || kSame<Scale, e4m3>),
                "engine mma_sync_scaled multiplies 8- and 6-bit elements with "
                "ue8m0 scales, and e2m1 with ue8m0 or e4m3 scales");

  template <class T>
  static __device__ __forceinline__ void load(unsigned (&matrices)[4],
                                              unsigned address) {
    if constexpr (kBits<T> < 8)
      ptx::loadCodeMatrices<kBits<T>>(matrices, address);
    else
      ptx::loadMatrices(matrices, address);
  }

  /// One warp's part of a tile: the operands of a step, and the MMAs that
  /// multiply and accumulate them.
  template <class Schedule> struct Worker : WarpSums<Schedule, false, float> {
    using Base = WarpSums<Schedule, false, float>;
    using Share = WarpShare<Schedule>;
    using Layout = Swizzle<Schedule::kTileK>;
    static constexpr int kRowBytes = Schedule::kTileK;
    static constexpr int kScaleBytes = Schedule::kTileK / kStepK * kStepScales;
    /// Byte offsets of the scales, relative to the weight tile. The weight
    /// rows' scales follow the weight tile, and the tokens' scales follow the
    /// weight rows' scales.
    static constexpr int kRhsScales = Schedule::kTileN * kRowBytes;
    static constexpr int kLhsScales =
        kRhsScales + Schedule::kTileN * kScaleBytes;
    static_assert(kRowBytes <= 128, "kTileK must be at most 128 bytes, so that "
                                    "steps are compile-time constants");
    static_assert((Base::kMs == 1 || Base::kMs % 2 == 0) &&
                      (Base::kNs == 2 || Base::kNs % 4 == 0),
                  "a scale register must not cover rows of two warps");

    /// The operand registers of one step of k. Across the lanes, one scale
    /// register covers two 16-row blocks of lhs, or four 8-row blocks of
    /// weights.
    struct Operands {
      unsigned lhs[Base::kMs][4];
      unsigned rhs[Base::kNs / 2][4];
      unsigned lhsScales[ceilDiv(Base::kMs, 2)];
      unsigned rhsScales[ceilDiv(Base::kNs, 4)];
      unsigned short byte;
    };

    unsigned lhsOffset, rhsOffset; ///< byte offsets of the lane's ldmatrix rows
    unsigned lhsScale, rhsScale;   ///< byte offsets of the lane's first scales

    __device__ __forceinline__ explicit Worker(int thread) {
      int warp = thread / 32, lane = thread % 32;
      int m = Share::firstM(warp), n = Share::firstN(warp);
      lhsOffset = Layout::offset(m + lane % 16, lane / 16);
      rhsOffset = Layout::offset(n + lane % 8 + lane / 16 * 8, lane / 8 % 2);
      // A lane whose row block is past the warp's last row block reads the last
      // one.
      int lhsBlock = minimum(lane % 4 / 2, Base::kMs - 1);
      int rhsBlock = minimum(lane % 4, Base::kNs - 1);
      lhsScale =
          unsigned(kLhsScales +
                   (m + lhsBlock * 16 + lane % 2 * 8 + lane / 4) * kScaleBytes);
      rhsScale =
          unsigned(kRhsScales + (n + rhsBlock * 8 + lane / 4) * kScaleBytes);
      this->place(m, n, lane);
    }

    /// Loads the operands of step `step`. `lhs`, `rhs`: shared-memory addresses
    /// of the operand tiles. A step is two 16-byte chunks, so its index and the
    /// row affect different bits of the swizzled offset. The index is therefore
    /// applied by XOR.
    __device__ __forceinline__ void load(Operands &operands, unsigned lhs,
                                         unsigned rhs, int step) const {
      unsigned lhsLane = lhs + (lhsOffset ^ unsigned(step * 32));
      unsigned rhsLane = rhs + (rhsOffset ^ unsigned(step * 32));
#pragma unroll
      for (int m = 0; m < Base::kMs; ++m)
        MmaSyncScaled::load<Element>(operands.lhs[m],
                                     lhsLane + m * 16 * kRowBytes);
#pragma unroll
      for (int n = 0; n < Base::kNs / 2; ++n)
        MmaSyncScaled::load<Weight>(operands.rhs[n],
                                    rhsLane + n * 16 * kRowBytes);
      int first = step * kStepScales;
      operands.byte = (unsigned short)(first % 4);
      unsigned scales = rhs + unsigned(first / 4 * 4);
#pragma unroll
      for (int m = 0; m < Base::kMs; m += 2)
        operands.lhsScales[m / 2] =
            ptx::loadShared(scales + lhsScale + m * 16 * kScaleBytes);
#pragma unroll
      for (int n = 0; n < Base::kNs; n += 4)
        operands.rhsScales[n / 4] =
            ptx::loadShared(scales + rhsScale + n * 8 * kScaleBytes);
    }

    __device__ __forceinline__ void multiply(const Operands &operands) {
#pragma unroll
      for (int m = 0; m < Base::kMs; ++m)
#pragma unroll
        for (int column = 0; column < Base::kNs; ++column) {
          // The order alternates so that consecutive MMAs share an operand
          // register.
          int n = m % 2 ? Base::kNs - 1 - column : column;
          const unsigned *rhs = operands.rhs[n / 2] + n % 2 * 2;
          ptx::BlockScales ofLhs = {operands.lhsScales[m / 2], operands.byte,
                                    (unsigned short)(m % 2)};
          ptx::BlockScales ofRhs = {operands.rhsScales[n / 4], operands.byte,
                                    (unsigned short)(n % 4)};
          float *sums = this->block(m, n);
          const unsigned (&lhs)[4] = operands.lhs[m];
          if constexpr (kMixed && kSame<Weight, e2m1>)
            ptx::multiplyMxfp8ByMxfp4(sums, lhs, rhs[0], rhs[1], ofLhs, ofRhs);
          else if constexpr (kMixed && kSame<Weight, e3m2>)
            ptx::multiplyMxfp8ByE3m2(sums, lhs, rhs[0], rhs[1], ofLhs, ofRhs);
          else if constexpr (kMixed)
            ptx::multiplyMxfp8ByE2m3(sums, lhs, rhs[0], rhs[1], ofLhs, ofRhs);
          else if constexpr (kSame<Element, e3m2>)
            ptx::multiplyE3m2(sums, lhs, rhs[0], rhs[1], ofLhs, ofRhs);
          else if constexpr (kSame<Element, e2m3>)
            ptx::multiplyE2m3(sums, lhs, rhs[0], rhs[1], ofLhs, ofRhs);
          else if constexpr (kOfBytes)
            ptx::multiplyMxfp8(sums, lhs, rhs[0], rhs[1], ofLhs, ofRhs);
          else if constexpr (kOfPowers)
            ptx::multiplyMxfp4(sums, lhs, rhs[0], rhs[1], ofLhs, ofRhs);
          else
            ptx::multiplyNvfp4(sums, lhs, rhs[0], rhs[1], ofLhs, ofRhs);
        }
    }
  };
};

} // namespace moe::mma
