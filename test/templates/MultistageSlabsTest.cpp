//===- MultistageSlabsTest.cpp - the loop over slabs and its epilogue -----===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Engine mma_sync with weights in the order of fragments, thread by thread on
// the host: copies, conversions, multiplies and the epilogue. The expected
// result is summed in double precision.
//
//===----------------------------------------------------------------------===//

#include "test/templates/DeviceFunctions.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "templates/moe/matmul/atom/mma_sync.cuh"
#include "templates/moe/matmul/epilogue/store.cuh"
#include "templates/moe/matmul/loop/multistage_slabs.cuh"
#include "templates/moe/quant/weight_only.cuh"

using namespace moe;

namespace {

template <class InputType, class WeightType, class ScaleType> struct Arguments {
  const WeightType *rhs;
  const ScaleType *rhs_scale;
  const float *rhs_second_scale;
  const i8 *rhs_zero_point;
  const InputType *bias;
};

template <int kM, int kWeightRows, int kDepth, int kAlongM, int kAlongN,
          int kAlongK = 64>
struct Tile {
  static constexpr int kTileM = kM, kTileN = kWeightRows, kTileK = kAlongK;
  static constexpr int kStages = kDepth, kWarpsM = kAlongM, kWarpsN = kAlongN;
};

/// Cases share this and override some of it.
template <class InputType, class WeightType, class ScaleType> struct Base {
  using Input = InputType;
  using Weight = WeightType;
  using Scale = ScaleType;
  using Args = Arguments<Input, Weight, Scale>;
  using Quant = quant::WeightOnly;
  using Mma = mma::MmaSyncSlabs<Input>;
  using Activation = activation::Gated<activation::Silu>;
  using Result = Input;
  static constexpr bool kCpAsync = true, kZeroPoint = false, kBias = false;
  static constexpr bool kSecondScale = false;
  static constexpr bool kSecondPerRow = false;
  static constexpr int kScaleRows = 1, kScaleColumns = -1;
  static constexpr int kN = 192, kK = 320, kInterleave = 8;
};

/// Weights of two experts in fragments, and what they stand for.
template <class Config> struct Weights {
  using Weight = typename Config::Weight;
  using Scale = typename Config::Scale;
  static constexpr int kN = Config::kN, kK = Config::kK, kExperts = 2;
  static constexpr int kGroupK =
      Config::kScaleColumns > 0 ? Config::kScaleColumns : kK;
  static constexpr int kGroups = ceilDiv(kK, kGroupK);
  static constexpr int kCodeBits = kBits<Weight>;

  std::vector<unsigned> codes;
  std::vector<Scale> scales;
  std::vector<i8> zeros;
  std::vector<typename Config::Input> bias;
  float second[2 * kExperts] = {0.5f, 1.75f, 1.25f, 0.875f};
  std::vector<float> values; ///< [packed row, column] of expert 1

  static Scale scaleOf(int i) {
    if constexpr (kSame<Scale, ue8m0>)
      return {(unsigned char)(i % 7 == 0 ? 129 : 122 + i % 5)};
    else
      return fromFloat<Scale>(float(0.25 + 0.125 * (i % 9)));
  }

  Weights()
      : codes(size_t(kExperts) * kN * kK * kCodeBits / 32),
        scales(size_t(kExperts) * kN * kGroups), zeros(scales.size()),
        bias(size_t(kExperts) * kN), values(size_t(kN) * kK) {
    std::mt19937 random(7);
    for (unsigned &word : codes)
      word = unsigned(random());
    if constexpr (kCodeBits == 8) // of floats: not the largest, which are NaN
      for (unsigned &word : codes)
        word &= 0xbfbfbfbfu;
    for (size_t i = 0; i < scales.size(); ++i)
      scales[i] = scaleOf(int(random() % 1000)),
      zeros[i] = {(signed char)(random() % 16)};
    for (auto &number : bias)
      number = fromFloat<typename Config::Input>(float(random() % 64) - 32.0f);
    for (int row = 0; row < kN; ++row)
      for (int column = 0; column < kK; ++column)
        values[size_t(row) * kK + column] = valueOf(row, column);
  }

  float valueOf(int row, int column) const {
    const long long at =
        (long long)kN * kK * kCodeBits + Slabs<kCodeBits>::bit(row, column, kK);
    const unsigned code =
        codes[size_t(at / 32)] >> at % 32 & ((1u << kCodeBits) - 1);
    const size_t number =
        size_t(kN) * kGroups +
        size_t(SlabScales::index(row, column / kGroupK, kGroups));
    float scale = toFloat(scales[number]);
    if (Config::kSecondScale) // of expert 1: gates, then ups
      scale *= second[2 + (Config::kInterleave ? row / 8 % 2 : 0)];
    const float zero =
        Config::kZeroPoint ? float(zeros[number].bits) : kZero<Weight>;
    return toFloat(fromFloat<typename Config::Input>(
        (decode<Weight>(code) - zero) * scale));
  }
};

template <class T> double numberOf(const std::byte *from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return double(toFloat(value));
}

/// One tile of `rows` tokens. Less: the tile of the worker that serves them.
template <class Config, class Less = typename Config::Schedule>
void expectProducts(int rows, int firstN) {
  using Input = typename Config::Input;
  using Result = typename Config::Result;
  using R = SlabRing<Config>;
  constexpr int kN = Config::kN, kK = Config::kK;
  constexpr int kColumns = Staging<Config>::kColumns;
  constexpr int kTileM = Config::Schedule::kTileM;
  static_assert(R::kBytes <= sizeof warps::sharedMemory);
  const Weights<Config> weights;
  // Every second row of lhs is a token, in the opposite order.
  std::vector<Input> lhs(size_t(2) * kTileM * kK);
  std::mt19937 random(11);
  for (Input &x : lhs)
    x = fromFloat<Input>(float(int(random() % 33)) / 16.0f - 1.0f);
  const auto source = [&](int r) { return 2 * (kTileM - 1 - r); };
  std::vector<std::byte> result(size_t(kTileM) * kColumns * sizeof(Result),
                                std::byte(0x5a));
  const typename Config::Args args = {
      reinterpret_cast<const typename Config::Weight *>(weights.codes.data()),
      weights.scales.data(), weights.second, weights.zeros.data(),
      weights.bias.data()};
  std::memset(warps::sharedMemory, 0xff, sizeof warps::sharedMemory);
  warps::run(Config::kThreads, [&] {
    const int expert = 1;
    SlabCopier<Config> copier(0, args, expert, firstN);
    beginRhs(copier);
    copier.setLhs(lhs.data(), unsigned(kK / kPerVector<Input>), rows, source);
    beginLhs(copier);
    typename Config::Mma::template Worker<Less> worker(int(threadIdx.x));
    float second[2];
    secondScales<Config>(args, expert, firstN, second);
    SlabScaling<Config> scaling(second);
    multistageSlabs(copier, 0, worker, scaling);
    storeTile<Config>(worker, 0, rows, firstN, args.bias + expert * kN,
                      typename Config::Activation(),
                      reinterpret_cast<Result *>(result.data()), 1.0f,
                      [](int, int) { return 1.0f; });
  });

  constexpr bool kGated = Config::Activation::kGated;
  const auto sum = [&](int token, int row) {
    double total = 0;
    for (int k = 0; k < kK; ++k)
      total += double(toFloat(lhs[size_t(source(token)) * kK + k])) *
               double(weights.values[size_t(row) * kK + k]);
    if (Config::kBias)
      total += double(toFloat(weights.bias[kN + storedRow<Config>(row)]));
    return float(total);
  };
  const int first = kGated ? firstN / 2 : firstN;
  const int end = minimum(first + Staging<Config>::kTileColumns, kColumns);
  for (int token = 0; token < kTileM; ++token)
    for (int column = 0; column < kColumns; ++column) {
      const std::byte *at =
          result.data() + (size_t(token) * kColumns + column) * sizeof(Result);
      if (token >= rows || column < first || column >= end) {
        for (size_t i = 0; i < sizeof(Result); ++i)
          ASSERT_EQ(at[i], std::byte(0x5a)) << token << " " << column;
        continue;
      }
      const typename Config::Activation activation;
      double expected;
      if constexpr (kGated) {
        const int gate = column / 8 * 16 + column % 8;
        expected = activation.apply(sum(token, gate), sum(token, gate + 8));
      } else {
        expected = activation.apply(sum(token, column));
      }
      ASSERT_NEAR(numberOf<Result>(at), expected,
                  std::abs(expected) * 0x1p-8 + 2e-3)
          << token << " " << column;
    }
}

/// 4 bits with zero points, groups of 32, a worker for each tile.
struct Int4 : Base<f16, i4, f16> {
  using Schedule = Tile<16, 64, 6, 1, 4>;
  static constexpr int kThreads = 128, kScaleColumns = 32;
  static constexpr bool kZeroPoint = true, kBias = true;
};
/// The last 64 weight rows are half a tile.
struct Mxfp4 : Base<bf16, e2m1, ue8m0> {
  using Schedule = Tile<64, 128, 4, 1, 4>;
  static constexpr int kThreads = 128, kScaleColumns = 32;
};
struct Nvfp4 : Base<bf16, e2m1, e4m3> {
  using Schedule = Tile<128, 256, 3, 1, 8>;
  static constexpr int kThreads = 256, kScaleColumns = 16, kN = 512;
  static constexpr int kK = 256;
  static constexpr bool kSecondScale = true;
  static constexpr bool kSecondPerRow = false;
};
/// Warps share weight rows; a scale of a whole row; a result of f32.
struct Int8 : Base<bf16, i8, float> {
  using Schedule = Tile<64, 64, 2, 2, 2>;
  using Activation = activation::None;
  using Result = float;
  static constexpr int kThreads = 128, kInterleave = 0;
  static constexpr bool kBias = true;
};
struct Fp8 : Base<bf16, e4m3, bf16> {
  using Schedule = Tile<16, 128, 3, 1, 4>;
  using Activation = activation::None;
  static constexpr int kThreads = 128, kScaleColumns = 128, kInterleave = 0;
};

/// Stages of two blocks along k, of which the last one has one: by groups of 32
/// with zero points, of 128, of 64 and of whole rows.
struct Int4InPairs : Int4 {
  using Schedule = Tile<16, 128, 4, 1, 4, 128>;
};
struct Fp8InPairs : Fp8 {
  using Schedule = Tile<16, 128, 3, 1, 4, 128>;
};
struct Mxfp4InPairs : Mxfp4 {
  using Schedule = Tile<32, 128, 3, 1, 4, 128>;
};
struct Int4By64InPairs : Int4 {
  using Schedule = Tile<16, 64, 3, 1, 4, 128>;
  static constexpr int kScaleColumns = 64, kK = 384;
};
struct Int8InPairs : Int8 {
  using Schedule = Tile<64, 64, 2, 2, 2, 128>;
};

} // namespace

TEST(MultistageSlabs, StagesOfTwoBlocks) {
  expectProducts<Int4InPairs>(9, 128);
  expectProducts<Fp8InPairs>(13, 0);
  expectProducts<Mxfp4InPairs>(31, 128);
  expectProducts<Int4By64InPairs>(16, 64);
  expectProducts<Int8InPairs>(61, 128);
}

TEST(MultistageSlabs, CodesWithZeroPoints) {
  for (int rows : {1, 9, 16})
    expectProducts<Int4>(rows, 64);
}

TEST(MultistageSlabs, RowsBehindTheLastAreNotStored) {
  expectProducts<Mxfp4>(64, 0);
  expectProducts<Mxfp4>(50, 128);
}

TEST(MultistageSlabs, WideTilesAndTheWorkerOfTheirLastRows) {
  expectProducts<Nvfp4>(119, 256);
  expectProducts<Nvfp4, Tile<32, 256, 3, 1, 8>>(27, 0);
}

TEST(MultistageSlabs, ResultsOfF32) { expectProducts<Int8>(61, 128); }

TEST(MultistageSlabs, WithoutGates) { expectProducts<Fp8>(13, 0); }
