//===- grid.cuh - every warp copies and multiplies --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The warp roles of grid engines: all warps copy and multiply. Each CTA
// computes one tile, which is divided among kWarpsM x kWarpsN warps. If kTileM
// is at least 128, a smaller worker (Remainder) computes tiles of at most
// kTileM / 4 rows.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/activation_numbers.cuh"
#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/rank.cuh"
#include "moe/core/tile_order.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/epilogue/store.cuh"
#include "moe/matmul/feed/scales.cuh"
#include "moe/matmul/loop/multistage.cuh"
#include "moe/matmul/loop/multistage_slabs.cuh"
#include "moe/quant/blocks.cuh"
#include "moe/quant/dequantize.cuh"
#include "moe/quant/slab_codes.cuh"
#include "moe/quant/weight_only.cuh"

namespace moe {

namespace detail {

/// The schedule of the worker for tiles of at most kTileM / 4 rows, such as an
/// expert's last tile. All warps are side by side along the weight rows.
/// kExists is false if kTileM is less than 128, or kTileN too small for this
/// arrangement.
template <class Schedule> struct Remainder {
  static constexpr int kTileM = Schedule::kTileM / 4;
  static constexpr int kTileN = Schedule::kTileN;
  static constexpr int kTileK = Schedule::kTileK;
  static constexpr int kWarpsM = 1;
  static constexpr int kWarpsN = Schedule::kWarpsM * Schedule::kWarpsN;
  static constexpr bool kExists =
      Schedule::kTileM >= 128 && kTileN % (kWarpsN * 16) == 0;
};

/// The ring, the copier and the mainloop of a Config whose weights are not in
/// slabs.
template <class Config, bool kSlabs = takesSlabs<typename Config::Mma>>
struct Loop {
  using Ring = moe::Ring<Config>;
  using Copier = moe::Copier<Config>;
  template <class Worker, class Scales, class Source>
  static __device__ __forceinline__ void
  run(const typename Config::Args &args, Copier &copier, unsigned shared,
      Worker &worker, Scales &scales, int expert, int firstN,
      [[maybe_unused]] int rows, [[maybe_unused]] Source source) {
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
    if constexpr (scalesBlocks<typename Config::Mma> &&
                  !ScaleLayout<Config>::kByGroup)
      if constexpr (Config::kSecondScale)
        multiplyBySecondScales<Config>(worker, args, expert, firstN, rows,
                                       source);
  }
};

template <class Config> struct Loop<Config, true> {
  using Ring = SlabRing<Config>;
  using Copier = SlabCopier<Config>;
  template <class Worker, class Scaling, class Source>
  static __device__ __forceinline__ void
  run(const typename Config::Args &, Copier &copier, unsigned shared,
      Worker &worker, const Scaling &scaling, int, int, int, Source) {
    multistageSlabs(copier, shared, worker, scaling);
  }
};

template <class Config> struct GroupedMatmul {
  using Args = typename Config::Args;
  using Schedule = typename Config::Schedule;
  using Input = typename Config::Input;
  static constexpr int kColumnTiles = ceilDiv(Config::kN, Schedule::kTileN);

  /// Calls body(worker) with a worker for a tile of `rows` rows.
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
    // The tile entry is loaded without waiting for the tile count, which is
    // loaded at the same time. Entries past the count are zeros.
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
    // The copies of weights overlap with the predecessor launch, which still
    // computes lhs.
    if constexpr (Config::kTilesEarly)
      awaitPredecessor<Config>();
    auto source = [&](int r) {
      if constexpr (Config::kGather)
        return args.rows[firstRow + r] / Config::kPairs;
      else
        return firstRow + r;
    };
    constexpr int kOfVector = kPerVector<Input> * kNumbers<Input>;
    copier.setLhs(args.lhs, unsigned(args.lhs_row_stride / kOfVector), rows,
                  source);
    if constexpr (scalesBlocks<typename Config::Mma>)
      copier.setScales(args, expert, firstN, rows, source);
    beginLhs(copier);
    float inverse = inverseOfScale<Config>(args, writesScale);
    auto *result = storedResult<Config>(args) +
                   storedBefore<Config, Staging<Config>::kColumns>(firstRow);
    auto *resultScales =
        storedScales<Config, Staging<Config>::kColumns>(args, firstRow);
    withWorker(rows, [&](auto &worker) {
      using Worker = RemoveReference<decltype(worker)>;
      auto finish = [&](auto &scales) {
        Loop<Config>::run(args, copier, shared, worker, scales, expert, firstN,
                          rows, source);
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
                            activation, result, inverse, scale, resultScales);
        else
          storeTile<Config>(worker, shared, rows, firstN,
                            static_cast<const Input *>(nullptr), activation,
                            result, inverse, scale, resultScales);
      };
      if constexpr (takesSlabs<typename Config::Mma>) {
        constexpr int kPairs = Config::kSecondPerRow ? Worker::kSlabs : 1;
        float second[2 * kPairs];
        secondScales<Config, 16>(args, expert, firstN + worker.firstRow,
                                 second);
        SlabScaling<Config, kPairs> scaling(second);
        finish(scaling);
      } else if constexpr (ScaleLayout<Config>::kScaled &&
                           !scalesBlocks<typename Config::Mma>) {
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

} // namespace moe
