//===- EmulatedTest.cpp - a layer on an emulated GPU by the C ABI ---------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Memory is the host's, and a call returns when its work has ended, as on the
// host device: the same code runs a layer on both.
//
//===----------------------------------------------------------------------===//

#include "moec/compiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr const char *kLayer = R"({
  "moec_layer": 1, "name": "emulated", "num_experts": 4,
  "top_k": 2, "hidden_size": 64, "intermediate_size": 32,
  "in_dtype": "float32", "routing_method": "renormalize",
  "activation": "silu"})";
constexpr int64_t kTokens = 3, kExperts = 4, kHidden = 64, kInner = 32;

/// Aligned floats that a seed draws.
struct Floats {
  explicit Floats(int64_t count, float scale = 0) : memory(count + 64) {
    data = memory.data();
    while (reinterpret_cast<uintptr_t>(data) % 256)
      ++data;
    for (int64_t i = 0; i < count; ++i)
      data[i] = scale * float(i * 37 % 23 - 11) / 11;
  }
  std::vector<float> memory;
  float *data;
};

class OnDevice {
public:
  explicit OnDevice(moec_device_kind device, const char *arch = "sm_80") {
    moec_package_files *files = nullptr;
    EXPECT_EQ(moec_compile_config(
                  kLayer, R"({"arch": "sm_80", "max_tokens": 8})", &files),
              MOEC_OK)
        << moec_last_error();
    moec_load_options load = {};
    load.struct_size = sizeof(load);
    load.device = device;
    load.arch = arch;
    status = moec_package_load_files(files, &load, &package);
    error = status == MOEC_OK ? "" : moec_last_error();
    moec_package_files_destroy(files);
  }
  ~OnDevice() {
    moec_context_destroy(context);
    moec_layer_destroy(layer);
    moec_package_destroy(package);
  }
  OnDevice(const OnDevice &) = delete;
  OnDevice &operator=(const OnDevice &) = delete;

  void pack() {
    const std::array<int64_t, 3> wide = {kExperts, 2 * kInner, kHidden};
    const std::array<int64_t, 3> narrow = {kExperts, kHidden, kInner};
    const std::array<moec_tensor, 2> weights = {
        moec_tensor{"w13", w13.data, nullptr, 3, wide.data(), nullptr},
        moec_tensor{"w2", w2.data, nullptr, 3, narrow.data(), nullptr}};
    ASSERT_EQ(
        moec_layer_create(package, weights.data(), 2, nullptr, nullptr, &layer),
        MOEC_OK)
        << moec_last_error();
    uint64_t bytes = 0;
    ASSERT_EQ(moec_package_workspace_bytes(package, kTokens, &bytes), MOEC_OK);
    workspace = Floats(int64_t(bytes) / 4 + 64);
    ASSERT_EQ(
        moec_context_create(package, workspace.data, bytes, nullptr, &context),
        MOEC_OK)
        << moec_last_error();
  }

  std::string run(float *x, float *logits, float *out) {
    const std::array<int64_t, 2> rows = {kTokens, kHidden};
    const std::array<int64_t, 2> scores = {kTokens, kExperts};
    const std::array<moec_tensor, 3> tensors = {
        moec_tensor{"x", x, nullptr, 2, rows.data(), nullptr},
        moec_tensor{"logits", logits, "f32", 2, scores.data(), nullptr},
        moec_tensor{"out", out, nullptr, 2, rows.data(), nullptr}};
    return moec_run(layer, context, nullptr, tensors.data(), tensors.size(),
                    kTokens, nullptr) == MOEC_OK
               ? ""
               : moec_last_error();
  }

  moec_status status;
  std::string error;
  moec_package *package = nullptr;
  moec_layer *layer = nullptr;
  moec_context *context = nullptr;
  Floats w13 = Floats(kExperts * 2 * kInner * kHidden, 0.2f);
  Floats w2 = Floats(kExperts * kInner * kHidden, 0.3f);
  Floats workspace = Floats(1);
};

bool hasNvrtc() {
  const char *path = std::getenv("MOEC_NVRTC_PATH");
  return path && *path;
}

} // namespace

TEST(EmulatedDevice, GivesWhatTheHostDeviceGives) {
  if (!hasNvrtc())
    GTEST_SKIP() << "no NVRTC on this machine";
  OnDevice host(MOEC_DEVICE_HOST), emulated(MOEC_DEVICE_EMULATED);
  ASSERT_EQ(emulated.status, MOEC_OK) << emulated.error;
  EXPECT_STREQ(moec_package_device(emulated.package), "emulated sm_80 (slow)");
  host.pack();
  emulated.pack();
  Floats x(kTokens * kHidden, 1), logits(kTokens * kExperts, 2);
  Floats wanted(kTokens * kHidden), out(kTokens * kHidden);
  for (int repeat = 0; repeat < 2; ++repeat) {
    ASSERT_EQ(host.run(x.data, logits.data, wanted.data), "");
    ASSERT_EQ(emulated.run(x.data, logits.data, out.data), "");
    float largest = 0;
    for (int64_t i = 0; i < kTokens * kHidden; ++i) {
      EXPECT_NEAR(out.data[i], wanted.data[i], 1e-2) << i;
      largest = std::max(largest, std::fabs(wanted.data[i]));
    }
    EXPECT_GT(largest, 0.1f);
    x.data[5] += 1;
  }
}
