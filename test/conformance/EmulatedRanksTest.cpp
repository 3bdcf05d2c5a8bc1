//===- EmulatedRanksTest.cpp - ranks on emulated GPUs ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs packages with each rank in a thread and on an emulated GPU. Kernels of
// all_to_all = one_sided reach the windows of other GPUs by peer access;
// gather_scatter is connected by the emulator's NCCL. Each rank must get the
// whole layer's output for its tokens, and the emulator must report nothing.
//
//===----------------------------------------------------------------------===//

#include "runtime/api/Context.h"
#include "runtime/comm/Nccl.h"
#include "runtime/comm/NcclLibrary.h"
#include "runtime/comm/Peers.h"
#include "runtime/host/RankGroup.h"
#include "runtime/support/Sha256.h"
#include "test/conformance/RankRuns.h"

#include <cstdlib>
#include <thread>

using namespace moec;
using namespace moec::test;
using runtime::cuda::CUstream;

namespace {

constexpr const char *kOneSided = ", all_to_all = \"one_sided\"";
constexpr const char *kGatherScatter = ", all_to_all = \"gather_scatter\"";

std::string emulatorPath() {
  return std::string(std::getenv("MOEC_BINARY_DIR")) +
         "/lib/libmoec-emulator.so";
}

comm::PeerOptions peerOptions(int64_t rank) {
  comm::PeerOptions options;
  options.ordinal = int(rank);
  return options;
}

/// A rank's package, weights and context on a GPU.
class GpuRank {
public:
  GpuRank(const Shares &shares, int64_t number)
      : host(takeRank(shares, number)), number(number) {}

  /// Loads the package and connects it: by NCCL if there is an id, else within
  /// the group. All ranks do it together.
  Result<void> open(const Shares &shares, host::RankGroup &group,
                    const std::optional<comm::UniqueId> &id) {
    place = TRY(runtime::CudaPlace::find(int(number)));
    const runtime::ContextScope scope(*place.driver, place.context);
    TRY(place.driver->check(
        place.driver->streamCreate(&stream, runtime::cuda::kStreamNonBlocking),
        "cuStreamCreate"));
    runtime::LoadOptions options;
    options.ordinal = int(number);
    options.rank = number;
    package = TRY(runtime::Package::load(shares, options));
    std::vector<runtime::Tensor> weights;
    for (const auto &[name, bytes] : host.stored)
      weights.push_back(TRY(upload(name, bytes, 1)));
    for (const Pack &pack : package->target().pack)
      if (!pack.inPlace)
        weights.push_back(TRY(allocate(pack.result, 1)));
    layer = TRY(runtime::Layer::create(package, weights, {}, stream));
    auto end = TRY(group.end(number));
    std::shared_ptr<comm::Communicator> communicator;
    if (id) {
      comm::NcclOptions nccl;
      nccl.ranks = end->size(), nccl.rank = number;
      nccl.ordinal = int(number), nccl.path = emulatorPath(), nccl.id = id;
      communicator = TRY(comm::connectByNccl(nccl));
    } else {
      communicator =
          TRY(comm::connectPeers(std::move(end), peerOptions(number)));
    }
    constexpr int64_t kMaxTokens = 16;
    const int64_t bytes = TRY(package->workspaceBytes(kMaxTokens));
    workspace = TRY(runtime::DeviceMemory::allocate(place, uint64_t(bytes)));
    context = TRY(runtime::Context::create(
        package, reinterpret_cast<void *>(workspace.address()), uint64_t(bytes),
        {}, communicator));
    return {};
  }

  /// Runs a batch of tokens and leaves their output in `out`.
  Result<void> run(int64_t tokens, const Bytes &x, const Bytes &logits) {
    const runtime::ContextScope scope(*place.driver, place.context);
    std::vector<runtime::Tensor> tensors = {
        TRY(upload("x", x, tokens)), TRY(upload("logits", logits, tokens)),
        TRY(allocate("out", tokens))};
    TRY(context->run(*layer, stream, tensors, tokens, {}));
    TRY(place.driver->check(place.driver->streamSynchronize(stream),
                            "cuStreamSynchronize"));
    out = Bytes(tokens * host.layer.hidden * 4);
    return place.driver->check(
        place.driver->memcpyDtoH(
            out.span.data(),
            reinterpret_cast<runtime::cuda::CUdeviceptr>(tensors.back().data),
            out.span.size()),
        "cuMemcpyDtoH");
  }

  Rank host; ///< for its weights
  Bytes out;

private:
  Result<runtime::Tensor> allocate(std::string_view name, int64_t tokens) {
    const Value *value =
        findValue(package->manifest(), package->target(), name);
    if (!value)
      return invalidArgument("the package has no value {}", name);
    const Symbols symbols = TRY(symbolsFor(
        package->manifest(), TRY(tokensOfRanks(package->manifest(), tokens)),
        package->smCount()));
    runtime::Tensor tensor;
    tensor.name = name;
    tensor.rank = int32_t(value->shape.size());
    for (size_t i = 0; i < value->shape.size(); ++i)
      tensor.shape[i] = TRY(value->shape[i].evaluate(symbols));
    memory.push_back(TRY(runtime::DeviceMemory::allocate(
        place, uint64_t(TRY(valueBytes(*value, symbols))))));
    tensor.data = reinterpret_cast<void *>(memory.back().address());
    return tensor;
  }
  Result<runtime::Tensor> upload(std::string_view name, const Bytes &bytes,
                                 int64_t tokens) {
    runtime::Tensor tensor = TRY(allocate(name, tokens));
    TRY(place.driver->upload(memory.back().address(), bytes.span.data(),
                             bytes.span.size()));
    return tensor;
  }

  const int64_t number;
  runtime::CudaPlace place;
  CUstream stream = nullptr;
  std::vector<runtime::DeviceMemory> memory;
  runtime::DeviceMemory workspace;
  std::shared_ptr<const runtime::Package> package;
  std::unique_ptr<runtime::Layer> layer;
  std::unique_ptr<runtime::Context> context;
};

/// A layout, and the emulator's timing. Of a seeded fault also the text of a
/// header that it changes, and the new one.
struct Emulated {
  Layout layout;
  const char *timing;
  const char *from = nullptr, *to = nullptr;
};

/// Replaces a text in the headers of all shares.
void replaceText(Shares &shares, std::string_view from, std::string_view to) {
  size_t count = 0;
  for (PackageFiles &files : shares)
    for (auto &[path, text] : files.files) {
      for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;
           ++count)
        text.replace(at, from.size(), to);
      if (files.manifest.files.contains(path))
        files.manifest.files[path] = sha256(text);
    }
  EXPECT_GT(count, 0U) << from;
}
void PrintTo(const Emulated &emulated, std::ostream *out) {
  *out << emulated.layout.name << " " << emulated.timing;
}

/// Makes every later load of this process one on emulated GPUs. False if the
/// process has others already: the driver is opened once.
bool emulate(const std::string &settings) {
  static const std::string first = settings;
  const std::string library = emulatorPath();
  if (const char *real = std::getenv("MOEC_NVRTC_PATH");
      real && real != library)
    setenv("MOEC_EMULATOR_NVRTC", real, /*overwrite=*/1);
  setenv("MOEC_CUDA_DRIVER_PATH", library.c_str(), /*overwrite=*/1);
  setenv("MOEC_NVRTC_PATH", library.c_str(), /*overwrite=*/1);
  setenv("MOEC_WORKER", "off", /*overwrite=*/1);
  setenv("MOEC_EMULATOR", settings.c_str(), /*overwrite=*/1);
  return first == settings;
}

class OfEmulated : public testing::TestWithParam<Emulated> {
protected:
  void SetUp() override {
    const char *nvrtc = std::getenv("MOEC_NVRTC_PATH");
    if (!nvrtc || !*nvrtc)
      GTEST_SKIP() << "no NVRTC on this machine";
    if (!emulate(std::string("arch=sm_90a devices=2 seed=5 timing=") +
                 GetParam().timing))
      GTEST_SKIP() << "a process emulates in one timing";
  }

  /// Calls body(rank) for each, in a thread of its own, and returns the
  /// results.
  template <typename Body>
  std::vector<Result<void>> runThreads(std::vector<GpuRank> &ranks,
                                       host::RankGroup &group, Body body) {
    std::vector<Result<void>> results(ranks.size());
    std::vector<std::thread> threads;
    for (size_t r = 0; r < ranks.size(); ++r)
      threads.emplace_back([&, r] {
        results[r] = body(ranks[r], int64_t(r));
        if (!results[r])
          group.abort("a rank failed");
      });
    for (std::thread &thread : threads)
      thread.join();
    return results;
  }
  template <typename Body>
  void inThreads(std::vector<GpuRank> &ranks, host::RankGroup &group,
                 Body body) {
    const auto results = runThreads(ranks, group, body);
    for (size_t r = 0; r < ranks.size(); ++r)
      ASSERT_TRUE(results[r])
          << "rank " << r << ": " << results[r].error().message;
  }

  /// Compiles the ranks of the layout, with the case's fault if it has one,
  /// copies their weights from `whole`, and opens them in threads. `id`: of the
  /// communicator, if the layout has collectives.
  void openRanks(const Rank &whole, const std::optional<comm::UniqueId> &id) {
    const Layout &layout = GetParam().layout;
    shares = compileRanks(layout);
    if (GetParam().from)
      replaceText(shares, GetParam().from, GetParam().to);
    for (int64_t r = 0; r < layout.ranks; ++r) {
      ranks.emplace_back(shares, r);
      ranks.back().host.takeWeights(whole);
    }
    group = *host::RankGroup::create(layout.ranks, {});
    inThreads(ranks, *group, [&](GpuRank &rank, int64_t) {
      return rank.open(shares, *group, id);
    });
  }

  Shares shares;
  std::vector<GpuRank> ranks;
  std::shared_ptr<host::RankGroup> group;
};

TEST_P(OfEmulated, EachRankGetsTheLayerOfItsTokens) {
  const Layout &layout = GetParam().layout;
  Rank whole(compileRank(layout, ""));
  whole.fillWeights();
  std::optional<comm::UniqueId> id;
  if (std::string_view(layout.more) == kGatherScatter) {
    const auto made = comm::makeUniqueId(emulatorPath());
    ASSERT_TRUE(made) << made.error().message;
    id = *made;
  }
  ASSERT_NO_FATAL_FAILURE(openRanks(whole, id));
  const int64_t hidden = layout.hidden;
  const int64_t rowBytes = hidden * whole.layer.inputType->bytes;
  // The window serves one run after the other.
  for (const int64_t tokens : {1, 6, 5}) {
    SCOPED_TRACE(fmt::format("{} tokens", tokens));
    const int64_t all = tokens * layout.ranks;
    Bytes x(all * rowBytes), logits(all * layout.experts * 4);
    fillX(whole.layer, kSeed, 0, all, x.span.data(), hidden);
    ASSERT_TRUE(fillLogits(whole.layer, kSeed, "uniform", 0, all,
                           *whole.layer.logitsType, logits.span.data()));
    const auto wanted = whole.run(all, x, logits);
    ASSERT_TRUE(wanted) << wanted.error().message;
    const auto runOne = [&](GpuRank &rank, int64_t r) {
      Bytes myX(tokens * rowBytes), mine(tokens * layout.experts * 4);
      std::memcpy(myX.span.data(), x.span.data() + r * tokens * rowBytes,
                  myX.span.size());
      std::memcpy(mine.span.data(),
                  logits.span.data() + r * tokens * layout.experts * 4,
                  mine.span.size());
      return rank.run(tokens, myX, mine);
    };
    if (GetParam().from) {
      for (const Result<void> &result : runThreads(ranks, *group, runOne)) {
        ASSERT_FALSE(result) << "nothing was seen";
        EXPECT_NE(result.error().message.find("CUDA_ERROR_LAUNCH_FAILED"),
                  std::string::npos)
            << result.error().message;
      }
      return;
    }
    ASSERT_NO_FATAL_FAILURE(inThreads(ranks, *group, runOne));
    for (size_t r = 0; r < ranks.size(); ++r) {
      const auto *out =
          reinterpret_cast<const float *>(ranks[r].out.span.data());
      const auto *expected =
          reinterpret_cast<const float *>(whole.out.span.data()) +
          int64_t(r) * tokens * hidden;
      std::vector<double> sums(expected, expected + tokens * hidden);
      std::vector<int64_t> rows(static_cast<size_t>(tokens));
      std::iota(rows.begin(), rows.end(), 0);
      const reference::Report report = reference::compareRows(
          sums, rows, hidden, out, *reference::findElement("f32"), hidden,
          layout.tolerance);
      EXPECT_TRUE(report.passed) << "rank " << r << ": " << report.text;
    }
  }
}

/// Ranks that run with different token counts.
class MismatchedRanks : public OfEmulated {};

TEST_P(MismatchedRanks, EachNamesBothTokenCounts) {
  const Layout &layout = GetParam().layout;
  Rank whole(compileRank(layout, ""));
  whole.fillWeights();
  ASSERT_NO_FATAL_FAILURE(openRanks(whole, std::nullopt));
  const int64_t rowBytes = layout.hidden * whole.layer.inputType->bytes;
  const auto tokensOf = [](int64_t rank) { return 3 + rank; };
  const auto runOne = [&](GpuRank &rank, int64_t r) {
    const int64_t tokens = tokensOf(r);
    Bytes x(tokens * rowBytes), logits(tokens * layout.experts * 4);
    fillX(whole.layer, kSeed, 0, tokens, x.span.data(), layout.hidden);
    EXPECT_TRUE(fillLogits(whole.layer, kSeed, "uniform", 0, tokens,
                           *whole.layer.logitsType, logits.span.data()));
    return rank.run(tokens, x, logits);
  };
  // The first run is already queued when the kernels find the difference.
  ASSERT_NO_FATAL_FAILURE(inThreads(ranks, *group, runOne));
  for (int64_t r = 0; r < layout.ranks; ++r) {
    const auto *out =
        reinterpret_cast<const float *>(ranks[size_t(r)].out.span.data());
    EXPECT_TRUE(std::all_of(out, out + tokensOf(r) * layout.hidden,
                            [](float number) { return std::isnan(number); }))
        << "rank " << r;
    const Result<void> next = runOne(ranks[size_t(r)], r);
    ASSERT_FALSE(next) << "rank " << r;
    EXPECT_EQ(next.error().code, ErrorCode::PeerMismatch);
    EXPECT_EQ(next.error().message,
              fmt::format("rank {} runs with {} tokens, and rank {} with {}, "
                          "in run 1 of the context",
                          r, tokensOf(r), 1 - r, tokensOf(1 - r)));
  }
}

/// A layout whose ranks have tokens of their own. Kernels round the
/// intermediate like the host device but add in another order.
Layout ofTwoGpus(Layout layout, const char *mode = kOneSided) {
  layout.more = mode;
  layout.hidden = 128, layout.intermediate = 128;
  layout.tolerance = 0.02;
  return layout;
}

const Layout kExperts =
    ofTwoGpus({"ep2", "dp = 2, ep", 2, 8, "bf16", "grouped", "silu"});
// Each rank has half of the columns of every expert, and tokens of its own.
const Layout kTensors =
    ofTwoGpus({"tp2", "tp = 2, sp = 2", 2, 4, "bf16", "grouped", "silu"});

const Layout kGathered =
    ofTwoGpus({"ep2_gathered", "dp = 2, ep", 2, 8, "bf16", "grouped", "silu"},
              kGatherScatter);

INSTANTIATE_TEST_SUITE_P(
    Ranks, OfEmulated,
    testing::Values(Emulated{kExperts, "late"}, Emulated{kExperts, "random"},
                    Emulated{kTensors, "late"}, Emulated{kTensors, "random"},
                    Emulated{kGathered, "late"}, Emulated{kGathered, "random"}),
    [](const auto &info) {
      return std::string(info.param.layout.name) + "_" + info.param.timing;
    });

INSTANTIATE_TEST_SUITE_P(Ranks, MismatchedRanks,
                         testing::Values(Emulated{kExperts, "random"},
                                         Emulated{kTensors, "late"}),
                         [](const auto &info) {
                           return std::string(info.param.layout.name) + "_" +
                                  info.param.timing;
                         });

// Words that another GPU reads need the scope of the system on both sides.
INSTANTIATE_TEST_SUITE_P(
    Faults, OfEmulated,
    testing::Values(Emulated{kExperts, "random", "st.release.sys.global.u64",
                             "st.release.gpu.global.u64"},
                    Emulated{kTensors, "late", "ld.acquire.sys.global.u64",
                             "ld.acquire.gpu.global.u64"}),
    [](const auto &info) {
      return std::string(info.param.layout.name) + "_" + info.param.timing;
    });

/// A rank on an emulated GPU that calls NCCL itself.
Result<void> sumByNccl(const comm::Nccl &nccl, const comm::NcclId &id, int rank,
                       size_t count, std::vector<float> &sums) {
  const runtime::CudaPlace place = TRY(runtime::CudaPlace::find(rank));
  const runtime::ContextScope scope(*place.driver, place.context);
  comm::NcclComm comm = nullptr;
  const auto check = [&](int status) -> Result<void> {
    if (status != comm::kNcclSuccess)
      return nccl.failed("a call", status);
    return {};
  };
  TRY(check(nccl.initRank(&comm, 2, id, rank)));
  const auto memory = TRY(runtime::DeviceMemory::allocate(place, 64));
  // 2^-8 is less than half of bf16's last bit of 2.
  const std::vector<uint16_t> mine(16, rank == 0 ? 0x4000 : 0x3B80);
  TRY(place.driver->upload(memory.address(), mine.data(), 32));
  auto *at = reinterpret_cast<void *>(memory.address());
  constexpr int kBfloat = 9;
  TRY(check(nccl.allReduce(at, at, count, kBfloat, comm::kSum, comm,
                           /*stream=*/nullptr)));
  std::vector<uint16_t> out(16);
  Result<void> done = place.driver->check(
      place.driver->memcpyDtoH(out.data(), memory.address(), 32),
      "cuMemcpyDtoH");
  for (const uint16_t bits : out)
    sums.push_back(std::bit_cast<float>(uint32_t(bits) << 16));
  nccl.destroy(comm);
  return done;
}

/// The results of two ranks that sum so many elements each.
std::array<Result<void>, 2> sumOfTwo(std::array<size_t, 2> counts,
                                     std::array<std::vector<float>, 2> &sums) {
  const auto nccl = comm::openNccl(emulatorPath(), /*loadedAlone=*/false);
  EXPECT_TRUE(nccl) << nccl.error().message;
  comm::NcclId id;
  EXPECT_EQ(nccl->getUniqueId(&id), comm::kNcclSuccess);
  std::array<Result<void>, 2> results;
  std::thread other([&] {
    results[1] = sumByNccl(*nccl, id, /*rank=*/1, counts[1], sums[1]);
  });
  results[0] = sumByNccl(*nccl, id, /*rank=*/0, counts[0], sums[0]);
  other.join();
  return results;
}

TEST(EmulatedRanks, SumsAreRoundedToTheirType) {
  const char *nvrtc = std::getenv("MOEC_NVRTC_PATH");
  if (!nvrtc || !*nvrtc)
    GTEST_SKIP() << "no NVRTC on this machine";
  if (!emulate("arch=sm_90a devices=2"))
    GTEST_SKIP() << "a process emulates in one timing";
  std::array<std::vector<float>, 2> sums;
  for (const Result<void> &result : sumOfTwo({15, 15}, sums))
    ASSERT_TRUE(result) << result.error().message;
  // Bytes behind the sum stay.
  EXPECT_EQ(sums[0], (std::vector<float>(16, 2.0F)));
  std::vector<float> second(16, 2.0F);
  second.back() = 0.00390625F;
  EXPECT_EQ(sums[1], second);
}

TEST(EmulatedRanks, CollectivesOfOtherSizesAreReported) {
  const char *nvrtc = std::getenv("MOEC_NVRTC_PATH");
  if (!nvrtc || !*nvrtc)
    GTEST_SKIP() << "no NVRTC on this machine";
  if (!emulate("arch=sm_90a devices=2"))
    GTEST_SKIP() << "a process emulates in one timing";
  std::array<std::vector<float>, 2> sums;
  // A longer one than the memory, and one that the other rank does not call.
  for (const std::array<size_t, 2> counts :
       {std::array<size_t, 2>{40, 40}, {8, 4}})
    for (const Result<void> &result : sumOfTwo(counts, sums)) {
      ASSERT_FALSE(result) << "nothing was seen";
      EXPECT_NE(result.error().message.find("CUDA_ERROR_LAUNCH_FAILED"),
                std::string::npos)
          << result.error().message;
    }
}

/// Ranks of a group have no NCCL.
TEST(EmulatedRanks, CollectivesNeedNccl) {
  const char *nvrtc = std::getenv("MOEC_NVRTC_PATH");
  if (!nvrtc || !*nvrtc)
    GTEST_SKIP() << "no NVRTC on this machine";
  if (!emulate("arch=sm_90a devices=2"))
    GTEST_SKIP() << "a process emulates in one timing";
  auto group = *host::RankGroup::create(1, {});
  auto end = group->end(0);
  ASSERT_TRUE(end);
  auto peers = comm::connectPeers(std::move(*end), peerOptions(0));
  ASSERT_TRUE(peers) << peers.error().message;
  const Result<void> prepared = (*peers)->prepare(1, 1);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, ErrorCode::NoCommunication);
}

} // namespace
