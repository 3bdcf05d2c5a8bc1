//===- grouped_matmul.cuh - one matmul per expert ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// result[r, :] = activation(lhs[r, :] * rhs[expert of r]^T + bias) for the
// sorted rows of all experts. A CTA computes one tile of kTileM rows of one
// expert by kTileN weight rows; its index says which (tile_order.cuh). With
// Schedule::kPersistent it goes on to the tile gridDim.x further, with
// kTilesPerCta > 1 to the next tile, so many in all; the first stages of the
// next tile are copied while the results of the last one are stored. A tile
// with few rows (the last of an expert) has a worker of fewer rows.
//
// Args, in order (absent where marked): lhs, long long lhs_row_stride
//   (elements), rows (kGather: pair index of each sorted row, whose token is
//   the lhs row), tiles int4 {expert, first row, end row, 0}, tile_count [1],
//   rhs [experts, kN, kK], bias [experts, kN] in stored order (kBias), result
//   [rows, kN or kN / 2].
// Grid.x: ceildiv(ceildiv(kN, kTileN) * capacity of the tile list,
//   kTilesPerCta); persistent: any.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/activation/activation.cuh"
#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/tile_order.cuh"
#include "moe/core/types.cuh"
#include "moe/epilogue/store.cuh"
#include "moe/mma/mma_sync.cuh"
#include "moe/mma/simt.cuh"
#include "moe/quant/none.cuh"
#include "moe/skeleton/multistage.cuh"

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
  MOE_REQUIRE_VALUE(Config, kTopK, "pairs of a token");
  MOE_REQUIRE_VALUE(Config, kGather, "whether lhs rows are tokens");
  MOE_REQUIRE_VALUE(Config, kBias, "whether a bias is added");
  MOE_REQUIRE_VALUE(Config, kInterleave, "gate and up rows by so many, or 0");
  using Schedule = typename Config::Schedule;
  MOE_REQUIRE_VALUE(Schedule, kTileM, "rows of a tile");
  MOE_REQUIRE_VALUE(Schedule, kTileN, "weight rows of a tile");
  MOE_REQUIRE_VALUE(Schedule, kTileK, "depth of a stage");
  MOE_REQUIRE_VALUE(Schedule, kStages, "stages of the ring");
  MOE_REQUIRE_VALUE(Schedule, kWarpsM, "warps along rows");
  MOE_REQUIRE_VALUE(Schedule, kWarpsN, "warps along weight rows");
  MOE_REQUIRE_VALUE(Schedule, kGroupM, "row tiles of a traversal group");
  static_assert(checkQuantPolicy<typename Config::Quant>());
  static_assert(checkActivation<typename Config::Activation>());
  static_assert(checkEngine<typename Config::Mma>());
  static_assert(Config::kThreads == 32 * Schedule::kWarpsM * Schedule::kWarpsN,
                "kThreads must be 32 * kWarpsM * kWarpsN");
  static_assert(kSame<typename Config::Input, typename Config::Mma::Input> &&
                    kSame<typename Config::Input, typename Config::Weight>,
                "this skeleton multiplies operands of the engine's one type");
  static_assert(!Config::Activation::kGated || Config::kInterleave == 8,
                "a fused gated activation needs rows interleaved by 8");
  static_assert(!Config::Activation::kGated || Config::kN % 16 == 0,
                "interleaved gate and up rows come in blocks of 16");
  return true;
}

namespace detail {

/// Schedule::kPersistent, false where absent.
template <class Schedule> constexpr bool isPersistent() {
  if constexpr (requires { Schedule::kPersistent; })
    return Schedule::kPersistent;
  else
    return false;
}

/// Schedule::kTilesPerCta, 1 where absent.
template <class Schedule> constexpr int tilesPerCta() {
  if constexpr (requires { Schedule::kTilesPerCta; })
    return Schedule::kTilesPerCta;
  else
    return 1;
}

/// Whether a CTA computes several tiles, and copies ahead for the next one.
template <class Schedule> constexpr bool isChained() {
  return isPersistent<Schedule>() || tilesPerCta<Schedule>() > 1;
}

/// The schedule of the worker for the last rows of an expert: a quarter of the
/// rows, all warps side by side. None for tiles that are small already.
template <class Schedule> struct Remainder {
  static constexpr bool kExists = Schedule::kTileM >= 128;
  static constexpr int kTileM = Schedule::kTileM / 4;
  static constexpr int kTileN = Schedule::kTileN;
  static constexpr int kTileK = Schedule::kTileK;
  static constexpr int kWarpsM = 1;
  static constexpr int kWarpsN = Schedule::kWarpsM * Schedule::kWarpsN;
};

/// One tile's place in the matrices.
struct Work {
  int expert, firstRow, rows, firstN;
};

template <class Config> struct GroupedMatmul {
  using Args = typename Config::Args;
  using Schedule = typename Config::Schedule;
  using Input = typename Config::Input;
  using R = Ring<Config>;
  using S = Staging<Config>;
  static constexpr bool kPersistent = isPersistent<Schedule>();
  static constexpr int kChain = tilesPerCta<Schedule>();
  static constexpr int kColumnTiles = ceilDiv(Config::kN, Schedule::kTileN);

  const Args &args;
  unsigned ring, staging;

  static __device__ __forceinline__ Work place(int4 tile, int columnTile) {
    return {tile.x, tile.y, tile.z - tile.y, columnTile * Schedule::kTileN};
  }

  static __device__ __forceinline__ TileIndex tileAt(int index, int rowTiles) {
    return tileOf<Schedule::kGroupM, kColumnTiles>(index, rowTiles);
  }

  __device__ __forceinline__ Copier<Config> copierOf(const Work &w) const {
    return Copier<Config>(
        ring,
        args.rhs + ((long long)w.expert * Config::kN + w.firstN) * Config::kK,
        Config::kN - w.firstN);
  }

  /// pairs: the sorted rows' pair indices, from row 0 of the tile.
  __device__ __forceinline__ void beginLhsOf(Copier<Config> &copier,
                                             const Work &w,
                                             const int *pairs) const {
    int numbers[R::kLhsPasses];
    rowNumbers<Config>(numbers, w.rows, [&](int r) {
      if constexpr (Config::kGather)
        return pairs[r] / Config::kTopK;
      else
        return w.firstRow + r;
    });
    copier.setLhs(args.lhs,
                  unsigned(args.lhs_row_stride / kPerVector<Input>), w.rows,
                  numbers);
    beginLhs(copier);
  }

  __device__ __forceinline__ const int *pairsOf(const Work &w) const {
    if constexpr (Config::kGather)
      return args.rows + w.firstRow;
    else
      return nullptr;
  }

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

  template <class Worker>
  __device__ __forceinline__ void store(const Worker &worker,
                                        const Work &w) const {
    auto *result = args.result + (long long)w.firstRow * S::kColumns;
    if constexpr (Config::kBias)
      storeTile<Config>(worker, staging, w.rows, w.firstN,
                        args.bias + (long long)w.expert * Config::kN, result);
    else
      storeTile<Config>(worker, staging, w.rows, w.firstN,
                        static_cast<const Input *>(nullptr), result);
  }

  /// One tile a CTA.
  __device__ __forceinline__ void runOne() const {
    TileIndex tile = tileAt(int(blockIdx.x), int(gridDim.x) / kColumnTiles);
    int4 rows = reinterpret_cast<const int4 *>(args.tiles)[tile.m];
    if (tile.m >= *args.tile_count)
      return;
    Work work = place(rows, tile.n);
    Copier<Config> copier = copierOf(work);
    beginRhs(copier);
    beginLhsOf(copier, work, pairsOf(work));
    withWorker(work.rows, [&](auto &worker) {
      multistage(copier, ring, worker);
      store(worker, work);
    });
  }

  /// Every gridDim.x-th tile, or kChain neighbours. What the next tile needs is requested ahead: its
  /// entry of the tile list during the tile before last, its pair indices
  /// during the last one, its first stages before the last one's results are
  /// stored. It waits in shared memory, because sums fill the registers.
  __device__ __forceinline__ void runAll() const {
    __shared__ int4 entries[3];
    __shared__ int pairs[Config::kGather ? Schedule::kTileM : 1];
    int rowTiles = *args.tile_count;
    int total = rowTiles * kColumnTiles, step = int(gridDim.x);
    int index = int(blockIdx.x), slot = 0;
    if constexpr (!kPersistent) {
      step = 1;
      index *= kChain;
      total = min(total, index + kChain);
    }
    if (index >= total)
      return;
    auto requestEntry = [&](int to, int at) {
      if (threadIdx.x == 0 && at < total)
        ptx::copy16<Config::kCpAsync>(ptx::sharedAddress(&entries[to]),
                                      args.tiles,
                                      unsigned(tileAt(at, rowTiles).m), true);
    };
    auto workIn = [&](int from, int at) {
      return place(entries[from], tileAt(at, rowTiles).n);
    };
    requestEntry(0, index);
    requestEntry(1, index + step);
    ptx::commitCopies();
    ptx::waitForCopies<0>();
    __syncthreads();
    Work first = workIn(0, index);
    Copier<Config> copier = copierOf(first);
    beginRhs(copier);
    beginLhsOf(copier, first, pairsOf(first));
#pragma unroll 1
    for (; index < total; index += step) {
      int nextSlot = slot == 2 ? 0 : slot + 1;
      bool more = index + step < total;
      if (more) {
        requestEntry(nextSlot == 2 ? 0 : nextSlot + 1, index + 2 * step);
        if constexpr (Config::kGather) {
          Work next = workIn(nextSlot, index + step);
          for (int r = int(threadIdx.x); r < next.rows; r += Config::kThreads)
            ptx::copy4<Config::kCpAsync>(ptx::sharedAddress(&pairs[r]),
                                         pairsOf(next) + r);
        }
      }
      withWorker(entries[slot].z - entries[slot].y, [&](auto &worker) {
        multistage(copier, ring, worker);
        if (more) {
          Work next = workIn(nextSlot, index + step);
          copier = copierOf(next);
          beginRhs(copier);
          beginLhsOf(copier, next, pairs);
        }
        store(worker, workIn(slot, index));
      });
      slot = nextSlot;
    }
  }
};

} // namespace detail

/// Dynamic shared memory: the ring and the staging tile, which share it unless
/// the next tile's copies begin before the results are stored.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkGroupedMatmulConfig<Config>());
  if constexpr (detail::isChained<typename Config::Schedule>())
    return Ring<Config>::kBytes + Staging<Config>::kBytes;
  else
    return maximum(Ring<Config>::kBytes, Staging<Config>::kBytes);
}

template <class Config>
__device__ __forceinline__ void
groupedMatmul(const typename Config::Args &args) {
  static_assert(checkGroupedMatmulConfig<Config>());
  extern __shared__ __align__(128) unsigned char moeSharedMemory[];
  using Kernel = detail::GroupedMatmul<Config>;
  beginKernel<Config>();
  unsigned shared = ptx::sharedAddress(moeSharedMemory);
  Kernel kernel{
      args, shared,
      shared + unsigned(detail::isChained<typename Config::Schedule>()
                            ? Ring<Config>::kBytes
                            : 0)};
  awaitPredecessor<Config>();
  if constexpr (detail::isChained<typename Config::Schedule>())
    kernel.runAll();
  else
    kernel.runOne();
}

} // namespace moe
