//===- ApiTest.cpp - the C interface on the host device -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An inference engine's use of package, layer and context, without a GPU.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/api/ApiTesting.h"

#include "runtime/support/Files.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <thread>
#include <unistd.h>

using namespace moec;
using namespace moec::test;
using testing::HasSubstr;

TEST(Api, VersionAndNames) {
  EXPECT_EQ(moec_version(), 100);
  EXPECT_STREQ(moec_status_name(MOEC_OK), "ok");
  EXPECT_STREQ(moec_status_name(MOEC_CONTEXT_IN_USE), "context_in_use");
}

TEST(Api, Queries) {
  TinyLayer tiny;
  ASSERT_EQ(tiny.status, MOEC_OK) << moec_last_error();
  EXPECT_STREQ(moec_package_name(tiny.package), "tiny");
  EXPECT_STREQ(moec_package_arch(tiny.package), "sm_90a");
  EXPECT_STREQ(moec_package_device(tiny.package), "host");
  EXPECT_EQ(moec_package_max_tokens(tiny.package), 64);
  EXPECT_EQ(moec_package_num_values(tiny.package), 12u);
  moec_value value = {};
  value.struct_size = sizeof(value);
  ASSERT_EQ(moec_package_value(tiny.package, 2, &value), MOEC_OK);
  EXPECT_STREQ(value.name, "given_ids");
  EXPECT_STREQ(value.element_types, "i32 i64");
  EXPECT_EQ(value.role, MOEC_OPTIONAL_INPUT);
  EXPECT_EQ(value.rank, 2);
  ASSERT_EQ(moec_package_value(tiny.package, 11, &value), MOEC_OK);
  EXPECT_STREQ(value.name, "w13_packed");
  EXPECT_STREQ(value.may_alias, "w13");
  std::string strided;
  for (size_t i = 0; i < 12; ++i) {
    ASSERT_EQ(moec_package_value(tiny.package, i, &value), MOEC_OK);
    EXPECT_GT(value.alignment, 0) << value.name;
    if (value.caller_row_stride)
      strided += std::string(strided.empty() ? "" : " ") + value.name;
  }
  EXPECT_EQ(strided, "x");
  // The last index is one below the count.
  EXPECT_EQ(moec_package_value(tiny.package, 12, &value),
            MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(),
               "expected the index of a value below 12, got 12");
  EXPECT_EQ(moec_package_value(nullptr, 0, &value), MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(), "moec_package_value: package is NULL");
  EXPECT_EQ(moec_package_value(tiny.package, 0, nullptr),
            MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(), "moec_package_value: value is NULL");
  moec_variant any = {};
  any.struct_size = sizeof(any);
  size_t place = 0;
  EXPECT_EQ(moec_package_variant(tiny.package, 2, &any), MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(),
               "expected the index of a variant below 2, got 2");
  EXPECT_EQ(moec_package_variant(nullptr, 0, &any), MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(), "moec_package_variant: package is NULL");
  EXPECT_EQ(moec_package_variant(tiny.package, 0, nullptr),
            MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(), "moec_package_variant: variant is NULL");
  EXPECT_EQ(moec_package_variant_for(nullptr, 1, &place),
            MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(), "moec_package_variant_for: package is NULL");
  EXPECT_EQ(moec_package_variant_for(tiny.package, 1, nullptr),
            MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(), "moec_package_variant_for: index is NULL");
  // A struct that holds nothing but its size is the smallest one.
  any.struct_size = sizeof(size_t) - 1;
  EXPECT_EQ(moec_package_variant(tiny.package, 0, &any), MOEC_INVALID_ARGUMENT);
  any.struct_size = sizeof(size_t);
  EXPECT_EQ(moec_package_variant(tiny.package, 0, &any), MOEC_OK);
  EXPECT_EQ(any.name, nullptr);
  int64_t shape[3] = {};
  EXPECT_EQ(moec_package_value_shape(tiny.package, "y", 1, shape),
            MOEC_INVALID_ARGUMENT);
  EXPECT_THAT(moec_last_error(),
              testing::HasSubstr("package tiny has no value 'y'; it has x, "));
  EXPECT_THAT(moec_last_error(), testing::EndsWith(", w13_packed"));
  ASSERT_EQ(moec_package_value_shape(tiny.package, "w13", 1, shape), MOEC_OK);
  EXPECT_THAT(shape, testing::ElementsAre(4, 32, 16));
  uint64_t bytes = 0;
  ASSERT_EQ(moec_package_value_bytes(tiny.package, "out", 7, &bytes), MOEC_OK);
  EXPECT_EQ(bytes, 7u * 16 * 2);
  ASSERT_EQ(moec_package_num_variants(tiny.package), 2u);
  moec_variant variant = {};
  variant.struct_size = sizeof(variant);
  ASSERT_EQ(moec_package_variant(tiny.package, 1, &variant), MOEC_OK);
  EXPECT_STREQ(variant.name, "large");
  EXPECT_EQ(variant.min_tokens, 9);
  EXPECT_EQ(variant.max_tokens, 64);
  EXPECT_EQ(variant.num_launches, 5);
  EXPECT_EQ(variant.min_sms, 0);
  size_t index = 9;
  ASSERT_EQ(moec_package_variant_for(tiny.package, 8, &index), MOEC_OK);
  EXPECT_EQ(index, 0u);
  auto report = nlohmann::json::parse(
      moec_package_load_report_json(tiny.package), nullptr, false);
  EXPECT_TRUE(report.contains("total_ms"));
  ASSERT_EQ(moec_package_pack_scratch_bytes(tiny.package, &bytes), MOEC_OK);
  EXPECT_EQ(bytes, 3u * 32 * 16 * 2);
}

TEST(Api, VariantsSayWhichDevicesTheyAreFor) {
  PackageFiles files = tinyPackage();
  auto &variants = files.manifest.targets[0].variants;
  variants.insert(variants.begin() + 1, variants[1]);
  variants[1].name = "wide";
  variants[1].minSms = 100;
  TinyLayer tiny(files);
  ASSERT_EQ(tiny.status, MOEC_OK) << moec_last_error();
  moec_variant variant = {};
  variant.struct_size = sizeof(variant);
  ASSERT_EQ(moec_package_variant(tiny.package, 1, &variant), MOEC_OK);
  EXPECT_STREQ(variant.name, "wide");
  EXPECT_EQ(variant.min_sms, 100);
  // A caller that knows the older struct gets what it has room for.
  variant = {};
  variant.struct_size = offsetof(moec_variant, min_sms);
  ASSERT_EQ(moec_package_variant(tiny.package, 1, &variant), MOEC_OK);
  EXPECT_EQ(variant.num_launches, 5);
  EXPECT_EQ(variant.min_sms, 0);
}

TEST(Api, WorkspaceServesAllSmallerCounts) {
  TinyLayer tiny;
  uint64_t before = 0;
  for (int64_t tokens : {0, 1, 8, 9, 20, 64}) {
    uint64_t bytes = 0;
    ASSERT_EQ(moec_package_workspace_bytes(tiny.package, tokens, &bytes),
              MOEC_OK);
    EXPECT_GE(bytes, before);
    before = bytes;
  }
  EXPECT_GT(before, 0u);
}

/// A workspace for some tokens serves every smaller count, although the variant
/// of a smaller count may need more.
TEST(Api, WorkspaceIsTheMostOfAllVariantsUpToTheTokens) {
  PackageFiles files = tinyPackage();
  Variant &small = files.manifest.targets[0].variants[0];
  Region &last = small.regions.back();
  last.offset = last.offset + (1 << 20);
  small.workspaceBytes = small.workspaceBytes + (1 << 20);
  const TinyLayer tiny(files);
  ASSERT_EQ(tiny.status, MOEC_OK) << moec_last_error();
  const Weights weights(tiny.shape, 1);
  const LayerHandle layer(tiny.package, weights.tensors());
  for (const int64_t tokens : {9, 64}) {
    const OwnContext context(tiny.package, tokens);
    for (const int64_t fewer : {1, 8, 9}) {
      const RunData data(tiny.shape, fewer);
      EXPECT_EQ(run(layer, context, data.tensors(), fewer), MOEC_OK)
          << fewer << " of " << tokens << " tokens: " << moec_last_error();
    }
  }
}

/// The output of so many tokens with weights of this seed.
static Buffer expectedOutput(const TinyLayer &tiny, uint32_t seed,
                             int64_t tokens) {
  Weights weights(tiny.shape, seed);
  LayerHandle layer(tiny.package, weights.tensors());
  EXPECT_EQ(layer.status, MOEC_OK) << moec_last_error();
  OwnContext context(tiny.package, tokens);
  RunData data(tiny.shape, tokens);
  EXPECT_EQ(run(layer, context, data.tensors(), tokens), MOEC_OK)
      << moec_last_error();
  return std::move(data.out);
}

TEST(Api, RunWritesEveryRow) {
  TinyLayer tiny;
  for (int64_t tokens : {1, 8, 9, 64}) {
    Buffer out = expectedOutput(tiny, 1, tokens);
    for (int64_t i = 0; i < tokens * tiny.shape.hidden; ++i)
      ASSERT_NE(out.as<uint16_t>()[i], 0xFFFF) << tokens << " at " << i;
    EXPECT_TRUE(out == expectedOutput(tiny, 1, tokens));
    EXPECT_FALSE(out == expectedOutput(tiny, 2, tokens));
  }
}

TEST(Api, PackedToOtherMemoryIsTheSame) {
  TinyLayer tiny;
  Weights weights(tiny.shape, 1), pristine(tiny.shape, 1);
  Buffer packed(weights.w13.bytes());
  auto tensors = weights.tensors();
  tensors.push_back(tensor("w13_packed", packed.data(), weights.w13Shape));
  LayerHandle layer(tiny.package, tensors);
  ASSERT_EQ(layer.status, MOEC_OK) << moec_last_error();
  EXPECT_TRUE(weights.w13 == pristine.w13) << "the stored weight stays";
  EXPECT_FALSE(packed == pristine.w13);
  OwnContext context(tiny.package, 9);
  RunData data(tiny.shape, 9);
  ASSERT_EQ(run(layer, context, data.tensors(), 9), MOEC_OK);
  EXPECT_TRUE(data.out == expectedOutput(tiny, 1, 9));

  // Weights that are packed already are only bound.
  Weights other(tiny.shape, 1);
  moec_layer_options options = {};
  options.struct_size = sizeof(options);
  options.already_packed = 1;
  std::vector<moec_tensor> ready = {
      tensor("w13_packed", packed.data(), other.w13Shape),
      tensor("w2", other.w2.data(), other.w2Shape)};
  LayerHandle bound(tiny.package, ready, &options);
  ASSERT_EQ(bound.status, MOEC_OK) << moec_last_error();
  RunData again(tiny.shape, 9);
  ASSERT_EQ(run(bound, context, again.tensors(), 9), MOEC_OK);
  EXPECT_TRUE(again.out == data.out);
}

TEST(Api, RepackSomeExperts) {
  TinyLayer tiny;
  const TinyShape &s = tiny.shape;
  Weights weights(s, 1), fresh(s, 2);
  LayerHandle layer(tiny.package, weights.tensors());
  ASSERT_EQ(layer.status, MOEC_OK);
  // Experts 1 to 3 become those of seed 2; w2 is not packed and is copied.
  std::vector<moec_tensor> source = {
      tensor("w13", fresh.w13.data(), fresh.w13Shape)};
  ASSERT_EQ(moec_layer_repack(layer.handle, source.data(), 1, 1, 3, nullptr, 0,
                              nullptr),
            MOEC_OK)
      << moec_last_error();
  Weights whole(s, 2);
  LayerHandle other(tiny.package, whole.tensors());
  auto expert = static_cast<size_t>(2 * s.intermediate * s.hidden * 2);
  EXPECT_EQ(std::memcmp(weights.w13.as<char>() + expert,
                        whole.w13.as<char>() + expert, 3 * expert),
            0);
  EXPECT_NE(std::memcmp(weights.w13.data(), whole.w13.data(), expert), 0);
  EXPECT_EQ(moec_layer_repack(layer.handle, source.data(), 1, 2, 3, nullptr, 0,
                              nullptr),
            MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(), "expected experts within [0, 4), got [2, 5)");
}

TEST(Api, FiftyEightLayersOnOnePackage) {
  TinyLayer tiny;
  constexpr uint32_t kLayers = 58;
  std::vector<Weights> weights;
  std::vector<std::unique_ptr<LayerHandle>> layers;
  for (uint32_t i = 0; i < kLayers; ++i) {
    weights.emplace_back(tiny.shape, i);
    layers.push_back(
        std::make_unique<LayerHandle>(tiny.package, weights[i].tensors()));
    ASSERT_EQ(layers[i]->status, MOEC_OK) << moec_last_error();
  }
  OwnContext context(tiny.package, 3);
  for (uint32_t i : {0u, 17u, kLayers - 1}) {
    RunData data(tiny.shape, 3);
    ASSERT_EQ(run(*layers[i], context, data.tensors(), 3), MOEC_OK);
    EXPECT_TRUE(data.out == expectedOutput(tiny, i, 3));
  }
}

TEST(Api, LayersAndContextsOutliveThePackageHandle) {
  auto tiny = std::make_unique<TinyLayer>();
  Buffer expected = expectedOutput(*tiny, 1, 5);
  Weights weights(tiny->shape, 1);
  LayerHandle layer(tiny->package, weights.tensors());
  OwnContext context(tiny->package, 5);
  RunData data(tiny->shape, 5);
  tiny.reset();
  ASSERT_EQ(run(layer, context, data.tensors(), 5), MOEC_OK);
  EXPECT_TRUE(data.out == expected);
}

TEST(Api, TwoContextsInTwoThreads) {
  TinyLayer tiny;
  Weights weights(tiny.shape, 1);
  LayerHandle layer(tiny.package, weights.tensors());
  Buffer expected = expectedOutput(tiny, 1, 20);
  std::atomic<int> right = 0;
  auto work = [&] {
    OwnContext context(tiny.package, 20);
    for (int i = 0; i < 5; ++i) {
      RunData data(tiny.shape, 20);
      right += run(layer, context, data.tensors(), 20) == MOEC_OK &&
               data.out == expected;
    }
  };
  std::thread first(work), second(work);
  first.join();
  second.join();
  EXPECT_EQ(right, 10);
}

TEST(Api, OneContextInTwoThreadsIsInUse) {
  TinyLayer tiny;
  Weights weights(tiny.shape, 1);
  LayerHandle layer(tiny.package, weights.tensors());
  OwnContext context(tiny.package, 64);
  Buffer expected = expectedOutput(tiny, 1, 64);
  std::atomic<int> done = 0, inUse = 0, wrong = 0;
  // Whoever gets the context gets the right result; the other is told.
  auto work = [&] {
    for (int i = 0; i < 400 && inUse == 0; ++i) {
      RunData data(tiny.shape, 64);
      moec_status status = run(layer, context, data.tensors(), 64);
      done += status == MOEC_OK;
      inUse += status == MOEC_CONTEXT_IN_USE;
      wrong += status == MOEC_OK ? !(data.out == expected)
                                 : status != MOEC_CONTEXT_IN_USE;
    }
  };
  std::thread first(work), second(work), third(work);
  first.join();
  second.join();
  third.join();
  EXPECT_GT(done, 0);
  EXPECT_GT(inUse, 0);
  EXPECT_EQ(wrong, 0);
}

TEST(Api, GivenIdsAndStridesAndOptionalOutputs) {
  TinyLayer tiny;
  const TinyShape &s = tiny.shape;
  Weights weights(s, 1);
  LayerHandle layer(tiny.package, weights.tensors());
  OwnContext context(tiny.package, 9);
  RunData data(s, 9);
  Buffer ids(9 * 2 * 4), routed(9 * 2 * 4), counts(4 * 4);
  auto tensors = data.tensors();
  tensors.push_back(tensor("ids", ids.data(), {9, 2}));
  tensors.push_back(tensor("weights", routed.data(), {9, 2}));
  tensors.push_back(tensor("counts", counts.data(), {4}));
  ASSERT_EQ(run(layer, context, tensors, 9), MOEC_OK) << moec_last_error();
  int total = 0;
  for (int i = 0; i < 4; ++i)
    total += counts.as<int32_t>()[i];
  EXPECT_EQ(total, 18);

  // The same by ids as 64-bit numbers, with x in a wider buffer.
  Buffer wide(9 * 24 * 2), ids64(9 * 2 * 8), out(data.out.bytes());
  for (int row = 0; row < 9; ++row)
    std::memcpy(wide.as<char>() + row * 48, data.x.as<char>() + row * 32, 32);
  for (int i = 0; i < 18; ++i)
    ids64.as<int64_t>()[i] = ids.as<int32_t>()[i];
  std::vector<moec_tensor> given = {
      withStrides(tensor("x", wide.data(), {9, 16}), {24, 1}),
      tensor("given_ids", ids64.data(), {9, 2}, "i64"),
      tensor("given_weights", routed.data(), {9, 2}, "f32"),
      tensor("out", out.data(), {9, 16}, "bf16")};
  ASSERT_EQ(run(layer, context, given, 9), MOEC_OK) << moec_last_error();
  EXPECT_TRUE(out == data.out);
}

TEST(Api, NoTokensWriteNothing) {
  TinyLayer tiny;
  Weights weights(tiny.shape, 1);
  LayerHandle layer(tiny.package, weights.tensors());
  OwnContext context(tiny.package, 0);
  ASSERT_EQ(context.status, MOEC_OK) << moec_last_error();
  EXPECT_EQ(run(layer, context, {}, 0), MOEC_OK);
  RunData data(tiny.shape, 1);
  EXPECT_EQ(run(layer, context, data.tensors(), 0), MOEC_OK);
  EXPECT_EQ(data.out.as<uint16_t>()[0], 0xFFFF);
}

TEST(Api, FilesOnDisk) {
  char name[] = "/tmp/moec-api-XXXXXX";
  std::string folder = std::string(mkdtemp(name)) + "/package";
  moec_package_files files{{tinyPackage()}};
  ASSERT_EQ(moec_package_files_write(&files, folder.c_str()), MOEC_OK)
      << moec_last_error();
  moec_load_options options = {};
  options.struct_size = sizeof(options);
  options.device = MOEC_DEVICE_HOST;
  moec_package *package = nullptr;
  ASSERT_EQ(moec_package_load(folder.c_str(), &options, &package), MOEC_OK)
      << moec_last_error();
  moec_package_destroy(package);
  moec_package_files *read = nullptr;
  ASSERT_EQ(moec_package_files_read(folder.c_str(), &read), MOEC_OK);
  moec_package_files_destroy(read);
  ASSERT_EQ(::truncate((folder + "/sm_90a/route.cu").c_str(), 1), 0);
  EXPECT_EQ(moec_package_load(folder.c_str(), &options, &package),
            MOEC_DAMAGED_PACKAGE);
  EXPECT_EQ(package, nullptr);
  EXPECT_THAT(moec_last_error(), HasSubstr("sm_90a/route.cu"));
  (void)removeAll(name);
}
