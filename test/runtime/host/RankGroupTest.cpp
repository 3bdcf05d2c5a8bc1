//===- RankGroupTest.cpp - ranks that are threads -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every kind of collective over groups of several strides, what ranks do that
// does not fit together, and ranks that do not come.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/RankGroup.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <gmock/gmock.h>
#include <malloc.h>
#include <thread>

using namespace moec;
using namespace moec::host;
using Kind = Collective::Kind;
using testing::ElementsAre;
using testing::HasSubstr;

extern "C" __attribute__((weak)) size_t
__sanitizer_get_current_allocated_bytes();

namespace {

/// The bytes of this process that were allocated and not freed. A sanitizer
/// replaces the allocator, and counts them.
int64_t liveBytes() {
  if (__sanitizer_get_current_allocated_bytes)
    return int64_t(__sanitizer_get_current_allocated_bytes());
  const struct mallinfo2 info = mallinfo2();
  return int64_t(info.uordblks + info.hblkhd);
}

/// Runs something on each rank of a group and returns what it says.
std::vector<Result<void>>
onRanks(int64_t size, RankGroup::Options options,
        const std::function<Result<void>(comm::Communicator &)> &what) {
  auto group = RankGroup::create(size, std::move(options));
  EXPECT_TRUE(group);
  std::vector<Result<void>> results(size);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      auto end = (*group)->end(rank);
      results[rank] = what(**end);
    });
  for (std::thread &thread : threads)
    thread.join();
  return results;
}

Result<void> perform(comm::Communicator &end, Kind kind, int64_t ranks,
                     int64_t stride, const std::vector<float> &from,
                     std::vector<float> &to) {
  const comm::Part part = {
      from.data(), to.data(),
      int64_t(kind == Kind::AllGather ? from.size() : to.size()), "f32"};
  comm::Call call;
  call.kind = kind, call.ranks = ranks, call.stride = stride;
  call.parts = {&part, 1};
  return end.perform(call);
}

TEST(RankGroup, GathersInTheOrderOfRanks) {
  std::vector<std::vector<float>> all(6, std::vector<float>(6));
  const auto results = onRanks(6, {}, [&](comm::Communicator &end) {
    const auto rank = float(end.rank());
    return perform(end, Kind::AllGather, 3, 2, {rank, -rank},
                   all[size_t(end.rank())]);
  });
  for (const Result<void> &result : results)
    ASSERT_TRUE(result) << result.error().message;
  for (size_t rank : {0, 2, 4})
    EXPECT_THAT(all[rank], ElementsAre(0, 0, 2, -2, 4, -4));
  for (size_t rank : {1, 3, 5})
    EXPECT_THAT(all[rank], ElementsAre(1, -1, 3, -3, 5, -5));
}

TEST(RankGroup, ScattersSums) {
  std::vector<std::vector<float>> all(4, std::vector<float>(1));
  const auto results = onRanks(4, {}, [&](comm::Communicator &end) {
    const auto rank = float(end.rank());
    return perform(end, Kind::ReduceScatter, 2, 1, {rank, 10 * rank + 1},
                   all[size_t(end.rank())]);
  });
  for (const Result<void> &result : results)
    ASSERT_TRUE(result) << result.error().message;
  EXPECT_THAT(all, ElementsAre(ElementsAre(1), ElementsAre(12), ElementsAre(5),
                               ElementsAre(52)));
}

/// Sums are computed in chunks of 4096 elements, of which the last one may be
/// shorter. Elements after the result stay unchanged.
TEST(RankGroup, SumsOfSeveralChunks) {
  constexpr int64_t kRanks = 2, kBehind = 8;
  for (const int64_t count : {4095, 4096, 4097, 8192, 8200})
    for (const Kind kind : {Kind::AllReduce, Kind::ReduceScatter}) {
      const bool scatters = kind == Kind::ReduceScatter;
      const auto results =
          onRanks(kRanks, {}, [&](comm::Communicator &end) -> Result<void> {
            const int64_t rank = end.rank();
            std::vector<float> from(size_t(scatters ? kRanks * count : count));
            for (size_t i = 0; i < from.size(); ++i)
              from[i] = float(int64_t(i) + rank);
            std::vector<float> to(size_t(count + kBehind), -1);
            const comm::Part part = {from.data(), to.data(), count, "f32"};
            comm::Call call;
            call.kind = kind, call.ranks = kRanks, call.stride = 1;
            call.parts = {&part, 1};
            TRY(end.perform(call));
            for (int64_t i = 0; i < count + kBehind; ++i) {
              const int64_t at = i + (scatters ? rank * count : 0);
              const float wanted = i < count ? float(2 * at + 1) : -1;
              if (to[size_t(i)] != wanted)
                return invalidArgument("element {} of {} is {}, expected {}", i,
                                       count, to[size_t(i)], wanted);
            }
            return {};
          });
      for (const Result<void> &result : results)
        EXPECT_TRUE(result) << result.error().message;
    }
}

/// 1 is lost beside 2^24 in f32: the order of sums shows.
TEST(RankGroup, SumsInTheOrderOfRanks) {
  const std::vector<float> first = {16777216, 1, 1, -16777216};
  for (int64_t late = 0; late < 4; ++late) {
    RankGroup::Options options;
    options.delay = [&](int64_t rank) {
      if (rank == late)
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
    };
    const auto results =
        onRanks(4, options, [&](comm::Communicator &end) -> Result<void> {
          for (int run = 0; run < 5; ++run) {
            std::vector<float> to(1);
            TRY(perform(end, Kind::AllReduce, 4, 1, {first[size_t(end.rank())]},
                        to));
            if (to[0] != 0)
              return invalidArgument("{}", to[0]);
          }
          return {};
        });
    for (const Result<void> &result : results)
      EXPECT_TRUE(result) << result.error().message;
  }
}

/// Groups are those of ranks that are `stride` apart, and each rank is in one.
TEST(RankGroup, GroupsShareTheRanksOut) {
  for (const int64_t ranks : {1, 2, 3, 4})
    for (const int64_t stride : {1, 2, 3, 5})
      for (int64_t rank = 0; rank < 2 * ranks * stride; ++rank) {
        const std::vector<int64_t> group = comm::groupOf(rank, ranks, stride);
        ASSERT_EQ(group.size(), size_t(ranks));
        EXPECT_EQ(std::ranges::count(group, rank), 1);
        EXPECT_EQ(group[size_t(rank / stride % ranks)], rank);
        for (const int64_t member : group) {
          EXPECT_EQ(comm::groupOf(member, ranks, stride), group);
          EXPECT_EQ(member % stride, rank % stride);
          EXPECT_EQ(member / (ranks * stride), rank / (ranks * stride));
        }
      }
}

/// The ranks that a communicator has to connect: all that a collective of any
/// variant reaches, and those that have windows.
TEST(RankGroup, ATargetNamesItsRanks) {
  Target target;
  EXPECT_EQ(comm::ranksOf(target), 1);
  const auto add = [&](int64_t ranks, int64_t stride) {
    target.variants.emplace_back().launches.resize(2);
    Collective &made =
        target.variants.back().launches.back().collective.emplace();
    made.ranks = ranks, made.stride = stride;
  };
  add(3, 1);
  EXPECT_EQ(comm::ranksOf(target), 3);
  add(2, 4);
  EXPECT_EQ(comm::ranksOf(target), 8);
  add(4, 1);
  EXPECT_EQ(comm::ranksOf(target), 8);
  target.windowRanks = 12;
  EXPECT_EQ(comm::ranksOf(target), 12);
}

/// Each member of a call is compared: any other one would mix runs.
TEST(RankGroup, CallsDifferInAnyMember) {
  const auto said = [](const std::function<void(comm::Call &)> &change) {
    const auto results = onRanks(2, {}, [&](comm::Communicator &end) {
      const std::vector<float> from(4);
      std::vector<float> to(8);
      const comm::Part part = {from.data(), to.data(), 2, "f32"};
      comm::Call call;
      call.kind = Kind::AllGather, call.ranks = 2, call.stride = 1;
      call.parts = {&part, 1};
      call.tokens = 3;
      call.step = "run";
      if (end.rank() == 1)
        change(call);
      return end.perform(call);
    });
    return results[0] ? "" : results[0].error().message;
  };
  EXPECT_EQ(said([](comm::Call &) {}), "");
  EXPECT_EQ(said([](comm::Call &call) { call.tokens = 4; }),
            "rank 0 does a run of 3 tokens, all_gather of 2 x f32, and rank 1 "
            "does a run of 4 tokens, all_gather of 2 x f32");
  EXPECT_NE(said([](comm::Call &call) { call.kind = Kind::AllReduce; }), "");
  EXPECT_NE(said([](comm::Call &call) { call.step = "connect"; }), "");
  EXPECT_NE(said([](comm::Call &call) { call.parts = {}; }), "");
  static const comm::Part kOther = {nullptr, nullptr, 2, "bf16"};
  EXPECT_NE(said([](comm::Call &call) { call.parts = {&kOther, 1}; }), "");
}

TEST(RankGroup, RanksThatDoOtherThingsAreTold) {
  const auto results = onRanks(2, {}, [](comm::Communicator &end) {
    std::vector<float> to(size_t(4 + 2 * end.rank()));
    return perform(end, Kind::AllGather, 2, 1,
                   std::vector<float>(size_t(2 + end.rank())), to);
  });
  for (const Result<void> &result : results) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::PeerMismatch);
  }
  EXPECT_EQ(results[0].error().message,
            "rank 0 does all_gather of 2 x f32, and rank 1 does all_gather of "
            "3 x f32");
}

TEST(RankGroup, ARankThatDoesNotComeIsNamed) {
  RankGroup::Options options;
  options.timeout = std::chrono::milliseconds(1000);
  const auto results =
      onRanks(3, options, [](comm::Communicator &end) -> Result<void> {
        std::vector<float> to(3);
        if (end.rank() == 1)
          return {};
        return perform(end, Kind::AllGather, 3, 1, {1}, to);
      });
  EXPECT_TRUE(results[1]);
  for (const size_t rank : {0, 2}) {
    ASSERT_FALSE(results[rank]);
    EXPECT_EQ(results[rank].error().code, ErrorCode::PeerLost);
    EXPECT_THAT(results[rank].error().message,
                HasSubstr("waited 1000 ms for rank 1 to do all_gather"));
  }
}

TEST(RankGroup, AbortEndsAWaitAndAllThatFollows) {
  auto group = RankGroup::create(2, {});
  ASSERT_TRUE(group);
  auto end = (*group)->end(0);
  std::vector<float> to(2);
  Result<void> waited;
  std::thread waits(
      [&] { waited = perform(**end, Kind::AllGather, 2, 1, {1}, to); });
  (*group)->abort("rank 1 has no weights");
  waits.join();
  for (const Result<void> &result :
       {waited, perform(**end, Kind::AllGather, 2, 1, {1}, to)}) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::PeerLost);
    EXPECT_EQ(result.error().message, "rank 1 has no weights");
  }
}

TEST(RankGroup, TwoRunsOfARankAreTold) {
  auto group = RankGroup::create(2, {});
  ASSERT_TRUE(group);
  auto end = (*group)->end(0);
  // Whoever comes second is refused, and lets the other go.
  std::vector<Result<void>> results(2);
  std::vector<std::thread> threads;
  for (Result<void> &result : results)
    threads.emplace_back([&] {
      std::vector<float> to(2);
      result = perform(**end, Kind::AllGather, 2, 1, {1}, to);
      (*group)->abort("over");
    });
  for (std::thread &thread : threads)
    thread.join();
  ASSERT_FALSE(results[0]);
  ASSERT_FALSE(results[1]);
  EXPECT_THAT((std::vector{results[0].error().code, results[1].error().code}),
              testing::UnorderedElementsAre(ErrorCode::ContextInUse,
                                            ErrorCode::PeerLost));
}

TEST(RankGroup, SizesAndRanksAreChecked) {
  for (const int64_t wrong :
       {int64_t(0), int64_t(4097), (int64_t(1) << 31) - 1})
    EXPECT_EQ(RankGroup::create(wrong, {}).error().message,
              "expected a group of 1 to 4096 ranks, which are threads of this "
              "process, got " +
                  std::to_string(wrong));
  auto group = RankGroup::create(2, {});
  ASSERT_TRUE(group);
  EXPECT_EQ((*group)->end(2).error().message,
            "expected a rank from 0 to 1, got 2");
  auto end = (*group)->end(0);
  std::vector<float> to(4);
  EXPECT_EQ(perform(**end, Kind::AllGather, 4, 1, {1}, to).error().message,
            "all_gather is between ranks 0 to 3, and the communicator connects "
            "2");
}

TEST(RankGroup, RanksReachTheWindowsOfAll) {
  const auto results =
      onRanks(3, {}, [](comm::Communicator &end) -> Result<void> {
        std::vector<std::unique_ptr<comm::Window>> windows;
        for (const int64_t bytes : {1000, 64})
          windows.push_back(TRY(end.window(bytes)));
        comm::Window &mine = *windows[0];
        for (int64_t i = 0; i < 1000; ++i)
          if (reinterpret_cast<const char *>(mine.own())[i] != 0)
            return invalidArgument("byte {} is not zero", i);
        if (mine.own() % 256 != 0 || mine.bytes() != 1000 ||
            mine.block().timeoutNs != 60000000000ULL)
          return invalidArgument("a window as large as asked for");
        std::vector<char> nothing(1);
        TRY(end.exchange(nothing, "have read"));
        for (const uint64_t address : mine.addresses())
          reinterpret_cast<char *>(address)[end.rank()] = char(1 + end.rank());
        TRY(end.exchange(nothing, "write"));
        for (int64_t rank = 0; rank < 3; ++rank)
          if (reinterpret_cast<const char *>(mine.own())[rank] != 1 + rank)
            return invalidArgument("rank {} wrote elsewhere", rank);
        return {};
      });
  for (const Result<void> &result : results)
    EXPECT_TRUE(result) << result.error().message;
}

/// Contexts come and go while their group stays.
TEST(RankGroup, WindowsThatNoRankHasAreFreed) {
  constexpr int64_t kBytes = int64_t(1) << 20, kRanks = 3, kTimes = 8;
  const auto results =
      onRanks(kRanks, {}, [](comm::Communicator &end) -> Result<void> {
        std::vector<char> nothing(1);
        TRY(end.exchange(nothing, "begin"));
        const int64_t before = liveBytes();
        TRY(end.exchange(nothing, "count what there is"));
        for (int64_t i = 0; i < kTimes; ++i)
          TRY(end.window(kBytes));
        TRY(end.exchange(nothing, "drop its windows"));
        if (const int64_t more = liveBytes() - before; more > kRanks * kBytes)
          return invalidArgument("{} windows left {} bytes", kRanks * kTimes,
                                 more);
        return {};
      });
  for (const Result<void> &result : results)
    EXPECT_TRUE(result) << result.error().message;
}

TEST(RankGroup, WindowsAreAsLargeOnEveryRank) {
  const auto results =
      onRanks(2, {}, [](comm::Communicator &end) -> Result<void> {
        if (end.window(0))
          return {};
        TRY(end.window(256 * (1 + end.rank())));
        return {};
      });
  for (const Result<void> &result : results) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::PeerMismatch);
  }
  EXPECT_EQ(results[0].error().message,
            "rank 0 creates a window of 256 bytes, and rank 1 one of 512");
}

TEST(RankGroup, AbortReachesTheWindows) {
  const auto results =
      onRanks(2, {}, [](comm::Communicator &end) -> Result<void> {
        const auto window = TRY(end.window(256));
        if (end.rank() == 0)
          end.abort("no weights");
        while (std::atomic_ref(window->block().abort).load() == 0)
          std::this_thread::yield();
        return {};
      });
  for (const Result<void> &result : results)
    EXPECT_TRUE(result) << result.error().message;
}

TEST(RankGroup, AWaitThatEndedSaysWhy) {
  auto group = RankGroup::create(1, {});
  ASSERT_TRUE(group);
  auto end = (*group)->end(0);
  auto made = (*end)->window(256);
  ASSERT_TRUE(made);
  moe::ExchangeBlock &block = (*made)->block();
  EXPECT_TRUE((*made)->check());
  EXPECT_TRUE((*end)->status());
  block.peer = 3, block.epoch = 7, block.ownTokens = 4, block.peerTokens = 5;
  block.phase = unsigned(moe::ExchangePhase::Dispatch);
  const auto problem = [&](unsigned code) {
    block.code = code;
    const Result<void> checked = (*made)->check();
    EXPECT_FALSE(checked);
    return std::pair(checked.error().code, checked.error().message);
  };
  using moe::ExchangeEnd;
  EXPECT_EQ(problem(unsigned(ExchangeEnd::Late)),
            std::pair(ErrorCode::PeerLost,
                      std::string("rank 0 waited 60000 ms for rank 3 to send "
                                  "its tokens in run 7 of the context")));
  block.phase = unsigned(moe::ExchangePhase::SendBack);
  EXPECT_EQ(problem(unsigned(ExchangeEnd::Aborted)),
            std::pair(ErrorCode::PeerLost,
                      std::string("rank 0 was told to end, while it waited for "
                                  "rank 3 to send its sums back in run 7 of "
                                  "the context")));
  EXPECT_EQ(problem(unsigned(ExchangeEnd::OtherTokens)),
            std::pair(ErrorCode::PeerMismatch,
                      std::string("rank 0 runs with 4 tokens, and rank 3 with "
                                  "5, in run 7 of the context")));
  EXPECT_EQ(problem(unsigned(ExchangeEnd::PeerBroke)).second,
            "another rank ended the exchange of rank 0 in run 7 of the "
            "context; its own error gives the reason");
  EXPECT_EQ(problem(99).first, ErrorCode::Internal);

  // So does the communicator, as long as it has the window.
  problem(unsigned(ExchangeEnd::Late));
  const Result<void> status = (*end)->status();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::PeerLost);
  EXPECT_THAT(status.error().message, HasSubstr("rank 0 waited 60000 ms"));
  made->reset();
  EXPECT_TRUE((*end)->status());
}

} // namespace
