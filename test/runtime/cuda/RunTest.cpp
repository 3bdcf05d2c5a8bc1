//===- RunTest.cpp - what a run gives the driver --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Launches of the driver of FakeCuda.cpp: the tensor maps in argument blocks,
// from run to run of one context.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/cuda/CudaTesting.h"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace moec;
using namespace moec::test;

namespace {

/// The tiny package with a kernel that reads x by a tensor map.
PackageFiles mappedPackage() {
  PackageFiles package = loadablePackage();
  Target &target = package.manifest.targets[0];
  TensorMap map;
  map.name = "x_map";
  map.value = "x";
  map.elementType = "bf16";
  map.extents = {Expression(16), Expression::symbol("tokens")};
  map.strides = {Expression(32)};
  map.box = {16, 8};
  map.elementStrides = {1, 1};
  map.interleave = "none";
  map.swizzle = "32b";
  map.l2Promotion = "none";
  map.outOfBoundsFill = "zeros";
  target.tensorMaps = {map};
  BlockBuilder block;
  block.add("x", ArgumentField::Kind::TensorMap).tensorMap = map.name;
  block.pointer("lhs", "x").rowStride("lhs_row_stride", "x").pointer("rows");
  block.pointer("tiles").pointer("tile_count").pointer("rhs", "w13_packed");
  block.pointer("result", "t");
  for (Kernel &each : target.kernels)
    if (each.name == "gate_up")
      each.arguments = block.build();
  return package;
}

/// The tiny package with a kernel that reads w2 by a tensor map alone.
PackageFiles mappedWeightPackage() {
  PackageFiles package = loadablePackage();
  Target &target = package.manifest.targets[0];
  TensorMap map;
  map.name = "w2_map";
  map.value = "w2";
  map.elementType = "bf16";
  map.extents = {Expression(16), Expression(64)};
  map.strides = {Expression(32)};
  map.box = {16, 8};
  map.elementStrides = {1, 1};
  map.interleave = "none";
  map.swizzle = "32b";
  map.l2Promotion = "none";
  map.outOfBoundsFill = "zeros";
  target.tensorMaps = {map};
  BlockBuilder block;
  block.add("rhs", ArgumentField::Kind::TensorMap).tensorMap = map.name;
  block.pointer("lhs", "t").rowStride("lhs_row_stride", "t").pointer("tiles");
  block.pointer("tile_count").pointer("result", "y_f32");
  for (Kernel &each : target.kernels)
    if (each.name == "down")
      each.arguments = block.build();
  return package;
}

FakeMap lastMap;

} // namespace

/// A map of a run's tensor is encoded again for another address or size.
TEST(Runs, TensorMapsAreOfTheRun) {
  *fakeGpu() = {};
  moec_package *package = nullptr;
  moec_layer *layer = nullptr;
  const TinyShape shape;
  Weights weights(shape, 1);
  Buffer packed(weights.w13.bytes());
  std::vector<moec_tensor> list = weights.tensors();
  loadPacked(mappedPackage(), list, package, layer);
  ASSERT_TRUE(package && layer);
  fakeGpu()->onLaunch = [](const char *, bool) {};
  fakeGpu()->onBlock = [](const char *entry, const char *block) {
    if (std::string_view(entry).starts_with("moec_gate_up"))
      std::memcpy(&lastMap, block, sizeof(lastMap));
  };
  {
    const OwnContext context(package, 64);
    ASSERT_EQ(context.status, MOEC_OK) << moec_last_error();
    RunData first(shape, 64), second(shape, 64);
    const auto runWith = [&](RunData &data, int64_t tokens) {
      std::vector<moec_tensor> tensors = data.tensors();
      const int64_t rows[] = {tokens, data.hidden},
                    scores[] = {tokens, data.experts};
      tensors[0].shape = tensors[2].shape = rows;
      tensors[1].shape = scores;
      ASSERT_EQ(moec_run(layer, context.handle, nullptr, tensors.data(),
                         tensors.size(), tokens, nullptr),
                MOEC_OK)
          << moec_last_error();
      EXPECT_EQ(lastMap.address, reinterpret_cast<uint64_t>(data.x.data()));
      EXPECT_EQ(lastMap.extents[0], 16u);
      EXPECT_EQ(lastMap.extents[1], uint64_t(tokens));
    };
    runWith(first, 5);
    EXPECT_EQ(fakeGpu()->mapsEncoded, 1);
    runWith(first, 5);
    EXPECT_EQ(fakeGpu()->mapsEncoded, 1) << "it is the same";
    runWith(first, 6);
    runWith(second, 6);
    runWith(first, 64);
    runWith(first, 5);
    EXPECT_EQ(fakeGpu()->mapsEncoded, 5);
  }
  moec_layer_destroy(layer);
  moec_package_destroy(package);
}

/// A weight that a tensor map alone reads is needed, and no output may lie in
/// it.
TEST(Runs, ATensorMapReadsItsWeight) {
  *fakeGpu() = {};
  moec_package *package = nullptr;
  moec_layer *layer = nullptr;
  const TinyShape shape;
  Weights weights(shape, 1);
  const std::vector<moec_tensor> list = weights.tensors();
  loadPacked(mappedWeightPackage(), list, package, layer);
  ASSERT_TRUE(package && layer);
  moec_layer_options options = {};
  options.struct_size = sizeof(options);
  moec_layer *lacking = nullptr;
  EXPECT_EQ(
      moec_layer_create(package, list.data(), 1, &options, nullptr, &lacking),
      MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(),
               "weight 'w2' is missing; the weights of package tiny are w13, "
               "w2, w13_packed");
  {
    const OwnContext context(package, 64);
    ASSERT_EQ(context.status, MOEC_OK) << moec_last_error();
    RunData data(shape, 64);
    std::vector<moec_tensor> tensors = data.tensors();
    tensors[2].data = weights.w2.data();
    EXPECT_EQ(moec_run(layer, context.handle, nullptr, tensors.data(),
                       tensors.size(), 64, nullptr),
              MOEC_INVALID_ARGUMENT);
    EXPECT_THAT(moec_last_error(), testing::HasSubstr("overlaps weight 'w2'"));
  }
  moec_layer_destroy(layer);
  moec_package_destroy(package);
}

/// A router that reads a bias that was not given adds zeros.
TEST(Runs, AnAbsentRoutingBiasIsZero) {
  *fakeGpu() = {};
  PackageFiles package = loadablePackage();
  package.manifest.values.push_back(
      value("routing_bias", ValueRole::StoredWeight, {"f32"}, {4}));
  BlockBuilder block;
  block.pointer("rhs", "routing_bias").pointer("lhs", "t");
  block.rowStride("lhs_row_stride", "t").pointer("tiles");
  block.pointer("tile_count").pointer("result", "y_f32");
  for (Kernel &each : package.manifest.targets[0].kernels)
    if (each.name == "down")
      each.arguments = block.build();
  hashFiles(package);
  moec_package *loaded = nullptr;
  moec_layer *layer = nullptr;
  const TinyShape shape;
  const Weights weights(shape, 1);
  loadPacked(package, weights.tensors(), loaded, layer);
  ASSERT_TRUE(loaded && layer);
  static std::vector<float> seen;
  fakeGpu()->onLaunch = [](const char *, bool) {};
  fakeGpu()->onBlock = [](const char *entry, const char *bytes) {
    if (std::strncmp(entry, "moec_down", 9) != 0)
      return;
    const float *bias = nullptr;
    std::memcpy(&bias, bytes, sizeof(bias));
    seen.assign(bias, bias + 4);
  };
  {
    const OwnContext context(loaded, 3);
    ASSERT_EQ(context.status, MOEC_OK) << moec_last_error();
    const RunData data(shape, 3);
    std::vector<moec_tensor> tensors = data.tensors();
    const Buffer ids(3 * 2 * 4), given(3 * 2 * 4);
    tensors[1] = tensor("given_ids", ids.data(), {3, 2});
    tensors.push_back(tensor("given_weights", given.data(), {3, 2}));
    EXPECT_EQ(moec_run(layer, context.handle, nullptr, tensors.data(),
                       tensors.size(), 3, nullptr),
              MOEC_OK)
        << moec_last_error();
  }
  EXPECT_THAT(seen, testing::ElementsAre(0, 0, 0, 0));
  fakeGpu()->onBlock = nullptr;
  moec_layer_destroy(layer);
  moec_package_destroy(loaded);
}
