//===- down_combine.cuh - the second matmul of few tokens -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The second of the two launches of a layer with at most kTokens tokens and 64
// pairs. Every CTA routes all tokens again, while the first launch still runs,
// and issues its first weight copies. With weights in row order, it then loads
// the intermediate rows into shared memory, quantized as Scaling specifies, and
// each warp computes some output columns n for all experts. With slabs, the
// rows pass through each warp's ring unquantized, and a CTA computes the
// columns:
//   out[m, n] = sum over the rows r of token m, in row order, of weight[r] *
//     (lhs[r, :] * rhs[expert of r, n, :] + bias) + residual[m, n]
// The sum is f32 and rounded once. kRouteEarly: the predecessor did not write
// the inputs of routing, so routing runs before griddepcontrol.wait.
//
// Args, in order. The condition for the presence of an argument is in brackets.
//   the arguments logits through local_begin of kernel `route`, which include
//     the optional ones (moe/routing/few.cuh)
//   lhs: Input [pairs, kK], the rows that the first launch wrote
//   static_scale: float [kScales] [if StaticTensor]
//   rhs: Weight [experts, kN, kK]
//   rhs_scale: float [if Quant has one]
//   rhs_second_scale, rhs_zero_point: see moe/quant/dequantize.cuh [if weights
//     are in slabs and have them]
//   bias: [experts, kN] [if kBias]
//   add_bias: see moe/core/rank.cuh [optional]
//   out: Result [tokens, kN]
//   residual: Result [tokens, kN] [optional, as in combine.cuh]
//   addend: [pairs, kN] [optional, as in combine.cuh]
//
// Grid.x: any. The kernel is persistent.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/rank.cuh"
#include "moe/core/types.cuh"
#include "moe/math/activation.cuh"
#include "moe/matmul/few_tokens/gemv.cuh"
#include "moe/matmul/few_tokens/slab_gemv.cuh"
#include "moe/quant/stage.cuh"
#include "moe/routing/few.cuh"

namespace moe {

template <class Config> constexpr bool checkDownCombineConfig() {
  checkCommonConfig<Config>();
  checkFewConfig<Config>();
  MOE_REQUIRE_TYPE(Config, Input, "element type of lhs in memory");
  MOE_REQUIRE_VALUE(
      Config, kRouteEarly,
      "the inputs of routing are final before the predecessor launch ends");
  static_assert(!Config::Activation::kGated && Config::Activation::kIdentity,
                "the second matmul has no activation");
  return true;
}

namespace detail {

template <class Config> struct DownCombine {
  using Args = typename Config::Args;
  using G = Gemv<Config>;
  using Operand = GemvOperand<Config>;
  static constexpr int kRowCapacity =
      Config::kTokens * routing::kPairsOf<Config>;
  using Stage = quant::Stage<typename Config::Scaling, typename Config::Input,
                             typename Config::Weight, Config::kK, kRowCapacity,
                             Config::kThreads>;
  static constexpr int kOperandBytes = Operand::bytes(kRowCapacity);
  static constexpr int kBytes = kOperandBytes + G::kRingBytes;
  static constexpr bool kEarly = Config::kRouteEarly && Config::kProgrammatic;

  static __device__ __forceinline__ void run(const Args &args,
                                             unsigned char *dynamic) {
    __shared__ routing::FewPairsOf<Config> pairs;
    __shared__ typename Stage::Shared stageShared;
    int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    Stage::prepare(stageShared);
    if constexpr (!kEarly)
      awaitPredecessor<Config>();
    routing::FewRoute<Config, kEarly> route;
    route.choose(args, routing::validTokens<kEarly>(args), pairs,
                 routing::ShowNobody());
    __syncthreads();
    route.arrange(args, pairs);

    int tiles = pairs.tileCount;
    int first = warp * int(gridDim.x) + int(blockIdx.x);
    int warps = int(gridDim.x) * G::kWarps;
    int units = first < G::kUnits ? (G::kUnits - first - 1) / warps + 1 : 0;
    auto itemOf = [&](int i) {
      return make_int2(pairs.tiles[i % tiles].x, first + i / tiles * warps);
    };
    const float *rhsScale = nullptr;
    if constexpr (G::Layout::kScaled)
      rhsScale = args.rhs_scale;
    GemvStream<Config> stream(args.rhs, rhsScale,
                              ptx::sharedAddress(dynamic + kOperandBytes),
                              units * tiles);
    stream.fill(itemOf);
    route.weigh(args, pairs, routing::ShowNobody());
    if constexpr (kEarly)
      awaitPredecessor<Config>();

    auto *scales =
        reinterpret_cast<float *>(dynamic + kRowCapacity * Operand::kRowBytes);
    Stage stage{args.lhs, Config::kK, pairs.rows,
                reinterpret_cast<typename Config::Weight *>(dynamic), scales};
    typename Stage::Kept kept;
    stage.measure(stageShared, pairs.rows, kept);
    __syncthreads();
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
    for (int i = 0; i < units; ++i) {
      int unit = first + i * warps;
      float totals[Config::kTokens][G::kRows];
#pragma unroll
      for (int m = 0; m < Config::kTokens; ++m)
#pragma unroll
        for (int r = 0; r < G::kRows; ++r)
          totals[m][r] = 0.0f;
#pragma unroll 1
      for (int t = 0; t < tiles; ++t) {
        int4 tile = pairs.tiles[t];
        int rows = tile.z - tile.y;
        int row[G::kTileRows];
#pragma unroll
        for (int r = 0; r < G::kTileRows; ++r)
          row[r] = tile.y + r;
        float sums[G::kTileRows][G::kRows];
        stream.multiply(itemOf, lhs, row, rows, sums);
        if constexpr (Config::kBias)
          if (addsBias(args))
            addBias(args, sums, tile.x, unit, lane);
        if constexpr (requires { args.addend; })
          if (args.addend)
            addAddend(args, sums, pairs, tile.y, rows, unit, lane);
#pragma unroll
        for (int j = 0; j < G::kTileRows; ++j) {
          if (j >= rows)
            break;
          int token = pairs.rowToken[tile.y + j];
          float weight = pairs.rowWeight[tile.y + j];
#pragma unroll
          for (int m = 0; m < Config::kTokens; ++m)
            if (token == m)
#pragma unroll
              for (int r = 0; r < G::kRows; ++r)
                totals[m][r] = fmaf(weight, sums[j][r], totals[m][r]);
        }
      }
      store(args, totals, unit, lane);
    }
  }

  /// Adds the bias to the accumulators. G::kLanes lanes share a weight row, and
  /// their accumulators are added later, so only the first lane adds the bias.
  static __device__ __forceinline__ void
  addBias(const Args &args, float (&sums)[G::kTileRows][G::kRows], int expert,
          int unit, int lane) {
    if (lane % G::kLanes != 0)
      return;
#pragma unroll
    for (int r = 0; r < G::kRows; ++r) {
      int column = G::result(unit, r, lane);
      if (G::kResults % G::kUnit != 0 && column >= G::kResults)
        continue;
      float bias = toFloat(args.bias[(long long)expert * Config::kN + column]);
#pragma unroll
      for (int j = 0; j < G::kTileRows; ++j)
        sums[j][r] += bias;
    }
  }

  /// Adds the adapters' addends of rows [firstRow, firstRow + rows) to the
  /// accumulators. As in addBias, only the first of the lanes that share a
  /// weight row adds them.
  static __device__ __forceinline__ void
  addAddend(const Args &args, float (&sums)[G::kTileRows][G::kRows],
            const routing::FewPairsOf<Config> &pairs, int firstRow, int rows,
            int unit, int lane) {
    if (lane % G::kLanes != 0)
      return;
#pragma unroll
    for (int r = 0; r < G::kRows; ++r) {
      int column = G::result(unit, r, lane);
      if (G::kResults % G::kUnit != 0 && column >= G::kResults)
        continue;
#pragma unroll
      for (int j = 0; j < G::kTileRows; ++j)
        if (j < rows)
          sums[j][r] += toFloat(
              args.addend[(long long)pairs.rowPair[firstRow + j] * Config::kN +
                          column]);
    }
  }

  /// Reduces the totals over the lanes that share a column and stores the
  /// output. Lane m of these lanes stores the output of token m.
  static __device__ __forceinline__ void
  store(const Args &args, float (&totals)[Config::kTokens][G::kRows], int unit,
        int lane) {
    using Output = typename Config::Result;
    int own = lane % G::kLanes;
    float mine[G::kRows] = {};
#pragma unroll
    for (int m = 0; m < Config::kTokens; ++m) {
      if (m >= args.tokens)
        break;
#pragma unroll
      for (int r = 0; r < G::kRows; ++r) {
        float total = G::reduce(totals[m][r]);
        if (own == m)
          mine[r] = total;
      }
    }
    if (own >= args.tokens)
      return;
#pragma unroll
    for (int r = 0; r < G::kRows; ++r) {
      int column = G::result(unit, r, lane);
      if (G::kResults % G::kUnit == 0 || column < G::kResults) {
        long long to = (long long)own * Config::kN + column;
        if constexpr (requires { args.residual; })
          if (args.residual)
            mine[r] += toFloat(args.residual[to]);
        args.out[to] = fromFloat<Output>(mine[r]);
      }
    }
  }
};

/// Computes the second matmul for weights in slabs (moe/math/slabs.cuh).
template <class Config> struct DownCombineSlabs {
  using Args = typename Config::Args;
  using Pairs = routing::FewPairsOf<Config>;
  static constexpr int kColumns = Config::kTokens;
  using G = SlabGemv<Config, kColumns>;
  static constexpr int kBytes = G::kBytes;
  static constexpr bool kEarly = Config::kRouteEarly && Config::kProgrammatic;

  /// The work items of a CTA, for SlabStream. An item is one unit of output
  /// columns, multiplied with the tiles of all experts.
  struct Items {
    const Args &args;
    const Pairs &pairs;
    int count;
    __device__ __forceinline__ int unit(int item) const {
      return int(blockIdx.x) + item * int(gridDim.x);
    }
    __device__ __forceinline__ int steps(int) const {
      return pairs.tileCount * G::kSteps;
    }
    __device__ __forceinline__ SlabTile tile(int item, int t) const {
      int4 tile = pairs.tiles[t];
      return {tile.x, unit(item), tile.y, tile.z - tile.y};
    }
    static __device__ __forceinline__ long long lhsAt(int row) {
      return (long long)row * Config::kK;
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
    if constexpr (!kEarly)
      awaitPredecessor<Config>();
    routing::FewRoute<Config, kEarly> route;
    route.choose(args, routing::validTokens<kEarly>(args), pairs,
                 routing::ShowNobody());
    __syncthreads();
    route.arrange(args, pairs);
    int first = int(blockIdx.x), ctas = int(gridDim.x);
    Items items{args, pairs,
                first < G::kUnits ? (G::kUnits - first - 1) / ctas + 1 : 0};
    SlabStream<Config, kColumns, Items> stream(args, items, dynamic);
    stream.run(
        [&] {
          route.weigh(args, pairs, routing::ShowNobody());
          if constexpr (kEarly)
            awaitPredecessor<Config>();
          if constexpr (routing::kWeighsLater<Config>)
            __syncthreads();
        },
        [&](const SlabTile &tile, const float (&sums)[4], float *to) {
          add(pairs, tile, sums, to, stream.lane);
        },
        [&](int item) { finish(stream, item); });
  }

  /// Adds the accumulators of a tile, times the weights of the tile's rows, to
  /// the totals `to` ([weight row, token]). Several rows of a tile may belong
  /// to one token, so the lanes that hold different rows add in turns.
  static __device__ __forceinline__ void add(const Pairs &pairs,
                                             const SlabTile &tile,
                                             const float (&sums)[4], float *to,
                                             int lane) {
#pragma unroll
    for (int turn = 0; turn < ceilDiv(G::kTileRows, 2); ++turn) {
      if (lane % 4 == turn)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          int row = tile.firstRow + turn * 2 + i % 2;
          if (turn * 2 + i % 2 >= tile.rows)
            continue;
          float *at = to + (lane / 4 + i / 2 * 8) * kColumns +
                      (kColumns > 1 ? pairs.rowToken[row] : 0);
          *at = fmaf(pairs.rowWeight[row], sums[i], *at);
        }
      __syncwarp();
    }
  }

  /// Stores a unit's output columns for all tokens. Before that, it adds biases
  /// and addends, each multiplied by its pair's routing weight, and then the
  /// residual.
  template <class Stream>
  static __device__ __forceinline__ void finish(const Stream &stream,
                                                int item) {
    using Output = typename Config::Result;
    const Args &args = stream.args;
    const Pairs &pairs = stream.items.pairs;
    int firstN = stream.items.unit(item) * G::kRows;
#pragma unroll 1
    for (int i = stream.lane; i < G::kSums; i += 32) {
      int token = i % kColumns, n = i / kColumns;
      if (token >= args.tokens)
        continue;
      float sum = stream.total(item, n, token);
      n += firstN;
      bool adds = false;
      if constexpr (Config::kBias)
        adds = addsBias(args);
      if constexpr (requires { args.addend; })
        adds |= args.addend != nullptr;
      if (adds)
        for (int t = 0; t < pairs.tileCount; ++t)
          for (int row = pairs.tiles[t].y; row < pairs.tiles[t].z; ++row)
            if (pairs.rowToken[row] == token)
              sum = fmaf(pairs.rowWeight[row],
                         addendOf(args, pairs, pairs.tiles[t].x, row, n), sum);
      long long to = (long long)token * Config::kN + n;
      if constexpr (requires { args.residual; })
        if (args.residual)
          sum += toFloat(args.residual[to]);
      args.out[to] = fromFloat<Output>(sum);
    }
  }
  /// Returns the bias plus the adapters' addend for a row and output column n.
  static __device__ __forceinline__ float
  addendOf(const Args &args, const Pairs &pairs, int expert, int row, int n) {
    float value = 0.0f;
    if constexpr (Config::kBias)
      if (addsBias(args))
        value = toFloat(args.bias[(long long)expert * Config::kN + n]);
    if constexpr (requires { args.addend; })
      if (args.addend)
        value += toFloat(
            args.addend[(long long)pairs.rowPair[row] * Config::kN + n]);
    return value;
  }
};

template <class Config> constexpr auto downCombineOf() {
  if constexpr (readsSlabs<Config>)
    return DownCombineSlabs<Config>();
  else
    return DownCombine<Config>();
}

} // namespace detail

/// Returns the dynamic shared memory in bytes: the intermediate rows and the
/// weights' ring; with slabs, the ring of weights and rows, and the warps'
/// partial sums.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkDownCombineConfig<Config>());
  return decltype(detail::downCombineOf<Config>())::kBytes;
}

template <class Config>
__device__ __forceinline__ void downCombine(const typename Config::Args &args) {
  static_assert(checkDownCombineConfig<Config>());
  extern __shared__ __align__(128) unsigned char moeSharedMemory[];
  decltype(detail::downCombineOf<Config>())::run(args, moeSharedMemory);
}

} // namespace moe
