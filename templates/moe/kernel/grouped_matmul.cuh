//===- grouped_matmul.cuh - one matmul per expert ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// result[r, :] = activation(lhs[r, :] * rhs[expert of r]^T + bias) for the
// sorted rows of all experts. A CTA computes one tile of kTileM rows of one
// expert by kTileN weight rows at a time; its index says which
// (tile_order.cuh). The engine decides on the skeleton: multistage.cuh and
// multistage_slabs.cuh, one tile a CTA, where a large tile with few rows (the
// last of an expert) has a worker of fewer rows; or warp_specialized.cuh,
// persistent.
//
// Args, in order (absent where marked): lhs, long long lhs_row_stride
//   (elements), rows (kGather: pair index of each sorted row; a row of lhs
//   has kPairs pairs), tiles int4 {expert, first row, end row, 0}, tile_count
//   [3] {tiles, cursor, cursor}, rhs [experts, kN, kK], float lhs_scale, float
//   rhs_scale (where Quant has them, see quant/none.cuh; of weights that are
//   dequantized: quant/dequantize.cuh), bias [experts, kN] in stored order
//   (kBias; GateUpOrder, where gates are not first), add_bias (core/rank.cuh),
//   numbers of each expert
//   (core/activation_numbers.cuh), result [rows, kN or kN / 2]. With a Scaling
//   (store_chunk.cuh), in place of result: static_scale float [kScales]
//   (StaticTensor; FloatTensor), data [rows, kN or kN / 2], scale [1], or
//   [rows, groups of 128] (Group128, warp-specialized), absent of emulated
//   data, of which a tile has whole groups (not warp-specialized).
//   Warp-specialized, rhs is a moe::TensorMap by value: extents [kK, kN,
//   experts], box [kTileK, kTileN, 1], swizzle of 128 bytes, zeros outside;
//   lhs, unless gathered, may be one, without the row stride: extents [kK,
//   rows], box [kTileK, kTileM, at most 64], else alike; and
//   tile_count is written: its word kCursor counts the tiles that were taken;
//   with kCounts tiles is, too: the last word of each, which routing left zero.
//   An engine that takes slabs reads rhs, rhs_scale and rhs_zero_point as they
//   lie in memory, in the order of fragments (math/slabs.cuh).
// Grid.x: ceildiv(kN, kTileN) * capacity of the tile list; warp-specialized as
//   many CTAs as are resident at a time, and no more than that.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/activation_numbers.cuh"
#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/rank.cuh"
#include "moe/core/tile_order.cuh"
#include "moe/core/types.cuh"
#include "moe/epilogue/store.cuh"
#include "moe/quant/dequantize.cuh"
#include "moe/quant/scales.cuh"
#include "moe/quant/slab_codes.cuh"
#include "moe/quant/weight_only.cuh"
#include "moe/skeleton/multistage.cuh"
#include "moe/skeleton/multistage_slabs.cuh"
#include "moe/skeleton/warp_specialized.cuh"

namespace moe {

template <class Config> constexpr bool checkGroupedMatmulConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_TYPE(Config, Input, "element type of lhs");
  MOE_REQUIRE_TYPE(Config, Weight, "element type of rhs");
  MOE_REQUIRE_TYPE(Config, Result, "element type of result");
  MOE_REQUIRE_TYPE(Config, Quant, "quantization policy");
  MOE_REQUIRE_TYPE(Config, Activation, "activation policy");
  MOE_REQUIRE_TYPE(Config, Mma, "engine");
  MOE_REQUIRE_TYPE(Config, Schedule, "tile, stages and warps");
  MOE_REQUIRE_VALUE(Config, kN, "rows of rhs");
  MOE_REQUIRE_VALUE(Config, kK, "columns of lhs and rhs");
  MOE_REQUIRE_VALUE(Config, kExperts, "experts in rhs");
  MOE_REQUIRE_VALUE(Config, kGather, "whether rows of lhs are gathered");
  if constexpr (Config::kGather)
    MOE_REQUIRE_VALUE(Config, kPairs, "pairs of a row of lhs");
  MOE_REQUIRE_VALUE(Config, kBias, "whether a bias is added");
  MOE_REQUIRE_VALUE(Config, kTilesEarly, "the predecessor did not write tiles");
  MOE_REQUIRE_VALUE(Config, kInterleave, "gate and up rows by so many, or 0");
  using Schedule = typename Config::Schedule;
  MOE_REQUIRE_VALUE(Schedule, kTileM, "rows of a tile");
  MOE_REQUIRE_VALUE(Schedule, kTileN, "weight rows of a tile");
  MOE_REQUIRE_VALUE(Schedule, kTileK, "depth of a stage");
  MOE_REQUIRE_VALUE(Schedule, kStages, "stages of the ring");
  MOE_REQUIRE_VALUE(Schedule, kGroupM, "row tiles of a traversal group");
  static_assert(checkQuantPolicy<typename Config::Quant>());
  static_assert(checkActivation<typename Config::Activation>());
  static_assert(checkEngine<typename Config::Mma>());
  if constexpr (isWarpSpecialized<typename Config::Mma>) {
    MOE_REQUIRE_VALUE(Config, kCursor, "word of tile_count that counts tiles");
    MOE_REQUIRE_VALUE(Config, kCounts, "whether stored row tiles are counted");
    MOE_REQUIRE_VALUE(Config, kAwaited,
                      "column tiles that the predecessor "
                      "counts of a row tile; 0: all of it");
    MOE_REQUIRE_VALUE(Schedule, kProducerWarps, "warps that fill the ring");
    MOE_REQUIRE_VALUE(Schedule, kConsumerWarps, "warps that multiply");
    MOE_REQUIRE_VALUE(Schedule, kProducerRegisters, "of a producer thread");
    MOE_REQUIRE_VALUE(Schedule, kConsumerRegisters, "of a consumer thread");
    MOE_REQUIRE_VALUE(Schedule, kPersistent, "whether CTAs take more tiles");
    MOE_REQUIRE_VALUE(Schedule, kCtasPerSm, "CTAs of a multiprocessor");
    static_assert(Config::kThreads == 32 * (Schedule::kProducerWarps +
                                            Schedule::kConsumerWarps),
                  "kThreads must be 32 * (kProducerWarps + kConsumerWarps)");
  } else {
    MOE_REQUIRE_VALUE(Schedule, kWarpsM, "warps along rows");
    MOE_REQUIRE_VALUE(Schedule, kWarpsN, "warps along weight rows");
    static_assert(Config::kThreads ==
                      32 * Schedule::kWarpsM * Schedule::kWarpsN,
                  "kThreads must be 32 * kWarpsM * kWarpsN");
  }
  static_assert(kSame<typename Config::Input, typename Config::Mma::Input> &&
                    (kSame<typename Config::Input, typename Config::Weight> ||
                     dequantizes<Config>),
                "this skeleton multiplies operands of the engine's one type");
  static_assert(!isWarpSpecialized<typename Config::Mma> ||
                    dequantizes<Config> == takesSlabs<typename Config::Mma>,
                "skeleton warp_specialized dequantizes weights in slabs, and "
                "takes no others there");
  static_assert(!Config::Mma::kPromoted || Config::Quant::kPromoteK > 0,
                "operands of 8 bits need a policy that promotes their sums");
  if constexpr (quantizesResult<Config>) {
    MOE_REQUIRE_VALUE(Config, kScales, "static scales of the result, or 1");
    static_assert(kSame<typename Config::Result, float>,
                  "a result that is quantized is f32 until then");
    static_assert(!emulatesResult<Config> ||
                      !isWarpSpecialized<typename Config::Mma>,
                  "skeleton warp_specialized does not emulate its result");
  }
  static_assert(!Config::Activation::kGated || Config::kInterleave == 8,
                "a fused gated activation needs rows interleaved by 8");
  static_assert(!Config::Activation::kGated || Config::kN % 16 == 0,
                "interleaved gate and up rows come in blocks of 16");
  return true;
}

namespace detail {

/// The schedule of the worker for the last rows of an expert: a quarter of the
/// rows, all warps side by side. None for tiles that are small already or too
/// narrow for that.
template <class Schedule> struct Remainder {
  static constexpr int kTileM = Schedule::kTileM / 4;
  static constexpr int kTileN = Schedule::kTileN;
  static constexpr int kTileK = Schedule::kTileK;
  static constexpr int kWarpsM = 1;
  static constexpr int kWarpsN = Schedule::kWarpsM * Schedule::kWarpsN;
  static constexpr bool kExists =
      Schedule::kTileM >= 128 && kTileN % (kWarpsN * 16) == 0;
};

/// The ring of a Config, its copies and its loop.
template <class Config, bool kSlabs = takesSlabs<typename Config::Mma>>
struct Loop {
  using Ring = moe::Ring<Config>;
  using Copier = moe::Copier<Config>;
  template <class Worker, class Scales>
  static __device__ __forceinline__ void
  run(const typename Config::Args &args, Copier &copier, unsigned shared,
      Worker &worker, Scales &scales, int expert, int firstN) {
    auto dequantizer = [&] {
      if constexpr (dequantizes<Config>)
        return Dequantizer<Config, Ring::kRhsPasses, Ring::kRowsPerPass>(
            args, expert, firstN + copier.row, copier.chunk);
      else
        return NoDequantizer();
    }();
    multistage(copier, shared, worker, scales, dequantizer);
    if constexpr (dequantizes<Config>)
      if constexpr (Config::kSecondScale && !scalesSums<Config>)
        multiplyBySecond<Config>(worker, args, expert, firstN);
  }
};

template <class Config> struct Loop<Config, true> {
  using Ring = SlabRing<Config>;
  using Copier = SlabCopier<Config>;
  template <class Worker, class Scaling>
  static __device__ __forceinline__ void
  run(const typename Config::Args &, Copier &copier, unsigned shared,
      Worker &worker, const Scaling &scaling, int, int) {
    multistageSlabs(copier, shared, worker, scaling);
  }
};

template <class Config> struct GroupedMatmul {
  using Args = typename Config::Args;
  using Schedule = typename Config::Schedule;
  using Input = typename Config::Input;
  static constexpr int kColumnTiles = ceilDiv(Config::kN, Schedule::kTileN);

  /// Calls body with the worker that a tile of so many rows asks for.
  template <class Body>
  static __device__ __forceinline__ void withWorker(int rows, Body body) {
    using Few = Remainder<Schedule>;
    if constexpr (Few::kExists) {
      if (rows <= Few::kTileM) {
        typename Config::Mma::template Worker<Few> worker{int(threadIdx.x)};
        body(worker);
        return;
      }
    }
    typename Config::Mma::template Worker<Schedule> worker{int(threadIdx.x)};
    body(worker);
  }

  static __device__ __forceinline__ void run(const Args &args,
                                             unsigned shared) {
    if constexpr (!Config::kTilesEarly)
      awaitPredecessor<Config>();
    // The entry is read along with the count: behind it entries are zeros.
    TileIndex index = tileOf<Schedule::kGroupM, kColumnTiles>(
        int(blockIdx.x), int(gridDim.x) / kColumnTiles);
    bool writesScale = blockIdx.x == 0 && threadIdx.x < 32;
    int4 tile = ptx::loadFresh(args.tiles + index.m);
    if (index.m >= ptx::loadFresh(args.tile_count)) {
      if constexpr (Config::kTilesEarly)
        awaitPredecessor<Config>();
      if (writesScale)
        inverseOfScale<Config>(args, true);
      return;
    }
    int expert = tile.x, firstRow = tile.y, rows = tile.z - tile.y;
    int firstN = index.n * Schedule::kTileN;
    typename Loop<Config>::Copier copier(shared, args, expert, firstN);
    beginRhs(copier);
    // The weights are on their way while the predecessor still computes lhs.
    if constexpr (Config::kTilesEarly)
      awaitPredecessor<Config>();
    auto source = [&](int r) {
      if constexpr (Config::kGather)
        return args.rows[firstRow + r] / Config::kPairs;
      else
        return firstRow + r;
    };
    copier.setLhs(args.lhs, unsigned(args.lhs_row_stride / kPerVector<Input>),
                  rows, source);
    beginLhs(copier);
    float inverse = inverseOfScale<Config>(args, writesScale);
    auto *result = storedResult<Config>(args) +
                   (long long)firstRow * Staging<Config>::kColumns;
    withWorker(rows, [&](auto &worker) {
      using Worker = RemoveReference<decltype(worker)>;
      auto finish = [&](auto &scales) {
        Loop<Config>::run(args, copier, shared, worker, scales, expert, firstN);
        scales.fetchRows();
        auto scale = [&](int i, int n) {
          float factor = scales.ofResult(i, n);
          if constexpr (dequantizes<Config>)
            if constexpr (Config::kSecondPerRow)
              factor *= args.rhs_second_scale[(long long)expert * Config::kN +
                                              storedRow<Config>(n)];
          return factor;
        };
        auto activation = activationOf<Config>(args, expert);
        if constexpr (Config::kBias)
          storeTile<Config>(worker, shared, rows, firstN,
                            biasOf(args, (long long)expert * Config::kN),
                            activation, result, inverse, scale);
        else
          storeTile<Config>(worker, shared, rows, firstN,
                            static_cast<const Input *>(nullptr), activation,
                            result, inverse, scale);
      };
      if constexpr (takesSlabs<typename Config::Mma>) {
        constexpr int kPairs = Config::kSecondPerRow ? Worker::kSlabs : 1;
        float second[2 * kPairs];
        secondScales<Config, 16>(args, expert, firstN + worker.firstRow,
                                 second);
        SlabScaling<Config, kPairs> scaling(second);
        finish(scaling);
      } else if constexpr (ScaleLayout<Config>::kScaled) {
        Scales<Config, Worker> scales(args.lhs_scale, args.rhs_scale, expert,
                                      firstN, rows, worker, source);
        finish(scales);
      } else {
        NoScales scales;
        finish(scales);
      }
    });
  }
};

} // namespace detail

/// Dynamic shared memory: the ring, and the staging tile, which reuses it or
/// lies behind it.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkGroupedMatmulConfig<Config>());
  if constexpr (isWarpSpecialized<typename Config::Mma>)
    return Specialized<Config>::kBytes;
  else
    return maximum(detail::Loop<Config>::Ring::kBytes, Staging<Config>::kBytes);
}

template <class Config>
__device__ __forceinline__ void
groupedMatmul(const typename Config::Args &args) {
  static_assert(checkGroupedMatmulConfig<Config>());
  extern __shared__ __align__(1024) unsigned char moeSharedMemory[];
  unsigned shared = ptx::sharedAddress(moeSharedMemory);
  if constexpr (isWarpSpecialized<typename Config::Mma>)
    warpSpecialized<Config>(args, shared);
  else
    detail::GroupedMatmul<Config>::run(args, shared);
}

} // namespace moe
