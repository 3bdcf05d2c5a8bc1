//===- route_gate_up.cuh - the first matmul of few tokens -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The first of the two launches of a layer with at most kTokens tokens and 64
// pairs. Every CTA routes all tokens. With weights in row order, it loads x
// into shared memory, quantized as Scaling specifies; with slabs, x passes
// through each warp's ring. The CTAs then compute the rows r of all pairs,
// sorted by expert:
//   result[r, :] = activation(x[token of r, :] * rhs[expert of r]^T + bias)
// CTA 0 also writes the routing outputs.
//
// Args, in order. The condition for the presence of an argument is in brackets.
//   the arguments logits through local_begin of kernel `route`, which include
//     the optional ones (moe/routing/few.cuh)
//   ids, weights: outputs for the caller, may be null [absent after a dispatch]
//   counts: int [E_local], may be null
//   lhs: Input [tokens, kK], which is x
//   long long lhs_row_stride: in elements
//   static_scale: float [kScales] [if StaticTensor]
//   rhs: Weight [experts, kN, kK]
//   rhs_scale: float [if Quant has one]
//   rhs_second_scale, rhs_zero_point: see moe/quant/dequantize.cuh [if weights
//     are in slabs and have them]
//   bias: [experts, kN], in the checkpoint's row order [if kBias]
//   addend: [pairs, kN], gates before ups; null: no addend [if the layer has
//     adapters]
//   activation parameters of each expert: see moe/core/activation_numbers.cuh
//     [optional]
//   result: Result [pairs, kN or kN / 2]
//
// Grid.x: any. The kernel is persistent.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/activation_numbers.cuh"
#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/rank.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/few_tokens/gemv.cuh"
#include "moe/matmul/few_tokens/slab_gemv.cuh"
#include "moe/quant/stage.cuh"
#include "moe/routing/few.cuh"

namespace moe {

template <class Config> constexpr bool checkRouteGateUpConfig() {
  checkCommonConfig<Config>();
  checkFewConfig<Config>();
  MOE_REQUIRE_TYPE(Config, Input, "element type of lhs");
  static_assert(Config::kK % 8 == 0, "rows of x are read 8 values at a time");
  return true;
}

namespace detail {

/// Stores the matmul results and, in CTA 0, the routing outputs. RouteGateUp
/// and RouteGateUpSlabs derive from this class.
template <class Config> struct GateUpResults {
  using Args = typename Config::Args;
  using Pairs = routing::FewPairsOf<Config>;

  /// The routing of all tokens. After choose, all threads synchronize and call
  /// arrange. Only CTA 0 calls weigh, because only the routing outputs need
  /// weights.
  using Route = routing::FewRoute<Config, false>;
  struct Show {
    const Args &args;
    __device__ __forceinline__ void operator()(int pair, int id,
                                               float weight) const {
      bool writes = blockIdx.x == 0;
      if constexpr (requires { args.ids; })
        if (writes && args.ids)
          args.ids[pair] = id;
      if constexpr (requires { args.weights; })
        if (writes && args.weights)
          args.weights[pair] = weight;
    }
  };

  /// Stores each local expert's number of pairs in args.counts. Only CTA 0
  /// stores.
  static __device__ __forceinline__ void countRows(const Args &args,
                                                   const Pairs &pairs) {
    if (blockIdx.x != 0 || !args.counts)
      return;
    for (int e = int(threadIdx.x); e < Config::kLocalExperts;
         e += Config::kThreads) {
      int count = 0;
      for (int p = 0; p < args.tokens * routing::kPairsOf<Config>; ++p)
        count += pairs.expert[p] == e + localBeginOf(args);
      args.counts[e] = count;
    }
  }

  /// Adds bias and addend to the accumulators of one result, applies the
  /// activation and stores the result. `sums` holds a gate and its up value
  /// (kParts = 2), or one value (kParts = 1). weightRow(c) returns the packed
  /// weight row of sums[c].
  template <int kParts, class WeightRow>
  static __device__ __forceinline__ void
  store(const Args &args, float (&sums)[kParts], const Pairs &pairs, int expert,
        int row, int column, WeightRow weightRow) {
    using Result = typename Config::Result;
    constexpr int kResults = Config::kN / kParts;
    if constexpr (Config::kBias) {
#pragma unroll
      for (int c = 0; c < kParts; ++c)
        sums[c] += toFloat(args.bias[(long long)expert * Config::kN +
                                     storedRow<Config>(weightRow(c))]);
    }
    if constexpr (requires { args.addend; })
      if (args.addend)
#pragma unroll
        for (int c = 0; c < kParts; ++c)
          sums[c] +=
              toFloat(args.addend[(long long)pairs.rowPair[row] * Config::kN +
                                  c * kResults + column]);
    auto activation = activationOf<Config>(args, expert);
    float value;
    if constexpr (kParts == 2)
      value = activation.apply(sums[0], sums[1]);
    else
      value = activation.apply(sums[0]);
    args.result[(long long)row * kResults + column] = fromFloat<Result>(value);
  }
};

/// Computes the first matmul by dot products, for weights that are stored as
/// rows.
template <class Config> struct RouteGateUp : GateUpResults<Config> {
  using Args = typename Config::Args;
  using Results = GateUpResults<Config>;
  using G = Gemv<Config>;
  using Operand = GemvOperand<Config>;
  using Stage = quant::Stage<typename Config::Scaling, typename Config::Input,
                             typename Config::Weight, Config::kK,
                             Config::kTokens, Config::kThreads>;
  static constexpr int kOperandBytes = Operand::bytes(Config::kTokens);
  static constexpr int kBytes = kOperandBytes + G::kRingBytes;

  static __device__ __forceinline__ void run(const Args &args,
                                             unsigned char *dynamic) {
    __shared__ routing::FewPairsOf<Config> pairs;
    __shared__ typename Stage::Shared stageShared;
    int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    auto *scales = reinterpret_cast<float *>(dynamic + Config::kTokens *
                                                           Operand::kRowBytes);
    Stage stage{args.lhs, args.lhs_row_stride, args.tokens,
                reinterpret_cast<typename Config::Weight *>(dynamic), scales};
    Stage::prepare(stageShared);
    __syncthreads();
    awaitPredecessor<Config>();
    int valid = routing::validTokens<false>(args);
    typename Results::Route route;
    const typename Results::Show show{args};
    route.choose(args, valid, pairs, show);
    typename Stage::Kept kept;
    stage.measure(stageShared, valid, kept);
    __syncthreads();
    route.arrange(args, pairs);

    int first = warp * int(gridDim.x) + int(blockIdx.x);
    int warps = int(gridDim.x) * G::kWarps;
    int units = pairs.tileCount * G::kUnits;
    int items = first < units ? (units - first - 1) / warps + 1 : 0;
    auto itemOf = [&](int i) {
      int unit = first + i * warps;
      return make_int2(pairs.tiles[unit / G::kUnits].x, unit % G::kUnits);
    };
    const float *rhsScale = nullptr;
    if constexpr (G::Layout::kScaled)
      rhsScale = args.rhs_scale;
    GemvStream<Config> stream(
        args.rhs, rhsScale, ptx::sharedAddress(dynamic + kOperandBytes), items);
    stream.fill(itemOf);
    if (blockIdx.x == 0)
      route.weigh(args, pairs, show);
    if constexpr (!kSame<typename Config::Scaling, quant::Unscaled> &&
                  !quant::ofGroup<typename Config::Scaling>) {
      const float *staticScale = nullptr;
      if constexpr (kSame<typename Config::Scaling, quant::StaticTensor>)
        staticScale = args.static_scale;
      stage.template finish<Config::kScales>(stageShared, staticScale, kept);
      __syncthreads();
    }
    Operand lhs{dynamic, scales};
#pragma unroll 1
    for (int i = 0; i < items; ++i) {
      int unit = first + i * warps;
      int4 tile = pairs.tiles[unit / G::kUnits];
      int firstResult = unit % G::kUnits;
      int rows = tile.z - tile.y;
      int token[G::kTileRows];
#pragma unroll
      for (int r = 0; r < G::kTileRows; ++r)
        token[r] = pairs.rowToken[tile.y + (r < rows ? r : 0)];
      float sums[G::kTileRows][G::kRows];
      stream.multiply(itemOf, lhs, token, rows, sums);
      store(args, sums, pairs, tile, rows, firstResult, lane);
    }
    Results::countRows(args, pairs);
  }

  /// Reduces the accumulators over the lanes that share a weight row. Lane i of
  /// these lanes stores the results of tile row i.
  static __device__ __forceinline__ void
  store(const Args &args, float (&sums)[G::kTileRows][G::kRows],
        const routing::FewPairsOf<Config> &pairs, int4 tile, int rows, int unit,
        int lane) {
    using Result = typename Config::Result;
    int own = lane % G::kLanes;
    float mine[G::kRows] = {};
#pragma unroll
    for (int i = 0; i < G::kTileRows; ++i) {
      if (i >= rows)
        break;
#pragma unroll
      for (int r = 0; r < G::kRows; ++r) {
        float sum = G::reduce(sums[i][r]);
        if (own == i)
          mine[r] = sum;
      }
    }
    if (own >= rows)
      return;
#pragma unroll
    for (int p = 0; p < Config::Schedule::kOutputs; ++p) {
      int column = G::result(unit, p, lane);
      if (G::kResults % G::kUnit != 0 && column >= G::kResults)
        continue;
      float parts[G::kParts];
#pragma unroll
      for (int c = 0; c < G::kParts; ++c)
        parts[c] = mine[p * G::kParts + c];
      Results::store(args, parts, pairs, tile.x, tile.y + own, column,
                     [&](int c) { return G::weightRow(column, c); });
    }
  }
};

/// Computes the first matmul for weights in slabs (moe/math/slabs.cuh).
template <class Config> struct RouteGateUpSlabs : GateUpResults<Config> {
  using Args = typename Config::Args;
  using Results = GateUpResults<Config>;
  using Pairs = typename Results::Pairs;
  static constexpr int kColumns = routing::kTileRowsOf<Config>;
  using G = SlabGemv<Config, kColumns>;
  static constexpr int kBytes = G::kBytes;
  static constexpr int kParts = Config::Activation::kGated ? 2 : 1;
  static constexpr int kUnitResults = G::kRows / kParts;
  /// Returns the weight row, relative to its unit, of part c (gate or up) of
  /// result i.
  static __device__ __forceinline__ int rowOf(int i, int c) {
    constexpr int kSlabResults = 16 / kParts;
    return i / kSlabResults * 16 + i % kSlabResults + c * 8;
  }

  /// The work items of a CTA, for SlabStream. An item is one unit of weight
  /// rows, multiplied with one tile of rows.
  struct Items {
    const Args &args;
    const Pairs &pairs;
    int count;
    static __device__ __forceinline__ int steps(int) { return G::kSteps; }
    __device__ __forceinline__ SlabTile tile(int item, int) const {
      int index = int(blockIdx.x) + item * int(gridDim.x);
      int4 tile = pairs.tiles[index / G::kUnits];
      return {tile.x, index % G::kUnits, tile.y, tile.z - tile.y};
    }
    __device__ __forceinline__ long long lhsAt(int row) const {
      return pairs.rowToken[row] * args.lhs_row_stride;
    }
    __device__ __forceinline__ void second(const SlabTile &tile, int slab,
                                           float (&second)[2]) const {
      secondScales<Config>(
          args, tile.expert,
          tile.unit * G::kRows + slab * 16 + int(threadIdx.x) % 32 / 4, second);
    }
  };

  static __device__ __forceinline__ void run(const Args &args,
                                             unsigned char *dynamic) {
    __shared__ Pairs pairs;
    awaitPredecessor<Config>();
    typename Results::Route route;
    const typename Results::Show show{args};
    route.choose(args, routing::validTokens<false>(args), pairs, show);
    __syncthreads();
    route.arrange(args, pairs);
    int all = pairs.tileCount * G::kUnits, first = int(blockIdx.x);
    int count = first < all ? (all - first - 1) / int(gridDim.x) + 1 : 0;
    Items items{args, pairs, count};
    SlabStream<Config, kColumns, Items> stream(args, items, dynamic);
    stream.run(
        [&] {
          if (blockIdx.x == 0)
            route.weigh(args, pairs, show);
        },
        [&](const SlabTile &, const float (&sums)[4], float *to) {
          int row = stream.lane / 4, column = stream.lane % 4 * 2;
#pragma unroll
          for (int i = 0; i < 4; ++i)
            if (column + i % 2 < kColumns)
              to[(row + i / 2 * 8) * kColumns + column + i % 2] = sums[i];
        },
        [&](int item) { finish(stream, items.tile(item, 0), item); });
    Results::countRows(args, pairs);
  }

  template <class Stream>
  static __device__ __forceinline__ void
  finish(const Stream &stream, const SlabTile &tile, int item) {
#pragma unroll
    for (int i = stream.lane; i < kUnitResults * kColumns; i += 32) {
      int row = i % kColumns, result = i / kColumns;
      if (row >= tile.rows)
        continue;
      float parts[kParts];
#pragma unroll
      for (int c = 0; c < kParts; ++c)
        parts[c] = stream.total(item, rowOf(result, c), row);
      Results::store(
          stream.args, parts, stream.items.pairs, tile.expert,
          tile.firstRow + row, tile.unit * kUnitResults + result,
          [&](int c) { return tile.unit * G::kRows + rowOf(result, c); });
    }
  }
};

template <class Config> constexpr auto routeGateUpOf() {
  if constexpr (readsSlabs<Config>)
    return RouteGateUpSlabs<Config>();
  else
    return RouteGateUp<Config>();
}

} // namespace detail

/// Returns the dynamic shared memory in bytes: x and the weights' ring; with
/// slabs, the ring of weights and x, and the warps' partial sums.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkRouteGateUpConfig<Config>());
  return decltype(detail::routeGateUpOf<Config>())::kBytes;
}

template <class Config>
__device__ __forceinline__ void routeGateUp(const typename Config::Args &args) {
  static_assert(checkRouteGateUpConfig<Config>());
  extern __shared__ __align__(128) unsigned char moeSharedMemory[];
  decltype(detail::routeGateUpOf<Config>())::run(args, moeSharedMemory);
}

} // namespace moe
