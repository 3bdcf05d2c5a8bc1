//===- LayerJsonParallelTest.cpp - moe_parallel_config --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes as the user chose them, and as vLLM's object has them flattened.
//
//===----------------------------------------------------------------------===//

#include "test/import/LayerJsonTesting.h"

using namespace moec;
using namespace moec::compiler;
using namespace moec::compiler::testing;

namespace {

/// FusedMoEParallelConfig of vLLM on a rank of tp * dp, without EP.
json flattened(int64_t tp, int64_t dp, int64_t rank) {
  return {{"tp_size", tp * dp},
          {"tp_rank", rank},
          {"pcp_size", 1},
          {"pcp_rank", 0},
          {"dp_size", dp},
          {"dp_rank", rank / tp},
          {"ep_size", 1},
          {"ep_rank", 0},
          {"sp_size", 1},
          {"use_ep", false},
          {"all2all_backend", "naive"},
          {"enable_eplb", false}};
}

TEST(LayerJson, FlattenedShards) {
  const auto parallel = [](const json &config) {
    return accepted({{"moe_parallel_config", config}}).parallel;
  };
  for (int64_t rank = 0; rank < 8; ++rank) {
    const ParallelDescription read = parallel(flattened(4, 2, rank));
    EXPECT_EQ(read.tp, 4);
    EXPECT_EQ(read.dp, 2);
    EXPECT_EQ(read.rank(), rank);
  }
  EXPECT_EQ(parallel(flattened(1, 1, 0)).ranks(), 1);
  // A user's config has no ep_size, or a rank that flattened ones have not.
  json chosen = flattened(1, 2, 0);
  chosen.erase("ep_size");
  chosen.erase("ep_rank");
  EXPECT_EQ(parallel(chosen).ranks(), 4);
  chosen = flattened(1, 2, 0);
  chosen["dp_rank"] = 1;
  EXPECT_EQ(parallel(chosen).ranks(), 4);
  chosen = flattened(1, 2, 0);
  chosen["tp_size"] = 3;
  EXPECT_EQ(parallel(chosen).ranks(), 6);
  // Both readings fit.
  json unclear = flattened(2, 2, 0);
  unclear.erase("sp_size");
  EXPECT_EQ(refused({{"moe_parallel_config", unclear}}),
            "in.json: $.moe_parallel_config.tp_size: 4 beside dp_size 2 and "
            "pcp_size 1 may be 4 ranks in all, flattened as vLLM's object has "
            "them, or 4 for each of the others, 8 in all; for the former say "
            "tp_size = 2, or all fields of vLLM's object; for the latter no "
            "ep_size");
}

TEST(LayerJson, ExpertRanks) {
  auto parallel = [](const json &config) {
    return accepted({{"moe_parallel_config", config}}).parallel;
  };
  // A user's config, and vLLM's own object after flattening, mean the same.
  for (int64_t rank = 0; rank < 8; ++rank) {
    for (const json &config : {json{{"use_ep", true},
                                    {"tp_size", 2},
                                    {"dp_size", 4},
                                    {"tp_rank", rank % 2},
                                    {"dp_rank", rank / 2}},
                               json{{"use_ep", true},
                                    {"tp_size", 2},
                                    {"dp_size", 4},
                                    {"ep_size", 8},
                                    {"ep_rank", rank}},
                               json{{"use_ep", true},
                                    {"tp_size", 1},
                                    {"tp_rank", 0},
                                    {"dp_size", 4},
                                    {"dp_rank", rank / 2},
                                    {"ep_size", 8},
                                    {"ep_rank", rank}}}) {
      ParallelDescription read = parallel(config);
      EXPECT_TRUE(read.ep);
      EXPECT_EQ(read.tp, 2) << config;
      EXPECT_EQ(read.dp, 4) << config;
      EXPECT_EQ(read.rank(), rank) << config;
    }
  }
  EXPECT_EQ(parallel({{"ep_size", 1}, {"ep_rank", 0}}).ranks(), 1);
  EXPECT_EQ(parallel({{"use_ep", true}}).placement, "linear");
  EXPECT_EQ(
      parallel({{"use_ep", true}, {"expert_placement_strategy", "round_robin"}})
          .placement,
      "round_robin");

  auto refusedParallel = [](const json &config) {
    return refused({{"moe_parallel_config", config}});
  };
  EXPECT_EQ(refusedParallel({{"ep_size", 2}}),
            "in.json: $.moe_parallel_config.ep_size: expected 1 without "
            "use_ep, got 2");
  EXPECT_EQ(refusedParallel({{"use_ep", true}, {"ep_rank", 0}}),
            "in.json: $.moe_parallel_config.ep_rank: expected ep_size beside "
            "it");
  EXPECT_EQ(refusedParallel({{"use_ep", true},
                             {"tp_size", 2},
                             {"dp_size", 2},
                             {"ep_size", 8},
                             {"ep_rank", 0}}),
            "in.json: $.moe_parallel_config.ep_size: expected dp_size * "
            "pcp_size * tp_size = 4, or beside a tp_size of 1 a multiple of "
            "dp_size * pcp_size, got 8");
  EXPECT_EQ(refusedParallel({{"use_ep", true}, {"ep_size", 8}}),
            "in.json: $.moe_parallel_config.ep_rank: expected a rank from 0 to "
            "7, since ep_size counts more ranks than the other sizes");
  EXPECT_EQ(refusedParallel({{"use_ep", true},
                             {"dp_size", 4},
                             {"dp_rank", 1},
                             {"ep_size", 4},
                             {"ep_rank", 2}}),
            "in.json: $.moe_parallel_config.ep_rank: expected what the other "
            "ranks flatten to, 1, got 2");
  EXPECT_EQ(
      refusedParallel(
          {{"use_ep", true}, {"expert_placement_strategy", "random"}}),
      "in.json: $.moe_parallel_config.expert_placement_strategy: "
      "expected \"linear\" or \"round_robin\", got the string \"random\"");
}

} // namespace
