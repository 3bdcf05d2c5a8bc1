//===- WindowTest.cpp - windows in the memory of GPUs ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With the driver of FakeCuda.cpp and the library of FakeNccl.cpp: who shares
// memory with whom and how, what kernels are told, and how a wait that ended
// reaches the caller. Kernels do nothing.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/cuda/WindowTesting.h"

#include <cmath>
#include <gmock/gmock.h>

using namespace moec;
using namespace moec::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(Windows, KernelsAreToldWhereTheWindowsAre) {
  moec_comm_group *group = nullptr;
  ASSERT_EQ(moec_comm_group_create(2, 0, &group), MOEC_OK);
  RankOfWindow ranks[] = {RankOfWindow(0), RankOfWindow(1)};
  std::array<std::vector<uint64_t>, 2> tables;
  onRanks([&](int32_t rank) {
    moec_comm_options options = optionsOf(rank);
    options.group = group, options.ordinal_plus_one = 1;
    options.timeout_ms = 1234;
    moec_comm *comm = nullptr;
    ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK) << moec_last_error();
    moec_context *context = nullptr;
    ASSERT_EQ(ranks[rank].createContext(comm, &context), MOEC_OK)
        << moec_last_error();
    const RunData data(TinyShape(), 6);
    ASSERT_EQ(run(ranks[rank], context, data), MOEC_OK) << moec_last_error();
    const auto *peers = field<const uint64_t *>(ranks[rank], "peers");
    tables[size_t(rank)] = {peers[0], peers[1]};
    EXPECT_EQ(field<int32_t>(ranks[rank], "rank"), rank);
    EXPECT_EQ(field<uint64_t>(ranks[rank], "words"), peers[rank]);
    EXPECT_EQ(field<uint64_t>(ranks[rank], "received"), peers[rank] + 256);
    const auto *own = reinterpret_cast<const char *>(peers[rank]);
    EXPECT_EQ(std::count(own, own + 256 + 64 * 32, 0), 256 + 64 * 32);
    auto *block = field<moe::ExchangeBlock *>(ranks[rank], "status");
    EXPECT_EQ(block->timeoutNs, 1234000000ULL);
    EXPECT_EQ(block->abort, 0U);

    // As a kernel that waited too long would leave it.
    EXPECT_EQ(moec_comm_status(comm), MOEC_OK);
    block->peer = uint32_t(1 - rank), block->epoch = 5;
    block->phase = unsigned(moe::ExchangePhase::SendBack);
    block->code = unsigned(moe::ExchangeEnd::Late);
    const std::string text =
        fmt::format("rank {} waited 1234 ms for rank {} to send its sums back "
                    "in run 5 of the context",
                    rank, 1 - rank);
    EXPECT_EQ(said(moec_comm_status(comm)), std::pair(MOEC_PEER_LOST, text));
    EXPECT_EQ(said(run(ranks[rank], context, data)),
              std::pair(MOEC_PEER_LOST, text));
    EXPECT_TRUE(std::isnan(host::fromBf16(data.out.as<uint16_t>()[0])));
    block->code = unsigned(moe::ExchangeEnd::OtherTokens);
    EXPECT_EQ(run(ranks[rank], context, data), MOEC_PEER_MISMATCH);
    moec_context_destroy(context);
    moec_comm_destroy(comm);
  });
  EXPECT_EQ(tables[0], tables[1]);
  EXPECT_NE(tables[0][0], tables[0][1]);
  moec_comm_group_destroy(group);
}

TEST_F(Windows, RanksLayWindowsOutAlike) {
  moec_comm_group *group = nullptr;
  ASSERT_EQ(moec_comm_group_create(2, 0, &group), MOEC_OK);
  RankOfWindow ranks[] = {RankOfWindow(0), RankOfWindow(1, 0, 256)};
  onRanks([&](int32_t rank) {
    moec_comm_options options = optionsOf(rank);
    options.group = group, options.ordinal_plus_one = 1;
    moec_comm *comm = nullptr;
    ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK) << moec_last_error();
    moec_context *context = nullptr;
    EXPECT_EQ(said(ranks[rank].createContext(comm, &context)),
              std::pair(MOEC_PEER_MISMATCH,
                        fmt::format("ranks of one context have different "
                                    "packages: rank {} has a window of {} "
                                    "bytes, and rank {} has a window of {} "
                                    "bytes",
                                    rank, 2304 + 256 * rank, 1 - rank,
                                    2560 - 256 * rank)));
    moec_comm_destroy(comm);
  });
  moec_comm_group_destroy(group);
}

TEST_F(Windows, AbortEndsWaits) {
  moec_comm_group *group = nullptr;
  ASSERT_EQ(moec_comm_group_create(2, 0, &group), MOEC_OK);
  RankOfWindow ranks[] = {RankOfWindow(0), RankOfWindow(1)};
  onRanks([&](int32_t rank) {
    moec_comm_options options = optionsOf(rank);
    options.group = group, options.ordinal_plus_one = 1;
    moec_comm *comm = nullptr;
    ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK) << moec_last_error();
    moec_context *context = nullptr;
    ASSERT_EQ(ranks[rank].createContext(comm, &context), MOEC_OK)
        << moec_last_error();
    const RunData data(TinyShape(), 6);
    ASSERT_EQ(run(ranks[rank], context, data), MOEC_OK) << moec_last_error();
    if (rank == 0) {
      EXPECT_EQ(moec_comm_abort(comm), MOEC_OK);
      EXPECT_EQ(field<moe::ExchangeBlock *>(ranks[0], "status")->abort, 1U);
      EXPECT_EQ(moec_comm_status(comm), MOEC_PEER_LOST);
      std::memset(data.out.data(), 0, data.out.bytes());
      EXPECT_EQ(run(ranks[rank], context, data), MOEC_PEER_LOST);
      for (uint64_t i = 0; i < data.out.bytes() / 2; ++i)
        ASSERT_TRUE(std::isnan(host::fromBf16(data.out.as<uint16_t>()[i])));
    }
    moec_context_destroy(context);
    moec_comm_destroy(comm);
  });
  moec_comm_group_destroy(group);
}

/// Two GPUs of a process, with and without peer access.
TEST_F(Windows, GpusOfOneProcess) {
  fakeGpu()->devices = 2;
  fakeGpu()->handleStatus = 801;
  RankOfWindow ranks[] = {RankOfWindow(0, 1), RankOfWindow(1, 2)};
  for (const bool reach : {true, false}) {
    fakeGpu()->peerAccess = reach;
    moec_comm_group *group = nullptr;
    ASSERT_EQ(moec_comm_group_create(2, 0, &group), MOEC_OK);
    onRanks([&](int32_t rank) {
      moec_comm_options options = optionsOf(rank);
      options.group = group, options.ordinal_plus_one = rank + 1;
      moec_comm *comm = nullptr;
      ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK)
          << moec_last_error();
      moec_context *context = nullptr;
      const auto made = said(ranks[rank].createContext(comm, &context));
      if (reach) {
        EXPECT_EQ(made, std::pair(MOEC_OK, std::string()));
      } else {
        EXPECT_EQ(made,
                  std::pair(MOEC_NO_COMMUNICATION,
                            std::string("rank 0: its GPU does not reach that "
                                        "of rank 1: the driver has no peer "
                                        "access between them")));
      }
      moec_context_destroy(context);
      moec_comm_destroy(comm);
    });
    moec_comm_group_destroy(group);
  }
}

TEST_F(Windows, TheCommunicatorIsOfThePackagesGpu) {
  fakeGpu()->devices = 2;
  RankOfWindow ranks[] = {RankOfWindow(0, 1), RankOfWindow(1, 1)};
  moec_comm_group *group = nullptr;
  ASSERT_EQ(moec_comm_group_create(2, 200, &group), MOEC_OK);
  onRanks([&](int32_t rank) {
    moec_comm_options options = optionsOf(rank);
    options.group = group, options.ordinal_plus_one = rank + 1;
    moec_comm *comm = nullptr;
    ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK) << moec_last_error();
    moec_context *context = nullptr;
    const auto made = said(ranks[rank].createContext(comm, &context));
    // A rank that fails makes no window, so the other one gets none.
    EXPECT_EQ(made.first, rank == 0 ? MOEC_PEER_LOST : MOEC_INVALID_ARGUMENT);
    EXPECT_EQ(made.second,
              rank == 0
                  ? "rank 0 waited 200 ms for rank 1 to create its context"
                  : "package tiny was loaded on fake GPU, and the "
                    "communicator is of another GPU or CUDA context");
    moec_context_destroy(context);
    moec_comm_destroy(comm);
  });
  moec_comm_group_destroy(group);
}

/// The other rank looks as one of another process, or of another host.
TEST_F(Windows, ProcessesShareByIpc) {
  RankOfWindow ranks[] = {RankOfWindow(0), RankOfWindow(1)};
  struct Row {
    size_t byte; ///< of what describes a rank that is changed
    int ipcStatus, handleStatus;
    const char *problem;
  };
  for (const Row &row :
       {Row{40, 0, 0, ""}, Row{40, 801, 0, "cuIpcOpenMemHandle failed"},
        Row{40, 0, 801, "cuIpcGetMemHandle failed"},
        Row{0, 0, 0, "it is on another host"}}) {
    fakeGpu()->ipcStatus = row.ipcStatus;
    fakeGpu()->handleStatus = row.handleStatus;
    Meeting meeting;
    onRanks([&](int32_t rank) {
      Meeting::End end = {&meeting, rank, {}, false, {}};
      // Another host has other processes.
      end.change = [&](char *its, uint64_t bytes) {
        if (bytes < 600)
          return;
        its[row.byte] ^= 1;
        its[40] ^= row.byte != 40;
      };
      moec_comm_options options = optionsOf(rank, end);
      moec_comm *comm = nullptr;
      ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK)
          << moec_last_error();
      moec_context *context = nullptr;
      // The comparison of packages exchanges more.
      end.change = [&, change = end.change](char *its, uint64_t bytes) {
        if (bytes < 4096)
          change(its, bytes);
      };
      const auto made = said(ranks[rank].createContext(comm, &context));
      if (*row.problem == '\0') {
        EXPECT_EQ(made, std::pair(MOEC_OK, std::string()));
      } else {
        EXPECT_EQ(made.first, MOEC_NO_COMMUNICATION);
        EXPECT_THAT(made.second, HasSubstr(row.problem));
        EXPECT_THAT(
            made.second,
            StartsWith("rank 0: its GPU does not reach that of rank 1"));
      }
      moec_context_destroy(context);
      moec_comm_destroy(comm);
    });
  }
}

/// Each rank sees one changed bit of the other rank's offer of a window.
TEST_F(Windows, OffersAreHeldAgainstTheRanksOwn) {
  RankOfWindow ranks[] = {RankOfWindow(0), RankOfWindow(1)};
  struct Row {
    size_t byte;
    int bit;
    moec_status status;
    const char *problems[2]; ///< of each rank
  };
  for (const Row &row :
       {// A child that a rank forked has the rank's process and another pid.
        Row{56, 1, MOEC_OK, {"", ""}},
        Row{72,
            1,
            MOEC_PEER_MISMATCH,
            {"rank 0 creates a window of 2304 bytes, and rank 1 one of 2305",
             "rank 0 creates a window of 2305 bytes, and rank 1 one of 2304"}},
        Row{80,
            1,
            MOEC_NO_COMMUNICATION,
            {"rank 0: its GPU does not reach that of rank 1: both have a "
             "context of their own on one GPU",
             "rank 0: its GPU does not reach that of rank 1: both have a "
             "context of their own on one GPU"}},
        Row{416, 8, MOEC_MISALIGNED, {"rank 1: ", "rank 0: "}}}) {
    Meeting meeting;
    onRanks([&](int32_t rank) {
      Meeting::End end = {&meeting, rank, {}, false, {}};
      // Offers have more bytes than outcomes, and packages more than offers.
      end.change = [&](char *its, uint64_t bytes) {
        if (bytes >= 600 && bytes < 4096)
          its[row.byte] ^= char(row.bit);
      };
      moec_comm_options options = optionsOf(rank, end);
      moec_comm *comm = nullptr;
      ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK)
          << moec_last_error();
      moec_context *context = nullptr;
      EXPECT_EQ(said(ranks[rank].createContext(comm, &context)),
                std::pair(row.status, std::string(row.problems[rank])));
      meeting.both.arrive_and_wait();
      EXPECT_EQ(fakeGpu()->opened, row.status == MOEC_OK ? 2 : 0);
      meeting.both.arrive_and_wait();
      moec_context_destroy(context);
      moec_comm_destroy(comm);
    });
  }
}

/// A rank's memory outlives its context while the other rank, which looks as
/// one of another process, maps it. What a rank does frees memory of its GPU
/// alone.
TEST_F(Windows, MemoryStaysWhileOthersMapIt) {
  fakeGpu()->devices = 2;
  RankOfWindow ranks[] = {RankOfWindow(0, 1), RankOfWindow(1, 2)};
  const int before = fakeGpu()->allocated;
  Meeting meeting;
  std::barrier<> both{2};
  onRanks([&](int32_t rank) {
    Meeting::End end = {&meeting, rank, {}, false, {}};
    end.change = [](char *its, uint64_t bytes) {
      if (bytes >= 600 && bytes < 4096)
        its[40] ^= 1;
    };
    moec_comm_options options = optionsOf(rank, end);
    options.ordinal_plus_one = rank + 1;
    moec_comm *comm = nullptr;
    ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK) << moec_last_error();
    moec_context *context = nullptr;
    ASSERT_EQ(ranks[rank].createContext(comm, &context), MOEC_OK)
        << moec_last_error();
    both.arrive_and_wait();
    const int alive = fakeGpu()->allocated;
    both.arrive_and_wait();
    if (rank == 0) {
      moec_context_destroy(context);
      // All but the window.
      EXPECT_EQ(fakeGpu()->allocated, before + (alive - before) / 2 + 1);
    }
    both.arrive_and_wait();
    if (rank == 1) {
      moec_context_destroy(context);
      EXPECT_EQ(fakeGpu()->allocated, before + 1);
      moec_comm_destroy(comm);
      EXPECT_EQ(fakeGpu()->allocated, before + 1);
    }
    both.arrive_and_wait();
    if (rank == 0)
      moec_comm_destroy(comm);
  });
  EXPECT_EQ(fakeGpu()->allocated, before);
}

TEST_F(Windows, ACallersMemoryAndGather) {
  RankOfWindow ranks[] = {RankOfWindow(0), RankOfWindow(1)};
  Meeting meeting;
  Buffer memory[] = {Buffer(4096), Buffer(4096)};
  onRanks([&](int32_t rank) {
    Meeting::End end = {&meeting, rank, {}, false, {}};
    moec_comm_options options = optionsOf(rank, end);
    options.window = Meeting::window;
    moec_comm *comm = nullptr;
    ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK) << moec_last_error();
    moec_context *context = nullptr;
    EXPECT_EQ(said(ranks[rank].createContext(comm, &context)),
              std::pair(MOEC_NO_COMMUNICATION,
                        std::string("rank 0: the caller has no memory for a "
                                    "window of 2304 bytes")));
    for (const uint64_t off : {1, 0}) {
      end.memory = {reinterpret_cast<uint64_t>(memory[0].data()) + off,
                    reinterpret_cast<uint64_t>(memory[1].data())};
      const auto made = said(ranks[rank].createContext(comm, &context));
      if (off) {
        EXPECT_THAT(made.second,
                    HasSubstr("rank 0: expected the window of rank 0 at a "
                              "multiple of 256, got the address"));
      } else {
        ASSERT_EQ(made, std::pair(MOEC_OK, std::string()));
      }
    }
    EXPECT_EQ(memory[rank].as<char>()[0], 0);
    const RunData data(TinyShape(), 6);
    EXPECT_EQ(run(ranks[rank], context, data), MOEC_OK) << moec_last_error();
    EXPECT_EQ(field<uint64_t>(ranks[rank], "words"), end.memory[size_t(rank)]);
    // The other ranks write there while the run reads and writes its tensors.
    for (const size_t index : {0, 1, 2}) {
      auto list = data.tensors();
      list[index].data = memory[rank].as<char>() + 2048;
      EXPECT_EQ(moec_run(ranks[rank].layer, context, nullptr, list.data(),
                         list.size(), 3, nullptr),
                MOEC_INVALID_ARGUMENT);
      EXPECT_THAT(moec_last_error(),
                  HasSubstr(" overlaps the context's window at "));
    }
    moec_context_destroy(context);
    moec_comm_destroy(comm);
  });
}

TEST_F(Windows, AGatherThatFailsIsNamed) {
  Meeting meeting;
  onRanks([&](int32_t rank) {
    Meeting::End end = {&meeting, rank, {}, false, {}};
    moec_comm_options options = optionsOf(rank, end);
    moec_comm *comm = nullptr;
    // Both say that they are rank 0.
    options.rank = 0;
    EXPECT_EQ(said(moec_comm_create(&options, &comm)),
              std::pair(MOEC_PEER_MISMATCH,
                        std::string("all_gather of rank 0 gave what rank 0 has "
                                    "in the place of rank 1")));
    end.fails = true;
    EXPECT_EQ(said(moec_comm_create(&options, &comm)),
              std::pair(MOEC_PEER_LOST,
                        std::string("all_gather of rank 0 failed while ranks "
                                    "connect")));
  });
}

/// Later failures do not take the place of the first reason.
TEST_F(Windows, TheFirstReasonStays) {
  RankOfWindow ranks[] = {RankOfWindow(0), RankOfWindow(1)};
  Meeting meeting;
  onRanks([&](int32_t rank) {
    Meeting::End end = {&meeting, rank, {}, false, {}};
    moec_comm_options options = optionsOf(rank, end);
    moec_comm *comm = nullptr;
    ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK) << moec_last_error();
    end.fails = true;
    moec_context *context = nullptr;
    const auto lost = said(ranks[rank].createContext(comm, &context));
    EXPECT_EQ(lost.first, MOEC_PEER_LOST);
    EXPECT_THAT(lost.second,
                HasSubstr(fmt::format("all_gather of rank {} failed", rank)));
    EXPECT_EQ(moec_comm_abort(comm), MOEC_OK);
    EXPECT_EQ(said(moec_comm_status(comm)), lost);
    moec_comm_destroy(comm);
  });
}

/// NCCL makes windows where it is asked to, or where the driver cannot.
TEST_F(Windows, NcclMakesWindows) {
  std::vector<char> id(MOEC_COMM_ID_BYTES);
  fakeGpu()->devices = 2;
  RankOfWindow ranks[] = {RankOfWindow(0, 1), RankOfWindow(1, 2)};
  struct Row {
    bool asked, reach;
    int version;
    bool noWindow;
    int windows;
    const char *problem;
  };
  for (const Row &row : {
           Row{true, true, 22902, false, 2, ""},
           Row{false, true, 22902, false, 0, ""},
           Row{false, false, 22902, false, 2, ""},
           Row{true, true, 22901, false, 0,
               "rank 0: windows of NCCL need NCCL 2.29.2 or later, and it is "
               "2.29.1"},
           Row{false, false, 22902, true, 0,
               "ranks do not reach each other's memory: rank 0: its GPU does "
               "not reach that of rank 1: the driver has no peer access "
               "between "
               "them; rank 0: NCCL made no window: not all ranks reach each "
               "other's memory by load and store; compile with all2all_backend "
               "gather_scatter"},
       }) {
    fakeGpu()->peerAccess = row.reach;
    fakeNccl()->version = row.version;
    fakeNccl()->noWindow = row.noWindow;
    fakeNccl()->windows = 0;
    ASSERT_EQ(moec_comm_unique_id(MOEC_FAKE_NCCL, id.data()), MOEC_OK);
    onRanks([&](int32_t rank) {
      moec_comm_options options = optionsOf(rank);
      options.unique_id = id.data();
      options.nccl_path = MOEC_FAKE_NCCL;
      options.ordinal_plus_one = rank + 1;
      options.nccl_windows = row.asked;
      moec_comm *comm = nullptr;
      ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK)
          << moec_last_error();
      moec_context *context = nullptr;
      const auto made = said(ranks[rank].createContext(comm, &context));
      EXPECT_EQ(made, std::pair(*row.problem ? MOEC_NO_COMMUNICATION : MOEC_OK,
                                std::string(row.problem)));
      if (context) {
        const RunData data(TinyShape(), 6);
        EXPECT_EQ(run(ranks[rank], context, data), MOEC_OK)
            << moec_last_error();
      }
      moec_context_destroy(context);
      moec_comm_destroy(comm);
    });
    EXPECT_EQ(fakeNccl()->windows, row.windows);
  }
}

TEST_F(Windows, CollectivesNeedNccl) {
  Meeting meeting;
  onRanks([&](int32_t rank) {
    Meeting::End end = {&meeting, rank, {}, false, {}};
    moec_comm_options options = optionsOf(rank, end);
    moec_comm *comm = nullptr;
    ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK) << moec_last_error();
    for (const Result<void> &done :
         {comm->communicator->prepare(2, 1), comm->communicator->perform({})}) {
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, ErrorCode::NoCommunication);
      EXPECT_THAT(done.error().message,
                  StartsWith("the package moves tokens and sums by "
                             "collectives, and a communicator without NCCL "
                             "has none"));
    }
    moec_comm_destroy(comm);
  });
}

TEST_F(Windows, OptionsThatDoNotFitAreNamed) {
  moec_comm_group *group = nullptr;
  ASSERT_EQ(moec_comm_group_create(2, 0, &group), MOEC_OK);
  const auto problem = [](const moec_comm_options &options) {
    moec_comm *comm = nullptr;
    EXPECT_EQ(moec_comm_create(&options, &comm), MOEC_INVALID_ARGUMENT);
    return std::string(moec_last_error());
  };
  moec_comm_options options = optionsOf(0);
  options.group = group, options.window = Meeting::window;
  EXPECT_EQ(problem(options), "window: expected all_gather with it, got none");
  options.window = nullptr, options.nccl_windows = 1;
  EXPECT_EQ(problem(options), "nccl_path and nccl_windows are not of ranks "
                              "without NCCL; leave them zero");
  options.nccl_windows = 0, options.timeout_ms = 5;
  EXPECT_EQ(problem(options),
            "expected timeout_ms 0 for ranks in a group of the "
            "host device, which has its own timeout");
  options.timeout_ms = 0, options.ranks = 3;
  EXPECT_EQ(problem(options), "the group has 2 ranks, and 3 were given");
  moec_comm_group_destroy(group);
}
