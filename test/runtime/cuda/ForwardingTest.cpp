//===- ForwardingTest.cpp - options and streams reach the driver ----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each argument of the C++ interface, and through it of the C interface, seen
// from the fake driver.
//
//===----------------------------------------------------------------------===//

#include "runtime/include/moec/moec.hpp"

#include "test/runtime/cuda/CudaTesting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

using namespace moec;
using namespace moec::test;
using testing::Contains;
using testing::ElementsAre;
using testing::Not;

namespace {

std::vector<std::string> entries, overlapping;
std::vector<std::array<uint64_t, 3>> packed; ///< source, destination, experts
int64_t seenRowStride;

class Forwarding : public testing::Test {
protected:
  Forwarding() {
    EXPECT_EQ(kDriverIsSet, 0);
    reset();
    PackageFiles files = loadablePackage();
    Target &target = files.manifest.targets[0];
    target.values.push_back(value("flags", ValueRole::State, {"i32"}, {75}));
    target.stateRegions = {{"flags", 0}};
    target.stateBytes = 300;
    for (const Kernel &kernel : target.kernels)
      if (kernel.name == "gate_up")
        for (const ArgumentField &field : kernel.arguments.fields)
          if (field.name == "lhs_row_stride")
            strideField() = field;
    auto options = api::loadOptions();
    options.cache_dir = "";
    auto loaded = api::Package::load(
        *api::Files::wrap(MOEC_OK, new moec_package_files{{files}}), options);
    EXPECT_TRUE(loaded) << loaded.error().message;
    package = std::move(*loaded);
  }
  ~Forwarding() override { *fakeGpu() = {}; }

  static ArgumentField &strideField() {
    static ArgumentField field;
    return field;
  }
  static void reset() {
    *fakeGpu() = {};
    entries.clear(), overlapping.clear(), packed.clear();
    fakeGpu()->onLaunch = [](const char *entry, bool overlaps) {
      entries.emplace_back(entry);
      if (overlaps)
        overlapping.emplace_back(entry);
    };
    fakeGpu()->onBlock = [](const char *entry, const char *block) {
      const std::string_view name = entry;
      if (name.starts_with("moec_pack_copy")) {
        std::array<uint64_t, 3> given = {};
        std::memcpy(given.data(), block, sizeof(given));
        packed.push_back(given);
      }
      if (name.starts_with("moec_gate_up")) {
        seenRowStride = 0;
        std::memcpy(&seenRowStride, block + strideField().offset,
                    size_t(strideField().bytes()));
      }
    };
  }
  api::Layer create(const moec_layer_options &options = api::layerOptions()) {
    auto made = api::Layer::create(package, weightTensors(), stream, options);
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
  }
  std::vector<api::Tensor> weightTensors() const {
    return {{"w13", weights.w13.data(), weights.w13Shape},
            {"w2", weights.w2.data(), weights.w2Shape}};
  }
  /// First expert and number of experts of a pack step.
  static std::pair<uint32_t, uint32_t> range(size_t step) {
    return {uint32_t(packed[step][2]), uint32_t(packed[step][2] >> 32)};
  }

  int place = 0;
  void *const stream = &place;
  const Weights weights{{}, 1}, other{{}, 2};
  const Buffer workspace{1 << 16}, scratch{1 << 14};
  api::Package package;
};

} // namespace

TEST_F(Forwarding, OfLayers) {
  reset();
  auto options = api::layerOptions();
  options.scratch = scratch.data();
  options.scratch_bytes = scratch.bytes();
  api::Layer layer = create(options);
  EXPECT_THAT(fakeGpu()->worked, ElementsAre(stream));
  ASSERT_EQ(packed.size(), 2u);
  EXPECT_EQ(packed[0][0], reinterpret_cast<uint64_t>(weights.w13.data()));
  EXPECT_EQ(packed[0][1], reinterpret_cast<uint64_t>(scratch.data()));
  EXPECT_EQ(range(0), std::pair(0u, 3u));
  EXPECT_EQ(range(1), std::pair(3u, 1u));
  reset();
  options = api::layerOptions();
  options.already_packed = 1;
  create(options);
  EXPECT_TRUE(entries.empty());
}

TEST_F(Forwarding, OfPacking) {
  api::Layer layer = create();
  reset();
  const auto done =
      layer.repack({{"w13", other.w13.data(), other.w13Shape}}, 1, 2, stream);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_THAT(fakeGpu()->worked, ElementsAre(stream));
  ASSERT_EQ(packed.size(), 1u);
  EXPECT_EQ(packed[0][0], reinterpret_cast<uint64_t>(other.w13.data()));
  EXPECT_EQ(range(0), std::pair(1u, 2u));
  // Memory of the host needs no alignment.
  reset();
  const Buffer memory(other.w2.bytes() + 1);
  const std::vector<api::Tensor> to = {
      {"w2", memory.as<char>() + 1, other.w2Shape}};
  EXPECT_EQ(layer.unpack(to, stream).error().status, MOEC_MISALIGNED);
  auto options = api::unpackOptions();
  options.to_host = 1;
  const auto unpacked = layer.unpack(to, stream, options);
  EXPECT_TRUE(unpacked) << unpacked.error().message;
  EXPECT_EQ(
      std::memcmp(memory.as<char>() + 1, weights.w2.data(), weights.w2.bytes()),
      0);
  EXPECT_THAT(fakeGpu()->waited, Contains(stream));
}

TEST_F(Forwarding, OfContexts) {
  const Buffer state(300);
  auto options = api::contextOptions();
  options.state = state.data(), options.state_bytes = 299;
  EXPECT_EQ(api::Context::create(package, workspace.data(), 1 << 16, options)
                .error()
                .status,
            MOEC_WORKSPACE_TOO_SMALL);
  EXPECT_EQ(state.as<unsigned char>()[0], 0xFF);
  options.state_bytes = 300;
  const int before = fakeGpu()->allocated;
  const auto made =
      api::Context::create(package, workspace.data(), 1 << 16, options);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(fakeGpu()->allocated, before);
  const auto *bytes = state.as<unsigned char>();
  EXPECT_EQ(std::count(bytes, bytes + 300, 0), 300);
  EXPECT_EQ(bytes[300], 0xFF);
}

TEST_F(Forwarding, OfRuns) {
  const api::Layer layer = create();
  auto context = api::Context::create(package, workspace.data(), 1 << 16);
  ASSERT_TRUE(context) << context.error().message;
  const RunData data({}, 64);
  // Rows of x have gaps.
  const Buffer wide(64 * 24 * 2);
  std::vector<api::Tensor> tensors = {
      {"x", wide.data(), {64, 16}, {24, 1}},
      {"logits", data.logits.data(), {64, 4}, {}, "f32"},
      {"out", data.out.data(), {64, 16}}};
  const auto run = [&](const moec_run_options &options) {
    reset();
    const auto done = context->run(layer, stream, tensors, 64, options);
    EXPECT_TRUE(done) << done.error().message;
    EXPECT_THAT(fakeGpu()->worked, ElementsAre(stream));
    EXPECT_TRUE(fakeGpu()->waited.empty());
  };
  auto options = api::runOptions();
  run(options);
  EXPECT_EQ(seenRowStride, 24);
  EXPECT_THAT(entries, Contains("moec_waits_90a"));
  EXPECT_EQ(entries.front(), "moec_route_90a");
  EXPECT_THAT(overlapping, Not(Contains("moec_route_90a")));
  EXPECT_EQ(overlapping.size(), entries.size() - 1);
  options.overlap_previous = 1;
  run(options);
  EXPECT_EQ(overlapping, entries);
  options.overlap_previous = 0;
  options.variant = "large";
  run(options);
  EXPECT_THAT(entries, Not(Contains("moec_waits_90a")));
  EXPECT_THAT(entries, Contains("moec_combine_90a"));
  tensors[0].strides.clear();
  run(options);
  EXPECT_EQ(seenRowStride, 16);
  tensors[1].elementType = "i8";
  EXPECT_EQ(context->run(layer, stream, tensors, 64).error().status,
            MOEC_INVALID_ARGUMENT);
  tensors[1].elementType.clear();
  // Other memory and size of the workspace.
  const Buffer small(256);
  EXPECT_EQ(moec_context_set_workspace(context->get(), small.data(), 256),
            MOEC_OK);
  EXPECT_EQ(context->run(layer, stream, tensors, 64).error().status,
            MOEC_WORKSPACE_TOO_SMALL);
  EXPECT_EQ(moec_context_set_workspace(context->get(), workspace.data(),
                                       workspace.bytes()),
            MOEC_OK);
  run(options);
}

TEST_F(Forwarding, OfQueries) {
  EXPECT_EQ(package.name(), "tiny");
  EXPECT_EQ(package.arch(), "sm_90a");
  EXPECT_EQ(package.device(), "fake GPU");
  EXPECT_EQ(package.maxTokens(), 64);
  EXPECT_NE(package.loadReport().find("\"sm_count\":132"), std::string::npos);
  EXPECT_EQ(*package.valueBytes("x", 5), 5u * 16 * 2);
  EXPECT_EQ(*package.valueShape("x", 5), (std::vector<int64_t>{5, 16}));
  EXPECT_LT(*package.workspaceBytes(1), *package.workspaceBytes(64));
}
