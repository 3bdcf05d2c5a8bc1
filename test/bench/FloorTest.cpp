//===- FloorTest.cpp - the least time that a layer can take ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Floors computed by hand, the rates of GPUs, and regimes.
//
//===----------------------------------------------------------------------===//

#include "bench/program/Floor.h"

#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace moec;
using namespace moec::bench;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

TEST(BenchFloor, MeasuredRatesOfTheH100) {
  Result<Rates> rates = ratesOf("NVIDIA H100 80GB HBM3", {});
  ASSERT_TRUE(rates);
  EXPECT_EQ(rates->bandwidth, 3150);
  EXPECT_EQ(rates->matmulRate, 781);
  EXPECT_EQ(rates->fp8Rate, 1402);
  EXPECT_EQ(rates->source, "measured");
  EXPECT_EQ(rates->gpu, "h100_sxm");
}

TEST(BenchFloor, MeasuredRatesOfTheH200) {
  Result<Rates> rates = ratesOf("NVIDIA H200", {});
  ASSERT_TRUE(rates);
  EXPECT_EQ(rates->bandwidth, 4583);
  EXPECT_EQ(rates->matmulRate, 762);
  EXPECT_EQ(rates->fp8Rate, 1498);
  EXPECT_EQ(rates->source, "measured");
  EXPECT_EQ(rates->gpu, "h200_sxm");
}

TEST(BenchFloor, MakersRatesAreTwiceAsHighInEightBits) {
  Result<Rates> rates = ratesOf("NVIDIA GH200 480GB", {});
  ASSERT_TRUE(rates);
  EXPECT_EQ(rates->source, "maker's");
  EXPECT_DOUBLE_EQ(rates->fp8Rate, 2 * rates->matmulRate);
}

TEST(BenchFloor, GivenRatesWin) {
  Result<Rates> rates = ratesOf("NVIDIA H100 80GB HBM3", {3000, 0, 1000});
  ASSERT_TRUE(rates);
  EXPECT_EQ(rates->bandwidth, 3000);
  EXPECT_EQ(rates->matmulRate, 781);
  EXPECT_EQ(rates->fp8Rate, 1000);
  EXPECT_EQ(rates->source, "given");
  rates = ratesOf("a new GPU", {1000, 100, 0});
  ASSERT_TRUE(rates);
  EXPECT_EQ(rates->fp8Rate, 200);
  EXPECT_EQ(rates->gpu, "");
}

TEST(BenchFloor, UnknownGpusNeedRates) {
  Result<Rates> rates = ratesOf("a new GPU", {1000, 0, 0});
  ASSERT_FALSE(rates);
  EXPECT_EQ(rates.error().message,
            "no rates for device 'a new GPU' in the catalog (moec list gpus); "
            "pass --bandwidth=GB/s and --tflops=TFLOP/s");
}

TEST(BenchFloor, BytesOrFlopsByHand) {
  const Rates rates = {3150, 781, 1402, "measured", "h100_sxm"};
  // Qwen3-30B-A3B, 1 token, fp8 blocks: 8 experts of 3 * 768 * 2048 bytes and
  // 12 * 16 + 16 * 6 scales; x and out of 2048, 128 logits in 16 bits.
  const double expert = 3 * 768 * 2048 + 4 * (12 * 16 + 16 * 6);
  const Work one = {8 * expert + 2 * (2048 + 2048 + 128), 6.0 * 8 * 2048 * 768,
                    true};
  EXPECT_NEAR(floorOf(one, rates), 11.99, 0.005);
  // 8192 tokens: 65536 pairs, 6 * 65536 * 2048 * 768 flops.
  Work many = {128 * expert + 8192 * 2 * (2048 + 2048 + 128),
               6.0 * 65536 * 2048 * 768, true};
  EXPECT_NEAR(floorOf(many, rates), 441.1, 0.05);
  EXPECT_EQ(rateFor(many, rates), 1402);
  many.fp8 = false;
  EXPECT_NEAR(floorOf(many, rates), 791.9, 0.05);
  EXPECT_EQ(floorOf(many, Rates()), 0);
}

TEST(BenchFloor, ReadsThatAreFarFromTheFloorAreOff) {
  Rates rates = {1000, 100, 200, "measured", ""};
  for (const auto &[gbs, isFar] : {std::pair(949.0, true),
                                   {951.0, false},
                                   {1000.0, false},
                                   {1049.0, false},
                                   {1051.0, true}})
    for (const char *source : {"measured", "given", "maker's"}) {
      rates.source = source;
      EXPECT_EQ(isOff(gbs, rates), isFar && rates.source != "maker's")
          << gbs << " " << source;
    }
}

json layerOf(const char *a1, const char *w1) {
  return {{"quant",
           {{"a1", {{"element_type", a1}}}, {"w1", {{"element_type", w1}}}}}};
}

TEST(BenchFloor, EightBitsMeansBothOperands) {
  EXPECT_TRUE(multipliesFp8(layerOf("f8E4M3FN", "f8E4M3FN")));
  EXPECT_FALSE(multipliesFp8(layerOf("bf16", "f8E4M3FN")));
  EXPECT_FALSE(multipliesFp8(layerOf("bf16", "bf16")));
  EXPECT_FALSE(multipliesFp8(json::object()));
}

ordered_json kernels(const std::vector<int> &rows) {
  ordered_json made = ordered_json::array();
  for (int row : rows) {
    ordered_json schedule = ordered_json::object();
    if (row > 0)
      schedule["tile"] = {row, 128, 64};
    made.push_back({{"schedule", schedule}});
  }
  return made;
}

TEST(BenchFloor, Regimes) {
  EXPECT_EQ(regimeOf(kernels({16, 16})), "tiny");
  EXPECT_EQ(regimeOf(kernels({0})), "tiny");
  EXPECT_EQ(regimeOf(kernels({0, 16, 128, 0})), "decode");
  EXPECT_EQ(regimeOf(kernels({0, 128, 256, 0})), "prefill");
}

} // namespace
