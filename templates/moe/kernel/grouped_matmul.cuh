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
// (tile_order.cuh). The engine decides on the roles of warps: those of
// roles/grid.cuh, one tile a CTA, or of roles/produce_consume.cuh, whose CTAs
// stay until no tile is left. matmul/contract.cuh says what an engine is.
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

#include "moe/core/concepts.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/contract.cuh"
#include "moe/matmul/feed/block_scales.cuh"
#include "moe/matmul/feed/scales.cuh"
#include "moe/matmul/feed/weight_loader.cuh"
#include "moe/matmul/roles/grid.cuh"
#include "moe/matmul/roles/produce_consume.cuh"

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
    static_assert(
        checkWarpgroupEngine<typename Config::Mma, Schedule::kTileM>());
    static_assert(checkWeightFeed<WeightLoader<Config>>());
  } else {
    MOE_REQUIRE_VALUE(Schedule, kWarpsM, "warps along rows");
    MOE_REQUIRE_VALUE(Schedule, kWarpsN, "warps along weight rows");
    static_assert(Config::kThreads ==
                      32 * Schedule::kWarpsM * Schedule::kWarpsN,
                  "kThreads must be 32 * kWarpsM * kWarpsN");
    static_assert(checkGridEngine<typename Config::Mma, Schedule,
                                  ScaleLayout<Config>::kScaled &&
                                      !scalesBlocks<typename Config::Mma>>());
    if constexpr (scalesBlocks<typename Config::Mma>)
      static_assert(checkBlockScaleFeed<BlockScaleCopier<Config>,
                                        typename Config::Args>());
  }
  static_assert(kSame<typename Config::Input, typename Config::Mma::Input> &&
                    (kSame<typename Config::Input, typename Config::Weight> ||
                     dequantizes<Config> || scalesBlocks<typename Config::Mma>),
                "a matmul multiplies operands of the engine's one type");
  static_assert(!isWarpSpecialized<typename Config::Mma> ||
                    dequantizes<Config> == takesSlabs<typename Config::Mma>,
                "an engine with roles dequantizes weights in slabs, and "
                "takes no others there");
  static_assert(!Config::Mma::kPromoted || Config::Quant::kPromoteK > 0,
                "operands of 8 bits need a policy that promotes their sums");
  if constexpr (quantizesResult<Config>) {
    MOE_REQUIRE_VALUE(Config, kScales, "static scales of the result, or 1");
    static_assert(kSame<typename Config::Result, float>,
                  "a result that is quantized is f32 until then");
    static_assert(!emulatesResult<Config> ||
                      !isWarpSpecialized<typename Config::Mma>,
                  "an engine with roles does not emulate its result");
  }
  static_assert(!Config::Activation::kGated || Config::kInterleave == 8,
                "a fused gated activation needs rows interleaved by 8");
  static_assert(!Config::Activation::kGated || Config::kN % 16 == 0,
                "interleaved gate and up rows come in blocks of 16");
  return true;
}

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
