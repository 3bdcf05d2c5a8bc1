//===- multistage.cuh - mainloop of grid engines ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The mainloop of grid engines. It computes, for any such engine,
//
//   accumulators += lhs tile (kTileM x kK) * rhs tile (kTileN x kK)^T
//
// All threads copy 16-byte chunks of both operands with cp.async to a ring of
// kStages pipeline stages; kStages - 1 stages are in flight. Two operand
// register sets alternate: MMAs use one set while the operands of the next step
// are loaded into the other set. Rows past the end and chunks past kK are
// filled with zeros without reading global memory.
//
// Weights that are dequantized (moe/quant/dequantize.cuh) are copied as codes
// (quantized values). When their pipeline stage has arrived, they are converted
// to a tile of the engine's element type, which is outside the ring. Two such
// tiles alternate, because a fast warp may write one tile while another warp
// still reads the other tile.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/swizzle.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/feed/block_scales.cuh"
#include "moe/matmul/feed/lhs_copier.cuh"
#include "moe/quant/dequantize.cuh"

namespace moe {

/// Sizes of the ring and of its pipeline stages.
template <class Config> struct Ring {
  using Schedule = typename Config::Schedule;
  using Input = typename Config::Input;
  using Weight = typename Config::Weight;
  static constexpr bool kCodes = dequantizes<Config>;
  /// True for 4- or 6-bit weights with 8-bit activations, which are not
  /// converted. A row has 16-byte chunks, of which the first 8 or 12 bytes are
  /// used; ldmatrix unpacks them.
  static constexpr bool kPadded =
      !kCodes && kBits<Weight> < 8 * int(sizeof(Input));
  static constexpr int kRowBytes = Schedule::kTileK * int(sizeof(Input));
  using Layout = Swizzle<kRowBytes>;
  static constexpr int kLhsBytes = Schedule::kTileM * kRowBytes;
  /// Bytes of a weight row in a pipeline stage, and in global memory.
  static constexpr int kRhsRowBytes =
      kCodes ? Layout::kChunks * kCodePitch<Weight, Input> : kRowBytes;
  static constexpr int kRhsPitch = Config::kK * kBits<Weight> / 8;
  /// Bytes of a weight row in a k tile in global memory.
  static constexpr int kRhsTileBytes = Schedule::kTileK * kBits<Weight> / 8;
  /// Byte offset of both operands' block scales in a pipeline stage, weight
  /// rows first.
  static constexpr int kScales = kLhsBytes + Schedule::kTileN * kRhsRowBytes;
  static constexpr int kStageBytes =
      kScales +
      (Schedule::kTileM + Schedule::kTileN) * stageScaleBytes<Config>();
  /// Bytes of a tile of converted weights. Two such tiles follow the pipeline
  /// stages.
  static constexpr int kConvertedBytes =
      kCodes ? Schedule::kTileN * kRowBytes : 0;
  static constexpr int kConverted = Schedule::kStages * kStageBytes;
  static constexpr int kBytes = kConverted + 2 * kConvertedBytes;
  static constexpr int kSteps = Schedule::kTileK / Config::Mma::kStepK;
  static constexpr int kTiles = ceilDiv(Config::kK, Schedule::kTileK);
  static constexpr bool kTailK = Config::kK % Schedule::kTileK != 0;
  /// Rows that the CTA copies in one pass, one 16-byte chunk per thread.
  static constexpr int kRowsPerPass = Config::kThreads / Layout::kChunks;
  static constexpr int kLhsPasses = ceilDiv(Schedule::kTileM, kRowsPerPass);
  static constexpr int kRhsPasses = ceilDiv(Schedule::kTileN, kRowsPerPass);

  static constexpr int kStepPairs = kSteps / 2;
  /// Pairs of steps per iteration of the unrolled inner loop. With one pair,
  /// the loop is 2 % slower; more than two pairs cost compile time without
  /// benefit.
  static constexpr int kUnroll = minimum(kStepPairs, 2);
  /// Pairs of steps over which the copies of a pipeline stage are spread: all
  /// of them, or one if memory bandwidth is the bottleneck.
  static constexpr int kParts = Schedule::kTileM >= 128 ? kStepPairs : 1;

  static_assert(Schedule::kStages >= 2, "the ring needs two stages or more");
  static_assert(kSteps >= 2 && kSteps % 2 == 0,
                "kTileK must be an even number of the engine's steps");
  static_assert(Config::kThreads % Layout::kChunks == 0 &&
                    kRowsPerPass % Layout::kPeriod == 0,
                "threads must copy whole periods of the swizzle");
  static_assert(Config::kK % kPerVector<Input> == 0,
                "rows must be whole 16-byte chunks");
};

/// A thread's copies to the ring: its global and shared-memory addresses for
/// both operands.
template <class Config> struct Copier : LhsCopier<Config, Ring<Config>> {
  using R = Ring<Config>;
  using Base = LhsCopier<Config, R>;
  using Schedule = typename Config::Schedule;
  using Input = typename Config::Input;
  using Base::chunk, Base::copyLhs, Base::destination, Base::inK, Base::lhs,
      Base::row;

  const char *rhs; ///< address of the next chunk of the first row
  int rhsRows;     ///< number of existing rows in the tile, minus `row`
  unsigned codes;  ///< shared-memory address in stage 0, for codes
  BlockScaleCopier<Config> scales;

  /// Sets the addresses of a weight tile that starts at the expert's weight row
  /// firstN.
  __device__ __forceinline__ Copier(unsigned shared,
                                    const typename Config::Args &args,
                                    int expert, int firstN)
      : Base(shared), scales(shared + R::kScales) {
    rhsRows = Config::kN - firstN - row;
    rhs = reinterpret_cast<const char *>(args.rhs) +
          ((long long)expert * Config::kN + firstN + row) * R::kRhsPitch +
          chunk * (R::kRhsTileBytes / R::Layout::kChunks);
    codes = shared + R::kLhsBytes +
            unsigned(row * R::kRhsRowBytes +
                     chunk * (R::kRhsRowBytes / R::Layout::kChunks));
  }

  /// Sets the addresses of the block scales. `source`: see LhsCopier::setLhs.
  template <class Source>
  __device__ __forceinline__ void setScales(const typename Config::Args &args,
                                            int expert, int firstN, int rows,
                                            Source source) {
    scales.set(args, expert, firstN, rows, source);
  }

  /// Issues the copies of lhs and of both operands' block scales.
  __device__ __forceinline__ void copyLhs(int stage, int tile) {
    Base::copyLhs(stage, tile);
    copyScales(stage, tile);
  }
  __device__ __forceinline__ void copyScales(int stage, int tile) {
    scales.copy(unsigned(stage * R::kStageBytes), tile);
  }

  /// Returns true if the weight tile has the row that this thread copies in
  /// pass i.
  __device__ __forceinline__ bool inTile(int i) const {
    return Schedule::kTileN % R::kRowsPerPass == 0 ||
           row + i * R::kRowsPerPass < Schedule::kTileN;
  }

  __device__ __forceinline__ void copyRhs(int i, int stage, int tile) {
    bool exists =
        Config::kN % Schedule::kTileN == 0 || i * R::kRowsPerPass < rhsRows;
    exists = exists && inK(tile);
    if (!inTile(i))
      return;
    if constexpr (R::kCodes) {
      constexpr long long kPassBytes =
          (long long)R::kRowsPerPass * R::kRhsPitch;
      ptx::copySmall<Config::kCpAsync,
                     kCodeBytes<typename Config::Weight, Input>>(
          codesOf(i, stage), exists ? rhs + i * kPassBytes : rhs, exists);
    } else if constexpr (R::kPadded) {
      constexpr long long kPassBytes =
          (long long)R::kRowsPerPass * R::kRhsPitch;
      ptx::copyCodes<Config::kCpAsync, R::kRhsTileBytes / R::Layout::kChunks>(
          destination + unsigned(stage * R::kStageBytes + R::kLhsBytes) +
              i * R::kRowsPerPass * R::kRowBytes,
          exists ? rhs + i * kPassBytes : rhs, exists);
    } else {
      constexpr int kPassChunks =
          R::kRowsPerPass * (Config::kK / kPerVector<Input>);
      ptx::copy16<Config::kCpAsync>(
          destination + unsigned(stage * R::kStageBytes + R::kLhsBytes) +
              i * R::kRowsPerPass * R::kRowBytes,
          rhs, unsigned(i) * kPassChunks, exists);
    }
  }

  /// Returns the shared-memory address of this thread's codes for pass i.
  __device__ __forceinline__ unsigned codesOf(int i, int stage) const {
    return codes + unsigned(stage * R::kStageBytes) +
           i * R::kRowsPerPass * R::kRhsRowBytes;
  }

  /// Converts the codes that this thread copied to pipeline stage `stage`.
  /// `turn`: the converted tile to write, 0 or 1.
  template <class Dequantizer>
  __device__ __forceinline__ void convert(const Dequantizer &dequantizer,
                                          int stage, int turn) {
#pragma unroll
    for (int i = 0; i < R::kRhsPasses; ++i)
      if (inTile(i))
        dequantizer.convert(i, codesOf(i, stage),
                            destination + R::kConverted +
                                unsigned(turn * R::kConvertedBytes) +
                                i * R::kRowsPerPass * R::kRowBytes);
  }

  __device__ __forceinline__ void copyRhs(int stage, int tile) {
#pragma unroll
    for (int i = 0; i < R::kRhsPasses; ++i)
      copyRhs(i, stage, tile);
    rhs += R::kRhsTileBytes;
  }

  /// Issues part `part`, of R::kParts, of both operands' copies for k tile
  /// `tile`. The last part also advances to the next k tile. `copies`: true if
  /// the k tile exists.
  __device__ __forceinline__ void copyPart(int part, int stage, int tile,
                                           bool copies) {
    constexpr int kPasses = R::kRhsPasses + R::kLhsPasses;
    if (copies) {
#pragma unroll
      for (int i = 0; i < kPasses; ++i)
        if (i * R::kParts / kPasses == part) {
          if (i < R::kRhsPasses)
            copyRhs(i, stage, tile);
          else
            copyLhs(i - R::kRhsPasses, stage, tile);
        }
      if (part == 0)
        copyScales(stage, tile);
    }
    if (part == R::kParts - 1) {
      lhs += Base::kTileBytes;
      rhs += R::kRhsTileBytes;
    }
  }
};

/// Runs the mainloop. beginRhs and beginLhs must have been called. On return no
/// copy is in flight, and the ring may be reused. If the worker's tile is
/// smaller than the ring's, the worker reads the first rows of each stage.
///
///   scales       scales of the worker's accumulators (Scales), used if the
///                engine promotes accumulators
///   dequantizer  dequantizer of this thread's weights (Dequantizer), used if
///                weights are codes
template <class Config, class Worker, class Scales, class Dequantizer>
__device__ __forceinline__ void
multistage(Copier<Config> &copier, unsigned shared, Worker &worker,
           Scales &scales, Dequantizer &dequantizer) {
  using R = Ring<Config>;
  constexpr int kStages = Config::Schedule::kStages;
  constexpr bool kPromoted = Config::Mma::kPromoted;
  /// Number of k tiles that are accumulated between two promotions.
  constexpr int kPromoteTiles =
      maximum(1, Config::Quant::kPromoteK / Config::Schedule::kTileK);
  static_assert(!kPromoted || kPromoteTiles * Config::Schedule::kTileK ==
                                  Config::Quant::kPromoteK,
                "kTileK must divide kPromoteK");
  if constexpr (R::kCodes)
    dequantizer.fetch(0);
  ptx::waitForCopies<kStages - 2>();
  if constexpr (R::kCodes)
    copier.convert(dequantizer, 0, 0);
  __syncthreads();

  typename Worker::Operands even, odd;
  int readStage = 0, writeStage = kStages - 1;
  unsigned lhs = shared;
  unsigned rhs = R::kCodes ? shared + R::kConverted : shared + R::kLhsBytes;
  worker.load(even, lhs, rhs, 0);
#pragma unroll 1
  for (int tile = 0; tile < R::kTiles; ++tile) {
    int next = tile + kStages - 1;
    if constexpr (R::kCodes)
      dequantizer.fetch(tile + 1);
    if constexpr (kPromoted)
      if (tile % kPromoteTiles == 0)
        scales.fetchGroup(worker, tile / kPromoteTiles);
#pragma unroll R::kUnroll
    for (int pair = 0; pair < R::kStepPairs; ++pair) {
      bool last = pair == R::kStepPairs - 1;
      worker.load(odd, lhs, rhs, 2 * pair + 1);
      if (pair < R::kParts)
        copier.copyPart(pair, writeStage, next, next < R::kTiles);
      worker.multiply(even);
      if (last) {
        // Waits until the next stage has arrived. After the CTA barrier, no
        // thread reads the previous stage.
        ptx::commitCopies();
        ptx::waitForCopies<kStages - 2>();
        writeStage = writeStage + 1 == kStages ? 0 : writeStage + 1;
        readStage = readStage + 1 == kStages ? 0 : readStage + 1;
        if constexpr (R::kCodes)
          if (tile + 1 < R::kTiles)
            copier.convert(dequantizer, readStage, (tile + 1) % 2);
        __syncthreads();
        lhs = shared + unsigned(readStage * R::kStageBytes);
        rhs = R::kCodes ? shared + R::kConverted +
                              unsigned((tile + 1) % 2 * R::kConvertedBytes)
                        : lhs + R::kLhsBytes;
      }
      worker.load(even, lhs, rhs, last ? 0 : 2 * pair + 2);
      worker.multiply(odd);
    }
    if constexpr (kPromoted)
      if (tile % kPromoteTiles == kPromoteTiles - 1 || tile == R::kTiles - 1)
        worker.promote([&](int i) { return scales.ofGroup(i); });
  }
  ptx::waitForCopies<0>();
  __syncthreads();
}

} // namespace moe
