//===- WrapperTest.cpp - the C++ header over the C interface --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// As an engine would use moec.hpp.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/api/ApiTesting.h"
#include "test/runtime/weights/CheckpointTesting.h"

#include "runtime/include/moec/moec.hpp"

#include <gtest/gtest.h>

using namespace moec::test;

namespace {
/// The same as the wrapper has it.
std::vector<moec::api::Tensor> owned(const std::vector<moec_tensor> &given) {
  std::vector<moec::api::Tensor> made;
  for (const moec_tensor &one : given)
    made.push_back({one.name, one.data, {one.shape, one.shape + one.rank}});
  return made;
}
} // namespace

// WrapperC.c, where MOEC_SHAPE is.
extern "C" moec_status runFromC(const moec_layer *layer, moec_context *context,
                                void *x, void *logits, void *out,
                                int64_t tokens);

TEST(Wrapper, LoadCreateRun) {
  auto files =
      moec::api::Files::wrap(MOEC_OK, new moec_package_files{{tinyPackage()}});
  auto options = moec::api::loadOptions();
  options.device = MOEC_DEVICE_HOST;
  auto package = moec::api::Package::load(*files, options);
  ASSERT_TRUE(package) << package.error().message;
  EXPECT_EQ(package->name(), "tiny");
  Weights weights({}, 1);
  auto layer =
      moec::api::Layer::create(*package, owned(weights.tensors()), nullptr);
  ASSERT_TRUE(layer) << layer.error().message;
  const Weights given({}, 1);
  Buffer unpacked(given.w13.bytes());
  auto again =
      layer->unpack({{"w13", unpacked.data(), given.w13Shape}}, nullptr);
  EXPECT_TRUE(again) << again.error().message;
  EXPECT_TRUE(unpacked == given.w13);
  EXPECT_FALSE(layer->unpack({{"w3", unpacked.data(), {}}}, nullptr));
  auto bytes = package->workspaceBytes(7);
  ASSERT_TRUE(bytes);
  Buffer workspace(*bytes);
  auto context = moec::api::Context::create(*package, workspace.data(), *bytes);
  ASSERT_TRUE(context);
  RunData data({}, 7);
  auto done = context->run(*layer, nullptr, owned(data.tensors()), 7);
  EXPECT_TRUE(done) << done.error().message;
  EXPECT_NE(data.out.as<uint16_t>()[0], 0xFFFF);
  auto refused = context->run(*layer, nullptr, owned(data.tensors()), 1000);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, MOEC_TOO_MANY_TOKENS);
  EXPECT_FALSE(moec::api::Package::load("/nowhere", options));

  auto shape = package->valueShape("w2", 7);
  ASSERT_TRUE(shape);
  EXPECT_EQ(*shape, (std::vector<int64_t>{4, 16, 16}));
  EXPECT_EQ(package->valueShape("w3", 7).error().message,
            "package tiny has no value 'w3'");
  auto tensors = owned(data.tensors());
  tensors[0].strides = {16};
  EXPECT_EQ(context->run(*layer, nullptr, tensors, 7).error().message,
            "tensor 'x': expected 2 strides, one for each extent, got 1");
  tensors[0].strides = {8, 1};
  EXPECT_EQ(context->run(*layer, nullptr, tensors, 7).error().status,
            MOEC_INVALID_ARGUMENT);
  Buffer out(data.out.bytes());
  EXPECT_EQ(runFromC(layer->get(), context->get(), data.x.data(),
                     data.logits.data(), out.data(), 7),
            MOEC_OK)
      << moec_last_error();
  EXPECT_TRUE(out == data.out);
}

TEST(Wrapper, Checkpoints) {
  auto files = tinyPackage();
  files.manifest.layer->update(nlohmann::json::parse(R"({
    "intermediate_size_per_partition": 16, "activation": {"gated": true},
    "local_experts": {"begin": 0, "count": 4},
    "quant": {"w1": {"group": []}, "w2": {"group": []}}})"));
  auto options = moec::api::loadOptions();
  options.device = MOEC_DEVICE_HOST;
  auto package = moec::api::Package::load(
      *moec::api::Files::wrap(MOEC_OK, new moec_package_files{{files}}),
      options);
  ASSERT_TRUE(package) << package.error().message;
  const Folder folder;
  folder.write("a.safetensors",
               fileOf({{"layers.5.experts.w2", filled("BF16", {4, 16, 16}, 7)},
                       {"layers.5.experts.gate_up_proj",
                        filled("BF16", {4, 32, 16}, 9)}}));
  auto checkpoint = moec::api::Checkpoint::open(folder.path);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(*checkpoint->layers(),
            R"([{"layer":5,"prefix":"","experts":null,)"
            R"("shared_experts":false,"holds":["weights"]}])");
  auto weights = moec::api::Weights::open(*checkpoint, *package, -1);
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_EQ(weights->layer(), 5);
  Buffer w13(4 * 32 * 16 * 2), w2(16 * 16 * 2);
  EXPECT_TRUE(weights->load({{"w13", w13.data(), {4, 32, 16}}}));
  EXPECT_EQ(w13.as<uint16_t>()[4 * 32 * 16 - 1], 0x0909);
  EXPECT_TRUE(weights->load({{"w2", w2.data(), {1, 16, 16}}}, 3, 1));
  EXPECT_EQ(w2.as<uint16_t>()[16 * 16 - 1], 0x0707);
  EXPECT_EQ(
      weights->load({{"w2", w2.data(), {1, 16, 16}}}, 4, 1).error().status,
      MOEC_INVALID_ARGUMENT);
  EXPECT_FALSE(moec::api::Weights::open(*checkpoint, *package, 6));
  EXPECT_FALSE(moec::api::Checkpoint::open("/nowhere"));
  auto map = package->weightMap();
  ASSERT_TRUE(map);
  EXPECT_EQ(nlohmann::json::parse(*map)["values"].size(), 2u);
}
