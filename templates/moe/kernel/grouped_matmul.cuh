//===- grouped_matmul.cuh - one matmul per expert ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// result[r, :] = activation(lhs[r, :] * rhs[expert of r]^T + bias) for the
// sorted rows r of all experts. A CTA computes one tile at a time: kTileM rows
// of one expert by kTileN weight rows. The engine decides how tiles reach CTAs:
//   roles/grid.cuh             blockIdx.x maps to one tile
//                              (moe/core/tile_order.cuh); all warps copy and
//                              multiply
//   roles/produce_consume.cuh  warp-specialized: a CTA starts at tile
//                              blockIdx.x and then draws tiles from an atomic
//                              cursor (moe/matmul/roles/tile_source.cuh)
// Both files are in moe/matmul/. moe/matmul/contract.cuh lists the members of
// an engine.
//
// Args, in order. The condition for the presence of an argument is in brackets.
//   lhs: Input [rows of lhs, kK]
//   long long lhs_row_stride: in elements [absent if lhs is a TensorMap]
//   rows: int [rows], the pair index of each sorted row; a row of lhs has
//     kPairs pairs, so sorted row r reads row rows[r] / kPairs of lhs [if
//     kGather]
//   tiles: int4 {expert, first row, end row, 0}, the list of row tiles
//   tile_count: int [3], {number of tiles, cursor of the first matmul, cursor
//     of the second}
//   rhs: Weight [experts, kN, kK]
//   float lhs_scale [if Quant has a scale of lhs, see moe/quant/none.cuh]
//   float rhs_scale [if Quant has one]
//   rhs_second_scale, rhs_zero_point: see moe/quant/dequantize.cuh [if weights
//     are dequantized and have them]
//   bias: [experts, kN], in stored order: GateUpOrder, or gates first [if
//     kBias]
//   float lhs_second_scale [if lhs has scales of scales, see
//     moe/matmul/feed/block_scales.cuh]
//   add_bias: see moe/core/rank.cuh [optional]
//   activation parameters of each expert: see moe/core/activation_numbers.cuh
//     [optional]
//   result: Result [rows, kN or kN / 2] [if there is no Scaling]
//   With a Scaling (moe/matmul/epilogue/store_chunk.cuh), in place of result:
//   static_scale: float [kScales] [if StaticTensor or FloatTensor]
//   data: [rows, kN or kN / 2]
//   scale: [1]; with Group128, which only a warp-specialized engine supports,
//     [rows, groups of 128 columns]; absent if the result is emulated, in which
//     case a tile has whole groups and the engine is not warp-specialized
//
// A warp-specialized engine has these differences:
//   rhs is a moe::TensorMap by value: extents [kK, kN, experts], box [kTileK,
//     kTileN, 1], 128-byte swizzle, zeros out of bounds. An engine that reads
//     slabs (weights pre-shuffled into MMA fragment order, moe/math/slabs.cuh)
//     has plain pointers rhs, rhs_scale and rhs_zero_point instead. rhs is also
//     a plain pointer if codes are spread over bytes (spreadsCodes).
//   lhs may also be a TensorMap unless kGather: extents [kK, rows], box
//     [kTileK, min(kTileM, 64)], with the same swizzle and zeros.
//   tile_count is also written: its word kCursor is an atomic cursor, 0 on
//     entry.
//   kAwaited is the value of tiles[i].w to wait for before the rows of row tile
//     i are read; 0 waits for the whole predecessor grid.
//   kCounts: tiles[i].w counts the column tiles of row tile i that are stored
//     so far. It must be 0 on entry.
// kTilesEarly: `tiles` and `tile_count` are final before the predecessor launch
// ends, so weights are fetched before griddepcontrol.wait.
//
// Grid.x: ceildiv(kN, kTileN) * capacity of the tile list. Warp-specialized: at
// most the number of CTAs that are resident at the same time.
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
  MOE_REQUIRE_TYPE(Config, Schedule, "tile, pipeline stages and warps");
  MOE_REQUIRE_VALUE(Config, kN, "rows of rhs");
  MOE_REQUIRE_VALUE(Config, kK, "columns of lhs and rhs");
  MOE_REQUIRE_VALUE(Config, kExperts, "experts in rhs");
  MOE_REQUIRE_VALUE(Config, kGather, "true if rows of lhs are gathered");
  if constexpr (Config::kGather)
    MOE_REQUIRE_VALUE(Config, kPairs, "pairs of a row of lhs");
  MOE_REQUIRE_VALUE(Config, kBias, "true if a bias is added");
  MOE_REQUIRE_VALUE(Config, kTilesEarly,
                    "tiles are final before the predecessor launch ends");
  MOE_REQUIRE_VALUE(Config, kInterleave,
                    "rows of an interleaved gate or up block, or 0");
  using Schedule = typename Config::Schedule;
  MOE_REQUIRE_VALUE(Schedule, kTileM, "rows of a tile");
  MOE_REQUIRE_VALUE(Schedule, kTileN, "weight rows of a tile");
  MOE_REQUIRE_VALUE(Schedule, kTileK, "elements of k of a pipeline stage");
  MOE_REQUIRE_VALUE(Schedule, kStages, "pipeline stages");
  MOE_REQUIRE_VALUE(Schedule, kGroupM, "row tiles of an L2 swizzle group");
  static_assert(checkQuantPolicy<typename Config::Quant>());
  static_assert(checkActivation<typename Config::Activation>());
  static_assert(checkEngine<typename Config::Mma>());
  if constexpr (isWarpSpecialized<typename Config::Mma>) {
    MOE_REQUIRE_VALUE(Config, kCursor,
                      "index of the word of tile_count that is the cursor");
    MOE_REQUIRE_VALUE(
        Config, kCounts,
        "true if the column tiles of stored row tiles are counted");
    MOE_REQUIRE_VALUE(
        Config, kAwaited,
        "column tiles that the predecessor "
        "counts of a row tile to wait for; 0 waits for the whole launch");
    MOE_REQUIRE_VALUE(Schedule, kProducerWarps, "producer warps");
    MOE_REQUIRE_VALUE(Schedule, kConsumerWarps, "consumer warps");
    MOE_REQUIRE_VALUE(Schedule, kProducerRegisters,
                      "registers of a producer thread");
    MOE_REQUIRE_VALUE(Schedule, kConsumerRegisters,
                      "registers of a consumer thread");
    MOE_REQUIRE_VALUE(Schedule, kCtasPerSm,
                      "resident CTAs of a multiprocessor");
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
                "Input must be Mma::Input, and Weight must equal it unless the "
                "engine converts weights");
  static_assert(
      !isWarpSpecialized<typename Config::Mma> ||
          dequantizes<Config> == takesSlabs<typename Config::Mma>,
      "a warp-specialized engine reads dequantized weights exactly if "
      "they are in slabs");
  static_assert(!Config::Mma::kPromoted || Config::Quant::kPromoteK > 0,
                "8-bit operands need Quant::kPromoteK > 0");
  if constexpr (quantizesResult<Config>) {
    MOE_REQUIRE_VALUE(Config, kScales, "static scales of the result, or 1");
    static_assert(kSame<typename Config::Result, float>,
                  "a result that is quantized must be f32");
    static_assert(!emulatesResult<Config> ||
                      !isWarpSpecialized<typename Config::Mma>,
                  "a warp-specialized engine does not emulate its result");
  }
  static_assert(!Config::Activation::kGated || Config::kInterleave == 8,
                "a fused gated activation needs rows interleaved by 8");
  static_assert(!Config::Activation::kGated || Config::kN % 16 == 0,
                "interleaved gate and up rows come in blocks of 16");
  return true;
}

/// Returns the dynamic shared memory in bytes: the ring of pipeline stages and
/// the staging tile of the epilogue, which reuses the ring or follows it.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkGroupedMatmulConfig<Config>());
  if constexpr (isWarpSpecialized<typename Config::Mma>)
    return Specialized<Config>::kBytes;
  else
    return maximum(detail::Loop<Config>::Ring::kBytes, Staging<Config>::kBytes);
}

/// Runs the kernel. The engine selects the mainloop.
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
