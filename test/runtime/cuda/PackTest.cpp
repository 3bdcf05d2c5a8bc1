//===- PackTest.cpp - what packing gives the driver -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Launches of the driver of FakeCuda.cpp: experts, addresses and scratch of
// each step, the numbers that are read first, configurations of launches.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/cuda/CudaTesting.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <utility>

using namespace moec;
using namespace moec::test;
using testing::HasSubstr;

namespace {

struct Step {
  std::string kernel;
  uint64_t source, destination;
  int64_t first;
  unsigned experts;
  unsigned ctas;
};
std::vector<Step> steps;

/// The argument block of the tiny package's pack kernels.
struct PackBlock {
  uint64_t source, destination;
  int32_t first, experts;
};

class Packing : public testing::Test {
protected:
  Packing() {
    steps.clear();
    *fakeGpu() = {};
    EXPECT_EQ(kDriverIsSet, 0);
    fakeGpu()->onLaunch = [](const char *, bool) {};
    fakeGpu()->onBlock = [](const char *entry, const char *block) {
      PackBlock given;
      std::memcpy(&given, block, sizeof(given));
      steps.push_back({entry, given.source, given.destination, given.first,
                       unsigned(given.experts), 0});
    };
    fakeGpu()->onConfig = [](const char *, const FakeLaunch &launch) {
      steps.back().ctas = launch.grid[0];
    };
  }
  ~Packing() override {
    moec_layer_destroy(layer);
    moec_package_destroy(package);
    *fakeGpu() = {};
  }
  Packing(const Packing &) = delete;
  Packing &operator=(const Packing &) = delete;

  void load(PackageFiles files = loadablePackage()) {
    const moec_package_files handle{{std::move(files)}};
    moec_load_options options = {};
    options.struct_size = sizeof(options);
    options.cache_dir = "";
    ASSERT_EQ(moec_package_load_files(&handle, &options, &package), MOEC_OK)
        << moec_last_error();
  }
  moec_status create(const std::vector<moec_tensor> &tensors,
                     void *scratch = nullptr, uint64_t bytes = 0) {
    moec_layer_options options = {};
    options.struct_size = sizeof(options);
    options.scratch = scratch;
    options.scratch_bytes = bytes;
    moec_layer_destroy(std::exchange(layer, nullptr));
    return moec_layer_create(package, tensors.data(), tensors.size(), &options,
                             nullptr, &layer);
  }
  uint64_t scratchBytes() const {
    uint64_t bytes = 0;
    EXPECT_EQ(moec_package_pack_scratch_bytes(package, &bytes), MOEC_OK);
    return bytes;
  }
  /// Two launches for each of `ranges`, from `from` by `scratch` to `to`.
  void expectSteps(const std::vector<std::pair<int64_t, unsigned>> &ranges,
                   const void *from, uint64_t scratch, const void *to) {
    ASSERT_EQ(steps.size(), 2 * ranges.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      const bool isFirst = i % 2 == 0;
      const Step &step = steps[i];
      EXPECT_EQ(step.kernel,
                isFirst ? "moec_pack_copy_90a" : "moec_pack_interleave_90a");
      EXPECT_EQ(step.source,
                isFirst ? reinterpret_cast<uint64_t>(from) : scratch);
      EXPECT_EQ(step.destination,
                isFirst ? scratch : reinterpret_cast<uint64_t>(to));
      EXPECT_EQ(step.first, ranges[i / 2].first) << i;
      EXPECT_EQ(step.experts, ranges[i / 2].second) << i;
      EXPECT_EQ(step.ctas, ranges[i / 2].second) << i;
    }
  }

  Weights weights{{}, 1};
  moec_package *package = nullptr;
  moec_layer *layer = nullptr;
};

} // namespace

/// Without scratch of the caller's, packing waits and frees its own.
TEST_F(Packing, StepsOfSomeExperts) {
  load();
  const int held = fakeGpu()->allocated;
  fakeGpu()->synchronizations = 0;
  ASSERT_EQ(create(weights.tensors()), MOEC_OK) << moec_last_error();
  ASSERT_EQ(steps.size(), 4u);
  expectSteps({{0, 3}, {3, 1}}, weights.w13.data(), steps[0].destination,
              weights.w13.data());
  EXPECT_GE(fakeGpu()->synchronizations, 1);
  EXPECT_EQ(fakeGpu()->allocated, held);
}

TEST_F(Packing, ScratchOfTheCaller) {
  load();
  const uint64_t bytes = scratchBytes();
  EXPECT_EQ(bytes, 3u * 2 * 16 * 16 * 2);
  const Buffer scratch(bytes + 256);
  EXPECT_EQ(create(weights.tensors(), scratch.data(), bytes - 1),
            MOEC_WORKSPACE_TOO_SMALL);
  EXPECT_EQ(create(weights.tensors(), scratch.as<char>() + 128, bytes),
            MOEC_MISALIGNED);
  EXPECT_EQ(steps.size(), 0u);
  fakeGpu()->synchronizations = 0;
  ASSERT_EQ(create(weights.tensors(), scratch.data(), bytes), MOEC_OK)
      << moec_last_error();
  expectSteps({{0, 3}, {3, 1}}, weights.w13.data(),
              reinterpret_cast<uint64_t>(scratch.data()), weights.w13.data());
  EXPECT_EQ(fakeGpu()->synchronizations, 0);
}

TEST_F(Packing, SomeExpertsAgain) {
  load();
  const uint64_t bytes = scratchBytes();
  const Buffer scratch(bytes), packed(weights.w13.bytes());
  std::vector<moec_tensor> tensors = weights.tensors();
  tensors.push_back(tensor("w13_packed", packed.data(), weights.w13Shape));
  ASSERT_EQ(create(tensors, scratch.data(), bytes), MOEC_OK)
      << moec_last_error();
  const auto at = reinterpret_cast<uint64_t>(scratch.data());
  expectSteps({{0, 3}, {3, 1}}, weights.w13.data(), at, packed.data());
  const Weights others({}, 9);
  const moec_tensor again[] = {others.tensors()[0]};
  const struct {
    int64_t first, count;
    std::vector<std::pair<int64_t, unsigned>> steps;
  } rows[] = {{0, 4, {{0, 3}, {3, 1}}}, {1, 3, {{1, 3}}}, {1, 2, {{1, 2}}},
              {3, 1, {{3, 1}}},         {0, 0, {}},       {4, 0, {}}};
  for (const auto &row : rows) {
    steps.clear();
    ASSERT_EQ(moec_layer_repack(layer, again, 1, row.first, row.count,
                                scratch.data(), bytes, nullptr),
              MOEC_OK)
        << moec_last_error();
    expectSteps(row.steps, others.w13.data(), at, packed.data());
  }
  for (const auto &[first, count] :
       {std::pair<int64_t, int64_t>(-1, 1), {0, 5}, {4, 1}, {5, 0}, {1, -1}}) {
    steps.clear();
    EXPECT_EQ(moec_layer_repack(layer, again, 1, first, count, scratch.data(),
                                bytes, nullptr),
              MOEC_INVALID_ARGUMENT)
        << first << " " << count;
    EXPECT_EQ(steps.size(), 0u);
  }
  // A capture may pack again, if nothing has to be allocated.
  fakeGpu()->capturing = true;
  EXPECT_EQ(moec_layer_repack(layer, again, 1, 0, 4, nullptr, 0, nullptr),
            MOEC_CAPTURING);
  EXPECT_EQ(
      moec_layer_repack(layer, again, 1, 0, 4, scratch.data(), bytes, nullptr),
      MOEC_OK)
      << moec_last_error();
}

TEST_F(Packing, FailuresOfTheDriver) {
  load();
  const int held = fakeGpu()->allocated;
  fakeGpu()->allocationsFail = true;
  EXPECT_EQ(create(weights.tensors()), MOEC_DRIVER_FAILED);
  EXPECT_THAT(moec_last_error(), HasSubstr("3072 bytes were asked for"));
  EXPECT_EQ(steps.size(), 0u);
  fakeGpu()->allocationsFail = false;
  fakeGpu()->synchronizationsFail = true;
  EXPECT_EQ(create(weights.tensors()), MOEC_DRIVER_FAILED);
  EXPECT_THAT(moec_last_error(),
              HasSubstr("waiting for the weights to be packed"));
  fakeGpu()->synchronizationsFail = false;
  fakeGpu()->onLaunch = nullptr;
  EXPECT_EQ(create(weights.tensors()), MOEC_DRIVER_FAILED);
  EXPECT_THAT(moec_last_error(), HasSubstr("kernel pack_copy with grid 3 x 1"));
  EXPECT_EQ(fakeGpu()->allocated, held);
  fakeGpu()->onLaunch = [](const char *, bool) {};
  fakeGpu()->capturing = true;
  EXPECT_EQ(create(weights.tensors()), MOEC_CAPTURING);
}

/// A layer reads biases in GPU memory before it packs, but no large scales.
TEST_F(Packing, NumbersInGpuMemory) {
  PackageFiles files = loadablePackage();
  for (const char *name : {"b2", "w2_scale"})
    files.manifest.values.push_back(
        value(name, ValueRole::StoredWeight, {"f32"}, {4, 16}));
  load(std::move(files));
  Buffer bias(4 * 16 * 4), scale(4 * 16 * 4);
  std::vector<moec_tensor> tensors = weights.tensors();
  tensors.push_back(tensor("b2", bias.data(), {4, 16}));
  tensors.push_back(tensor("w2_scale", scale.data(), {4, 16}));
  const auto fill = [](const Buffer &buffer, float number) {
    std::fill_n(buffer.as<float>(), 64, number);
  };
  fill(bias, 1), fill(scale, 0); // a scale that would be refused
  for (const int last : {0, 17, 63}) {
    bias.as<float>()[last] = NAN;
    steps.clear();
    EXPECT_EQ(create(tensors), MOEC_INVALID_ARGUMENT) << last;
    EXPECT_THAT(moec_last_error(), HasSubstr("b2"));
    EXPECT_EQ(steps.size(), 0u);
    bias.as<float>()[last] = 1;
  }
  fakeGpu()->copies = fakeGpu()->synchronizations = 0;
  const Buffer scratch(scratchBytes());
  ASSERT_EQ(create(tensors, scratch.data(), scratch.bytes()), MOEC_OK)
      << moec_last_error();
  EXPECT_EQ(fakeGpu()->copies, 1) << "the bias alone";
  EXPECT_EQ(fakeGpu()->synchronizations, 1);
  EXPECT_EQ(steps.size(), 4u);
  fakeGpu()->copies = 0, fakeGpu()->failAt = 1;
  EXPECT_EQ(create(tensors), MOEC_DRIVER_FAILED);
  EXPECT_THAT(moec_last_error(), HasSubstr("reading scales and biases"));
  fakeGpu()->failAt = 0;
  fakeGpu()->synchronizationsFail = true;
  EXPECT_EQ(create(tensors), MOEC_DRIVER_FAILED);
  EXPECT_THAT(moec_last_error(), HasSubstr("waiting for the given weights"));
}

static std::map<std::string, FakeLaunch> launches;

/// A launch has the threads, the shared memory, the cluster and the kind of its
/// kernel.
TEST_F(Packing, ConfigurationsOfLaunches) {
  PackageFiles files = loadablePackage();
  for (Kernel &kernel : files.manifest.targets[0].kernels) {
    if (kernel.name == "gate_up") {
      kernel.cluster = {1, 2, 1};
      kernel.sharedBytes = 4096;
      kernel.threads = 384;
    }
    if (kernel.name == "down")
      kernel.programmatic = false;
  }
  for (Variant &variant : files.manifest.targets[0].variants)
    for (Launch &launch : variant.launches)
      if (launch.kernel == "gate_up")
        launch.grid.ctas[1] = Expression(4);
  launches.clear();
  load(std::move(files));
  ASSERT_EQ(create(weights.tensors()), MOEC_OK) << moec_last_error();
  fakeGpu()->onBlock = nullptr;
  fakeGpu()->onConfig = [](const char *entry, const FakeLaunch &launch) {
    launches[entry] = launch;
  };
  const OwnContext context(package, 64);
  ASSERT_EQ(context.status, MOEC_OK) << moec_last_error();
  const RunData data({}, 64);
  const std::vector<moec_tensor> tensors = data.tensors();
  ASSERT_EQ(moec_run(layer, context.handle, nullptr, tensors.data(),
                     tensors.size(), 64, nullptr),
            MOEC_OK)
      << moec_last_error();
  const FakeLaunch &gateUp = launches.at("moec_gate_up_90a");
  EXPECT_EQ(gateUp.threads, 384u);
  EXPECT_EQ(gateUp.sharedBytes, 4096u);
  EXPECT_EQ(gateUp.cluster[0], 1u);
  EXPECT_EQ(gateUp.cluster[1], 2u);
  EXPECT_EQ(gateUp.cluster[2], 1u);
  EXPECT_TRUE(gateUp.overlaps);
  EXPECT_FALSE(gateUp.cooperative);
  EXPECT_EQ(gateUp.grid[0], 12u); // of 128 rows, 16 a tile, and 4 experts
  EXPECT_EQ(gateUp.grid[1], 4u);
  EXPECT_EQ(gateUp.grid[2], 1u);
  const FakeLaunch &down = launches.at("moec_down_90a");
  EXPECT_FALSE(down.overlaps);
  EXPECT_EQ(down.threads, 128u);
  EXPECT_EQ(down.sharedBytes, 0u);
  EXPECT_EQ(down.cluster[0], 1u);
  const FakeLaunch &last = launches.at("moec_waits_90a");
  EXPECT_TRUE(last.cooperative);
  EXPECT_EQ(last.grid[0], 128u); // rows, fewer than SMs
  EXPECT_FALSE(launches.at("moec_route_90a").overlaps) << "it is the first";
  EXPECT_TRUE(launches.at("moec_permute_90a").overlaps);
}
