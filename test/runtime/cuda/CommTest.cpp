//===- CommTest.cpp - ranks that NCCL connects ----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With the driver of FakeCuda.cpp and the library of FakeNccl.cpp:
// communicators from an id and from one of the caller, what a run queues, and
// what goes wrong.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Nccl.h"
#include "runtime/comm/NcclLibrary.h"
#include "test/runtime/SumManifest.h"
#include "test/runtime/api/ApiTesting.h"
#include "test/runtime/cuda/CudaTesting.h"
#include "test/runtime/cuda/FakeNccl.h"

#include <nlohmann/json.hpp>

#include <barrier>
#include <cmath>
#include <dlfcn.h>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

using namespace moec;
using namespace moec::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using Kind = Collective::Kind;

namespace {

/// The calls of this thread.
thread_local std::vector<std::string> queued;

class Comm : public testing::Test {
protected:
  Comm() {
    *fakeGpu() = {};
    FakeNccl &nccl = *fakeNccl();
    nccl.version = 22907;
    nccl.initStatus = nccl.asyncStatus = nccl.callStatus = 0;
    nccl.onCall = [](const char *call) { queued.emplace_back(call); };
    fakeGpu()->onLaunch = [](const char *, bool overlaps) {
      queued.emplace_back(overlaps ? "kernel beside" : "kernel");
    };
  }
  ~Comm() override { EXPECT_EQ(fakeNccl()->alive, 0); }

  static moec_comm_options optionsOf(int32_t rank, const void *id) {
    moec_comm_options options = {};
    options.struct_size = sizeof(options);
    options.ranks = 2, options.rank = rank;
    options.unique_id = id;
    options.nccl_path = MOEC_FAKE_NCCL;
    return options;
  }
  static std::vector<char> newId() {
    std::vector<char> id(MOEC_COMM_ID_BYTES);
    EXPECT_EQ(moec_comm_unique_id(MOEC_FAKE_NCCL, id.data()), MOEC_OK)
        << moec_last_error();
    return id;
  }
  /// Runs something on two ranks at once.
  static void onRanks(const std::function<void(int32_t)> &what) {
    std::thread other([&] { what(1); });
    what(0);
    other.join();
  }
};

/// A rank's package and layer on the fake GPU.
struct RankOfSum {
  moec_package *package = nullptr;
  moec_layer *layer = nullptr;
  Weights weights{TinyShape(), 3};

  /// change: of the manifest, which is of `rank` by then.
  explicit RankOfSum(int64_t rank,
                     const std::function<void(Manifest &)> &change = {}) {
    PackageFiles files = loadablePackage();
    addSum(files.manifest);
    files.manifest.ranks.front().rank = rank;
    if (change)
      change(files.manifest);
    // A kernel behind the sum shows what follows it.
    for (Variant &variant : files.manifest.targets[0].variants) {
      const auto last = static_cast<int64_t>(variant.launches.size()) - 1;
      std::swap(variant.launches[size_t(last)],
                variant.launches[size_t(last) - 1]);
      for (Region &region : variant.regions)
        region.lastLaunch += region.lastLaunch == last - 1;
    }
    loadPacked(std::move(files), weights.tensors(), package, layer);
  }
  ~RankOfSum() {
    moec_layer_destroy(layer);
    moec_package_destroy(package);
  }

  moec_status createContext(moec_comm *comm, Buffer &workspace,
                            moec_context **context) const {
    moec_context_options options = {};
    options.struct_size = sizeof(options);
    options.comm = comm;
    return moec_context_create(package, workspace.data(), workspace.bytes(),
                               &options, context);
  }
};

Result<std::unique_ptr<comm::Communicator>>
connectOneOfTwo(int32_t rank, const comm::UniqueId &id) {
  comm::NcclOptions options;
  options.ranks = 2, options.rank = rank;
  options.path = MOEC_FAKE_NCCL;
  options.id = id;
  return comm::connectByNccl(options);
}

} // namespace

TEST_F(Comm, ARunQueuesCollectivesBetweenKernels) {
  const std::vector<char> id = newId();
  const RankOfSum ranks[] = {RankOfSum(0), RankOfSum(1)};
  onRanks([&](int32_t rank) {
    const RankOfSum &mine = ranks[rank];
    const moec_comm_options options = optionsOf(rank, id.data());
    moec_comm *comm = nullptr;
    ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK) << moec_last_error();
    uint64_t bytes = 0;
    ASSERT_EQ(moec_package_workspace_bytes(mine.package, 64, &bytes), MOEC_OK);
    Buffer workspace(bytes);
    moec_context *context = nullptr;
    ASSERT_EQ(mine.createContext(comm, workspace, &context), MOEC_OK)
        << moec_last_error();
    moec_comm_destroy(comm);
    // Kernels do nothing, so the partial sums are what is there.
    const RunData data(TinyShape(), 3);
    for (uint64_t i = 0; i < bytes / 2; ++i)
      workspace.as<uint16_t>()[i] = host::toBf16(float(rank + 1));
    queued.clear();
    const auto tensors = data.tensors();
    ASSERT_EQ(moec_run(mine.layer, context, nullptr, tensors.data(),
                       tensors.size(), 3, nullptr),
              MOEC_OK)
        << moec_last_error();
    EXPECT_THAT(queued, ElementsAre("kernel", "kernel beside", "kernel beside",
                                    "all_reduce 48 x bf16 over 2", "kernel"));
    for (uint64_t i = 0; i < data.out.bytes() / 2; ++i)
      ASSERT_EQ(host::fromBf16(data.out.as<uint16_t>()[i]), 3.0F) << i;
    moec_context_destroy(context);
  });
}

TEST_F(Comm, AContextNeedsTheCommunicatorOfItsRank) {
  const RankOfSum mine(0);
  Buffer workspace(1 << 20);
  moec_context *context = nullptr;
  EXPECT_EQ(mine.createContext(nullptr, workspace, &context),
            MOEC_NO_COMMUNICATION);
  EXPECT_THAT(moec_last_error(),
              HasSubstr("moves tokens and sums between 2 ranks: expected a "
                        "communicator of them, got none"));
  moec_comm_group *group = nullptr;
  ASSERT_EQ(moec_comm_group_create(2, 0, &group), MOEC_OK);
  moec_comm_options options = {};
  options.struct_size = sizeof(options);
  options.ranks = 2, options.group = group;
  moec_comm *comm = nullptr;
  ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK) << moec_last_error();
  EXPECT_EQ(mine.createContext(comm, workspace, &context),
            MOEC_INVALID_ARGUMENT);
  EXPECT_THAT(moec_last_error(),
              HasSubstr("runs on a GPU, and the communicator moves memory of "
                        "the host"));
  moec_comm_destroy(comm);
  moec_comm_group_destroy(group);
}

/// Groups of ranks of both kinds, and each kind of collective.
TEST_F(Comm, GroupsAreSplit) {
  const comm::UniqueId id = *comm::makeUniqueId(MOEC_FAKE_NCCL);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < 4; ++rank)
    threads.emplace_back([&, rank] {
      comm::NcclOptions options;
      options.ranks = 4, options.rank = rank;
      options.path = MOEC_FAKE_NCCL;
      options.id = id;
      auto made = comm::connectByNccl(options);
      ASSERT_TRUE(made) << made.error().message;
      comm::Communicator &mine = **made;
      EXPECT_TRUE(mine.onGpu());
      const auto perform = [&](Kind kind, int64_t ranks, int64_t stride,
                               std::vector<float> from, size_t count) {
        std::vector<float> to(count);
        const comm::Part part = {
            from.data(), to.data(),
            int64_t(kind == Kind::AllGather ? from.size() : count), "f32"};
        Result<void> done = mine.prepare(ranks, stride);
        EXPECT_TRUE(done) << done.error().message;
        done = mine.perform({kind, ranks, stride, {&part, 1}});
        EXPECT_TRUE(done) << done.error().message;
        return to;
      };
      const auto r = float(rank);
      EXPECT_EQ(perform(Kind::AllGather, 2, 2, {r}, 2),
                (std::vector<float>{float(rank % 2), float(rank % 2 + 2)}));
      EXPECT_EQ(perform(Kind::ReduceScatter, 2, 1, {r, 10 * r}, 1),
                std::vector<float>{rank < 2 ? (rank == 0 ? 1.0F : 10.0F)
                                            : (rank == 2 ? 5.0F : 50.0F)});
      EXPECT_EQ(perform(Kind::AllReduce, 4, 1, {r}, 1),
                std::vector<float>{6.0F});
      // A gather moves bytes, whatever they are.
      const std::vector<float> all = perform(Kind::AllGather, 4, 1, {r}, 4);
      EXPECT_EQ(all, (std::vector<float>{0, 1, 2, 3}));
      EXPECT_EQ(queued.back(), "all_gather 4 x i8 over 4");
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_F(Comm, ACommunicatorOfTheCallerIsSplit) {
  using Init = int (*)(comm::NcclComm *, int, comm::NcclId, int);
  void *library = dlopen(MOEC_FAKE_NCCL, RTLD_NOW);
  const auto init = reinterpret_cast<Init>(dlsym(library, "ncclCommInitRank"));
  const auto destroy = reinterpret_cast<int (*)(comm::NcclComm)>(
      dlsym(library, "ncclCommDestroy"));
  const comm::UniqueId made = *comm::makeUniqueId(MOEC_FAKE_NCCL);
  comm::NcclId id;
  std::ranges::copy(made, id.bytes);
  onRanks([&](int32_t rank) {
    comm::NcclComm lender = nullptr;
    ASSERT_EQ(init(&lender, 2, id, rank), 0);
    moec_comm_options options = optionsOf(rank, nullptr);
    options.nccl_comm = lender;
    moec_comm *comm = nullptr;
    options.rank = 1 - rank;
    EXPECT_EQ(moec_comm_create(&options, &comm), MOEC_INVALID_ARGUMENT);
    EXPECT_EQ(moec_last_error(),
              fmt::format("the ncclComm_t is rank {} of 2, and rank {} of 2 "
                          "was asked for",
                          rank, 1 - rank));
    options.rank = rank;
    ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK) << moec_last_error();
    destroy(lender);
    const float mine = float(rank);
    float sum = 0;
    const comm::Part part = {&mine, &sum, 1, "f32"};
    auto done =
        comm->communicator->perform({Kind::AllReduce, 2, 1, {&part, 1}});
    EXPECT_TRUE(done) << done.error().message;
    EXPECT_EQ(sum, 1.0F);
    moec_comm_destroy(comm);
  });
}

TEST_F(Comm, ErrorsAreNamed) {
  const std::vector<char> id = newId();
  const auto create = [&](const moec_comm_options &options) {
    moec_comm *comm = nullptr;
    const moec_status status = moec_comm_create(&options, &comm);
    moec_comm_destroy(comm);
    return std::pair<moec_status, std::string>(status, moec_last_error());
  };
  moec_comm_options options = optionsOf(0, id.data());
  options.nccl_path = "/nowhere/libnccl.so.2";
  auto [status, text] = create(options);
  EXPECT_EQ(status, MOEC_NO_COMMUNICATION);
  EXPECT_THAT(text, StartsWith("NCCL could not be opened: /nowhere/libnccl"));
  options.unique_id = nullptr, options.nccl_comm = &options;
  std::tie(status, text) = create(options);
  EXPECT_EQ(status, MOEC_NO_COMMUNICATION);
  EXPECT_EQ(text, "an ncclComm_t was given, and no /nowhere/libnccl.so.2 is "
                  "loaded that can have made it");
  options = optionsOf(0, id.data());
  fakeNccl()->version = 21701;
  std::tie(status, text) = create(options);
  EXPECT_EQ(status, MOEC_NO_COMMUNICATION);
  EXPECT_THAT(text, HasSubstr("is NCCL 2.17.1; expected 2.18 or later"));
  fakeNccl()->version = 22907;
  fakeNccl()->initStatus = 2;
  std::tie(status, text) = create(options);
  EXPECT_EQ(status, MOEC_NO_COMMUNICATION);
  EXPECT_EQ(text, "ncclCommInitRank failed: unhandled system error (2)");
  fakeNccl()->initStatus = 0;
  options.rank = 2;
  std::tie(status, text) = create(options);
  EXPECT_EQ(text, "expected a rank from 0 to ranks - 1, got rank 2 of 2");
  options.rank = 0, options.timeout_ms = -1;
  std::tie(status, text) = create(options);
  EXPECT_EQ(text, "timeout_ms: expected milliseconds, or 0 for 60000, got -1");
  options.nccl_comm = &options;
  std::tie(status, text) = create(options);
  EXPECT_EQ(text,
            "expected one of unique_id, nccl_comm, group and all_gather, got "
            "several");
  options.nccl_comm = nullptr, options.unique_id = nullptr;
  std::tie(status, text) = create(options);
  EXPECT_EQ(text, "expected one of unique_id, nccl_comm, group and all_gather, "
                  "got none");
}

TEST_F(Comm, ARankThatDoesNotComeIsNoHang) {
  const std::vector<char> id = newId();
  moec_comm_options options = optionsOf(0, id.data());
  options.timeout_ms = 50;
  moec_comm *comm = nullptr;
  EXPECT_EQ(moec_comm_create(&options, &comm), MOEC_PEER_LOST);
  EXPECT_STREQ(moec_last_error(), "rank 0 waited 50 ms for the other ranks to "
                                  "do ncclCommInitRank");
  // Who comes late ends the wait of the thread that was left alone, and learns
  // that nobody is there.
  options = optionsOf(1, id.data());
  EXPECT_EQ(moec_comm_create(&options, &comm), MOEC_PEER_LOST);
  EXPECT_THAT(moec_last_error(),
              testing::StartsWith("their first collectives failed"));
  for (int wait = 0; wait < 2000 && fakeNccl()->alive > 0; ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  // The rank that left a thread keeps the context that the thread may use.
  (*runtime::cuda::CudaDriver::get())->primaryCtxRelease(0);
}

TEST_F(Comm, FailuresOfCollectivesStay) {
  const comm::UniqueId id = *comm::makeUniqueId(MOEC_FAKE_NCCL);
  onRanks([&](int32_t rank) {
    auto made = connectOneOfTwo(rank, id);
    ASSERT_TRUE(made) << made.error().message;
    if (rank == 1)
      return;
    float mine = 1, sum = 0;
    const comm::Part part = {&mine, &sum, 1, "f32"};
    fakeNccl()->asyncStatus = 6;
    auto done = (*made)->perform({Kind::AllReduce, 2, 1, {&part, 1}});
    fakeNccl()->asyncStatus = 0;
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::PeerLost);
    EXPECT_THAT(done.error().message,
                HasSubstr("what was queued before all_reduce has failed: "
                          "remote process exited"));
    done = (*made)->perform({Kind::AllReduce, 2, 1, {&part, 1}});
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().message,
                StartsWith("the communicator of rank 0 has failed before: what "
                           "was queued before all_reduce has failed"));
  });
}

TEST_F(Comm, OutputsOfAFailedRunAreNan) {
  const std::vector<char> id = newId();
  const RankOfSum ranks[] = {RankOfSum(0), RankOfSum(1)};
  onRanks([&](int32_t rank) {
    const moec_comm_options options = optionsOf(rank, id.data());
    moec_comm *comm = nullptr;
    ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK) << moec_last_error();
    Buffer workspace(1 << 20);
    moec_context *context = nullptr;
    ASSERT_EQ(ranks[rank].createContext(comm, workspace, &context), MOEC_OK)
        << moec_last_error();
    moec_comm_destroy(comm);
    if (rank == 0) {
      const RunData data(TinyShape(), 3);
      std::memset(data.out.data(), 0, data.out.bytes());
      const auto tensors = data.tensors();
      fakeNccl()->asyncStatus = 6;
      EXPECT_EQ(moec_run(ranks[0].layer, context, nullptr, tensors.data(),
                         tensors.size(), 3, nullptr),
                MOEC_PEER_LOST);
      fakeNccl()->asyncStatus = 0;
      for (uint64_t i = 0; i < data.out.bytes() / 2; ++i)
        ASSERT_TRUE(std::isnan(host::fromBf16(data.out.as<uint16_t>()[i])));
    }
    moec_context_destroy(context);
  });
}

/// Failures that NCCL reports break a communicator without a run.
TEST_F(Comm, TheStatusAsksNccl) {
  const std::vector<char> id = newId();
  onRanks([&](int32_t rank) {
    const moec_comm_options options = optionsOf(rank, id.data());
    moec_comm *comm = nullptr;
    ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK) << moec_last_error();
    if (rank == 0) {
      EXPECT_EQ(moec_comm_status(comm), MOEC_OK);
      fakeNccl()->asyncStatus = 6;
      EXPECT_EQ(moec_comm_status(comm), MOEC_PEER_LOST);
      EXPECT_THAT(moec_last_error(),
                  StartsWith("rank 0: NCCL reports remote process exited"));
      fakeNccl()->asyncStatus = 0;
      EXPECT_EQ(moec_comm_status(comm), MOEC_PEER_LOST);
    }
    moec_comm_destroy(comm);
  });
}

/// A call that waits within NCCL for a rank that never comes.
TEST_F(Comm, AbortEndsACallThatWaits) {
  const comm::UniqueId id = *comm::makeUniqueId(MOEC_FAKE_NCCL);
  onRanks([&](int32_t rank) {
    auto made = connectOneOfTwo(rank, id);
    ASSERT_TRUE(made) << made.error().message;
    comm::Communicator &mine = **made;
    if (rank == 1)
      return;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_TRUE(mine.status());
      mine.abort("enough");
      mine.abort("again");
    });
    float one = 1, sum = 0;
    const comm::Part part = {&one, &sum, 1, "f32"};
    auto done = mine.perform({Kind::AllReduce, 2, 1, {&part, 1}});
    other.join();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::PeerLost);
    done = mine.status();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().message,
              "the communicator of rank 0 has failed before: enough");
    EXPECT_FALSE(mine.prepare(2, 1) && mine.perform({}));
  });
}

/// The exchange of a context has a deadline, though NCCL has none.
TEST_F(Comm, AnExchangeHasADeadline) {
  const comm::UniqueId id = *comm::makeUniqueId(MOEC_FAKE_NCCL);
  std::barrier<> both(2);
  onRanks([&](int32_t rank) {
    comm::NcclOptions options;
    options.ranks = 2, options.rank = rank;
    options.path = MOEC_FAKE_NCCL;
    options.timeout = std::chrono::milliseconds(500);
    options.id = id;
    auto made = comm::connectByNccl(options);
    ASSERT_TRUE(made) << made.error().message;
    both.arrive_and_wait();
    fakeGpu()->streamsWait = true;
    auto all = (*made)->exchange(std::string(3, char('a' + rank)),
                                 "create its context");
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().code, ErrorCode::PeerLost);
    EXPECT_EQ(all.error().message,
              fmt::format("rank {} waited 500 ms for the other ranks to create "
                          "its context",
                          rank));
  });
  fakeGpu()->streamsWait = false;
}

/// NCCL connects in the first collective of a communicator.
TEST_F(Comm, FirstCollectivesHaveADeadline) {
  const comm::UniqueId id = *comm::makeUniqueId(MOEC_FAKE_NCCL);
  fakeGpu()->streamsWait = true;
  onRanks([&](int32_t rank) {
    comm::NcclOptions options;
    options.ranks = 2, options.rank = rank;
    options.path = MOEC_FAKE_NCCL;
    options.timeout = std::chrono::milliseconds(200);
    options.id = id;
    auto made = comm::connectByNccl(options);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().message,
              fmt::format("rank {} waited 200 ms for the other ranks to do "
                          "their first collectives",
                          rank));
  });
  fakeGpu()->streamsWait = false;
}

/// NCCL has no deadline for what a stream holds.
TEST_F(Comm, ARunThatWaitsInItsStreamHasADeadline) {
  const std::vector<char> id = newId();
  const RankOfSum ranks[] = {RankOfSum(0), RankOfSum(1)};
  std::barrier<> both(2);
  onRanks([&](int32_t rank) {
    moec_comm_options options = optionsOf(rank, id.data());
    options.timeout_ms = 1000;
    moec_comm *comm = nullptr;
    ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK) << moec_last_error();
    Buffer workspace(1 << 20);
    moec_context *context = nullptr;
    ASSERT_EQ(ranks[rank].createContext(comm, workspace, &context), MOEC_OK)
        << moec_last_error();
    const RunData data(TinyShape(), 3);
    const auto tensors = data.tensors();
    const auto run = [&] {
      return moec_run(ranks[rank].layer, context, nullptr, tensors.data(),
                      tensors.size(), 3, nullptr);
    };
    EXPECT_EQ(run(), MOEC_OK) << moec_last_error();
    // It has ended, and so have later ones as long as streams end.
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    EXPECT_EQ(moec_comm_status(comm), MOEC_OK) << moec_last_error();
    both.arrive_and_wait();
    fakeGpu()->streamsWait = true;
    // More than are watched one by one.
    for (int i = 0; i < 70; ++i)
      ASSERT_EQ(run(), MOEC_OK) << moec_last_error();
    EXPECT_EQ(moec_comm_status(comm), MOEC_OK) << moec_last_error();
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    if (rank == 0) {
      EXPECT_EQ(moec_comm_status(comm), MOEC_PEER_LOST);
      EXPECT_THAT(moec_last_error(), StartsWith("rank 0: a run has waited "));
      EXPECT_THAT(moec_last_error(),
                  HasSubstr(" ms for the other ranks to do the same"));
    }
    std::memset(data.out.data(), 0, data.out.bytes());
    EXPECT_EQ(run(), MOEC_PEER_LOST);
    EXPECT_TRUE(std::isnan(host::fromBf16(data.out.as<uint16_t>()[0])));
    EXPECT_EQ(moec_comm_status(comm), MOEC_PEER_LOST);
    EXPECT_THAT(moec_last_error(), HasSubstr("has failed before"));
    moec_context_destroy(context);
    moec_comm_destroy(comm);
  });
  fakeGpu()->streamsWait = false;
}

TEST_F(Comm, WhatACaptureQueuesIsNotWatched) {
  const std::vector<char> id = newId();
  const RankOfSum ranks[] = {RankOfSum(0), RankOfSum(1)};
  std::barrier<> both(2);
  onRanks([&](int32_t rank) {
    const moec_comm_options options = optionsOf(rank, id.data());
    moec_comm *comm = nullptr;
    ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK) << moec_last_error();
    Buffer workspace(1 << 20);
    moec_context *context = nullptr;
    ASSERT_EQ(ranks[rank].createContext(comm, workspace, &context), MOEC_OK)
        << moec_last_error();
    const RunData data(TinyShape(), 3);
    const auto tensors = data.tensors();
    // How many events the runs of both ranks record.
    const auto recorded = [&](bool capturing) {
      both.arrive_and_wait();
      if (rank == 0)
        fakeGpu()->capturing = capturing;
      const int before = fakeGpu()->eventsRecorded;
      both.arrive_and_wait();
      EXPECT_EQ(moec_run(ranks[rank].layer, context, nullptr, tensors.data(),
                         tensors.size(), 3, nullptr),
                MOEC_OK)
          << moec_last_error();
      both.arrive_and_wait();
      return fakeGpu()->eventsRecorded - before;
    };
    EXPECT_EQ(recorded(/*capturing=*/true), 0);
    EXPECT_EQ(recorded(/*capturing=*/false), 2) << "one of each rank";
    EXPECT_EQ(moec_comm_status(comm), MOEC_OK) << moec_last_error();
    moec_context_destroy(context);
    moec_comm_destroy(comm);
  });
}

/// Facts of a rank may differ: its columns of the intermediate and of the
/// shared experts, and whether it adds a bias.
TEST_F(Comm, RanksOfOnePackageMakeContexts) {
  const std::vector<char> id = newId();
  onRanks([&](int32_t rank) {
    RankOfSum mine(rank, [&](Manifest &manifest) {
      nlohmann::json &layer = *manifest.layer;
      layer["intermediate_size_per_partition"] = 16 + rank;
      layer["shared_intermediate_size_per_partition"] = 8 + rank;
      RankFacts &facts = manifest.ranks.front();
      facts.intermediateBegin = 16 * rank;
      facts.sharedIntermediateBegin = 8 * rank;
      facts.addW2Bias = rank == 0;
    });
    const moec_comm_options options = optionsOf(rank, id.data());
    moec_comm *comm = nullptr;
    ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK) << moec_last_error();
    Buffer workspace(1 << 20);
    moec_context *context = nullptr;
    EXPECT_EQ(mine.createContext(comm, workspace, &context), MOEC_OK)
        << moec_last_error();
    moec_context_destroy(context);
    moec_comm_destroy(comm);
  });
}

/// Ranks that take another number of tokens would wait for each other.
TEST_F(Comm, ContextsOfDifferentPackagesAreTold) {
  struct Row {
    const char *name;
    int64_t first, second;
    void (*set)(Manifest &, int64_t);
  };
  for (const Row &row :
       {Row{"hidden", 128, 256,
            [](Manifest &manifest, int64_t size) {
              manifest.layer["hidden"] = size;
            }},
        Row{"max_tokens", 64, 63, [](Manifest &manifest, int64_t tokens) {
              manifest.maxTokens = tokens;
              for (Variant &variant : manifest.targets[0].variants)
                variant.maxTokens = std::min(variant.maxTokens, tokens);
            }}}) {
    const std::vector<char> id = newId();
    onRanks([&](int32_t rank) {
      const int64_t mine = rank == 0 ? row.first : row.second;
      RankOfSum its(rank, [&](Manifest &manifest) { row.set(manifest, mine); });
      const moec_comm_options options = optionsOf(rank, id.data());
      moec_comm *comm = nullptr;
      ASSERT_EQ(moec_comm_create(&options, &comm), MOEC_OK)
          << moec_last_error();
      Buffer workspace(1 << 20);
      moec_context *context = nullptr;
      EXPECT_EQ(its.createContext(comm, workspace, &context),
                MOEC_PEER_MISMATCH);
      EXPECT_EQ(moec_last_error(),
                fmt::format("ranks of one context have different packages: "
                            "rank {} has {} {}, and rank {} has {} {}",
                            rank, row.name, mine, 1 - rank, row.name,
                            rank == 0 ? row.second : row.first));
      moec_comm_destroy(comm);
    });
  }
}
