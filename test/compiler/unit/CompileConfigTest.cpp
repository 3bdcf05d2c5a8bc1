//===- CompileConfigTest.cpp - the compiler through the C ABI -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// libmoec.so from a config to a layer that runs on the host device, in one
// process; options are read strictly.
//
//===----------------------------------------------------------------------===//

#include "moec/moec.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

static const char *const kTiny = R"({
  "moec_layer": 1, "name": "tiny", "num_experts": 4, "experts_per_token": 2,
  "hidden_dim": 32, "intermediate_size": 16, "in_dtype": "float32",
  "routing_method": "renormalize"})";

static std::string errorOf(const char *config, const char *options) {
  moec_package_files *files = nullptr;
  moec_status status = moec_compile_config(config, options, &files);
  moec_package_files_destroy(files);
  return status == MOEC_OK
             ? ""
             : std::string(moec_status_name(status)) + ": " + moec_last_error();
}

TEST(CompileConfig, OptionsAreReadStrictly) {
  EXPECT_EQ(errorOf(kTiny, R"({"arch": ["sm_80"], "max_tokens": 64})"), "");
  EXPECT_EQ(errorOf(kTiny, R"({"arch": "sm_80"})"), "");
  EXPECT_EQ(errorOf(kTiny, "[]"), "invalid_argument: options: expected a JSON "
                                  "object or NULL");
  EXPECT_EQ(errorOf(kTiny, R"({"arch": "sm_80", "max_tokens": "64"})"),
            "invalid_argument: options.max_tokens: expected an integer, got "
            "\"64\"");
  EXPECT_EQ(errorOf(kTiny, R"({"archs": "sm_80"})").substr(0, 60),
            "invalid_argument: options: unknown field 'archs'; known fiel");
  EXPECT_EQ(errorOf(kTiny, nullptr),
            "invalid_argument: no arch is given; say for example "
            "--arch=sm_90a");
  EXPECT_NE(errorOf(nullptr, nullptr), "");
  EXPECT_NE(moec_compile_config(kTiny, nullptr, nullptr), MOEC_OK);
}

TEST(CompileConfig, RefusalsAreRefused) {
  std::string error =
      errorOf(kTiny, R"({"arch": "sm_80", "engine": "mma_sync"})");
  EXPECT_EQ(error.substr(0, 9), "refused: ") << error;
  EXPECT_NE(error.find("[dtype_not_supported]"), std::string::npos) << error;
}

TEST(CompileConfig, ALayerRunsOnTheHostDevice) {
  moec_package_files *files = nullptr;
  ASSERT_EQ(moec_compile_config(kTiny, R"({"arch": "sm_80", "max_tokens": 64})",
                                &files),
            MOEC_OK)
      << moec_last_error();
  moec_load_options load = {};
  load.struct_size = sizeof(load);
  load.device = MOEC_DEVICE_HOST;
  moec_package *package = nullptr;
  ASSERT_EQ(moec_package_load_files(files, &load, &package), MOEC_OK)
      << moec_last_error();
  moec_package_files_destroy(files);

  constexpr int kTokens = 3, kHidden = 32, kInner = 16, kExperts = 4;
  alignas(256) static float w13[kExperts * 2 * kInner * kHidden];
  alignas(256) static float w2[kExperts * kHidden * kInner];
  alignas(256) static float x[kTokens * kHidden];
  alignas(256) static float logits[kTokens * kExperts];
  alignas(256) static float out[kTokens * kHidden];
  for (float &value : w13)
    value = 0.0f;
  for (float &value : w2)
    value = 0.25f;
  for (float &value : x)
    value = 1.0f;
  for (int i = 0; i < kTokens * kExperts; ++i)
    logits[i] = float(i % 5);
  for (float &value : out)
    value = 7.0f;
  const moec_tensor weights[] = {{"w13", w13, nullptr, 0},
                                 {"w2", w2, nullptr, 0}};
  moec_layer *layer = nullptr;
  ASSERT_EQ(moec_layer_create(package, weights, 2, nullptr, nullptr, &layer),
            MOEC_OK)
      << moec_last_error();
  uint64_t bytes = 0;
  ASSERT_EQ(moec_package_workspace_bytes(package, kTokens, &bytes), MOEC_OK);
  std::vector<char> memory(bytes + 256);
  char *workspace = memory.data();
  workspace += 256 - reinterpret_cast<uintptr_t>(workspace) % 256;
  moec_context *context = nullptr;
  ASSERT_EQ(moec_context_create(package, workspace, bytes, &context), MOEC_OK)
      << moec_last_error();
  const moec_tensor tensors[] = {{"x", x, nullptr, 0},
                                 {"logits", logits, nullptr, 0},
                                 {"out", out, nullptr, 0}};
  EXPECT_EQ(moec_run(layer, context, nullptr, tensors, 3, kTokens, nullptr),
            MOEC_OK)
      << moec_last_error();
  // silu(0) * 0 is 0, whatever the routing.
  for (float value : out)
    EXPECT_EQ(value, 0.0f);
  moec_context_destroy(context);
  moec_layer_destroy(layer);
  moec_package_destroy(package);
}
