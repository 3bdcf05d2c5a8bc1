//===- simt.cuh - engine of plain multiply-adds -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Engine simt: f32 multiply-adds on every arch; i8 uses int32 dot products of
// four elements. It computes f32 layers, and is the slow reference for the
// other engines. A warp is a grid of 4 x 8 threads. A thread's columns are 8
// apart, so one thread has a gate and its up value, as in mma_sync.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/swizzle.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/accumulator/sums.cuh"

namespace moe::mma {

/// Engine simt. `kByGroup`: the accumulators of each scale group along k are
/// added to totals.
template <class Element, bool kByGroup = kSame<Element, e4m3>> struct Simt {
  using Input = Element;
  /// Number of elements in a 16-byte chunk of a row.
  static constexpr int kStepK = kPerVector<Element>;
  /// f32 accumulators need no promotion for precision. They are promoted only
  /// if scales change along k.
  static constexpr bool kPromoted = kByGroup;

  template <class Schedule>
  struct Worker : Sums<Schedule::kTileM * Schedule::kTileN /
                           (Schedule::kWarpsM * Schedule::kWarpsN * 32),
                       kPromoted, typename SumOf<Input>::Type> {
    static constexpr int kWarpM = Schedule::kTileM / Schedule::kWarpsM;
    static constexpr int kWarpN = Schedule::kTileN / Schedule::kWarpsN;
    static constexpr int kMs = kWarpM / 4;
    static constexpr int kNs = kWarpN / 8;
    static_assert(kWarpM % 4 == 0 && kWarpN % 16 == 0 &&
                      kWarpM * Schedule::kWarpsM == Schedule::kTileM &&
                      kWarpN * Schedule::kWarpsN == Schedule::kTileN,
                  "a warp's share must be whole 4 x 16 blocks");
    static constexpr int kRowBytes = Schedule::kTileK * int(sizeof(Input));
    using Layout = Swizzle<kRowBytes>;

    static constexpr int kSize = kMs * kNs;
    static constexpr int kRun = 1;
    static constexpr bool kTokensAreColumns = false;
    static constexpr int kRows = kMs;

    struct Operands {
      Vector16 lhs[kMs];
      Vector16 rhs[kNs];
    };

    int firstRow, firstCol;

    __device__ __forceinline__ explicit Worker(int thread) {
      int warp = thread / 32, lane = thread % 32;
      firstRow = warp / Schedule::kWarpsN * kWarpM + lane / 8;
      firstCol = warp % Schedule::kWarpsN * kWarpN + lane % 8;
    }

    __device__ __forceinline__ void load(Operands &operands, unsigned lhs,
                                         unsigned rhs, int step) const {
#pragma unroll
      for (int m = 0; m < kMs; ++m)
        ptx::loadShared(lhs + Layout::offset(firstRow + m * 4, step),
                        operands.lhs[m].words);
#pragma unroll
      for (int n = 0; n < kNs; ++n)
        ptx::loadShared(rhs + Layout::offset(firstCol + n * 8, step),
                        operands.rhs[n].words);
    }

    __device__ __forceinline__ void multiply(const Operands &operands) {
      if constexpr (kSame<Input, i8>)
        multiplyBytes(operands);
      else
        multiplyFloats(operands);
    }

    __device__ __forceinline__ void multiplyBytes(const Operands &operands) {
#pragma unroll
      for (int m = 0; m < kMs; ++m)
#pragma unroll
        for (int n = 0; n < kNs; ++n)
#pragma unroll
          for (int word = 0; word < 4; ++word)
            this->sums[m * kNs + n] = __dp4a(int(operands.lhs[m].words[word]),
                                             int(operands.rhs[n].words[word]),
                                             this->sums[m * kNs + n]);
    }

    __device__ __forceinline__ void multiplyFloats(const Operands &operands) {
      float rhs[kNs][kStepK];
#pragma unroll
      for (int n = 0; n < kNs; ++n)
        unpack<Input>(operands.rhs[n], rhs[n]);
#pragma unroll
      for (int m = 0; m < kMs; ++m) {
        float lhs[kStepK];
        unpack<Input>(operands.lhs[m], lhs);
#pragma unroll
        for (int n = 0; n < kNs; ++n)
#pragma unroll
          for (int k = 0; k < kStepK; ++k)
            this->sums[m * kNs + n] =
                fmaf(lhs[k], rhs[n][k], this->sums[m * kNs + n]);
      }
    }

    __device__ __forceinline__ int row(int i) const {
      return firstRow + i / kNs * 4;
    }
    __device__ __forceinline__ int col(int i) const {
      return firstCol + i % kNs * 8;
    }
    static constexpr bool isGate(int i) { return i % kNs % 2 == 0; }
    static constexpr int partner(int i) { return i + 1; }
    __device__ __forceinline__ int heldRow(int slot) const {
      return firstRow + slot * 4;
    }
    __device__ __forceinline__ int firstHeldCol() const { return firstCol; }
    static constexpr int kColumns = kNs;
    __device__ __forceinline__ int heldCol(int slot) const {
      return firstCol + slot * 8;
    }
    static constexpr int colSlot(int i) { return i % kNs; }
    static constexpr int rowSlot(int i) { return i / kNs; }
  };
};

} // namespace moe::mma
