//===- NcclTest.cpp - what ranks ask of NCCL ------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Nccl.h"
#include "runtime/comm/NcclLibrary.h"
#include "test/runtime/SumManifest.h"
#include "test/runtime/cuda/WindowTesting.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <gmock/gmock.h>

using namespace moec;
using namespace moec::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using Kind = Collective::Kind;

namespace {

thread_local std::vector<void *> streams;
thread_local std::vector<std::string> calls;

class OverNccl : public testing::Test {
protected:
  OverNccl() {
    EXPECT_EQ(kDriverIsSet, 0);
    *fakeGpu() = {};
    FakeNccl &nccl = *fakeNccl();
    nccl.version = 22907;
    nccl.initStatus = nccl.asyncStatus = nccl.callStatus = 0;
    nccl.inProgress = nccl.aborted = nccl.splits = nccl.freedEarly = 0;
    nccl.noWindow = false;
    nccl.onCall = [](const char *call) { calls.emplace_back(call); };
    nccl.onStream = [](void *stream) { streams.push_back(stream); };
    fakeGpu()->onLaunch = [](const char *, bool) {};
  }
  ~OverNccl() override {
    EXPECT_EQ(fakeNccl()->alive, 0);
    EXPECT_EQ(fakeNccl()->memory, 0);
    EXPECT_EQ(fakeNccl()->freedEarly, 0);
    fakeNccl()->onCall = nullptr;
    fakeNccl()->onStream = nullptr;
  }

  /// Runs something on connected ranks, each of which is a thread.
  static void onRanks(int64_t ranks, comm::NcclOptions options,
                      const std::function<void(comm::Communicator &)> &what) {
    options.ranks = ranks;
    options.path = MOEC_FAKE_NCCL;
    options.id = *comm::makeUniqueId(MOEC_FAKE_NCCL);
    std::vector<std::thread> threads;
    for (int64_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back([=] {
        comm::NcclOptions mine = options;
        mine.rank = rank;
        auto made = comm::connectByNccl(mine);
        ASSERT_TRUE(made) << made.error().message;
        EXPECT_EQ((*made)->rank(), rank);
        EXPECT_EQ((*made)->size(), ranks);
        streams.clear(), calls.clear();
        what(**made);
      });
    for (std::thread &thread : threads)
      thread.join();
  }

  /// The sum over two ranks of 1, with the stream of a call.
  static Result<void> sum(comm::Communicator &mine, void *stream = nullptr) {
    float one = 1, sum = 0;
    const comm::Part part = {&one, &sum, 1, "f32"};
    Result<void> done =
        mine.perform({Kind::AllReduce, 2, 1, {&part, 1}, stream, 3});
    EXPECT_EQ(sum, done ? 2.0F : sum);
    return done;
  }
};

} // namespace

/// Collectives are queued on the stream of the call, after what is there, and
/// watched there. An exchange has a stream of its own.
TEST_F(OverNccl, StreamsOfCollectives) {
  static int places[2];
  static void *own[2];
  onRanks(2, {}, [](comm::Communicator &mine) {
    void *stream = &places[mine.rank()];
    EXPECT_TRUE(sum(mine, stream));
    EXPECT_THAT(streams, ElementsAre(stream));
    streams.clear();
    const auto all = mine.exchange(std::string(5, char('a' + mine.rank())),
                                   "create its context");
    ASSERT_TRUE(all) << all.error().message;
    EXPECT_EQ(std::string(all->begin(), all->end()), "aaaaabbbbb");
    EXPECT_THAT(calls, ElementsAre("all_reduce 1 x f32 over 2",
                                   "all_gather 5 x i8 over 2"));
    ASSERT_EQ(streams.size(), 1u);
    EXPECT_THAT(streams[0],
                testing::AllOf(testing::Ne(stream), testing::NotNull()));
    own[mine.rank()] = streams[0];
  });
  EXPECT_TRUE(fakeGpu()->queried.contains(own[0]));
  EXPECT_TRUE(fakeGpu()->queried.contains(own[1]));
  EXPECT_THAT(fakeGpu()->recorded,
              testing::UnorderedElementsAre(&places[0], &places[1]));
}

/// The operands of a call are one group, each of its elements.
TEST_F(OverNccl, ElementsOfCollectives) {
  onRanks(2, {}, [](comm::Communicator &mine) {
    const std::vector<char> from(512, 0);
    std::vector<char> to(1024);
    const auto perform = [&](Kind kind, const std::vector<comm::Part> &parts) {
      calls.clear();
      const Result<void> done = mine.perform({kind, 2, 1, parts, nullptr, 3});
      EXPECT_TRUE(done) << done.error().message;
    };
    const auto part = [&](int64_t elements, std::string_view type) {
      return comm::Part{from.data(), to.data(), elements, type};
    };
    perform(Kind::AllReduce, {part(3, "f16"), part(5, "bf16"), part(7, "f32")});
    EXPECT_THAT(calls, ElementsAre("all_reduce 3 x f16 over 2",
                                   "all_reduce 5 x bf16 over 2",
                                   "all_reduce 7 x f32 over 2"));
    perform(Kind::ReduceScatter,
            {part(3, "f16"), part(5, "bf16"), part(7, "f32")});
    EXPECT_THAT(calls, ElementsAre("reduce_scatter 3 x f16 over 2",
                                   "reduce_scatter 5 x bf16 over 2",
                                   "reduce_scatter 7 x f32 over 2"));
    // Bytes, whatever they mean.
    perform(Kind::AllGather, {part(3, "f16"), part(6, "f4E2M1FN"),
                              part(7, "f32"), part(9, "i8")});
    EXPECT_THAT(calls, ElementsAre("all_gather 6 x i8 over 2",
                                   "all_gather 3 x i8 over 2",
                                   "all_gather 28 x i8 over 2",
                                   "all_gather 9 x i8 over 2"));
  });
}

TEST(BytesOfParts, AreWhole) {
  const auto bytes = [](int64_t elements, std::string_view type) {
    return comm::bytesOf({nullptr, nullptr, elements, type});
  };
  EXPECT_EQ(*bytes(6, "i4"), 3);
  EXPECT_EQ(*bytes(5, "bf16"), 10);
  EXPECT_EQ(bytes(5, "i4").error().message,
            "a collective moves 5 elements of i4, which do not end with a "
            "byte");
  EXPECT_EQ(bytes(5, "i5").error().message,
            "a collective moves elements of type 'i5', which is none");
}

/// Groups are split once, and a group that was not is an error of moec.
TEST_F(OverNccl, GroupsAreMadeOnce) {
  onRanks(4, {}, [](comm::Communicator &mine) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(mine.prepare(4, 1));
      EXPECT_TRUE(mine.prepare(2, 2));
    }
    const Result<void> done = mine.perform({Kind::AllReduce, 2, 1, {}});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::Internal);
    EXPECT_EQ(done.error().message,
              "groups of 2 ranks, 1 apart, were not prepared");
  });
  EXPECT_EQ(fakeNccl()->splits, 4);
  EXPECT_EQ(fakeNccl()->aborted, 0);
}

/// Communicators of a caller may not block: their calls are polled to the end.
TEST_F(OverNccl, CallsInProgress) {
  comm::NcclOptions options;
  options.timeout = std::chrono::milliseconds(300);
  onRanks(1, options, [](comm::Communicator &mine) {
    const auto sum = [&] {
      float one = 1, sum = 0;
      const comm::Part part = {&one, &sum, 1, "f32"};
      return mine.perform({Kind::AllReduce, 1, 1, {&part, 1}, nullptr, 3});
    };
    // One that was queued before is no failure.
    fakeNccl()->inProgress = 5;
    EXPECT_TRUE(mine.status());
    EXPECT_TRUE(sum());
    EXPECT_EQ(fakeNccl()->inProgress, 0);
    fakeNccl()->inProgress = 1 << 30;
    const Result<void> done = sum();
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().message, StartsWith("all_reduce failed: "));
    EXPECT_THAT(done.error().message, HasSubstr("(7)"));
    fakeNccl()->inProgress = 0;
    EXPECT_FALSE(mine.status());
  });
}

/// NCCL's communicators are destroyed, or aborted where one has failed.
TEST_F(OverNccl, TheEndOfCommunicators) {
  onRanks(2, {}, [](comm::Communicator &) {});
  EXPECT_EQ(fakeNccl()->aborted, 0);
  onRanks(2, {}, [](comm::Communicator &mine) { mine.abort("enough"); });
  EXPECT_EQ(fakeNccl()->aborted, 2);
  fakeNccl()->aborted = 0;
  onRanks(2, {}, [](comm::Communicator &mine) {
    ASSERT_TRUE(mine.prepare(1, 1));
    const Result<void> done = mine.perform({Kind::AllReduce, 7, 1, {}});
    EXPECT_FALSE(done);
    const comm::Part unknown = {nullptr, nullptr, 1, "i5"};
    EXPECT_FALSE(mine.perform({Kind::AllReduce, 2, 1, {&unknown, 1}}));
  });
  EXPECT_EQ(fakeNccl()->aborted, 4) << "the group's and that of all";
}

/// Windows of NCCL are of the size that was asked for, zeroed, and NCCL's until
/// its communicator ends.
TEST_F(OverNccl, MemoryOfWindows) {
  comm::NcclOptions options;
  options.ncclWindows = true;
  onRanks(2, options, [](comm::Communicator &mine) {
    auto first = mine.window(512), second = mine.window(768);
    ASSERT_TRUE(first && second);
    EXPECT_EQ((*first)->bytes(), 512);
    EXPECT_EQ((*second)->bytes(), 768);
    for (const auto *window : {&*first, &*second}) {
      const auto *own = reinterpret_cast<const char *>((*window)->own());
      EXPECT_EQ(std::count(own, own + (*window)->bytes(), 0),
                (*window)->bytes());
    }
    EXPECT_NE((*first)->own(), (*second)->own());
    first->reset();
    EXPECT_GE(fakeNccl()->memory, 2);
    EXPECT_TRUE(mine.status());
    (*second)->block().code = unsigned(moe::ExchangeEnd::PeerBroke);
    EXPECT_FALSE(mine.status());
  });
}

/// Ranks of one package may differ in some facts, and in no others.
TEST_F(OverNccl, FactsOfRanks) {
  PackageFiles files = loadablePackage();
  addSum(files.manifest);
  using Change = std::function<void(Manifest &)>;
  const auto set = [](const char *name, const nlohmann::json &value) {
    return Change([=](Manifest &m) { (*m.layer)[name] = value; });
  };
  struct Row {
    const char *name;
    Change change;
    bool same;
  };
  const Row rows[] = {
      {"intermediate_begin", set("intermediate_begin", 64), true},
      {"intermediate_size_per_partition",
       set("intermediate_size_per_partition", 8), true},
      {"local_experts", set("local_experts", {{"begin", 2}, {"count", 2}}),
       true},
      {"add_w2_bias", set("add_w2_bias", false), true},
      {"add_zero_experts", set("add_zero_experts", false), true},
      {"name", set("name", "other"), true},
      {"shared_intermediate_begin", set("shared_intermediate_begin", 3), true},
      {"shared_intermediate_size_per_partition",
       set("shared_intermediate_size_per_partition", 3), true},
      {"top_k", set("top_k", 3), false},
      {"num_experts", set("num_experts", 99), false},
      {"package", [](Manifest &m) { m.name = "other"; }, false},
      {"max_tokens", [](Manifest &m) { --m.maxTokens; }, false},
      {"a window of",
       [](Manifest &m) {
         m.targets[0].windowRanks = 2, m.targets[0].windowBytes = 512;
       },
       false},
      {"out in the window at",
       [](Manifest &m) { m.targets[0].windowRegions = {{"out", 256}}; }, false},
      {"over 3 of",
       [](Manifest &m) {
         for (Variant &variant : m.targets[0].variants)
           variant.launches.back().collective->ranks = 3;
       },
       false},
      {"reduce_scatter",
       [](Manifest &m) {
         for (Variant &variant : m.targets[0].variants)
           variant.launches.back().collective->kind = Kind::ReduceScatter;
       },
       false},
      {"partial as f32",
       [](Manifest &m) {
         for (Value &value : m.targets[0].values)
           if (value.name == "partial")
             value.elementTypes = {"f32"};
       },
       false},
  };
  onRanks(2, {}, [&](comm::Communicator &mine) {
    for (const Row &row : rows) {
      Manifest manifest = files.manifest;
      if (mine.rank() == 1)
        row.change(manifest);
      const Result<void> done = comm::compareRanks(mine, manifest);
      EXPECT_EQ(bool(done), row.same) << row.name;
      if (done)
        continue;
      EXPECT_EQ(done.error().code, ErrorCode::PeerMismatch) << row.name;
      EXPECT_THAT(done.error().message, HasSubstr(row.name));
      EXPECT_THAT(done.error().message,
                  HasSubstr(fmt::format("rank {} has ", mine.rank())));
    }
    // Behind what fits the record, the hash tells.
    Manifest manifest = files.manifest;
    manifest.layer["z_long"] =
        std::string(9000, 'x') + std::to_string(mine.rank());
    const Result<void> done = comm::compareRanks(mine, manifest);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::PeerMismatch);
  });
}

/// The communicator has the ranks and the rank of the package.
TEST_F(OverNccl, TheRanksOfThePackage) {
  PackageFiles files = loadablePackage();
  addSum(files.manifest);
  Manifest &manifest = files.manifest;
  onRanks(2, {}, [&](comm::Communicator &mine) {
    const auto problem = [&](int64_t ranks, int64_t rank, bool onGpu) {
      Manifest asked = manifest;
      for (Variant &variant : asked.targets[0].variants)
        variant.launches.back().collective->ranks = ranks;
      asked.ranks.front().rank = rank;
      const Result<void> done =
          comm::check(&mine, asked, asked.targets[0], onGpu);
      return done ? std::string() : done.error().message;
    };
    EXPECT_EQ(problem(2, mine.rank(), true), "");
    EXPECT_EQ(problem(1, 5, true), "") << "a package without others";
    EXPECT_EQ(problem(2, 1 - mine.rank(), true),
              fmt::format("package tiny was loaded for rank {}, and the "
                          "communicator is of rank {}",
                          1 - mine.rank(), mine.rank()));
    EXPECT_EQ(problem(4, mine.rank(), true),
              "package tiny is for 4 ranks, and the communicator connects 2");
    EXPECT_EQ(problem(2, mine.rank(), false),
              "package tiny runs on the host device, and the communicator "
              "moves memory of a GPU");
  });
}
