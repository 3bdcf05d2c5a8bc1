//===- grouped_matmul.cuh - one matmul per expert ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A grouped GEMM with one problem per expert. For each sorted row r:
//
//   result[r, :] = activation(a[r, :] * rhs[expert of r]^T + bias)
//
// a[r, :] is row r of lhs, or the lhs row of its token if kGather (see `rows`).
// Sorted rows are (token, expert) pairs in the order of their experts. The list
// `tiles` divides them into row tiles of at most kTileM rows of one expert. A
// CTA computes one output tile at a time: a row tile by kTileN weight rows.
// kTileM counts tokens and kTileN weight rows, whichever of the two are the
// rows of the MMA (Fragment::kTokensAreColumns, moe/core/concepts.cuh). Tokens
// are columns in tcgen05, wgmma_rs, wgmma (e4m3 may have them as rows) and
// mma_sync with slabs; they are rows in the others.
//
// Engines: accumulators are in registers. tcgen05 has them in tensor memory:
// one thread per consumer warpgroup issues its MMAs, and all its threads load
// the accumulators before the epilogue. Weights in slabs are converted in the
// registers of the warps that multiply them; a grid kernel converts other codes
// to shared memory.
//
// Roles: moe/matmul/contract.cuh describes the six parts of the kernel (roles,
// feed, loop, atom, accumulator, epilogue), and the members of an engine, which
// is an atom with its accumulator. The engine selects the roles:
//
//   moe/matmul/roles/grid.cuh (engines mma_sync, mma_sync_scaled, simt)
//       The grid has one CTA per output tile. moe/core/tile_order.cuh maps
//       blockIdx.x to the tile. All threads copy to a ring of kStages pipeline
//       stages, with cp.async if the arch has it, and all warps multiply. The
//       CTA synchronizes once per k tile.
//   moe/matmul/roles/produce_consume.cuh (engines wgmma, wgmma_rs, tcgen05)
//       The kernel is persistent and warp-specialized. The first warpgroup
//       produces; the other warpgroups, up to four, consume:
//
//         thread 0       issues a stage's weight copies: TMA, or bulk copies of
//                        slabs with their scales; and bulk copies of scale
//                        blocks (kScaleAtoms)
//         warp 1         copies f32 weight scales by group along k
//         thread 64      issues TMA copies of token rows if lhs is a TensorMap
//         thread 96      draws tiles
//         all producers  gather token rows with cp.async if lhs is no
//                        TensorMap; copy token scales by group, block scales,
//                        and 4-bit codes that they pad (spreadsCodes); arrive
//                        at the stage's mbarrier `full`
//         each consumer  waits at `full`, multiplies its 64 or 128 MMA rows of
//         warpgroup      the tile, and then runs the epilogue for them
//
//       Consumers arrive at a stage's mbarrier `empty` after its MMAs (or the
//       completion of tcgen05's MMAs does), and producers wait there. A CTA
//       starts at tile blockIdx.x and then draws tiles from an atomic cursor.
//       Each next tile is published in one of two slots in shared memory
//       (moe/matmul/roles/tile_source.cuh).
//
// The epilogue transposes or gathers results in staging tiles in shared memory.
// Threads then store whole chunks of result rows, without TMA: 16 bytes, or 4
// bytes of codes with StaticTensor or groups if tokens are columns. Grid roles
// have one staging tile per CTA, which reuses the ring. Warp-specialized roles
// have one per consumer warp if tokens are MMA rows, else one per warpgroup, or
// one per CTA for a result with groups of 128. It follows the ring, because
// producers already fill the ring for the next tile.
//
// Short tiles: rows past a tile's end row are never stored. In warp-specialized
// roles, a tile with few rows has narrower MMAs if tokens are MMA columns
// (withTokens in moe/matmul/roles/ring.cuh; in tcgen05, N is a field of the
// instruction). If tokens are MMA rows, consumer warpgroups without rows do not
// multiply. In grid roles with kTileM of at least 128, a smaller worker
// multiplies tiles of at most kTileM / 4 rows (Remainder in
// moe/matmul/roles/grid.cuh).
//
// Args, in order. [...] is the condition under which an argument is present.
//
//   lhs: Input [lhs rows, kK]
//   lhs_row_stride: long long, in elements [unless lhs is a TensorMap]
//   rows: int [sorted rows], the index token * kPairs + i of each sorted row's
//     pair. Sorted row r multiplies row rows[r] / kPairs of lhs. [if kGather]
//   tiles: int4 [capacity], row tiles {expert, first row, end row, column tiles
//     stored}. Only warp-specialized engines use the last word; see kCounts.
//   tile_count: int [3 or more], starts with {number of row tiles, cursor of
//     the layer's first matmul, cursor of its second matmul}
//   rhs: Weight [experts, kN, kK], the packed weights; kInterleave specifies
//     their gate and up row order
//   lhs_scale: see "Scales" below [if lhs has scales]
//   rhs_scale: see "Scales" below [if rhs has scales]
//   rhs_second_scale: float, the scales of rhs_scale. The shape is in
//     moe/quant/dequantize.cuh; with block scales, it is [experts, 2] with
//     gate and up, else [experts, 1]. [if rhs_scale has second scales]
//   rhs_zero_point: moe::i8, shape of rhs_scale [if Config::kZeroPoint]
//   bias: float, bf16 or f16 [experts, kN], in the checkpoint's row order:
//     Config::GateUpOrder (moe/core/gate_up.cuh), or all gates first if the
//     Config has no GateUpOrder [if kBias]
//   lhs_second_scale: float, the scales of lhs_scale. If kLhsSecondScales > 0,
//     [kLhsSecondScales] static scales; the kernel uses their maximum. If it is
//     0, [lhs rows]. [if lhs_scale has second scales]
//   add_bias: int, see moe/core/rank.cuh [if only one rank adds the bias]
//   activation_alpha and others: float [experts], see
//     moe/core/activation_numbers.cuh [if experts have their own parameters]
//   result: Result [sorted rows, columns]. `columns` is kN, or kN / 2 with a
//     gated activation. [if the Config has no Scaling]
//
// If the Config has the type Scaling, the epilogue quantizes the result
// (moe/matmul/epilogue/store_chunk.cuh). These arguments then replace `result`:
//
//   static_scale: float [kScales]; the kernel uses the maximum. [if Scaling is
//     quant::StaticTensor (moe/math/scaling.cuh), or is emulated and its
//     kStored is true (moe/math/emulated.cuh)]
//   data: [sorted rows, columns], codes (quantized values), or their
//     dequantized values if an emulated Scaling does not store codes
//   scale: the scales of `data` [unless `data` has dequantized values]:
//     StaticTensor: float [1]
//     Group128, PowerGroup128: float [sorted rows, groups of 128 columns]
//     an emulated Scaling that stores codes: bytes [sorted rows, groups]
//
// StaticTensor requires a grid engine or tokens as MMA columns. Group128 and
// PowerGroup128 require a warp-specialized engine
// (moe/matmul/epilogue/quantize_groups.cuh and quantize_row_groups.cuh). An
// emulated Scaling requires a grid engine, and tiles that contain whole groups.
//
// Scales: the types of lhs_scale and rhs_scale depend on the scheme.
//
//   block scales, applied by the MMA (mma_sync_scaled, tcgen05)
//       Both are bytes, or f32 with groups of 128. The shapes are in
//       moe/matmul/feed/block_scales.cuh. kK and kTileK then count bytes of
//       the MMA operands.
//   all others
//       Both are float, with the shapes of quant::LhsScale and quant::RhsScale
//       (moe/quant/none.cuh). For dequantized weights, rhs_scale instead has
//       type Config::Scale and the shape in moe/quant/dequantize.cuh.
//
// An engine with kPromoted adds partial accumulators to f32 totals every
// Quant::kPromoteK elements: for the precision of e4m3, or because scales
// change along k. Scales by group along k multiply the partial accumulators
// then. A dequantized weight's scale multiplies the converted weight instead,
// unless wgmma_rs promotes or scalesSums is true (moe/quant/dequantize.cuh).
// Scales per row or column multiply final accumulators: in the epilogue of grid
// kernels, before it in warp-specialized kernels. Warp-specialized kernels load
// scales by group with each stage (producers), and scales per row or column
// from global memory (consumers). If tokens are MMA rows, producers copy token
// scales with a tile's first stage.
//
// Tensor maps: a warp-specialized engine takes these moe::TensorMap arguments
// by value, with 128-byte swizzle and zeros out of bounds:
//
//   rhs   Extents [kK, kN, experts], box [kTileK, kTileN, 1]. rhs is a plain
//         pointer instead if weights are slabs (codes in MMA fragment order,
//         moe/math/slabs.cuh), or 4-bit codes that all producer threads pad to
//         8 bits in shared memory (spreadsCodes, moe/core/concepts.cuh).
//   lhs   Only if not kGather, and optional: extents [kK, lhs rows], box
//         [kTileK, min(kTileM, 64)].
//
// Overlap with adjacent launches: each griddepcontrol.wait is followed by
// launch_dependents (moe/core/pdl.cuh). The next launch's CTAs may therefore
// start once all CTAs of this launch have waited. All Configs have kTilesEarly:
// true if the predecessor launch does not write `tiles` and `tile_count`.
// Weight copies then start before griddepcontrol.wait. A warp-specialized
// engine's Config also has the members below. There, a column tile is the
// Specialized::kTakenN weight rows that a CTA draws at once: kTileN, or all
// column tiles of a group, computed one after another, if the result has groups
// of 128 and tokens are columns.
//
//   kCursor      Index of the word of tile_count that is this matmul's atomic
//                cursor. The word must be 0 on entry.
//   kCounts      If true, the kernel increments tiles[i].w for each column tile
//                of row tile i that it has stored. The word must be 0 on entry.
//                The next matmul can then start before this one ends. No wait
//                is endless: all CTAs of this matmul have started by then.
//   kAwaited     Number of column tiles of the predecessor matmul. Producers
//                read the rows of row tile i only once tiles[i].w has this
//                value. griddepcontrol.wait then follows at the kernel's end.
//                Requires kTilesEarly, and rows that are not gathered. If 0,
//                the kernel waits for the whole predecessor grid instead.
//
// Grid.x of a grid engine is ceildiv(kN, kTileN) * capacity of `tiles`. For a
// warp-specialized engine it is kSplit * ceildiv(kN, kTakenN) * capacity, but
// at most the number of CTAs that can be resident at once. kSplit is 2, or 1 if
// absent. If it is 2, and a launch has at most kSplitTiles tiles, and at most
// one per cluster of two CTAs, the two CTAs each compute half of a tile's k.
// The first CTA adds up and stores (moe/matmul/roles/split.cuh). kSplit
// requires tokens as MMA columns, accumulators in registers, kAwaited 0, at
// least 4 k tiles, and kTakenN equal to kTileN.
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
    MOE_REQUIRE_VALUE(Config, kPairs, "number of pairs per row of lhs");
  MOE_REQUIRE_VALUE(Config, kBias, "true if a bias is added");
  MOE_REQUIRE_VALUE(Config, kTilesEarly,
                    "tiles are final before the predecessor launch ends");
  MOE_REQUIRE_VALUE(Config, kInterleave,
                    "rows of an interleaved gate or up block, or 0");
  using Schedule = typename Config::Schedule;
  MOE_REQUIRE_VALUE(Schedule, kTileM, "rows per tile");
  MOE_REQUIRE_VALUE(Schedule, kTileN, "weight rows per tile");
  MOE_REQUIRE_VALUE(Schedule, kTileK, "elements along k per pipeline stage");
  MOE_REQUIRE_VALUE(Schedule, kStages, "pipeline stages");
  MOE_REQUIRE_VALUE(Schedule, kGroupM, "row tiles of an L2 swizzle group");
  static_assert(checkQuantPolicy<typename Config::Quant>());
  static_assert(checkActivation<typename Config::Activation>());
  static_assert(checkEngine<typename Config::Mma>());
  if constexpr (isWarpSpecialized<typename Config::Mma>) {
    MOE_REQUIRE_VALUE(Config, kCursor,
                      "index of the word of tile_count that is the cursor");
    MOE_REQUIRE_VALUE(Config, kCounts,
                      "true if each row tile counts its stored column tiles");
    MOE_REQUIRE_VALUE(
        Config, kAwaited,
        "number of stored column tiles after which a row tile may be read; 0: "
        "wait for the whole predecessor grid");
    MOE_REQUIRE_VALUE(Schedule, kProducerWarps, "producer warps");
    MOE_REQUIRE_VALUE(Schedule, kConsumerWarps, "consumer warps");
    MOE_REQUIRE_VALUE(Schedule, kProducerRegisters,
                      "registers per producer thread");
    MOE_REQUIRE_VALUE(Schedule, kConsumerRegisters,
                      "registers per consumer thread");
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
                "an engine that promotes accumulators (kPromoted) needs "
                "Quant::kPromoteK > 0");
  if constexpr (quantizesResult<Config>) {
    MOE_REQUIRE_VALUE(Config, kScales,
                      "static scales of the result; 1 if there are none");
    static_assert(kSame<typename Config::Result, float>,
                  "a result that is quantized must be f32");
    static_assert(!emulatesResult<Config> ||
                      !isWarpSpecialized<typename Config::Mma> ||
                      encodesResult<Config>,
                  "a warp-specialized engine does not emulate its result");
  }
  static_assert(!Config::Activation::kGated || Config::kInterleave == 8,
                "a fused gated activation needs rows interleaved by 8");
  static_assert(!Config::Activation::kGated || Config::kN % 16 == 0,
                "interleaved gate and up rows come in blocks of 16");
  return true;
}

/// Returns the dynamic shared memory in bytes. A grid engine needs the larger
/// of the ring and the staging tile, which share memory. For a warp-specialized
/// engine, moe/matmul/roles/produce_consume_layout.cuh has the layout.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkGroupedMatmulConfig<Config>());
  if constexpr (isWarpSpecialized<typename Config::Mma>)
    return Specialized<Config>::kBytes;
  else
    return maximum(detail::Loop<Config>::Ring::kBytes, Staging<Config>::kBytes);
}

/// Runs the kernel. The engine selects the warp roles (grid or
/// warp-specialized).
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
