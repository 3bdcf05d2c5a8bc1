//===- multistage_slabs.cuh - mainloop over slabs ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The mainloop of moe/matmul/loop/multistage.cuh for weights in slabs, which
// are codes (quantized values) in MMA fragment order (moe/math/slabs.cuh). A
// pipeline stage contains the token tile, then the codes, scales and zero
// points of the weight rows. Each warp loads the codes of its own weight rows
// into registers and converts them there, step by step. Codes are thus read
// from shared memory only once, and converted weights are never written to it.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/swizzle.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/feed/lhs_copier.cuh"
#include "moe/quant/slab_codes.cuh"

namespace moe {

/// Sizes of the ring and of its pipeline stages.
template <class Config> struct SlabRing {
  using Schedule = typename Config::Schedule;
  using Stage = SlabStage<Config>;
  static constexpr int kRowBytes =
      Schedule::kTileK * int(sizeof(typename Config::Input));
  using Layout = Swizzle<kRowBytes>;
  static constexpr int kLhsBytes = Schedule::kTileM * kRowBytes;
  /// Rounded up so that the tokens of each stage start at shared-memory bank 0.
  static constexpr int kStageBytes =
      kLhsBytes + ceilDiv(Stage::kUsedBytes, 128) * 128;
  static constexpr int kBytes = Schedule::kStages * kStageBytes;
  static constexpr int kSteps = Schedule::kTileK / Config::Mma::kStepK;
  static constexpr int kTiles = ceilDiv(Config::kK, Schedule::kTileK);
  /// Blocks of a weight row along k, and blocks of the last pipeline stage
  /// along k.
  static constexpr int kBlocksOfK = Config::kK / Stage::Codes::kColumns;
  static constexpr int kLastBlocks =
      kBlocksOfK - (kTiles - 1) * Stage::kBlocksOfK;
  static constexpr bool kTailK = kLastBlocks < Stage::kBlocksOfK;
  /// Token rows that the CTA copies in one pass, one 16-byte chunk per thread.
  static constexpr int kRowsPerPass = Config::kThreads / Layout::kChunks;
  static constexpr int kLhsPasses = ceilDiv(Schedule::kTileM, kRowsPerPass);
  static_assert(Schedule::kStages >= 2, "the ring needs two stages or more");
  static_assert(Config::kThreads % Layout::kChunks == 0 &&
                    kRowsPerPass % Layout::kPeriod == 0,
                "threads must copy whole periods of the swizzle");
};

/// A thread's copies of a pipeline stage's codes, scales or zero points. These
/// are contiguous for each block of 64 weight rows. The contiguous bytes of one
/// row block are called a segment here (Piece in identifiers).
///
///   kBytes      bytes of a segment
///   kLastBytes  bytes of a segment in the last stage
///   kPitch      stride in bytes between the segments of consecutive row blocks
///   kBlocks     number of segments in a stage
template <class Config, int kBytes, int kLastBytes, long long kPitch,
          int kBlocks>
struct PieceCopier {
  static constexpr int kChunks = kBytes / 16;
  static constexpr int kThreads = Config::kThreads;
  static constexpr int kPasses = ceilDiv(kBlocks * kChunks, kThreads);
  static_assert(kBytes % 16 == 0 && kLastBytes % 16 == 0 &&
                    (kThreads % kChunks == 0 || kChunks % kThreads == 0),
                "the 16-byte chunks of a piece must divide kThreads, or be a "
                "multiple of it");
  const char *from; ///< address of this thread's chunk for pass 0 of stage 0
  unsigned destination; ///< shared-memory address of that chunk
  int left; ///< number of existing segments from this thread's segment on

  /// Sets the addresses. `pieces`: the tile's first segment in global memory,
  /// or null if the layer has no such tensor. `blocks`: number of segments that
  /// exist from there on.
  __device__ __forceinline__ PieceCopier(const void *pieces, unsigned shared,
                                         int blocks) {
    int block = int(threadIdx.x) / kChunks, chunk = int(threadIdx.x) % kChunks;
    // Nothing is copied if `from` is null.
    from = pieces
               ? static_cast<const char *>(pieces) + block * kPitch + chunk * 16
               : nullptr;
    destination = shared + unsigned(block * kBytes + chunk * 16);
    left = minimum(blocks, kBlocks) - block;
  }

  /// Issues the copies of one pipeline stage. `offset`: byte offset of the
  /// stage's segments in global memory. `to`: byte offset of the stage in the
  /// ring.
  __device__ __forceinline__ void copy(long long offset, unsigned to,
                                       bool isLast) const {
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      // The next pass continues in the same segment, or moves to another
      // segment.
      constexpr int kInside = maximum(kChunks / kThreads, 1);
      constexpr int kOver = maximum(kThreads / kChunks, 1);
      int block = i / kInside * kOver;
      int chunk = int(threadIdx.x) % kChunks + i % kInside * kThreads;
      bool exists = kLastBytes == kBytes || !isLast || chunk < kLastBytes / 16;
      if (block < left && exists)
        ptx::copy16<Config::kCpAsync>(
            destination + to + unsigned(block * kBytes) +
                unsigned(i % kInside * kThreads * 16),
            from + offset + block * kPitch + i % kInside * kThreads * 16, 0,
            true);
    }
  }
};

/// A thread's copies to the ring. Weight rows past the end are not copied, and
/// their part of a stage keeps its old contents; the results of these rows are
/// not stored.
template <class Config>
struct SlabCopier : LhsCopier<Config, SlabRing<Config>> {
  using R = SlabRing<Config>;
  using Base = LhsCopier<Config, R>;
  using Schedule = typename Config::Schedule;
  using Stage = SlabStage<Config>;
  using Codes = typename Stage::Codes;
  using Scale = typename Config::Scale;
  static constexpr int kBlocksOfRows = Config::kN / Codes::kRows;
  /// Bytes of the scales of one group (64 rows), and number of groups in the
  /// last stage.
  static constexpr int kScaleBytes = Codes::kRows * int(sizeof(Scale));
  static constexpr int kLastGroups = maximum(Stage::groupOf(R::kLastBlocks), 1);

  PieceCopier<Config, Stage::kCodeBytes, R::kLastBlocks * Codes::kBlockBytes,
              (long long)R::kBlocksOfK * Codes::kBlockBytes, Stage::kBlocks>
      codes;
  PieceCopier<Config, Stage::kScaleBytes, kLastGroups * kScaleBytes,
              (long long)Stage::kGroups * kScaleBytes, Stage::kBlocks>
      scales;
  /// The template arguments are placeholders if there are no zero points.
  PieceCopier<Config, Config::kZeroPoint ? Stage::kZeroBytes : 16,
              Config::kZeroPoint ? kLastGroups * Codes::kRows : 16,
              (long long)Stage::kGroups * Codes::kRows, Stage::kBlocks>
      zeros;

  /// Sets the addresses of a weight tile that starts at the expert's weight row
  /// firstN.
  __device__ __forceinline__ SlabCopier(unsigned shared,
                                        const typename Config::Args &args,
                                        int expert, int firstN)
      : SlabCopier(shared + unsigned(R::kLhsBytes), shared, args,
                   (long long)expert * kBlocksOfRows + firstN / Codes::kRows,
                   kBlocksOfRows - firstN / Codes::kRows) {}

  __device__ __forceinline__ void copyRhs(int stage, int tile) const {
    unsigned to = unsigned(stage * R::kStageBytes);
    bool isLast = tile == R::kTiles - 1;
    codes.copy((long long)tile * Stage::kCodeBytes, to, isLast);
    int group = Stage::firstGroup(tile * Stage::kBlocksOfK);
    scales.copy((long long)group * kScaleBytes, to, isLast);
    if constexpr (Config::kZeroPoint)
      zeros.copy((long long)group * Codes::kRows, to, isLast);
  }

private:
  /// Sets the addresses. `slabs`: shared-memory address of stage 0's codes.
  /// `block`: index of the tile's first row block among the row blocks of all
  /// experts. `blocks`: number of the expert's row blocks from there on.
  __device__ __forceinline__ SlabCopier(unsigned slabs, unsigned shared,
                                        const typename Config::Args &args,
                                        long long block, int blocks)
      : Base(shared), codes(reinterpret_cast<const char *>(args.rhs) +
                                block * R::kBlocksOfK * Codes::kBlockBytes,
                            slabs, blocks),
        scales(args.rhs_scale + block * Stage::kGroups * Codes::kRows,
               slabs + unsigned(Stage::kScales), blocks),
        zeros(zerosOf(args, block), slabs + unsigned(Stage::kZeros), blocks) {}

  static __device__ __forceinline__ const void *
  zerosOf(const typename Config::Args &args, long long block) {
    if constexpr (Config::kZeroPoint)
      return args.rhs_zero_point + block * Stage::kGroups * Codes::kRows;
    else
      return nullptr;
  }
};

/// Runs the mainloop. beginRhs and beginLhs must have been called. On return no
/// copy is in flight, and the ring may be reused. The worker's tile may be
/// smaller than the ring's.
template <class Config, class Worker, class Scaling>
__device__ __forceinline__ void multistageSlabs(SlabCopier<Config> &copier,
                                                unsigned shared, Worker &worker,
                                                const Scaling &scaling) {
  using R = SlabRing<Config>;
  constexpr int kStages = Config::Schedule::kStages;
  constexpr int kSlabsOfBlock = 4;
  /// Each step of k is multiplied by one part of the tokens at a time (a turn).
  constexpr int kParts = Worker::kParts, kTurns = R::kSteps * kParts;
  constexpr int kBlockTurns = kTurns / R::Stage::kBlocksOfK;
  constexpr int kStepsOfBlock = R::kSteps / R::Stage::kBlocksOfK;
  typename Scaling::Slab slabs[Worker::kSlabs];
  typename Worker::Operands operands[2];
  unsigned weights[Worker::kSlabs][4];
  int lane = int(threadIdx.x) % 32;
  auto begin = [&](unsigned stage, int blockOfK) {
#pragma unroll
    for (int i = 0; i < Worker::kSlabs; ++i) {
      int slab = worker.firstSlab + i;
      slabs[i] =
          scaling.load(stage + unsigned(R::kLhsBytes), slab / kSlabsOfBlock,
                       slab % kSlabsOfBlock, lane, blockOfK);
    }
  };
  ptx::waitForCopies<kStages - 2>();
  __syncthreads();

  int readStage = 0, writeStage = kStages - 1;
  unsigned stage = shared;
  begin(stage, 0);
  worker.load(operands[0], stage, 0, 0);
#pragma unroll 1
  for (int tile = 0; tile < R::kTiles; ++tile) {
    int next = tile + kStages - 1;
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      // The last stage has no data past its last block.
      if (R::kTailK && i == R::kLastBlocks * kBlockTurns &&
          tile == R::kTiles - 1)
        break;
      int step = i / kParts, part = i % kParts;
      if (part == 0) {
#pragma unroll
        for (int slab = 0; slab < Worker::kSlabs; ++slab)
          slabs[slab].convert(step % kStepsOfBlock, weights[slab]);
      }
      if (i == 0 && next < R::kTiles)
        copier.copyRhs(writeStage, next);
      if (i == 1 && next < R::kTiles)
        copier.copyLhs(writeStage, next);
      if (i == kTurns - 1) {
        // Waits until the next stage has arrived. After the CTA barrier, no
        // thread reads the previous stage.
        ptx::commitCopies();
        ptx::waitForCopies<kStages - 2>();
        __syncthreads();
        writeStage = writeStage + 1 == kStages ? 0 : writeStage + 1;
        readStage = readStage + 1 == kStages ? 0 : readStage + 1;
        stage = shared + unsigned(readStage * R::kStageBytes);
      }
      int turn = (i + 1) % kTurns;
      if (turn % kBlockTurns == 0)
        begin(stage, turn / kBlockTurns);
      worker.load(operands[(i + 1) % 2], stage, turn / kParts, turn % kParts);
      worker.multiply(weights, operands[i % 2], part);
    }
  }
  scaling.scaleSums(worker);
  ptx::waitForCopies<0>();
  __syncthreads();
}

} // namespace moe
