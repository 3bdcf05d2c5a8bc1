//===- ApiCommTest.cpp - ranks of one process -----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two ranks of the host device as threads: each gets the sum of both.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/SumManifest.h"
#include "test/runtime/api/ApiTesting.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

using namespace moec;
using namespace moec::test;
using testing::HasSubstr;

namespace {

PackageFiles sumPackage(int64_t rank) {
  PackageFiles files = tinyPackage();
  addSum(files.manifest);
  files.manifest.ranks.front().rank = rank;
  return files;
}

struct Group {
  explicit Group(int32_t ranks, int32_t timeout = 0) {
    EXPECT_EQ(moec_comm_group_create(ranks, timeout, &handle), MOEC_OK)
        << moec_last_error();
  }
  ~Group() { moec_comm_group_destroy(handle); }
  moec_comm_group *handle = nullptr;
};

moec_comm_options optionsOf(const Group &group, int32_t ranks, int32_t rank) {
  moec_comm_options options = {};
  options.struct_size = sizeof(options);
  options.ranks = ranks, options.rank = rank;
  options.group = group.handle;
  return options;
}

/// A run of a rank of a group of two.
moec_status runRank(const Group &group, int32_t rank, const RunData &data) {
  const TinyLayer mine(sumPackage(rank));
  const Weights weights(TinyShape(), 3);
  const LayerHandle layer(mine.package, weights.tensors());
  const moec_comm_options options = optionsOf(group, 2, rank);
  moec_comm *comm = nullptr;
  if (const moec_status status = moec_comm_create(&options, &comm))
    return status;
  uint64_t bytes = 0;
  (void)moec_package_workspace_bytes(mine.package, data.tokens, &bytes);
  const Buffer workspace(bytes);
  moec_context_options given = {};
  given.struct_size = sizeof(given);
  given.comm = comm;
  moec_context *context = nullptr;
  moec_status status = moec_context_create(mine.package, workspace.data(),
                                           bytes, &given, &context);
  moec_comm_destroy(comm);
  const auto tensors = data.tensors();
  if (status == MOEC_OK)
    status = moec_run(layer.handle, context, nullptr, tensors.data(),
                      tensors.size(), data.tokens, nullptr);
  moec_context_destroy(context);
  return status;
}

} // namespace

TEST(ApiComm, RanksOfOneProcessSum) {
  for (const int64_t tokens : {3, 20}) {
    const RunData alone(TinyShape(), tokens), first(TinyShape(), tokens),
        second(TinyShape(), tokens);
    const TinyLayer tiny;
    const Weights weights(TinyShape(), 3);
    const LayerHandle layer(tiny.package, weights.tensors());
    const OwnContext context(tiny.package, tokens);
    ASSERT_EQ(run(layer, context, alone.tensors(), tokens), MOEC_OK);
    const Group group(2);
    moec_status other = MOEC_OK;
    std::thread thread([&] { other = runRank(group, 1, second); });
    EXPECT_EQ(runRank(group, 0, first), MOEC_OK) << moec_last_error();
    thread.join();
    EXPECT_EQ(other, MOEC_OK);
    EXPECT_EQ(first.out, second.out);
    // Twice a number of bf16 is one, too.
    for (uint64_t i = 0; i < alone.out.bytes() / 2; ++i)
      ASSERT_EQ(host::fromBf16(first.out.as<uint16_t>()[i]),
                2 * host::fromBf16(alone.out.as<uint16_t>()[i]))
          << i;
  }
}

namespace {

/// A rank of two with a layer and a context, made in a thread of its own.
struct RankOfTwo {
  RankOfTwo(const Group &group, int32_t rank)
      : mine(sumPackage(rank)), layer(mine.package, weights.tensors()) {
    const moec_comm_options options = optionsOf(group, 2, rank);
    EXPECT_EQ(moec_comm_create(&options, &comm), MOEC_OK);
    uint64_t bytes = 0;
    EXPECT_EQ(moec_package_workspace_bytes(mine.package, 64, &bytes), MOEC_OK);
    workspace = std::make_unique<Buffer>(bytes);
    moec_context_options given = {};
    given.struct_size = sizeof(given);
    given.comm = comm;
    EXPECT_EQ(moec_context_create(mine.package, workspace->data(), bytes,
                                  &given, &context),
              MOEC_OK)
        << moec_last_error();
  }
  ~RankOfTwo() {
    moec_context_destroy(context);
    moec_comm_destroy(comm);
  }
  moec_status run(const RunData &data) const {
    const auto tensors = data.tensors();
    return moec_run(layer.handle, context, nullptr, tensors.data(),
                    tensors.size(), data.tokens, nullptr);
  }

  const Weights weights{TinyShape(), 3};
  const TinyLayer mine;
  const LayerHandle layer;
  std::unique_ptr<Buffer> workspace;
  moec_comm *comm = nullptr;
  moec_context *context = nullptr;
};

struct BothRanks {
  explicit BothRanks(const Group &group) {
    std::thread other([&] { second = std::make_unique<RankOfTwo>(group, 1); });
    first = std::make_unique<RankOfTwo>(group, 0);
    other.join();
  }
  std::unique_ptr<RankOfTwo> first, second;
};

bool isNan(const RunData &data) {
  for (uint64_t i = 0; i < data.out.bytes() / 2; ++i)
    if (!std::isnan(host::fromBf16(data.out.as<uint16_t>()[i])))
      return false;
  return true;
}

} // namespace

TEST(ApiComm, AfterALostRankOutputsAreNanAndOthersRun) {
  const RunData data(TinyShape(), 3), late(TinyShape(), 3);
  for (const RunData *each : {&data, &late})
    std::memset(each->out.data(), 0, each->out.bytes());
  const Group group(2, /*timeout=*/2000);
  const BothRanks ranks(group);
  EXPECT_EQ(moec_comm_status(ranks.first->comm), MOEC_OK);
  EXPECT_EQ(ranks.first->run(data), MOEC_PEER_LOST);
  const std::string reason =
      "rank 0 waited 2000 ms for rank 1 to do all_reduce";
  EXPECT_EQ(moec_last_error(), reason);
  EXPECT_TRUE(isNan(data));
  // The other rank learns it, at once and from the status.
  for (moec_comm *comm : {ranks.first->comm, ranks.second->comm}) {
    EXPECT_EQ(moec_comm_status(comm), MOEC_PEER_LOST);
    EXPECT_EQ(moec_last_error(), reason);
  }
  EXPECT_EQ(ranks.second->run(late), MOEC_PEER_LOST);
  EXPECT_TRUE(isNan(late));
  const TinyLayer tiny;
  const Weights weights(TinyShape(), 3);
  const LayerHandle layer(tiny.package, weights.tensors());
  const OwnContext context(tiny.package, 3);
  EXPECT_EQ(run(layer, context, data.tensors(), 3), MOEC_OK);
  EXPECT_FALSE(isNan(data));
}

TEST(ApiComm, AnotherThreadEndsAWait) {
  const RunData data(TinyShape(), 3);
  const Group group(2);
  const BothRanks ranks(group);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(moec_comm_abort(ranks.first->comm), MOEC_OK);
  });
  EXPECT_EQ(ranks.first->run(data), MOEC_PEER_LOST);
  EXPECT_STREQ(moec_last_error(),
               "rank 0 ended it: moec_comm_abort was called");
  other.join();
  EXPECT_EQ(ranks.second->run(data), MOEC_PEER_LOST);
  EXPECT_EQ(moec_comm_abort(nullptr), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(moec_comm_status(nullptr), MOEC_INVALID_ARGUMENT);
}

TEST(ApiComm, RanksWithOtherTokenCountsAreTold) {
  const RunData three(TinyShape(), 3), four(TinyShape(), 4);
  const Group group(2);
  const BothRanks ranks(group);
  std::thread other([&] {
    EXPECT_EQ(ranks.second->run(four), MOEC_PEER_MISMATCH);
    EXPECT_THAT(moec_last_error(),
                HasSubstr("rank 1 does a run of 4 tokens, all_reduce"));
    EXPECT_THAT(moec_last_error(),
                HasSubstr("rank 0 does a run of 3 tokens, all_reduce"));
  });
  EXPECT_EQ(ranks.first->run(three), MOEC_PEER_MISMATCH);
  other.join();
  EXPECT_TRUE(isNan(three));
  EXPECT_TRUE(isNan(four));
  EXPECT_EQ(moec_comm_status(ranks.first->comm), MOEC_PEER_LOST);
}

TEST(ApiComm, ErrorsAreNamed) {
  const RunData data(TinyShape(), 3);
  const Group group(2, /*timeout=*/30);
  EXPECT_EQ(runRank(group, 0, data), MOEC_PEER_LOST);
  EXPECT_STREQ(moec_last_error(),
               "rank 0 waited 30 ms for rank 1 to create its context");
  const Group three(3);
  moec_comm_options options = optionsOf(three, 2, 0);
  moec_comm *comm = nullptr;
  EXPECT_EQ(moec_comm_create(&options, &comm), MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(), "the group has 3 ranks, and 2 were given");
  options = optionsOf(three, 3, 0);
  options.nccl_path = "libnccl.so.2";
  EXPECT_EQ(moec_comm_create(&options, &comm), MOEC_INVALID_ARGUMENT);
  EXPECT_THAT(moec_last_error(),
              HasSubstr("nccl_path and nccl_windows are not of ranks without "
                        "NCCL"));
  EXPECT_EQ(moec_comm_create(nullptr, &comm), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(moec_comm_unique_id(nullptr, nullptr), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(moec_comm_group_create(2, 0, nullptr), MOEC_INVALID_ARGUMENT);
  moec_comm_group *none = nullptr;
  EXPECT_EQ(moec_comm_group_create(0, 0, &none), MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(),
               "expected a group of 1 to 4096 ranks, which are threads of this "
               "process, got 0");
  moec_comm_destroy(nullptr);
  moec_comm_group_destroy(nullptr);
}
