//===- grouped_matmul.cuh - one matmul per expert ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A grouped GEMM with one problem per expert. For each sorted row r of lhs:
//
//   result[r, :] = activation(lhs[r, :] * rhs[expert of r]^T + bias)
//
// Sorted rows are (token, expert) pairs in the order of their experts. The list
// `tiles` divides them into row tiles of at most kTileM rows of one expert. A
// CTA computes one output tile at a time: a row tile by kTileN weight rows. The
// engine determines which tiles a CTA computes:
//
//   moe/matmul/roles/grid.cuh
//       The grid has one CTA per output tile. moe/core/tile_order.cuh maps
//       blockIdx.x to the tile. All warps copy and multiply.
//   moe/matmul/roles/produce_consume.cuh
//       The kernel is persistent and warp-specialized. A CTA starts at tile
//       blockIdx.x and then draws tiles from an atomic cursor
//       (moe/matmul/roles/tile_source.cuh).
//
// moe/matmul/contract.cuh lists the members of an engine.
//
// Args, in order. [...] is the condition under which an argument is present.
//
//   lhs: Input [lhs rows, kK]
//   lhs_row_stride: long long, in elements [unless lhs is a TensorMap]
//   rows: int [sorted rows], the pair index of each sorted row. Sorted row r
//     reads row rows[r] / kPairs of lhs. Without `rows` it reads row r. [if
//     kGather]
//   tiles: int4 [capacity], row tiles {expert, first row, end row, count}. Only
//     warp-specialized engines use the last word; see kCounts below.
//   tile_count: int [3], {number of row tiles, cursor of the layer's first
//     matmul, cursor of its second matmul}
//   rhs: Weight [experts, kN, kK], the packed weights; kInterleave specifies
//     their gate and up row order
//   lhs_scale: type and shape are listed below [if lhs has scales]
//   rhs_scale: type and shape are listed below [if rhs has scales]
//   rhs_second_scale: float, the scales of rhs_scale. The shape is in
//     moe/quant/dequantize.cuh; with block scales, it is [experts, 2 for gate
//     and up, else 1]. [if rhs_scale has second scales]
//   rhs_zero_point: moe::i8, shape of rhs_scale [if Config::kZeroPoint]
//   bias: float, bf16 or f16 [experts, kN], in the checkpoint's row order:
//     Config::GateUpOrder (moe/core/gate_up.cuh), or all gates first if the
//     Config has no GateUpOrder [if kBias]
//   lhs_second_scale: float, the scales of lhs_scale: [kLhsSecondScales] static
//     scales, whose maximum is used, or [lhs rows] if kLhsSecondScales is 0
//     (moe/matmul/feed/block_scales.cuh) [if lhs_scale has second scales]
//   add_bias: int, see moe/core/rank.cuh [if only one rank adds the bias]
//   activation_alpha and others: float [experts], see
//     moe/core/activation_numbers.cuh [if experts have their own parameters]
//   result: Result [sorted rows, columns]. `columns` is kN, or kN / 2 with a
//     gated activation. [if the Config has no Scaling]
//
// The types of lhs_scale and rhs_scale depend on the scheme:
//
//   block scales applied by the MMA
//       Both are bytes, with the shapes in moe/matmul/feed/block_scales.cuh.
//       kK and kTileK then count bytes of the MMA operands.
//   dequantized weights
//       rhs_scale has type Config::Scale and the shape in
//       moe/quant/dequantize.cuh. lhs_scale is float.
//   all others
//       Both are float, with the shapes that quant::LhsScale and
//       quant::RhsScale specify (moe/quant/none.cuh).
//
// If the Config has the type Scaling, the epilogue quantizes the result
// (moe/matmul/epilogue/store_chunk.cuh). These arguments then replace `result`:
//
//   static_scale: float [kScales], whose maximum is used [if Scaling is
//     quant::StaticTensor (moe/math/scaling.cuh), or an emulated Scaling with
//     kStored, such as quant::FloatTensor (moe/math/emulated.cuh)]
//   data: [sorted rows, columns], codes or emulated values
//   scale: the scales of `data` [unless `data` has emulated values]:
//     StaticTensor: float [1]
//     quant::Group128: float [sorted rows, groups of 128 columns]
//     an emulated Scaling that stores codes: bytes [sorted rows, groups]
//
// Group128 requires a warp-specialized engine. An emulated Scaling requires one
// that is not warp-specialized, and tiles that contain whole groups.
//
// A warp-specialized engine differs as follows.
//
//   rhs   A moe::TensorMap by value: extents [kK, kN, experts], box [kTileK,
//         kTileN, 1], 128-byte swizzle, zeros out of bounds. Engines that read
//         slabs (weights pre-shuffled into MMA fragment order,
//         moe/math/slabs.cuh) have plain pointers rhs, rhs_scale and
//         rhs_zero_point instead. Engines for which spreadsCodes
//         (moe/core/concepts.cuh) is true also have a plain pointer rhs.
//   lhs   May be a moe::TensorMap unless kGather: extents [kK, lhs rows], box
//         [kTileK, min(kTileM, 64)], 128-byte swizzle, zeros out of bounds.
//
// These members of its Config specify how the kernel overlaps with adjacent
// launches:
//
//   kCursor      Index of the word of tile_count that is this matmul's atomic
//                cursor. The word must be 0 on entry.
//   kCounts      If true, the kernel increments tiles[i].w for each column tile
//                of row tile i that it has stored. The word must be 0 on entry.
//                The next matmul can then start before this one ends.
//   kAwaited     Value that tiles[i].w must reach before the kernel reads the
//                rows of row tile i: the predecessor matmul's number of column
//                tiles. If 0, the kernel waits for the whole predecessor grid
//                with griddepcontrol.wait.
//
// For all engines, kTilesEarly means that `tiles` and `tile_count` are final
// before the predecessor launch ends. Weights are then prefetched before
// griddepcontrol.wait.
//
// Grid.x is ceildiv(kN, kTileN) * capacity of `tiles`. For a warp-specialized
// engine it is at most the number of CTAs that can be resident at the same
// time.
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
        "column tiles that the predecessor must have stored of a row tile "
        "before it is read; 0 waits for the whole predecessor grid");
    MOE_REQUIRE_VALUE(Schedule, kProducerWarps, "producer warps");
    MOE_REQUIRE_VALUE(Schedule, kConsumerWarps, "consumer warps");
    MOE_REQUIRE_VALUE(Schedule, kProducerRegisters,
                      "registers of a producer thread");
    MOE_REQUIRE_VALUE(Schedule, kConsumerRegisters,
                      "registers of a consumer thread");
    MOE_REQUIRE_VALUE(Schedule, kCtasPerSm, "resident CTAs per SM");
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
      "the weights of a warp-specialized engine must be slabs if and only if "
      "they are dequantized");
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
