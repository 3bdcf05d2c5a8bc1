//===- CollectivesTest.cpp - packages that move tokens and sums -----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles a layer whole and for ranks whose package moves tokens and sums
// itself, by collectives or into the windows of other ranks. Runs each rank in
// a thread with tokens of its own and demands that each gets the whole layer's
// output for them. Ranks have different numbers of tokens, some none; what pads
// them is NaN and must not matter. And that delays of ranks change no bit. Runs
// of other token counts follow each other on one window.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/RankGroup.h"
#include "test/conformance/RankRuns.h"

#include <fmt/format.h>

#include <atomic>
#include <random>
#include <thread>

using namespace moec;
using namespace moec::test;

namespace {

/// Ranks of tokens of their own; the others have the same as one of those.
struct Split {
  Layout layout;
  int64_t own;  ///< ranks with tokens of their own
  int64_t same; ///< ranks that follow each other and have the same ones
};

Split split(Layout layout, int64_t own, int64_t same,
            const char *options = "") {
  if (*options)
    layout.options = options;
  layout.more = ", all_to_all = \"gather_scatter\"";
  layout.maxTokens = std::max<int64_t>(64, own * 12);
  return {layout, own, same};
}

/// Every rank has tokens of its own.
Split oneSided(Layout layout, const char *options = "") {
  Split made = split(layout, layout.ranks, 1, options);
  made.layout.more = ", all_to_all = \"one_sided\"";
  return made;
}

void PrintTo(const Split &split, std::ostream *out) {
  *out << split.layout.name;
}

/// Ranks that are late by up to a millisecond, by a seed, and rank seed - 1 by
/// five more.
host::RankGroup::Options lateBy(uint64_t seed) {
  host::RankGroup::Options options;
  if (seed == 0)
    return options;
  auto calls = std::make_shared<std::atomic<uint64_t>>(0);
  options.delay = [seed, calls](int64_t rank) {
    std::mt19937_64 random(seed * 1000003 + uint64_t(rank) * 977 + ++*calls);
    const uint64_t more = uint64_t(rank) + 1 == seed ? 5000 : 0;
    std::this_thread::sleep_for(
        std::chrono::microseconds(random() % 1000 + more));
  };
  return options;
}

/// All ranks of a layout, and the layer as one rank has it.
struct Ranks {
  explicit Ranks(const Split &split)
      : split(split), whole(compileRank(split.layout, "")) {
    whole.fillWeights();
    const Shares shares = compileRanks(split.layout);
    for (int64_t r = 0; r < split.layout.ranks; ++r) {
      ranks.emplace_back(takeRank(shares, r));
      ranks.back().takeWeights(whole);
    }
  }

  int64_t ownOf(int64_t rank) const { return rank / split.same; }

  /// Calls body(rank) for each, in a thread of its own.
  template <typename Body> void inThreads(Body body) {
    std::vector<std::thread> threads;
    for (size_t r = 0; r < ranks.size(); ++r)
      threads.emplace_back([&body, r] { body(r); });
    for (std::thread &thread : threads)
      thread.join();
  }

  void connect(uint64_t seed) { connect(lateBy(seed)); }

  /// Connects the ranks. Windows last until they are connected anew.
  void connect(const host::RankGroup::Options &options) {
    windows.clear(), ends.clear();
    group = std::move(*host::RankGroup::create(split.layout.ranks, options));
    windows.resize(ranks.size()), ends.resize(ranks.size());
    inThreads([&](size_t r) {
      ends[r] = std::move(*group->end(int64_t(r)));
      const Target &target = ranks[r].files.manifest.targets[0];
      if (target.windowRanks > 1)
        windows[r] = std::move(*ends[r]->window(target.windowBytes));
    });
  }

  /// Runs all ranks with so many real tokens each, padded to `padded`.
  void run(const std::vector<int64_t> &counts, int64_t padded) {
    const int64_t hidden = split.layout.hidden, experts = split.layout.experts;
    const int64_t rowBytes = hidden * whole.layer.inputType->bytes;
    const int64_t all = std::reduce(counts.begin(), counts.end());
    Bytes x(all * rowBytes), logits(all * experts * 4);
    fillX(whole.layer, kSeed, 0, all, x.span.data(), hidden);
    ASSERT_TRUE(fillLogits(whole.layer, kSeed, "uniform", 0, all,
                           *whole.layer.logitsType, logits.span.data()));
    if (all > 0) {
      auto ran = whole.run(all, x, logits);
      ASSERT_TRUE(ran) << ran.error().message;
    }
    std::vector<Result<void>> results(ranks.size());
    inThreads([&](size_t r) {
      const int64_t own = ownOf(int64_t(r));
      const int64_t begin = std::reduce(counts.begin(), counts.begin() + own);
      ranks[r].communicator = ends[r].get();
      ranks[r].window = windows[r].get();
      results[r] = runRank(
          ranks[r], padded, counts[own],
          x.span.subspan(begin * rowBytes, counts[own] * rowBytes),
          logits.span.subspan(begin * experts * 4, counts[own] * experts * 4));
      ranks[r].communicator = nullptr, ranks[r].window = nullptr;
      if (!results[r])
        group->abort("a rank failed");
    });
    for (size_t r = 0; r < ranks.size(); ++r)
      ASSERT_TRUE(results[r])
          << "rank " << r << ": " << results[r].error().message;
    compare(counts, padded);
  }

  Result<void> runRank(Rank &rank, int64_t padded, int64_t valid,
                       std::span<const std::byte> x,
                       std::span<const std::byte> logits) const {
    Bytes myX(padded * split.layout.hidden * whole.layer.inputType->bytes);
    Bytes myLogits(padded * split.layout.experts * 4), mine(4);
    std::ranges::copy(x, myX.span.begin());
    std::ranges::copy(logits, myLogits.span.begin());
    const auto count = int32_t(valid);
    std::memcpy(mine.span.data(), &count, 4);
    rank.out = Bytes(padded * split.layout.hidden * 4);
    rank.ids = Bytes(padded * kTopK * 4);
    return rank.run(padded, {{"x", Rank::tensor(myX)},
                             {"logits", Rank::tensor(myLogits)},
                             {"valid_tokens", Rank::tensor(mine)},
                             {"ids", Rank::tensor(rank.ids)},
                             {"out", Rank::tensor(rank.out)}});
  }

  void compare(const std::vector<int64_t> &counts, int64_t padded) {
    const int64_t hidden = split.layout.hidden;
    const auto *wholeOut =
        reinterpret_cast<const float *>(whole.out.span.data());
    for (size_t r = 0; r < ranks.size(); ++r) {
      SCOPED_TRACE(fmt::format("rank {}", r));
      const int64_t own = ownOf(int64_t(r)), valid = counts[own];
      const int64_t begin = std::reduce(counts.begin(), counts.begin() + own);
      const auto *out =
          reinterpret_cast<const float *>(ranks[r].out.span.data());
      EXPECT_EQ(std::memcmp(ranks[r].ids.span.data(),
                            whole.ids.span.data() + begin * kTopK * 4,
                            size_t(valid * kTopK * 4)),
                0);
      std::vector<double> sums(out, out + valid * hidden);
      std::vector<int64_t> list(valid);
      std::iota(list.begin(), list.end(), 0);
      if (valid > 0) {
        reference::Report report = reference::compareRows(
            sums, list, hidden, wholeOut + begin * hidden,
            *reference::findElement("f32"), hidden, 1e-5);
        EXPECT_TRUE(report.passed) << report.text;
      }
      for (int64_t i = valid * hidden; i < padded * hidden; ++i)
        ASSERT_EQ(out[i], 0.0F) << "element " << i << " of what pads";
    }
  }

  Split split;
  Rank whole;
  std::vector<Rank> ranks;
  std::shared_ptr<host::RankGroup> group;
  std::vector<std::unique_ptr<comm::Communicator>> ends;
  std::vector<std::unique_ptr<comm::Window>> windows;
};

class OfSplits : public testing::TestWithParam<Split> {};

TEST_P(OfSplits, EachRankGetsTheLayerOfItsTokens) {
  Ranks ranks(GetParam());
  ranks.connect(0);
  const int64_t own = GetParam().own;
  const auto run = [&](auto countOf, int64_t padded) {
    std::vector<int64_t> counts;
    for (int64_t i = 0; i < own; ++i)
      counts.push_back(countOf(i));
    SCOPED_TRACE(
        fmt::format("tokens {} of {}", fmt::join(counts, " "), padded));
    ranks.run(counts, padded);
  };
  run([](int64_t) { return 1; }, 1);
  run([](int64_t i) { return 3 + i % 4; }, 6);
  run([](int64_t i) { return i % 2 == 0 ? 12 : 0; }, 12);
  run([&](int64_t i) { return i + 1 == own ? 5 : 0; }, 7);
  run([](int64_t) { return 0; }, 2);
}

TEST_P(OfSplits, DelaysChangeNoBit) {
  Ranks ranks(GetParam());
  std::vector<int64_t> counts(GetParam().own, 4);
  counts.back() = 2;
  std::vector<std::vector<std::byte>> first;
  for (uint64_t seed : {0, 1, 2}) {
    ranks.connect(seed);
    ranks.run(counts, 5);
    for (size_t r = 0; r < ranks.ranks.size(); ++r) {
      const auto out = ranks.ranks[r].out.span;
      if (seed == 0)
        first.emplace_back(out.begin(), out.end());
      else
        EXPECT_TRUE(std::ranges::equal(first[r], out)) << "rank " << r;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Splits, OfSplits,
    testing::Values(
        split({"one", "", 1, 4, "f32", "unfused", "silu"}, 1, 1),
        split({"tp2", "tp = 2", 2, 5, "bf16", "grouped", "silu"}, 1, 2),
        split({"tp3_ep", "tp = 3, ep", 3, 8, "f32", "unfused", "silu"}, 1, 3),
        split({"ep2", "dp = 2, ep", 2, 8, "bf16", "grouped", "silu"}, 2, 1),
        split({"ep3_uneven", "dp = 3, ep", 3, 8, "f32", "unfused", "gelu"}, 3,
              1),
        split({"ep5_uneven", "dp = 5, ep", 5, 7, "f16", "grouped",
               "silu_no_mul"},
              5, 1),
        split({"ep8_of_all", "tp = 2, pcp = 2, dp = 2, ep", 8, 13, "bf16",
               "grouped", "silu"},
              4, 2),
        split({"ep4_sp", "tp = 2, dp = 2, sp = 2, ep", 4, 6, "bf16", "grouped",
               "silu"},
              4, 1),
        split({"dp2_tp3", "tp = 3, dp = 2", 6, 4, "bf16", "grouped", "silu"}, 2,
              3),
        split({"ep2_output_scale", "dp = 2, ep", 2, 4, "f32", "grouped",
               "silu"},
              2, 1,
              ", routed_scaling_factor = 2.5, apply_routed_scale_to_output"),
        split({"ep3_normed", "dp = 3, ep", 3, 8, "bf16", "grouped", "silu"}, 3,
              1, ", post_expert_norm_eps = 0.05"),
        split(shared("tp3_ep_shared", "tp = 3, ep", 3, 8, "bf16", "grouped",
                     ", n_shared_experts = 1, shared_intermediate_size = 56"),
              1, 3),
        split(shared("ep3_shared", "dp = 3, ep", 3, 8, "f32", "unfused",
                     ", n_shared_experts = 2, shared_intermediate_size = 40"),
              3, 1),
        split(shared("dp2_shared", "dp = 2", 2, 4, "bf16", "grouped",
                     ", n_shared_experts = 1, shared_intermediate_size = 24"),
              2, 1),
        split(shared("ep6_of_both_shared", "tp = 3, dp = 2, ep", 6, 8, "bf16",
                     "grouped",
                     ", n_shared_experts = 1, shared_intermediate_size = 56"),
              2, 3),
        split(shared("ep4_sp_shared", "tp = 2, dp = 2, sp = 2, ep", 4, 6,
                     "bf16", "grouped",
                     ", n_shared_experts = 1, shared_intermediate_size = 64"),
              4, 1),
        split(quantizedShared(
                  "fp8_block_ep3_shared", "dp = 3, ep", 3, 8, "fp8_block", 208,
                  ", n_shared_experts = 1, shared_intermediate_size = 256"),
              3, 1),
        // A scale is of a whole row of the intermediate.
        split(quantizedShared(
                  "fp8_channel_ep2_shared", "dp = 2, ep", 2, 4, "fp8_channel",
                  144, ", n_shared_experts = 1, shared_intermediate_size = 96"),
              2, 1),
        split(quantized("fp8_block_ep3", "dp = 3, ep", 3, 8, "fp8_block",
                        "grouped", "silu", 208),
              3, 1),
        split(quantized("fp8_channel_ep2_tp2", "tp = 2, dp = 2, ep", 4, 7,
                        "fp8_channel", "grouped", "silu", 144),
              2, 2),
        split(quantized("int4_ep2", "dp = 2, ep", 2, 4, "int4_w4a16", "grouped",
                        "silu", 640),
              2, 1),
        split(quantized("mxfp4_ep2", "dp = 2, ep", 2, 5, "mxfp4", "unfused",
                        "silu", 160),
              2, 1)),
    [](const auto &info) { return info.param.layout.name; });

INSTANTIATE_TEST_SUITE_P(
    OneSided, OfSplits,
    testing::Values(
        oneSided({"alone", "", 1, 4, "f32", "unfused", "silu"}),
        oneSided({"ep2", "dp = 2, ep", 2, 8, "bf16", "grouped", "silu"}),
        oneSided({"ep3_uneven", "dp = 3, ep", 3, 8, "f32", "unfused", "gelu"}),
        oneSided({"ep5_uneven", "dp = 5, ep", 5, 7, "f16", "grouped",
                  "silu_no_mul"}),
        oneSided({"ep8_of_all", "tp = 2, pcp = 2, dp = 2, sp = 2, ep", 8, 13,
                  "bf16", "grouped", "silu"}),
        oneSided({"shards3", "dp = 3", 3, 4, "bf16", "grouped", "silu"}),
        oneSided({"output_scale", "dp = 2, ep", 2, 4, "f32", "grouped", "silu"},
                 ", routed_scaling_factor = 2.5, apply_routed_scale_to_output"),
        oneSided({"ep3_normed", "dp = 3, ep", 3, 8, "bf16", "grouped", "silu"},
                 ", post_expert_norm_eps = 0.05"),
        oneSided(
            shared("ep3_shared", "dp = 3, ep", 3, 8, "f32", "unfused",
                   ", n_shared_experts = 2, shared_intermediate_size = 40")),
        oneSided(
            shared("shards2_shared", "dp = 2", 2, 4, "bf16", "grouped",
                   ", n_shared_experts = 1, shared_intermediate_size = 24")),
        oneSided(
            shared("ep4_sp_shared", "tp = 2, dp = 2, sp = 2, ep", 4, 6, "bf16",
                   "grouped",
                   ", n_shared_experts = 1, shared_intermediate_size = 64")),
        oneSided(quantizedShared(
            "fp8_block_ep3_shared", "dp = 3, ep", 3, 8, "fp8_block", 208,
            ", n_shared_experts = 1, shared_intermediate_size = 256")),
        oneSided(quantized("fp8_block_ep3", "dp = 3, ep", 3, 8, "fp8_block",
                           "grouped", "silu", 208)),
        oneSided(quantized("fp8_channel_ep4", "dp = 4, ep", 4, 7, "fp8_channel",
                           "grouped", "silu", 144)),
        oneSided(quantized("int4_ep2", "dp = 2, ep", 2, 4, "int4_w4a16",
                           "grouped", "silu", 640)),
        oneSided(quantized("mxfp4_ep2", "dp = 2, ep", 2, 5, "mxfp4", "unfused",
                           "silu", 160))),
    [](const auto &info) { return info.param.layout.name; });

class OfSeventyTwo : public testing::TestWithParam<Split> {};

TEST_P(OfSeventyTwo, EachRankGetsTheLayerOfItsTokens) {
  Ranks ranks(GetParam());
  ranks.connect(0);
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < 72; ++i)
    counts.push_back(i % 3);
  ranks.run(counts, 2);
}

const Layout kSeventyTwo = {"ep72",    "dp = 72, ep", 72, 80, "f32",
                            "unfused", "silu",        0,  24, 16};
INSTANTIATE_TEST_SUITE_P(Gather, OfSeventyTwo,
                         testing::Values(split(kSeventyTwo, 72, 1)));
INSTANTIATE_TEST_SUITE_P(OneSided, OfSeventyTwo,
                         testing::Values(oneSided(kSeventyTwo)));

/// Two ranks that write into each other's windows, connected with a timeout.
struct OneSidedPair : Ranks {
  explicit OneSidedPair(std::chrono::milliseconds timeout)
      : Ranks(
            oneSided({"pair", "dp = 2, ep", 2, 4, "f32", "unfused", "silu"})) {
    host::RankGroup::Options options;
    options.timeout = timeout;
    connect(options);
  }

  /// One rank's run of x and logits that are zero.
  Result<void> runOne(size_t rank, int64_t tokens) {
    Bytes x(tokens * split.layout.hidden * 4);
    Bytes logits(tokens * split.layout.experts * 4);
    for (const Bytes *bytes : {&x, &logits})
      std::ranges::fill(bytes->span, std::byte{0});
    ranks[rank].communicator = ends[rank].get();
    ranks[rank].window = windows[rank].get();
    return runRank(ranks[rank], tokens, tokens, x.span, logits.span);
  }

  bool isNan(size_t rank) const {
    const auto bytes = ranks[rank].out.span;
    const auto *out = reinterpret_cast<const float *>(bytes.data());
    return !bytes.empty() && std::all_of(out, out + bytes.size() / 4,
                                         [](float v) { return v != v; });
  }
};

TEST(OneSided, ARankThatDoesNotComeIsLost) {
  OneSidedPair pair(std::chrono::milliseconds(100));
  Result<void> alone = pair.runOne(0, 3);
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().code, ErrorCode::PeerLost);
  EXPECT_EQ(alone.error().message, "rank 0 waited 100 ms for rank 1 to send "
                                   "its tokens in run 1 of the context");
  EXPECT_TRUE(pair.isNan(0));
  // The other one finds its window broken, and neither waits nor writes.
  Result<void> late = pair.runOne(1, 3);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::PeerLost);
  EXPECT_TRUE(pair.isNan(1));
  Result<void> again = pair.runOne(0, 3);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().message, alone.error().message);
}

TEST(OneSided, RanksHaveOneTokenCount) {
  OneSidedPair pair(std::chrono::milliseconds(60000));
  std::vector<Result<void>> results(2);
  pair.inThreads([&](size_t rank) {
    results[rank] = pair.runOne(rank, rank == 0 ? 3 : 4);
  });
  bool isNamed = false;
  for (size_t rank : {0, 1}) {
    ASSERT_FALSE(results[rank]) << "rank " << rank;
    EXPECT_TRUE(pair.isNan(rank)) << "rank " << rank;
    isNamed |= results[rank].error().code == ErrorCode::PeerMismatch;
  }
  EXPECT_TRUE(isNamed) << results[0].error().message;
}

TEST(OneSided, AnAbortEndsAWait) {
  OneSidedPair pair(std::chrono::milliseconds(60000));
  std::thread aborts([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    pair.group->abort("the test ends it");
  });
  Result<void> alone = pair.runOne(0, 2);
  aborts.join();
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().code, ErrorCode::PeerLost);
  EXPECT_TRUE(pair.isNan(0));
}

/// Runs one of two ranks, and returns what goes wrong.
Result<void> runAlone(const char *parallel, comm::Communicator *communicator,
                      int64_t tokens) {
  Ranks ranks(
      split({"errors", parallel, 2, 4, "f32", "unfused", "silu"}, 2, 1));
  ranks.ranks[0].communicator = communicator;
  const Bytes x(tokens * 72 * 4), logits(tokens * 16);
  return ranks.runRank(ranks.ranks[0], tokens, tokens, x.span, logits.span);
}

TEST(Collectives, ARunNeedsTheRanksThatItIsOf) {
  Result<void> none = runAlone("dp = 2, ep", nullptr, 3);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::NoCommunication);
  EXPECT_EQ(none.error().message,
            "package layer moves tokens and sums between 2 ranks: expected a "
            "communicator of them, got none");
  auto three = host::RankGroup::create(3, {});
  auto two = host::RankGroup::create(2, {});
  Result<void> many = runAlone("dp = 2, ep", (*three)->end(0)->get(), 3);
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().message, "package layer is for 2 ranks, and the "
                                  "communicator connects 3");
  Result<void> other = runAlone("dp = 2, ep", (*two)->end(1)->get(), 3);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message,
            "package layer was loaded for rank 0, and the communicator is of "
            "rank 1");
  Result<void> tooMany = runAlone("dp = 2, ep", (*two)->end(0)->get(), 33);
  ASSERT_FALSE(tooMany);
  EXPECT_EQ(tooMany.error().code, ErrorCode::TooManyTokens);
  EXPECT_EQ(tooMany.error().message,
            "package layer takes at most 32 tokens of each of 2 ranks, 64 "
            "together, and 33 were given; compile the package with max_tokens "
            "of 66 or more");
}

} // namespace
