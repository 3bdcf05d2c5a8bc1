//===- PeersTest.cpp - what ranks ask of the driver for their windows -----===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Peers.h"
#include "runtime/comm/Communicator.h"
#include "runtime/comm/Window.h"
#include "test/runtime/cuda/WindowTesting.h"

#include <atomic>
#include <filesystem>
#include <gmock/gmock.h>
#include <unistd.h>

using namespace moec;
using namespace moec::test;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

namespace {

class Peers : public Windows {
protected:
  /// A communicator of a group's rank on a GPU.
  static moec_comm *connect(moec_comm_group *group, int32_t rank,
                            int32_t ordinalPlusOne) {
    moec_comm_options options = optionsOf(rank);
    options.group = group, options.ordinal_plus_one = ordinalPlusOne;
    moec_comm *comm = nullptr;
    EXPECT_EQ(moec_comm_create(&options, &comm), MOEC_OK) << moec_last_error();
    return comm;
  }
  /// Files of this process that tell who maps its memory.
  static int marks() {
    int count = 0;
    for (const auto &file : std::filesystem::directory_iterator("/dev/shm"))
      count += file.path().filename().string().starts_with(
          fmt::format("moec-window-{}-", ::getpid()));
    return count;
  }
};

/// A window without a GPU.
struct BareWindow final : comm::Window {
  explicit BareWindow(int64_t number) : number(number) {}
  int64_t rank() const override { return number; }
  int64_t bytes() const override { return 256; }
  std::span<const uint64_t> addresses() const override { return {}; }
  uint64_t peers() const override { return 0; }
  uint64_t status() const override { return 0; }
  moe::ExchangeBlock &block() const override { return its; }

  const int64_t number;
  mutable moe::ExchangeBlock its = {};
};

/// The code and the message of a failure.
std::pair<ErrorCode, std::string> told(const Result<void> &result) {
  return result ? std::pair(ErrorCode::Internal, std::string())
                : std::pair(result.error().code, result.error().message);
}

} // namespace

/// Each end of a wait is told with its rank, its peer, its step and its run.
TEST(WindowChecks, EachEndOfAWait) {
  const BareWindow window(3);
  EXPECT_TRUE(window.check());
  window.its = {.abort = 0,
                .code = 0,
                .peer = 5,
                .phase = 1,
                .epoch = 70,
                .timeoutNs = 2500000000,
                .peerTokens = 11,
                .ownTokens = 12};
  const auto problem = [&](moe::ExchangeEnd end, moe::ExchangePhase phase) {
    window.its.code = unsigned(end);
    window.its.phase = unsigned(phase);
    return told(window.check());
  };
  using enum moe::ExchangeEnd;
  using enum moe::ExchangePhase;
  using enum ErrorCode;
  EXPECT_EQ(problem(Late, Dispatch),
            std::pair(PeerLost,
                      std::string("rank 3 waited 2500 ms for rank 5 to send "
                                  "its tokens in run 70 of the context")));
  EXPECT_EQ(problem(Late, SendBack),
            std::pair(PeerLost,
                      std::string("rank 3 waited 2500 ms for rank 5 to send "
                                  "its sums back in run 70 of the context")));
  EXPECT_EQ(
      problem(Aborted, Dispatch),
      std::pair(PeerLost, std::string("rank 3 was told to end, while it waited "
                                      "for rank 5 to send its tokens in run 70 "
                                      "of the context")));
  EXPECT_EQ(problem(OtherTokens, Dispatch),
            std::pair(PeerMismatch,
                      std::string("rank 3 runs with 12 tokens, and rank 5 with "
                                  "11, in run 70 of the context")));
  EXPECT_EQ(problem(PeerBroke, SendBack),
            std::pair(PeerLost,
                      std::string("another rank ended the exchange of rank 3 "
                                  "in run 70 of the context; its own error "
                                  "gives the reason")));
  EXPECT_EQ(problem(moe::ExchangeEnd(9), SendBack),
            std::pair(Internal, std::string("the exchange of rank 3 ended with "
                                            "the unknown code 9")));
  EXPECT_EQ(problem(None, Dispatch).second, "");
  window.abort();
  EXPECT_EQ(problem(None, Dispatch),
            std::pair(PeerLost, std::string("rank 3 was told to end")));
}

TEST(WindowChecks, OfAllThatLive) {
  comm::LiveWindows live;
  const BareWindow first(0), second(1), third(1), late(0);
  for (const BareWindow *each : {&first, &second, &third})
    live.add(*each);
  EXPECT_TRUE(live.check(0) && live.check(1));
  third.its.code = unsigned(moe::ExchangeEnd::PeerBroke);
  EXPECT_TRUE(live.check(0));
  EXPECT_FALSE(live.check(1));
  live.remove(third);
  EXPECT_TRUE(live.check(1));
  live.abort();
  EXPECT_EQ(first.its.abort, 1u);
  EXPECT_EQ(second.its.abort, 1u);
  EXPECT_EQ(third.its.abort, 0u);
  EXPECT_EQ(late.its.abort, 0u);
  live.add(late);
  EXPECT_EQ(late.its.abort, 1u);
}

/// Two GPUs of a process reach each other in both directions.
TEST_F(Peers, AccessIsAskedForAndEnabled) {
  fakeGpu()->devices = 3;
  fakeGpu()->handleStatus = 801;
  RankOfWindow ranks[] = {RankOfWindow(0, 3), RankOfWindow(1, 2)};
  for (const int status : {704, 0, 217}) {
    fakeGpu()->peersAsked.clear(), fakeGpu()->peersEnabled.clear();
    fakeGpu()->peerStatus = status;
    moec_comm_group *group = nullptr;
    ASSERT_EQ(moec_comm_group_create(2, 0, &group), MOEC_OK);
    onRanks([&](int32_t rank) {
      moec_comm *comm = connect(group, rank, 3 - rank);
      moec_context *context = nullptr;
      const auto made = said(ranks[rank].createContext(comm, &context));
      if (status == 217)
        EXPECT_EQ(made, std::pair(MOEC_DRIVER_FAILED,
                                  std::string("rank 0: cuCtxEnablePeerAccess "
                                              "failed: FAKE_ERROR (217): a "
                                              "test asked for it")));
      else
        EXPECT_EQ(made, std::pair(MOEC_OK, std::string()));
      if (context) {
        const RunData data(TinyShape(), 6);
        ASSERT_EQ(run(ranks[rank], context, data), MOEC_OK);
        const auto *block = field<moe::ExchangeBlock *>(ranks[rank], "status");
        EXPECT_EQ(block->timeoutNs, 60000000000ULL) << "of 0 ms";
        const auto *peers = field<const uint64_t *>(ranks[rank], "peers");
        // The driver shares whole pages, in which nothing else may lie.
        EXPECT_EQ(fakeGpuPieceBytes(peers[rank]), uint64_t(2) << 20);
      }
      moec_context_destroy(context);
      // The window is no more; its communicator is.
      EXPECT_EQ(moec_comm_status(comm), MOEC_OK) << moec_last_error();
      moec_comm_destroy(comm);
    });
    EXPECT_THAT(fakeGpu()->peersAsked,
                UnorderedElementsAre(Pair(2, 1), Pair(1, 2)));
    EXPECT_THAT(fakeGpu()->peersEnabled,
                UnorderedElementsAre(Pair(2, 1), Pair(1, 2)));
    moec_comm_group_destroy(group);
  }
}

/// The ranks have contexts of their own on one GPU, which share no memory.
TEST_F(Peers, ContextsOfOneGpu) {
  fakeGpu()->devices = 2;
  moec_comm_group *group = nullptr;
  ASSERT_EQ(moec_comm_group_create(2, 0, &group), MOEC_OK);
  std::array<moec_comm *, 2> comms = {};
  onRanks([&](int32_t rank) {
    const auto &driver = **runtime::cuda::CudaDriver::get();
    if (rank == 1)
      driver.ctxPushCurrent(
          static_cast<runtime::cuda::CUcontext>(fakeGpuContextOfCaller(1)));
    comms[size_t(rank)] = new moec_comm{
        *comm::connectPeers(*group->group->end(rank),
                            {.ordinal = rank == 0 ? 1 : -1, .memory = {}})};
    auto made = comms[size_t(rank)]->communicator->window(512);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::NoCommunication);
    EXPECT_EQ(made.error().message,
              "rank 0: its GPU does not reach that of rank 1: both have a "
              "context of their own on one GPU");
    moec_comm_destroy(comms[size_t(rank)]);
    runtime::cuda::CUcontext popped = nullptr;
    if (rank == 1)
      driver.ctxPopCurrent(&popped);
  });
  moec_comm_group_destroy(group);
}

TEST_F(Peers, WindowsOfOtherSizes) {
  moec_comm_group *group = nullptr;
  ASSERT_EQ(moec_comm_group_create(2, 0, &group), MOEC_OK);
  onRanks([&](int32_t rank) {
    moec_comm *comm = connect(group, rank, 1);
    auto made = comm->communicator->window(512 + 256 * rank);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::PeerMismatch);
    EXPECT_EQ(made.error().message, "rank 0 creates a window of 512 bytes, and "
                                    "rank 1 one of 768");
    // A window of more than a page, and one of less.
    for (const auto &[bytes, piece] :
         {std::pair<int64_t, uint64_t>(1, 2 << 20), {(2 << 20) + 1, 4 << 20}}) {
      made = comm->communicator->window(bytes);
      ASSERT_TRUE(made) << made.error().message;
      EXPECT_EQ((*made)->bytes(), bytes);
      EXPECT_EQ((*made)->rank(), rank);
      EXPECT_EQ(fakeGpuPieceBytes((*made)->own()), piece);
      const std::atomic_ref<int> waits(fakeGpu()->contextSynchronizations);
      const int before = waits;
      made->reset();
      // Runs in flight may write to the windows of others.
      EXPECT_GT(waits, before);
    }
    moec_comm_destroy(comm);
  });
  moec_comm_group_destroy(group);
}

/// No file stays where all ranks have come, or one has failed.
TEST_F(Peers, FilesOfWindowsAreRemoved) {
  const int before = marks();
  moec_comm_group *group = nullptr;
  ASSERT_EQ(moec_comm_group_create(2, 0, &group), MOEC_OK);
  std::barrier<> both{2};
  onRanks([&](int32_t rank) {
    moec_comm *comm = connect(group, rank, 1);
    {
      auto made = comm->communicator->window(512);
      ASSERT_TRUE(made) << made.error().message;
      both.arrive_and_wait();
      EXPECT_EQ(marks(), before);
      both.arrive_and_wait();
    }
    EXPECT_FALSE(comm->communicator->window(512 + rank));
    both.arrive_and_wait();
    EXPECT_EQ(marks(), before);
    moec_comm_destroy(comm);
  });
  moec_comm_group_destroy(group);
}

/// One of the ranks fails; both hear which, and why.
TEST_F(Peers, TheRankThatFailedIsNamed) {
  const RankOfWindow ranks[] = {RankOfWindow(0), RankOfWindow(1)};
  Meeting meeting;
  const Buffer memory[] = {Buffer(4096), Buffer(4096)};
  const auto at = [&](int rank) {
    return reinterpret_cast<uint64_t>(memory[rank].data());
  };
  onRanks([&](int32_t rank) {
    Meeting::End end = {&meeting, rank, {}, false, {}};
    moec_comm_options options = optionsOf(rank, end);
    moec_comm *comm = nullptr;
    // The GPU of one.
    options.ordinal_plus_one = rank == 1 ? 9 : 1;
    EXPECT_EQ(said(moec_comm_create(&options, &comm)),
              std::pair(MOEC_INVALID_ARGUMENT,
                        std::string("rank 1: device 8 was asked for; this "
                                    "machine has 1")));
    options.ordinal_plus_one = 1;
    options.window = Meeting::window;
    ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK) << moec_last_error();
    // The memory of one.
    if (rank == 0)
      end.memory = {at(0), at(1)};
    auto made = comm->communicator->window(256 + 64 * 32);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().message, "rank 1: the caller has no memory for a "
                                    "window of 2304 bytes");
    // An address that rank 1 alone has of another.
    end.memory = {at(0) + uint64_t(rank), at(1)};
    made = comm->communicator->window(256 + 64 * 32);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().message,
              fmt::format("rank 1: expected the window of rank 0 at a multiple "
                          "of 256, got the address {:#x}",
                          at(0) + 1));
    // The very bytes of the window are zeroed, of one's own memory.
    end.memory = {at(0), at(1)};
    made = comm->communicator->window(256 + 64 * 32);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ((*made)->own(), at(rank));
    const char *bytes = memory[rank].as<char>();
    EXPECT_EQ(std::count(bytes, bytes + 2304, 0), 2304);
    EXPECT_EQ(std::count(bytes + 2304, bytes + 4096, -1), 4096 - 2304);
    made->reset();
    moec_comm_destroy(comm);
  });
}

/// A call of the driver that fails on one rank reaches both, and leaves
/// nothing. Ranks of one process need no handles.
TEST_F(Peers, FailuresOfTheDriver) {
  fakeGpu()->devices = 2;
  fakeGpu()->peerStatus = 0;
  int call = 1;
  for (bool more = true; more; ++call) {
    ASSERT_LT(call, 100);
    moec_comm_group *group = nullptr;
    ASSERT_EQ(moec_comm_group_create(2, 0, &group), MOEC_OK);
    std::array<std::string, 2> problems;
    std::string failed;
    onRanks([&](int32_t rank) {
      if (rank == 1)
        fakeGpuFail(call);
      moec_comm_options options = optionsOf(rank);
      options.group = group, options.ordinal_plus_one = rank + 1;
      moec_comm *comm = nullptr;
      std::string &problem = problems[size_t(rank)];
      problem = said(moec_comm_create(&options, &comm)).second;
      std::unique_ptr<comm::Window> window;
      if (comm) {
        auto made = comm->communicator->window(512);
        if (made)
          window = std::move(*made);
        else
          problem = made.error().message;
      }
      if (rank == 1) {
        failed = fakeGpuFailed() ? fakeGpuFailed() : "";
        fakeGpuFail(0);
      }
      window.reset();
      moec_comm_destroy(comm);
    });
    moec_comm_group_destroy(group);
    more = !failed.empty();
    if (!more || failed == "cuIpcGetMemHandle") {
      EXPECT_EQ(problems[0] + problems[1], "") << failed;
      continue;
    }
    EXPECT_EQ(problems[0], problems[1]) << failed;
    EXPECT_THAT(problems[0], testing::StartsWith("rank 1: ")) << failed;
    EXPECT_THAT(problems[0], HasSubstr("FAKE_ERROR (2)")) << failed;
    EXPECT_STREQ(fakeGpuAlive(), "") << failed;
  }
  EXPECT_GT(call, 20);
}

/// Outputs of a run that does not begin are NaN in the order of its stream.
TEST_F(Peers, OutputsAreSpoiltInTheStream) {
  RankOfWindow ranks[] = {RankOfWindow(0), RankOfWindow(1)};
  moec_comm_group *group = nullptr;
  ASSERT_EQ(moec_comm_group_create(2, 0, &group), MOEC_OK);
  std::array<moec_comm *, 2> comms = {};
  std::array<moec_context *, 2> contexts = {};
  onRanks([&](int32_t rank) {
    comms[size_t(rank)] = connect(group, rank, 1);
    ASSERT_EQ(
        ranks[rank].createContext(comms[size_t(rank)], &contexts[size_t(rank)]),
        MOEC_OK)
        << moec_last_error();
  });
  EXPECT_EQ(moec_comm_abort(comms[1]), MOEC_OK);
  static int place;
  const RunData data(TinyShape(), 6);
  auto tensors = data.tensors();
  const Buffer ids(6 * 2 * 4);
  tensors.push_back(tensor("ids", ids.data(), {6, 2}));
  fakeGpu()->worked.clear();
  std::memset(data.out.data(), 0, data.out.bytes());
  EXPECT_EQ(moec_run(ranks[1].layer, contexts[1], &place, tensors.data(),
                     tensors.size(), 3, nullptr),
            MOEC_PEER_LOST);
  EXPECT_THAT(fakeGpu()->worked, testing::ElementsAre(&place));
  const auto *out = data.out.as<unsigned char>();
  EXPECT_EQ(std::count(out, out + data.out.bytes(), 0xFF),
            int64_t(data.out.bytes()));
  for (const size_t rank : {0, 1}) {
    moec_context_destroy(contexts[rank]);
    moec_comm_destroy(comms[rank]);
  }
  moec_comm_group_destroy(group);
}
