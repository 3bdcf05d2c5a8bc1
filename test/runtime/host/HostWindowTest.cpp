//===- HostWindowTest.cpp - runs of ranks with windows --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tiny layer on a rank whose kernels have a window: what a run needs, and
// where its stages find the memory of another rank.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/KernelRun.h"
#include "runtime/host/RankGroup.h"
#include "test/runtime/WindowManifest.h"
#include "test/runtime/host/StageCall.h"
#include "test/runtime/host/TinyLayer.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <thread>

using namespace moec;
using namespace moec::host;
using namespace moec::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// The ends of two ranks, and a window of each.
struct TwoRanks {
  explicit TwoRanks(int64_t bytes) {
    auto group = RankGroup::create(2, {});
    std::thread other([&] { make(**group, 1, bytes); });
    make(**group, 0, bytes);
    other.join();
  }
  void make(RankGroup &group, size_t rank, int64_t bytes) {
    ends[rank] = std::move(*group.end(int64_t(rank)));
    windows[rank] = std::move(*ends[rank]->window(bytes));
  }
  std::unique_ptr<comm::Communicator> ends[2];
  std::unique_ptr<comm::Window> windows[2];
};

int64_t windowBytes() {
  Manifest manifest = tinyManifest();
  addWindow(manifest);
  return manifest.targets[0].windowBytes;
}

} // namespace

TEST(HostWindow, ARunNeedsItsWindow) {
  const TwoRanks two(windowBytes()), others(256);
  Case c(6);
  addWindow(c.manifest);
  c.manifest.ranks.front().rank = 1;
  const auto problem = [&] {
    const Result<void> done = c.run();
    EXPECT_FALSE(done);
    return done ? "" : done.error().message;
  };
  EXPECT_EQ(problem(),
            "package tiny moves tokens and sums between 2 ranks: expected a "
            "communicator of them, got none");
  c.communicator = two.ends[1].get();
  EXPECT_EQ(problem(), "expected a window of 2304 bytes, got 0");
  c.window = others.windows[1].get();
  EXPECT_EQ(problem(), "expected a window of 2304 bytes, got 256");
  c.window = two.windows[1].get();
  const Result<void> done = c.run();
  ASSERT_TRUE(done) << messageOf(done);
  EXPECT_LT(c.error(), 2.5e-3);
  const Result<void> given =
      c.run([&](Tensors &tensors) { tensors["received"] = tensors["x"]; });
  EXPECT_THAT(messageOf(given), HasSubstr("'received' is none of them"));

  moe::ExchangeBlock &block = two.windows[1]->block();
  block.code = unsigned(moe::ExchangeEnd::Aborted);
  block.phase = unsigned(moe::ExchangePhase::Dispatch);
  EXPECT_EQ(problem(), "rank 1 was told to end, while it waited for rank 0 to "
                       "send its tokens in run 0 of the context");
}

/// A stage finds a value of another rank as far behind the begin of its window
/// as in its own.
TEST(HostWindow, AStageReachesTheWindowsOfAll) {
  Manifest manifest = tinyManifest();
  addWindow(manifest);
  const Target &target = manifest.targets[0];
  const TwoRanks two(target.windowBytes);
  const comm::Window &mine = *two.windows[1];
  Kernel kernel = *findKernel(target, "combine");
  Stage stage;
  stage.op = "combine";
  stage.results = {{"there", "received"}, {"out", "out"}};
  std::vector<BoundValue> values(valueCount(manifest, target),
                                 {mine.own(), 16, 2});
  values[size_t(valueIndex(manifest, target, "received"))].address += 256;
  manifest.ranks.front().rank = 1;
  ArgumentSources sources;
  sources.values = values;
  sources.symbols = *symbolsFor(manifest, 4);
  sources.peers = mine.peers(), sources.status = mine.status();
  const auto packer = ArgumentPacker::create(manifest, target, kernel);
  std::vector<std::byte> block(size_t(packer->bytes()));
  ASSERT_TRUE(packer->pack(sources, block.data()));

  KernelRun run(manifest, target, kernel);
  run.symbols = sources.symbols;
  run.arguments = block;
  run.stage = &stage;
  run.window = &mine;
  run.ranges = {{mine.own() + 256, mine.own() + 256 + 4 * 32, "received"},
                {mine.own(), mine.own() + 4 * 32, "out"}};
  EXPECT_EQ(*run.ofRank("rank", 7), 7);
  stage.operands = {{"rank", "rank"}};
  EXPECT_EQ(*run.ofRank("rank", 7), 1);
  for (const int64_t rank : {0, 1}) {
    Result<View> there = run.resultAt(rank, "there", 4, 16);
    ASSERT_TRUE(there) << there.error().message;
    EXPECT_EQ(reinterpret_cast<uint64_t>(there->data),
              mine.addresses()[size_t(rank)] + 256);
  }
  const auto problem = [&](int64_t rank, const char *name, int64_t rows) {
    const Result<View> there = run.resultAt(rank, name, rows, 16);
    return there ? "" : there.error().message;
  };
  EXPECT_THAT(problem(2, "there", 4),
              HasSubstr("expected a rank from 0 to 1, got 2"));
  EXPECT_THAT(problem(0, "there", 5),
              HasSubstr("needs 160 bytes of 'received' (5 x 16 elements), its "
                        "memory has 128"));
  EXPECT_THAT(problem(0, "out", 4),
              HasSubstr("expected 'out' to be a value of the window, and an "
                        "argument of kind peers"));
  for (const ArgumentField &field : kernel.arguments.fields)
    if (field.kind == ArgumentField::Kind::Peers)
      block[size_t(field.offset)] ^= std::byte{8};
  EXPECT_THAT(problem(0, "there", 4),
              HasSubstr("expected the windows of all ranks in argument "
                        "'peers'"));
}

/// A rank that registers its window late learns of an abort all the same, and
/// one that has taken its window back hears of none.
TEST(HostWindow, AnAbortReachesWindowsThatAreAddedLater) {
  const TwoRanks two(256), others(256);
  comm::LiveWindows live;
  live.add(*two.windows[0]);
  live.add(*others.windows[0]);
  live.remove(*others.windows[0]);
  ASSERT_TRUE(live.check(0));
  live.abort();
  EXPECT_EQ(live.check(0).error().message, "rank 0 was told to end");
  EXPECT_TRUE(others.windows[0]->check());
  EXPECT_TRUE(two.windows[1]->check());
  live.add(*two.windows[1]);
  EXPECT_EQ(two.windows[1]->check().error().message, "rank 1 was told to end");
  EXPECT_EQ(live.check(1).error().message, "rank 1 was told to end");
}

namespace {

/// The dispatch of a rank of two, whose experts 0 and 1 are rank 0's, and 2 and
/// 3 rank 1's. Token t has the expert ids[t].
struct DispatchOfRank {
  DispatchOfRank(const comm::Window &window, const std::vector<float> &ids)
      : call("dispatch", {{"ranks", 2}, {"experts", 4}, {"pairs", 1}}) {
    const auto tokens = int64_t(ids.size());
    call.window = &window;
    call.size("rank", window.rank());
    call.stage.operands["rank"] = "rank";
    call.size("tokens", tokens);
    call.peers();
    const float first = float(100 * (window.rank() + 1));
    std::vector<float> x, weights;
    for (int64_t t = 0; t < tokens; ++t) {
      x.push_back(first + float(t));
      weights.push_back(-first - float(t));
    }
    call.operand("x", "f32", tokens, x);
    call.operand("topk_ids", "i32", tokens, ids);
    call.operand("topk_weights", "f32", tokens, weights);
    call.inWindow("exchange_words", "i64", 1, 14, 0);
    call.stage.operands["exchange_words"] = "exchange_words";
    call.inWindow("received_x", "f32", 2 * tokens, 1, 256);
    call.inWindow("received_ids", "i32", 2 * tokens, 1, 512);
    call.inWindow("received_weights", "f32", 2 * tokens, 1, 768);
    for (const char *name : {"received_x", "received_ids", "received_weights"})
      call.stage.results[name] = name;
  }
  StageCall call;
};

/// Runs both ranks at once, because each waits for the other.
void dispatch(DispatchOfRank &first, DispatchOfRank &second) {
  std::thread other([&] {
    const Result<void> done = second.call.run(stages::dispatch);
    EXPECT_TRUE(done) << messageOf(done);
  });
  const Result<void> done = first.call.run(stages::dispatch);
  EXPECT_TRUE(done) << messageOf(done);
  other.join();
}

} // namespace

/// Returns true if the window is marked as broken.
static bool isBroken(const comm::Window &window) {
  const auto *words = reinterpret_cast<const uint64_t *>(window.own());
  return words[moe::ExchangeWords{2}.broken()] != 0;
}

/// Tokens go to the ranks that own their experts, ids and weights to all ranks.
TEST(HostWindow, ADispatchSendsIdsToAllAndRowsToOwners) {
  const TwoRanks two(1024);
  for (const auto &window : two.windows)
    std::memset(reinterpret_cast<void *>(window->own() + 256), 0, 768);
  DispatchOfRank ranks[] = {{*two.windows[0], {1, 2}},
                            {*two.windows[1], {3, 0}}};
  dispatch(ranks[0], ranks[1]);
  EXPECT_THAT(ranks[0].call.numbersOf("received_x"),
              ElementsAre(100, 0, 0, 201));
  EXPECT_THAT(ranks[1].call.numbersOf("received_x"),
              ElementsAre(0, 101, 200, 0));
  for (const DispatchOfRank &rank : ranks) {
    EXPECT_THAT(rank.call.numbersOf("received_ids"), ElementsAre(1, 2, 3, 0));
    EXPECT_THAT(rank.call.numbersOf("received_weights"),
                ElementsAre(-100, -101, -200, -201));
  }
  for (const auto &window : two.windows)
    EXPECT_TRUE(window->check());
}

/// The ranks disagree about where rows lie: the wait ends on both.
TEST(HostWindow, RanksWithOtherTokenCountsAreTold) {
  const TwoRanks two(1024);
  DispatchOfRank ranks[] = {{*two.windows[0], {1, 2}}, {*two.windows[1], {3}}};
  dispatch(ranks[0], ranks[1]);
  for (const size_t rank : {0, 1}) {
    const moe::ExchangeBlock &block = two.windows[rank]->block();
    EXPECT_EQ(block.code, unsigned(moe::ExchangeEnd::OtherTokens));
    EXPECT_EQ(block.peer, 1 - rank);
    EXPECT_EQ(block.ownTokens, rank ? 1u : 2u);
    EXPECT_EQ(block.peerTokens, rank ? 2u : 1u);
    EXPECT_FALSE(two.windows[rank]->check());
    EXPECT_TRUE(isBroken(*two.windows[rank]));
  }
}

/// A rank whose wait times out marks the windows of all ranks as broken. A rank
/// that comes later neither waits nor sends.
TEST(HostWindow, ATimeoutBreaksTheWindowsOfAll) {
  const TwoRanks two(1024);
  two.windows[0]->block().timeoutNs = 20'000'000;
  DispatchOfRank ranks[] = {{*two.windows[0], {1, 2}},
                            {*two.windows[1], {3, 0}}};
  for (const auto &window : two.windows)
    EXPECT_FALSE(isBroken(*window));
  EXPECT_TRUE(ranks[0].call.run(stages::dispatch));
  EXPECT_EQ(two.windows[0]->block().code, unsigned(moe::ExchangeEnd::Late));
  for (const auto &window : two.windows)
    EXPECT_TRUE(isBroken(*window));
  auto *received =
      reinterpret_cast<float *>(two.windows[0]->own() + 256); // of rank 0
  std::fill_n(received, 4, -1.0F);
  EXPECT_TRUE(ranks[1].call.run(stages::dispatch));
  EXPECT_EQ(two.windows[1]->block().code,
            unsigned(moe::ExchangeEnd::PeerBroke));
  EXPECT_THAT(std::vector<float>(received, received + 4),
              ElementsAre(-1, -1, -1, -1));
}
