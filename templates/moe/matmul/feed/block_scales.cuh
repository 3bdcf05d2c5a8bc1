//===- block_scales.cuh - block scales for tensor cores ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The feeds of both operands' block scales, for engines whose MMAs apply block
// scales (scalesBlocks). A block scale is one byte and covers a block of 16 or
// 32 elements along k. Scales are copied to the pipeline stage whose elements
// they scale. In a stage, each operand row has its scales in whole 32-bit
// words, the weight rows first, then the rows of lhs. Rows past the end and
// blocks past kK get scales of zero; their elements are zeros too, so the
// products are 0.
//
// If an engine reads scales from tensor memory (ScaleAtomLoader), a stage has
// the scales in blocks of 128 rows by 4 scales (moe/math/scale_atoms.cuh), the
// weight rows first.
//
// Schemes with groups of 128 along k store f32 scales that are powers of two.
// For these, the exponent byte of a scale is written to the stage four times,
// once for each block of 32 along k.
//
// Args:
//   lhs_scale  bytes [lhs rows, blocks along k]
//   rhs_scale  bytes [experts, kN, blocks along k], rows in the checkpoint's
//              order (moe/core/gate_up.cuh). If the Config has kScaleAtoms, an
//              expert's scales are in scale blocks, with rows in packed order.
//
// With groups of 128, lhs_scale and rhs_scale are f32 as in ScaleLayout
// (moe/matmul/feed/scales.cuh) instead.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/gate_up.cuh"
#include "moe/core/ptx.cuh"
#include "moe/core/types.cuh"
#include "moe/math/scale_atoms.cuh"
#include "moe/matmul/feed/scales.cuh"

namespace moe {

/// Returns the number of scale bytes per operand row in a stage; 0 if the
/// engine applies no block scales.
template <class Config> constexpr int stageScaleBytes() {
  using Mma = typename Config::Mma;
  if constexpr (scalesBlocks<Mma>)
    return Config::Schedule::kTileK / Mma::kStepK * Mma::kStepScales;
  else
    return 0;
}

/// Form of the scales in memory: none, bytes, or f32 scales of groups of 128.
enum class BlockScaleFeed { None, Bytes, Groups };
template <class Config>
inline constexpr BlockScaleFeed blockScaleFeed =
    !scalesBlocks<typename Config::Mma> ? BlockScaleFeed::None
    : ScaleLayout<Config>::kByGroup     ? BlockScaleFeed::Groups
                                        : BlockScaleFeed::Bytes;

/// Copies the scales of a pipeline stage, for scales of one byte. Each thread
/// has a BlockScaleCopier for its part of the scales.
template <class Config, BlockScaleFeed kFeed = blockScaleFeed<Config>>
struct BlockScaleCopier {
  using Schedule = typename Config::Schedule;
  using Mma = typename Config::Mma;
  static constexpr int kRowBytes = stageScaleBytes<Config>();
  /// Number of scales per operand row.
  static constexpr int kBlocks =
      ceilDiv(Config::kK * Mma::kStepScales, Mma::kStepK);
  /// True if each row of scales starts at a whole word in memory. kPiece is
  /// then the number of bytes per copy, 4 or 8.
  static constexpr bool kWords = kBlocks % 4 == 0;
  static constexpr int kPiece =
      kWords && kRowBytes % 8 == 0 && kBlocks % 8 == 0 ? 8 : 4;
  static constexpr int kPieces = kRowBytes / kPiece;
  static constexpr int kItems = (Schedule::kTileM + Schedule::kTileN) * kPieces;
  static constexpr int kPasses = ceilDiv(kItems, Config::kThreads);
  static_assert(kRowBytes % 4 == 0,
                "a row's scales in a stage must be whole 32-bit words");
  static_assert(kPasses <= 32, "at most 32 passes fit the bit mask");

  const unsigned char *from[kPasses]; ///< each pass's row of scales
  unsigned rows; ///< bit i is 1 if the row of pass i exists
  unsigned to;   ///< shared-memory address in stage 0

  __device__ __forceinline__ explicit BlockScaleCopier(unsigned shared)
      : to(shared + threadIdx.x * kPiece) {}

  static __device__ __forceinline__ int itemOf(int pass) {
    return int(threadIdx.x) + pass * Config::kThreads;
  }
  static __device__ __forceinline__ int firstByte(int pass) {
    return itemOf(pass) % kPieces * kPiece;
  }

  /// Sets the addresses of a tile's scales. `lhsRows`, `source`: see `rows` and
  /// `source` of LhsCopier::setLhs.
  template <class Source>
  __device__ __forceinline__ void set(const typename Config::Args &args,
                                      int expert, int firstN, int lhsRows,
                                      Source source) {
    rows = 0;
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      int row = itemOf(i) / kPieces;
      bool ofRhs = row < Schedule::kTileN;
      int n = firstN + row, m = row - Schedule::kTileN;
      bool exists = ofRhs ? n < Config::kN : m < lhsRows;
      rows |= unsigned(exists) << i;
      long long index = ofRhs ? (long long)expert * Config::kN +
                                    storedRow<Config>(exists ? n : firstN)
                              : (long long)source(exists ? m : 0);
      from[i] = reinterpret_cast<const unsigned char *>(
                    ofRhs ? args.rhs_scale : args.lhs_scale) +
                index * kBlocks;
    }
  }

  /// Issues the copies for k tile `tile`. `offset`: byte offset of the stage in
  /// the ring.
  __device__ __forceinline__ void copy(unsigned offset, int tile) const {
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      if (kItems % Config::kThreads != 0 && itemOf(i) >= kItems)
        return;
      int first = tile * kRowBytes + firstByte(i);
      bool exists = (rows >> i & 1) && first < kBlocks;
      unsigned destination = to + offset + i * Config::kThreads * kPiece;
      if constexpr (kWords) {
        ptx::copySmall<Config::kCpAsync, kPiece>(
            destination, exists ? from[i] + first : from[i], exists);
      } else {
        unsigned word = 0;
#pragma unroll
        for (int byte = 0; byte < 4; ++byte)
          if (exists && first + byte < kBlocks)
            word |= unsigned(from[i][first + byte]) << 8 * byte;
        ptx::storeShared(destination, word);
      }
    }
  }
};

/// Copies the scales of a pipeline stage, for f32 scales of groups of 128 along
/// k. A thread loads the scales of its rows one stage ahead, and writes one
/// word per row and stage.
template <class Config>
struct BlockScaleCopier<Config, BlockScaleFeed::Groups> {
  using Schedule = typename Config::Schedule;
  using Layout = ScaleLayout<Config>;
  static constexpr int kWordBytes = 4;
  static constexpr int kItems = Schedule::kTileM + Schedule::kTileN;
  static constexpr int kPasses = ceilDiv(kItems, Config::kThreads);
  static_assert(stageScaleBytes<Config>() == kWordBytes &&
                    Schedule::kTileK == 128,
                "a stage must be one group of 128 along k");

  const float *from[kPasses]; ///< each pass's scales; null past the last row
  unsigned ahead[kPasses];    ///< the words of the next stage
  unsigned to;                ///< shared-memory address of pass 0 in stage 0

  __device__ __forceinline__ explicit BlockScaleCopier(unsigned shared)
      : to(shared + threadIdx.x * kWordBytes) {}

  __device__ __forceinline__ void fetch(int tile) {
#pragma unroll
    for (int i = 0; i < kPasses; ++i)
      ahead[i] = from[i] && tile < Layout::kGroups
                     ? (__float_as_uint(from[i][tile]) >> 23) * 0x01010101u
                     : 0u;
  }

  /// Sets the addresses of a tile's scales, like the primary template's set(),
  /// and loads the scales of the first stage.
  template <class Source>
  __device__ __forceinline__ void set(const typename Config::Args &args,
                                      int expert, int firstN, int lhsRows,
                                      Source source) {
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      int row = int(threadIdx.x) + i * Config::kThreads;
      int n = firstN + row, m = row - Schedule::kTileN;
      from[i] = nullptr;
      if (row < Schedule::kTileN) {
        if (n < Config::kN)
          from[i] = args.rhs_scale + (long long)expert * Layout::kPerExpert +
                    Layout::rhsIndex(n);
      } else if (m < lhsRows) {
        from[i] = args.lhs_scale + (long long)source(m) * Layout::kGroups;
      }
    }
    fetch(0);
  }

  /// Writes the scales of one stage. Called for consecutive k tiles, starting
  /// at 0.
  __device__ __forceinline__ void copy(unsigned offset, int tile) {
#pragma unroll
    for (int i = 0; i < kPasses; ++i)
      if (kItems % Config::kThreads == 0 ||
          int(threadIdx.x) + i * Config::kThreads < kItems)
        ptx::storeShared(to + offset + i * Config::kThreads * kWordBytes,
                         ahead[i]);
    fetch(tile + 1);
  }
};

template <class Config> struct BlockScaleCopier<Config, BlockScaleFeed::None> {
  __device__ __forceinline__ explicit BlockScaleCopier(unsigned) {}
  __device__ __forceinline__ void copy(unsigned, int) const {}
};

/// True if the weights' scales are in scale blocks in memory.
template <class Config>
inline constexpr bool hasScaleAtoms =
    requires { requires Config::kScaleAtoms; };

/// Copies the scales of a pipeline stage for engines that read them from tensor
/// memory. They are stored in blocks of 128 rows by 4 scales, called atoms in
/// identifiers (moe/math/scale_atoms.cuh). Each producer thread copies the
/// scales of one token. If the weights' scales are in scale blocks in memory,
/// one thread issues a bulk copy for a stage. Otherwise each producer thread
/// also copies the scales of one weight row.
template <class Config, BlockScaleFeed kFeed = blockScaleFeed<Config>>
struct ScaleAtomLoader {
  using Mma = typename Config::Mma;
  using Schedule = typename Config::Schedule;
  static constexpr int kWords = Mma::kScaleWords;
  static constexpr int kAtomBytes = ScaleAtoms::kRows * ScaleAtoms::kColumns;
  /// Bytes of scales per stage.
  static constexpr int kBytes = 2 * kWords * kAtomBytes;
  /// Number of scales per operand row.
  static constexpr int kBlocks =
      ceilDiv(Config::kK * Mma::kStepScales, Mma::kStepK);
  /// True if each row of scales starts at a whole word in memory. Words are
  /// then copied asynchronously. Otherwise the thread loads bytes, stores
  /// words, and arrives at the mbarrier once more.
  static constexpr bool kIsWhole = kBlocks % ScaleAtoms::kColumns == 0;
  static constexpr bool kIsBulk = hasScaleAtoms<Config>;
  /// Number of scale blocks of 128 weight rows along k.
  static constexpr int kAtoms = ceilDiv(kBlocks, ScaleAtoms::kColumns);
  static_assert(!kIsBulk || (kIsWhole && Config::kN % ScaleAtoms::kRows == 0),
                "scale blocks in memory must be whole");
  static_assert(
      Schedule::kTileN == ScaleAtoms::kRows &&
          Schedule::kTileM <= ScaleAtoms::kRows &&
          32 * Schedule::kProducerWarps == ScaleAtoms::kRows,
      "each producer thread must copy the scales of one row of a scale block");

  const unsigned char *ofToken, *ofRow;
  bool hasToken, hasRow;
  int firstN; ///< first weight row of the tile

  /// Sets the addresses of the tokens' scales. `rows`: number of rows in the
  /// tile. `source(r)`: row of lhs for row r of the tile.
  template <class Source>
  __device__ __forceinline__ void setTokens(const typename Config::Args &args,
                                            int rows, Source source) {
    const int token = int(threadIdx.x);
    hasToken = token < rows;
    ofToken = reinterpret_cast<const unsigned char *>(args.lhs_scale) +
              (long long)source(hasToken ? token : 0) * kBlocks;
  }
  __device__ __forceinline__ void setWeights(const typename Config::Args &args,
                                             int expert, int first) {
    firstN = first;
    if constexpr (kIsBulk)
      return;
    const int n = firstN + int(threadIdx.x);
    hasRow = Config::kN % Schedule::kTileN == 0 || n < Config::kN;
    ofRow = reinterpret_cast<const unsigned char *>(args.rhs_scale) +
            ((long long)expert * Config::kN +
             storedRow<Config>(hasRow ? n : firstN)) *
                kBlocks;
  }
  /// Copies the scales of k tile `k` that WeightScaleAtoms does not copy. `to`:
  /// shared-memory address of the stage's scales.
  __device__ __forceinline__ void copy(int k, unsigned to) const {
    const int row = int(threadIdx.x);
    const unsigned own = to + unsigned(row % ScaleAtoms::kRuns * 16 +
                                       row / ScaleAtoms::kRuns * 4);
    if constexpr (!kIsBulk)
      copyRow(own, ofRow, hasRow, k);
    else if constexpr (kAtoms % kWords != 0)
      clearTail(own, k);
    if (row < (Schedule::kTileM + 31) / 32 * 32)
      copyRow(own + unsigned(kWords * kAtomBytes), ofToken, hasToken, k);
  }

private:
  /// Writes zeros for the scale blocks past the end of k.
  __device__ __forceinline__ void clearTail(unsigned to, int k) const {
#pragma unroll
    for (int word = kAtoms % kWords; word < kWords; ++word)
      if (k * kWords + word >= kAtoms)
        ptx::copySmall<true, 4>(to + unsigned(word * kAtomBytes), ofToken,
                                false);
  }

  static __device__ __forceinline__ void
  copyRow(unsigned to, const unsigned char *from, bool exists, int k) {
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      const int first = (k * kWords + word) * 4;
      const bool hasWord =
          exists && (kBlocks % (4 * kWords) == 0 || first < kBlocks);
      const unsigned place = to + unsigned(word * kAtomBytes);
      if constexpr (kIsWhole) {
        ptx::copySmall<true, 4>(place, hasWord ? from + first : from, hasWord);
      } else {
        unsigned bits = 0;
#pragma unroll
        for (int byte = 0; byte < 4; ++byte)
          if (hasWord && first + byte < kBlocks)
            bits |= unsigned(from[first + byte]) << 8 * byte;
        ptx::storeShared(place, bits);
      }
    }
  }
};

/// Copies the scales of a pipeline stage, for f32 scales of groups of 128 along
/// k. Each producer thread loads the scales of its rows one stage ahead.
template <class Config> struct ScaleAtomLoader<Config, BlockScaleFeed::Groups> {
  using Mma = typename Config::Mma;
  using Schedule = typename Config::Schedule;
  using Layout = ScaleLayout<Config>;
  static constexpr int kAtomBytes = ScaleAtoms::kRows * ScaleAtoms::kColumns;
  static constexpr int kBytes = 2 * kAtomBytes;
  /// The thread stores words, and arrives at the mbarrier once more.
  static constexpr bool kIsWhole = false;
  static constexpr bool kIsBulk = false;
  static_assert(Mma::kScaleWords == 1 && Schedule::kTileK == 128,
                "a stage must be one group of 128 along k");
  static_assert(
      Schedule::kTileN == ScaleAtoms::kRows &&
          Schedule::kTileM <= ScaleAtoms::kRows &&
          32 * Schedule::kProducerWarps == ScaleAtoms::kRows,
      "each producer thread must copy the scales of one row of a scale block");

  const float *ofToken, *ofRow; ///< null past the last row
  unsigned ahead[2];            ///< the words of the next stage
  int firstN;                   ///< first weight row of the tile

  template <class Source>
  __device__ __forceinline__ void setTokens(const typename Config::Args &args,
                                            int rows, Source source) {
    const int token = int(threadIdx.x);
    ofToken = token < rows
                  ? args.lhs_scale + (long long)source(token) * Layout::kGroups
                  : nullptr;
  }
  /// Sets the addresses of the weights' scales, and loads the scales of the
  /// first k tile of the tile.
  __device__ __forceinline__ void setWeights(const typename Config::Args &args,
                                             int expert, int first) {
    firstN = first;
    const int n = firstN + int(threadIdx.x);
    ofRow = n < Config::kN
                ? args.rhs_scale + (long long)expert * Layout::kPerExpert +
                      Layout::rhsIndex(n)
                : nullptr;
    fetch(0);
  }
  /// Writes the scales of a k tile. Called for consecutive k tiles, starting at
  /// 0. `to`: shared-memory address of the stage's scales.
  __device__ __forceinline__ void copy(int k, unsigned to) {
    const int row = int(threadIdx.x);
    const unsigned own = to + unsigned(row % ScaleAtoms::kRuns * 16 +
                                       row / ScaleAtoms::kRuns * 4);
    ptx::storeShared(own, ahead[0]);
    if (row < (Schedule::kTileM + 31) / 32 * 32)
      ptx::storeShared(own + unsigned(kAtomBytes), ahead[1]);
    fetch(k + 1);
  }

private:
  __device__ __forceinline__ void fetch(int k) {
    ahead[0] = wordOf(ofRow, k);
    ahead[1] = wordOf(ofToken, k);
  }
  /// Returns the exponent byte of a scale four times.
  static __device__ __forceinline__ unsigned wordOf(const float *from, int k) {
    return from && k < Layout::kGroups
               ? (__float_as_uint(from[k]) >> 23) * 0x01010101u
               : 0u;
  }
};

template <class Config> struct ScaleAtomLoader<Config, BlockScaleFeed::None> {
  static constexpr int kBytes = 0;
  static constexpr bool kIsWhole = true;
  static constexpr bool kIsBulk = false;
};

/// Returns the maximum of the static second scales of lhs. `lane`: lane in the
/// warp. Called by whole warps.
template <class Config>
__device__ __forceinline__ float
largestSecondOfLhs(const typename Config::Args &args, int lane) {
  float largest = 0.0f;
  for (int i = lane; i < Config::kLhsSecondScales; i += 32)
    largest = fmaxf(largest, args.lhs_second_scale[i]);
  return ptx::warpMaximum(largest);
}

/// The second scales of accumulators whose rows are weight rows. An accumulator
/// is multiplied by two factors: the largest static second scale of lhs, and
/// the expert's second scale of rhs. Gates and ups, which alternate every 8
/// rows, may have different second scales of rhs.
template <class Config> struct SwappedSecondScales {
  float ofRows[2];

  __device__ __forceinline__ explicit SwappedSecondScales(
      const WeightScales<Config> &weights)
      : ofRows{weights.ofRows[0], weights.ofRows[1]} {}

  /// Multiplies `ofRows` by the second scale of lhs. Called by whole warps.
  template <class Args, class Source>
  __device__ __forceinline__ void fetchOwn(const Args &args, int thread, int,
                                           Source) {
    const float ofLhs = largestSecondOfLhs<Config>(args, thread % 32);
    ofRows[0] = ofLhs * ofRows[0];
    ofRows[1] = ofLhs * ofRows[1];
  }
  template <class Fragment>
  __device__ __forceinline__ void finish(Fragment &fragment, unsigned, int,
                                         int) {
#pragma unroll
    for (int i = 0; i < Fragment::kSize; ++i)
      fragment.scale(i, ofRows[i % 4 / 2]);
  }
};

/// Returns the number of a thread's rows that have their own second scales, or
/// 1 if all rows share one second scale.
template <class Worker, bool kOfRows> constexpr int ownSecondScales() {
  if constexpr (kOfRows)
    return Worker::kRows;
  else
    return 1;
}

/// Multiplies the final accumulators by the second scales of both operands. The
/// factor of lhs is the maximum of its static second scales, or the row's own
/// second scale if there are none (kLhsSecondScales is 0). The factor of rhs is
/// the expert's second scale; gates and ups have separate ones. `rows`: number
/// of rows in the tile. `source(r)`: row of lhs for row r of the tile. Called
/// by whole warps.
template <class Config, class Worker, class Source>
__device__ __forceinline__ void
multiplyBySecondScales(Worker &worker, const typename Config::Args &args,
                       int expert, int firstN, [[maybe_unused]] int rows,
                       [[maybe_unused]] Source source) {
  constexpr bool kOfRows = Config::kLhsSecondScales == 0;
  constexpr int kParts = Config::kInterleave != 0 ? 2 : 1;
  constexpr bool kUpFirst = StoredOrder<Config>::Type::kUpFirst;
  float ofLhs = 1.0f;
  float ofRows[ownSecondScales<Worker, kOfRows>()];
  if constexpr (kOfRows) {
#pragma unroll
    for (int slot = 0; slot < Worker::kRows; ++slot) {
      int row = worker.heldRow(slot);
      ofRows[slot] = args.lhs_second_scale[source(row < rows ? row : 0)];
    }
  } else {
    ofLhs = largestSecondOfLhs<Config>(args, int(threadIdx.x) % 32);
  }
  const float *stored = args.rhs_second_scale + expert * kParts;
  float factors[2] = {ofLhs * stored[0], ofLhs * stored[kParts - 1]};
#pragma unroll
  for (int i = 0; i < Worker::kSize; ++i) {
    bool second = false;
    if constexpr (kParts == 2)
      second =
          gateUpRow<Config::kInterleave>(firstN + worker.col(i)).up != kUpFirst;
    float factor = second ? factors[1] : factors[0];
    if constexpr (kOfRows)
      factor *= ofRows[Worker::rowSlot(i)];
    worker.scale(i, factor);
  }
}

} // namespace moe
