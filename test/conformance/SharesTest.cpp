//===- SharesTest.cpp - the shares of all ranks are the layer -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles a layer whole and for every rank of a parallel layout, gives each
// rank its slices of one set of weights, runs all on the host device and
// demands that the ranks' outputs sum to the whole layer's, that routing does
// not depend on the rank, that counts are those of the experts held, and that
// a token without an expert of the rank gets zeros from it; but the first rank
// hands on what zero experts leave as it is. And the same of ranks to which
// rows are sent by expert: weighed and summed, what they give back is the
// layer's output. Quantized schemes too, where a rank's scales are those of the
// whole layer.
//
//===----------------------------------------------------------------------===//

#include "test/conformance/RankRuns.h"

using namespace moec;
using namespace moec::test;

namespace {

class OfLayouts : public testing::TestWithParam<Layout> {};

/// Ranks whose shares have equal sizes have the same kernels, byte for byte,
/// whether they are compiled together or one by one.
static PackageFiles withoutLayer(PackageFiles package) {
  EXPECT_EQ(package.files.erase("layer.mlir"), 1u);
  hashFiles(package);
  return package;
}

TEST_P(OfLayouts, RanksOfEqualSharesHaveTheSameSources) {
  const Layout &layout = GetParam();
  const Shares shares = compileRanks(layout);
  std::map<std::array<int64_t, 3>, const PackageFiles *> bySize;
  for (int64_t r = 0; r < layout.ranks; ++r) {
    SCOPED_TRACE(fmt::format("rank {}", r));
    // The IR of a layer names its ranks.
    const PackageFiles alone = withoutLayer(
        compileRank(layout, fmt::format("{}, rank = {}", layout.parallel, r)));
    auto share = shareOf(shares, r);
    ASSERT_TRUE(share) << share.error().message;
    const PackageFiles its = withoutLayer(**share);
    EXPECT_EQ(alone.files, its.files);
    // And the manifests differ in the ranks alone.
    Manifest manifest = alone.manifest;
    EXPECT_EQ(manifest.ranks.size(), 1u);
    manifest.ranks = its.manifest.ranks;
    EXPECT_EQ(toJson(manifest), toJson(its.manifest));
    const Rank rank(alone);
    const std::array sizes = {rank.layer.localExperts, rank.layer.intermediate,
                              rank.layer.sharedIntermediate};
    bySize.try_emplace(sizes, *share);
    EXPECT_EQ(bySize.at(sizes), *share);
  }
  EXPECT_EQ(bySize.size(), shares.size());
}

TEST_P(OfLayouts, SumToTheLayer) {
  const Layout &layout = GetParam();
  const int64_t hidden = layout.hidden;
  Rank whole(compileRank(layout, ""));
  whole.fillWeights();
  const Shares shares = compileRanks(layout);
  std::vector<Rank> ranks;
  int64_t held = 0;
  for (int64_t r = 0; r < layout.ranks; ++r) {
    ranks.emplace_back(takeRank(shares, r));
    ranks[r].takeWeights(whole);
    held += ranks[r].layer.localExperts * ranks[r].layer.intermediate;
  }
  EXPECT_EQ(held, layout.experts * layout.intermediate);

  for (int64_t tokens : {1, 9, 64})
    for (const char *pattern : {"uniform", "one_expert", "empty_expert"}) {
      SCOPED_TRACE(fmt::format("{} tokens, {}", tokens, pattern));
      Bytes x(tokens * hidden * whole.layer.inputType->bytes);
      fillX(whole.layer, kSeed, 0, tokens, x.span.data(), hidden);
      Bytes logits(tokens * (layout.experts + layout.zeroExperts) * 4);
      ASSERT_TRUE(fillLogits(whole.layer, kSeed, pattern, 0, tokens,
                             *whole.layer.logitsType, logits.span.data()));
      auto ran = whole.run(tokens, x, logits);
      ASSERT_TRUE(ran) << ran.error().message;
      auto wholeOut = reinterpret_cast<const float *>(whole.out.span.data());
      auto ids = reinterpret_cast<const int32_t *>(whole.ids.span.data());
      auto counts = reinterpret_cast<const int32_t *>(whole.counts.span.data());

      std::vector<double> sum(tokens * hidden);
      for (Rank &rank : ranks) {
        ran = rank.run(tokens, x, logits);
        ASSERT_TRUE(ran) << ran.error().message;
        EXPECT_EQ(std::memcmp(rank.ids.span.data(), whole.ids.span.data(),
                              whole.ids.span.size()),
                  0);
        EXPECT_EQ(std::memcmp(rank.weights.span.data(),
                              whole.weights.span.data(),
                              whole.weights.span.size()),
                  0);
        auto held = reinterpret_cast<const int32_t *>(rank.counts.span.data());
        for (int64_t e = 0; e < rank.layer.localExperts; ++e)
          EXPECT_EQ(held[e], counts[rank.layer.localBegin + e * rank.stride]);
        auto out = reinterpret_cast<const float *>(rank.out.span.data());
        for (int64_t token = 0; token < tokens; ++token) {
          bool local = false;
          for (int64_t k = 0; k < kTopK; ++k)
            local |= rank.localOf(ids[token * kTopK + k]) >= 0 ||
                     (rank.layer.addZeroExperts &&
                      ids[token * kTopK + k] >= layout.experts);
          for (int64_t h = 0; h < hidden; ++h) {
            const float value = out[token * hidden + h];
            if (!local && !layout.hasShared()) {
              ASSERT_EQ(value, 0.0f) << "token " << token;
            }
            sum[token * hidden + h] += value;
          }
        }
      }
      std::vector<int64_t> list(tokens);
      for (int64_t token = 0; token < tokens; ++token)
        list[token] = token;
      reference::Report report = reference::compareRows(
          sum, list, hidden, wholeOut, *reference::findElement("f32"), hidden,
          layout.tolerance);
      EXPECT_TRUE(report.passed) << report.text;
    }
}

TEST_P(OfLayouts, RowsSentByExpertSumToTheLayer) {
  const Layout &layout = GetParam();
  const int64_t hidden = layout.hidden;
  // No rows are sent to those.
  if (layout.zeroExperts > 0 || layout.hasShared())
    return;
  Rank whole(compileRank(layout, ""));
  whole.fillWeights();
  const int64_t rowBytes = hidden * whole.layer.inputType->bytes;
  constexpr int64_t kTokens = 19;
  Bytes x(kTokens * rowBytes);
  fillX(whole.layer, kSeed, 0, kTokens, x.span.data(), hidden);
  Bytes logits(kTokens * layout.experts * 4);
  ASSERT_TRUE(fillLogits(whole.layer, kSeed, "uniform", 0, kTokens,
                         *whole.layer.logitsType, logits.span.data()));
  auto ran = whole.run(kTokens, x, logits);
  ASSERT_TRUE(ran) << ran.error().message;
  auto ids = reinterpret_cast<const int32_t *>(whole.ids.span.data());
  auto weights = reinterpret_cast<const float *>(whole.weights.span.data());

  std::vector<double> sum(kTokens * hidden);
  const Shares shares = compileRanks(layout, true);
  for (int64_t r = 0; r < layout.ranks; ++r) {
    Rank rank(takeRank(shares, r));
    rank.takeWeights(whole);
    // A token takes an expert once.
    Bytes rows(rank.layer.localExperts * kTokens * rowBytes);
    Bytes taken(rank.layer.localExperts * 4);
    auto count = reinterpret_cast<int32_t *>(taken.span.data());
    std::fill_n(count, rank.layer.localExperts, 0);
    std::vector<int64_t> slots(kTokens * kTopK, -1);
    for (int64_t pair = 0; pair < kTokens * kTopK; ++pair)
      if (const int32_t e = rank.localOf(ids[pair]); e >= 0) {
        slots[pair] = e * kTokens + count[e]++;
        std::memcpy(rows.span.data() + slots[pair] * rowBytes,
                    x.span.data() + pair / kTopK * rowBytes, rowBytes);
      }
    ran = rank.runBatched(kTokens, rows, taken);
    ASSERT_TRUE(ran) << ran.error().message;
    auto out = reinterpret_cast<const float *>(rank.out.span.data());
    for (int64_t pair = 0; pair < kTokens * kTopK; ++pair)
      for (int64_t h = 0; slots[pair] >= 0 && h < hidden; ++h)
        sum[pair / kTopK * hidden + h] +=
            weights[pair] * out[slots[pair] * hidden + h];
  }
  std::vector<int64_t> list(kTokens);
  std::iota(list.begin(), list.end(), 0);
  reference::Report report = reference::compareRows(
      sum, list, hidden, reinterpret_cast<const float *>(whole.out.span.data()),
      *reference::findElement("f32"), hidden, layout.tolerance);
  EXPECT_TRUE(report.passed) << report.text;
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, OfLayouts,
    testing::Values(
        Layout{"tp2", "tp = 2", 2, 5, "f32", "unfused", "silu"},
        Layout{"tp3", "tp = 3", 3, 5, "bf16", "grouped", "gelu_no_mul"},
        Layout{"dp2_tp3", "tp = 3, dp = 2", 6, 4, "bf16", "grouped", "silu"},
        // 48 columns are 6 runs of 8 gate rows, or 12 of 4.
        Layout{"tp5_uneven", "tp = 5", 5, 4, "bf16", "grouped", "silu"},
        Layout{"tp4_uneven", "tp = 2, dp = 2", 4, 4, "f32", "unfused", "silu"},
        Layout{"tp7_uneven", "tp = 7", 7, 3, "f32", "grouped", "gelu_no_mul"},
        Layout{"ep2", "tp = 2, ep", 2, 8, "f32", "unfused", "gelu"},
        Layout{"ep3_uneven", "tp = 3, ep", 3, 8, "bf16", "grouped", "silu"},
        Layout{"ep3_round_robin", "tp = 3, ep, placement = round_robin", 3, 8,
               "bf16", "grouped", "silu"},
        Layout{"tp2_zero", "tp = 2", 2, 5, "bf16", "grouped", "silu", 3},
        Layout{"ep3_zero", "tp = 3, ep", 3, 7, "f32", "unfused", "silu", 9},
        Layout{"ep5_dp", "dp = 5, ep", 5, 7, "f16", "grouped", "silu_no_mul"},
        Layout{"ep12_of_all", "tp = 2, pcp = 3, dp = 2, ep", 12, 13, "bf16",
               "grouped", "silu"},
        Layout{"one_expert_each", "dp = 4, ep", 4, 4, "f32", "grouped", "silu"},
        shared("tp2_shared", "tp = 2", 2, 5, "f32", "unfused",
               ", n_shared_experts = 2, shared_intermediate_size = 40"),
        // 56 columns are 7 runs of gate rows.
        shared("tp3_shared_uneven", "tp = 3", 3, 5, "bf16", "grouped",
               ", n_shared_experts = 1, shared_intermediate_size = 56"),
        shared("ep3_shared", "tp = 3, ep", 3, 8, "bf16", "grouped",
               ", n_shared_experts = 3, shared_intermediate_size = 16"),
        shared("ep2_dp_shared_zero", "dp = 2, ep", 2, 6, "bf16", "grouped",
               ", n_shared_experts = 1, shared_intermediate_size = 32", 2),
        // 384 and 640 columns are 3 and 5 blocks.
        quantized("fp8_block_tp2_uneven", "tp = 2", 2, 4, "fp8_block",
                  "grouped", "silu", 384),
        quantized("fp8_block_tp3_uneven", "tp = 3", 3, 3, "fp8_block",
                  "unfused", "gelu_no_mul", 640),
        quantized("fp8_block_ep3_uneven", "tp = 3, ep", 3, 8, "fp8_block",
                  "grouped", "silu", 208),
        quantizedShared(
            "fp8_block_ep2_shared", "tp = 2, ep", 2, 4, "fp8_block", 208,
            ", n_shared_experts = 1, shared_intermediate_size = 512"),
        quantizedShared(
            "int4_ep2_shared", "tp = 2, ep", 2, 4, "int4_w4a16", 256,
            ", n_shared_experts = 1, shared_intermediate_size = 512"),
        quantized("fp8_channel_ep3_uneven", "tp = 3, ep", 3, 7, "fp8_channel",
                  "grouped", "silu", 144),
        quantized("fp8_channel_ep4_round_robin",
                  "tp = 4, ep, placement = round_robin", 4, 8, "fp8_channel",
                  "unfused", "silu", 144),
        quantized("int4_tp3_uneven", "tp = 3", 3, 4, "int4_w4a16", "grouped",
                  "silu", 640),
        quantized("mxfp4_ep2", "tp = 2, ep", 2, 5, "mxfp4_w4a16", "grouped",
                  "silu", 160),
        // More ranks than blocks of columns with a scale: 3, 2 and 5 of them.
        quantizedInBlocks("fp8_block_tp4_in_blocks", "tp = 4", 4, 4,
                          "fp8_block", "grouped", 320),
        quantizedInBlocks("fp8_block_tp8_in_blocks", "tp = 4, dp = 2", 8, 3,
                          "fp8_block", "unfused", 320),
        quantized("int4_tp5_in_groups", "tp = 5", 5, 4, "int4_w4a16", "grouped",
                  "silu", 256),
        quantized("mxfp4_tp7_in_groups", "tp = 7", 7, 4, "mxfp4_w4a16",
                  "unfused", "gelu_no_mul", 160)),
    [](const auto &info) { return info.param.name; });

} // namespace
