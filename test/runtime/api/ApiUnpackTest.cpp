//===- ApiUnpackTest.cpp - stored weights out of packed ones --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tiny layer: w13 is packed in place or elsewhere, w2 is read as stored.
// moec-check unpacks what the compiler's packages pack.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/api/ApiTesting.h"

#include <nlohmann/json.hpp>

#include <gmock/gmock.h>

using namespace moec;
using namespace moec::test;
using testing::HasSubstr;

namespace {
class ApiUnpack : public testing::Test {
protected:
  static moec_status unpack(const LayerHandle &layer,
                            const std::vector<moec_tensor> &to,
                            const moec_unpack_options *options = nullptr) {
    return moec_layer_unpack(layer.handle, to.data(), to.size(), options,
                             nullptr);
  }
  moec_tensor w13(void *data) const {
    return tensor("w13", data, given.w13Shape);
  }
  moec_tensor w2(void *data) const { return tensor("w2", data, given.w2Shape); }

  TinyLayer tiny;
  Weights given{tiny.shape, 1}, weights{tiny.shape, 1};
  LayerHandle layer{tiny.package, weights.tensors()};
  Buffer first{given.w13.bytes()}, second{given.w2.bytes()};
};
} // namespace

TEST_F(ApiUnpack, BitForBit) {
  ASSERT_FALSE(weights.w13 == given.w13);
  ASSERT_EQ(unpack(layer, {w13(first.data()), w2(second.data())}), MOEC_OK)
      << moec_last_error();
  EXPECT_TRUE(first == given.w13);
  EXPECT_TRUE(second == given.w2);
  // Nothing of the layer has changed.
  OwnContext context(tiny.package, 9);
  RunData data(tiny.shape, 9);
  EXPECT_EQ(run(layer, context, data.tensors(), 9), MOEC_OK);
  EXPECT_EQ(unpack(layer, {}), MOEC_OK);
}

TEST_F(ApiUnpack, InPlace) {
  OwnContext context(tiny.package, 9);
  RunData before(tiny.shape, 9), after(tiny.shape, 9);
  ASSERT_EQ(run(layer, context, before.tensors(), 9), MOEC_OK);
  ASSERT_EQ(unpack(layer, {w13(weights.w13.data()), w2(weights.w2.data())}),
            MOEC_OK)
      << moec_last_error();
  EXPECT_TRUE(weights.w13 == given.w13);
  EXPECT_TRUE(weights.w2 == given.w2);
  EXPECT_EQ(run(layer, context, after.tensors(), 9), MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(), "the layer's weights were unpacked in place; "
                                  "moec_layer_repack packs them again");
  EXPECT_EQ(unpack(layer, {w13(first.data())}), MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(),
               "the layer's weights were unpacked in place already; "
               "moec_layer_repack packs them again");
  EXPECT_EQ(
      moec_layer_repack(layer.handle, nullptr, 0, 0, 3, nullptr, 0, nullptr),
      MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(),
               "the layer's weights were unpacked in place: expected all 4 "
               "experts to be packed again, got [0, 3)");
  EXPECT_EQ(run(layer, context, after.tensors(), 9), MOEC_INVALID_ARGUMENT);
  ASSERT_EQ(
      moec_layer_repack(layer.handle, nullptr, 0, 0, 4, nullptr, 0, nullptr),
      MOEC_OK)
      << moec_last_error();
  EXPECT_EQ(run(layer, context, after.tensors(), 9), MOEC_OK);
  EXPECT_TRUE(before.out == after.out);
}

TEST_F(ApiUnpack, OfPackedMemoryAlone) {
  Buffer packed(given.w13.bytes());
  std::memcpy(packed.data(), weights.w13.data(), packed.bytes());
  moec_layer_options options = {};
  options.struct_size = sizeof(options);
  options.already_packed = 1;
  const LayerHandle other(
      tiny.package,
      {tensor("w13_packed", packed.data(), given.w13Shape), w2(second.data())},
      &options);
  ASSERT_EQ(other.status, MOEC_OK) << moec_last_error();
  ASSERT_EQ(unpack(other, {w13(first.data())}), MOEC_OK) << moec_last_error();
  EXPECT_TRUE(first == given.w13);
}

/// Several packs may read a weight; the first says what it was.
TEST_F(ApiUnpack, OfTheFirstPack) {
  PackageFiles files = tinyPackage();
  Target &target = files.manifest.targets[0];
  Value other = *std::ranges::find(target.values, "w13_packed", &Value::name);
  other.name = "w13_other", other.mayAlias.clear();
  target.values.push_back(other);
  Kernel copy = *findKernel(target, "pack_copy");
  copy.name = "pack_other", copy.entry = "moec_pack_other_90a";
  for (ArgumentField &field : copy.arguments.fields)
    if (field.value == "pack_scratch")
      field.value = other.name;
  target.kernels.push_back(copy);
  Pack pack = target.pack.front();
  pack.result = other.name, pack.inPlace = false;
  pack.scratch.clear(), pack.scratchBytes = 0;
  pack.launches.resize(1);
  pack.launches[0].kernel = copy.name;
  target.pack.push_back(pack);
  const TinyLayer twice(files);
  ASSERT_EQ(twice.status, MOEC_OK) << moec_last_error();
  const Buffer unrelated(given.w13.bytes());
  moec_layer_options options = {};
  options.struct_size = sizeof(options);
  options.already_packed = 1;
  auto list = weights.tensors();
  list.push_back(tensor("w13_other", unrelated.data(), given.w13Shape));
  const LayerHandle made(twice.package, list, &options);
  ASSERT_EQ(made.status, MOEC_OK) << moec_last_error();
  ASSERT_EQ(unpack(made, {w13(first.data())}), MOEC_OK) << moec_last_error();
  EXPECT_TRUE(first == given.w13);
}

/// An unpacking in place overwrites no other weight that lies there.
TEST_F(ApiUnpack, InPlaceOverAnotherWeight) {
  moec_layer_options options = {};
  options.struct_size = sizeof(options);
  options.already_packed = 1;
  const LayerHandle made(
      tiny.package, {w13(weights.w13.data()), w2(weights.w13.as<char>() + 256)},
      &options);
  ASSERT_EQ(made.status, MOEC_OK) << moec_last_error();
  EXPECT_EQ(unpack(made, {w13(weights.w13.data())}), MOEC_INVALID_ARGUMENT);
  EXPECT_THAT(
      moec_last_error(),
      HasSubstr("the memory given for 'w13' overlaps 'w2' of the layer"));
}

TEST_F(ApiUnpack, Misuse) {
  const auto said = [&](const std::vector<moec_tensor> &to) {
    EXPECT_EQ(unpack(layer, to), MOEC_INVALID_ARGUMENT);
    return std::string(moec_last_error());
  };
  EXPECT_EQ(said({tensor("w13_packed", first.data(), given.w13Shape)}),
            "package tiny has no stored weight 'w13_packed'; its stored "
            "weights are w13, w2");
  EXPECT_EQ(said({tensor("w4", first.data(), given.w13Shape)}),
            "package tiny has no stored weight 'w4'; its stored weights are "
            "w13, w2");
  EXPECT_EQ(said({w2(second.data()), w2(second.data())}),
            "weight 'w2' was given twice");
  EXPECT_EQ(said({tensor("w13", first.data(), given.w2Shape)}),
            "value 'w13': expected [4, 32, 16], got [4, 16, 16]");
  EXPECT_THAT(said({w13(nullptr)}), HasSubstr("expected an address, got none"));
  EXPECT_EQ(said({w13(first.data()), w2(first.data())}),
            "the memory given for 'w2' overlaps that for 'w13'");
  const std::string accepted =
      "; accepted: other memory, or the very memory of a weight that was "
      "packed in place";
  EXPECT_EQ(said({w13(weights.w13.as<char>() + 256)}),
            "the memory given for 'w13' overlaps 'w13_packed' of the layer" +
                accepted);
  EXPECT_EQ(said({w2(weights.w13.data())}),
            "the memory given for 'w2' overlaps 'w13_packed' of the layer" +
                accepted);
  EXPECT_EQ(said({w13(weights.w2.as<char>() - 256)}),
            "the memory given for 'w13' overlaps 'w2' of the layer" + accepted);
  EXPECT_EQ(moec_layer_unpack(nullptr, nullptr, 0, nullptr, nullptr),
            MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(), "moec_layer_unpack: layer is NULL");
  EXPECT_EQ(moec_layer_unpack(layer.handle, nullptr, 1, nullptr, nullptr),
            MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(),
               "moec_layer_unpack: the array of tensors is NULL");
  const moec_unpack_options options = {};
  EXPECT_EQ(unpack(layer, {w13(first.data())}, &options),
            MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(), "moec_unpack_options.struct_size is 0; set "
                                  "it to sizeof(moec_unpack_options)");
  // None of these has written anything.
  EXPECT_EQ(first.as<uint16_t>()[0], 0xFFFF);
  EXPECT_EQ(second.as<uint16_t>()[0], 0xFFFF);
}

TEST_F(ApiUnpack, WhatIsQuantizedIsRefused) {
  PackageFiles files = tinyPackage();
  // A pack whose stage computes codes.
  for (Kernel &kernel : files.manifest.targets[0].kernels)
    if (kernel.name == "pack_interleave") {
      Stage &stage = kernel.stages[0];
      stage.op = "pack_codes";
      stage.operands["scale"] = "source";
      stage.attributes->update({{"parts", 2},
                                {"alternate", false},
                                {"group_rows", -1},
                                {"group_columns", -1},
                                {"element", "i8"},
                                {"scale_type", "f32"},
                                {"zero_points", false},
                                {"stored", "bf16"}});
    }
  const TinyLayer quantizing(files);
  ASSERT_EQ(quantizing.status, MOEC_OK) << moec_last_error();
  moec_layer_options options = {};
  options.struct_size = sizeof(options);
  options.already_packed = 1;
  const LayerHandle made(quantizing.package, weights.tensors(), &options);
  ASSERT_EQ(made.status, MOEC_OK) << moec_last_error();
  EXPECT_EQ(unpack(made, {w13(first.data())}), MOEC_REFUSED);
  EXPECT_STREQ(moec_last_error(),
               "weight 'w13' cannot be unpacked: stage pack_codes of its "
               "packing quantizes, which loses numbers; keep the stored "
               "weight, or load it again");
  EXPECT_EQ(unpack(made, {w2(second.data())}), MOEC_OK);
}
