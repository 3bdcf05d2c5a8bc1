//===- mma_sync.cuh - warp-wide tensor-core engine --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Engine mma_sync, for sm_80 and later.
//
//   bf16, f16  ldmatrix and mma.m16n8k16, f32 accumulators
//   i8         mma.m16n8k32, int32 accumulators
//   e4m3       mma.m16n8k32 if the arch supports it; otherwise operands are
//              converted to f16, which is exact
//
// Tokens are the 16 rows of an MMA instruction, and weight rows are its 8
// columns. A gate and its up value are 8 weight rows apart and thus in one
// thread. If weights are in slabs (codes in MMA fragment order,
// moe/math/slabs.cuh), the operands are swapped: weight rows are the 16 rows,
// read from registers, and tokens are the 8 columns.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/swizzle.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/accumulator/warp.cuh"

namespace moe::mma {

/// Engine mma_sync for operands in shared memory.
///
///   kByGroup  the accumulators of each scale group along k are scaled and
///             added to totals
///   kNative   the arch multiplies e4m3 (feature fp8_mma_sync in
///             dialect/catalog/Architectures.h)
template <class Element, bool kByGroup = kSame<Element, e4m3>,
          bool kNative = false>
struct MmaSync {
  using Input = Element;
  /// A step is 32 bytes of k. For e4m3 it may be two f16 MMAs.
  static constexpr int kStepK = 32 / int(sizeof(Input));
  static constexpr bool kPromoted = kByGroup;
  static_assert(kSame<Input, bf16> || kSame<Input, f16> || kSame<Input, e4m3> ||
                    kSame<Input, i8>,
                "engine mma_sync multiplies bf16, f16, e4m3 or i8");
  static_assert(!kNative || kSame<Input, e4m3>, "kNative needs e4m3 operands");

  /// One warp's part of a tile: the operands of a step, and the MMAs that
  /// multiply and accumulate them.
  template <class Schedule>
  struct Worker : WarpSums<Schedule, kPromoted, typename SumOf<Input>::Type> {
    using Base = WarpSums<Schedule, kPromoted, typename SumOf<Input>::Type>;
    using Share = WarpShare<Schedule>;
    using Layout = Swizzle<Schedule::kTileK *int(sizeof(Input))>;
    static constexpr int kRowBytes = Schedule::kTileK * int(sizeof(Input));

    /// The operand registers of one step along k.
    struct Operands {
      unsigned lhs[Base::kMs][4];
      unsigned rhs[Base::kNs / 2][4];
    };

    unsigned lhsOffset, rhsOffset; ///< byte offsets of the lane's ldmatrix rows

    __device__ __forceinline__ explicit Worker(int thread) {
      int warp = thread / 32, lane = thread % 32;
      int m = Share::firstM(warp), n = Share::firstN(warp);
      lhsOffset = Layout::offset(m + lane % 16, lane / 16);
      rhsOffset = Layout::offset(n + lane % 8 + lane / 16 * 8, lane / 8 % 2);
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
        ptx::loadMatrices(operands.lhs[m], lhsLane + m * 16 * kRowBytes);
#pragma unroll
      for (int n = 0; n < Base::kNs / 2; ++n)
        ptx::loadMatrices(operands.rhs[n], rhsLane + n * 16 * kRowBytes);
    }

    __device__ __forceinline__ void multiply(const Operands &operands) {
#pragma unroll
      for (int m = 0; m < Base::kMs; ++m)
#pragma unroll
        for (int column = 0; column < Base::kNs; ++column) {
          // The order alternates so that consecutive MMAs share an operand
          // register.
          int n = m % 2 ? Base::kNs - 1 - column : column;
          auto *block = this->block(m, n);
          const unsigned *rhs = operands.rhs[n / 2] + n % 2 * 2;
          if constexpr (kSame<Input, bf16>)
            ptx::multiplyBfloat(block, operands.lhs[m], rhs[0], rhs[1]);
          else if constexpr (kSame<Input, f16>)
            ptx::multiplyHalf(block, operands.lhs[m], rhs[0], rhs[1]);
          else if constexpr (kSame<Input, i8>)
            ptx::multiplyBytes(block, operands.lhs[m], rhs[0], rhs[1]);
          else
            ptx::multiplyE4m3<kNative>(block, operands.lhs[m], rhs[0], rhs[1]);
        }
    }
  };
};

/// Engine mma_sync for weights in slabs, with swapped operands. A warp converts
/// the codes (quantized values) of its weight rows in registers.
template <class Element> struct MmaSyncSlabs {
  using Input = Element;
  static constexpr int kStepK = 16;
  static constexpr bool kPromoted = false;
  /// Weights are codes in slabs.
  static constexpr bool kSlabs = true;
  static_assert(kSame<Input, bf16> || kSame<Input, f16>,
                "codes are converted to bf16 or f16");

  /// One warp's part of a tile: whole slabs of 16 weight rows, by kBlocks * 8
  /// tokens.
  template <class Schedule> struct Worker : WarpSlabSums<Schedule> {
    using Base = WarpSlabSums<Schedule>;
    using Share = WarpShare<Schedule>;
    /// Number of parts in which the tokens are loaded, to save registers. A
    /// part has kPartBlocks blocks of 8 tokens.
    static constexpr int kParts = ceilDiv(Base::kBlocks, 8);
    static constexpr int kPartBlocks = Base::kBlocks / kParts;
    static_assert(
        kPartBlocks * kParts == Base::kBlocks && kPartBlocks % 2 == 0,
        "kParts must divide the token blocks into equal parts of even size");
    using Layout = Swizzle<Schedule::kTileK *int(sizeof(Input))>;
    static constexpr int kRowBytes = Schedule::kTileK * int(sizeof(Input));

    /// Token registers of one part for one step of k.
    using Operands = unsigned[kPartBlocks / 2][4];

    unsigned offset; ///< byte offset of this lane's ldmatrix row at step 0
    int firstSlab;   ///< index of the warp's first slab in the tile

    __device__ __forceinline__ explicit Worker(int thread) {
      int warp = thread / 32, lane = thread % 32;
      int m = Share::firstM(warp), n = Share::firstN(warp);
      offset = Layout::offset(m + lane % 8 + lane / 16 * 8, lane / 8 % 2);
      firstSlab = n / 16;
      this->place(m, n, lane);
    }

    /// Loads the tokens of one part for one step. `tokens`: shared-memory
    /// address of the token tile.
    __device__ __forceinline__ void load(Operands &operands, unsigned tokens,
                                         int step, int part) const {
      unsigned from = tokens + (offset ^ unsigned(step * 32)) +
                      unsigned(part * kPartBlocks * 8 * kRowBytes);
#pragma unroll
      for (int i = 0; i < kPartBlocks / 2; ++i)
        ptx::loadMatrices(operands[i], from + i * 16 * kRowBytes);
    }

    /// Multiplies the weights of all slabs by the tokens of part `part`.
    /// `weights`: the A registers of each slab for the same step.
    __device__ __forceinline__ void
    multiply(const unsigned (&weights)[Base::kSlabs][4],
             const Operands &operands, int part) {
#pragma unroll
      for (int slab = 0; slab < Base::kSlabs; ++slab)
#pragma unroll
        for (int i = 0; i < kPartBlocks; ++i) {
          // The order alternates so that consecutive MMAs share an operand
          // register.
          int block = slab % 2 ? kPartBlocks - 1 - i : i;
          float *to = this->block(slab, part * kPartBlocks + block);
          const unsigned *tokens = operands[block / 2] + block % 2 * 2;
          if constexpr (kSame<Input, bf16>)
            ptx::multiplyBfloat(to, weights[slab], tokens[0], tokens[1]);
          else
            ptx::multiplyHalf(to, weights[slab], tokens[0], tokens[1]);
        }
    }
  };
};

} // namespace moe::mma
