//===- PartsTest.cpp - parts of a layer through the C ABI -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A part is compiled, loaded and run as a layer is, without a weight.
//
//===----------------------------------------------------------------------===//

#include "moec/compiler.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace {
constexpr const char *kTiny = R"({
  "moec_layer": 1, "name": "tiny", "num_experts": 4, "top_k": 2,
  "hidden_size": 32, "intermediate_size": 16, "in_dtype": "float32",
  "routing_method": "renormalize"})";
constexpr int64_t kTokens = 3, kTopK = 2, kExperts = 4, kHidden = 32;

/// A part on the host device, with its layer of no weights and a context.
class Part {
public:
  explicit Part(const std::string &part) {
    const std::string options =
        R"({"arch": "sm_80", "max_tokens": 8, "part": ")" + part + "\"}";
    moec_package_files *files = nullptr;
    EXPECT_EQ(moec_compile_config(kTiny, options.c_str(), &files), MOEC_OK)
        << moec_last_error();
    moec_load_options load = {};
    load.struct_size = sizeof(load);
    load.device = MOEC_DEVICE_HOST;
    EXPECT_EQ(moec_package_load_files(files, &load, &package), MOEC_OK)
        << moec_last_error();
    moec_package_files_destroy(files);
    EXPECT_EQ(moec_layer_create(package, nullptr, 0, nullptr, nullptr, &layer),
              MOEC_OK)
        << moec_last_error();
    uint64_t bytes = 0;
    EXPECT_EQ(moec_package_workspace_bytes(package, kTokens, &bytes), MOEC_OK);
    memory.resize(bytes + 256);
    char *workspace = memory.data();
    workspace += 256 - reinterpret_cast<uintptr_t>(workspace) % 256;
    EXPECT_EQ(moec_context_create(package, workspace, bytes, nullptr, &context),
              MOEC_OK)
        << moec_last_error();
  }
  ~Part() {
    moec_context_destroy(context);
    moec_layer_destroy(layer);
    moec_package_destroy(package);
  }
  Part(const Part &) = delete;
  Part &operator=(const Part &) = delete;

  /// "", or the error.
  std::string run(const std::vector<moec_tensor> &tensors) {
    return moec_run(layer, context, nullptr, tensors.data(), tensors.size(),
                    kTokens, nullptr) == MOEC_OK
               ? ""
               : moec_last_error();
  }
  std::string manifest() { return moec_package_manifest_json(package); }

private:
  moec_package *package = nullptr;
  moec_layer *layer = nullptr;
  moec_context *context = nullptr;
  std::vector<char> memory;
};
} // namespace

static moec_tensor tensor(const char *name, void *data, int32_t rank,
                          const int64_t *shape) {
  return {name, data, nullptr, rank, shape, nullptr};
}

TEST(Parts, RouteWritesIdsAndWeights) {
  Part part("route");
  EXPECT_NE(part.manifest().find(R"("part": "route")"), std::string::npos);
  alignas(256) std::array<float, kTokens * kExperts> logits = {
      0, 1, 2, 3, 3, 2, 1, 0, 1, 5, 1, 5};
  alignas(256) std::array<int32_t, kTokens * kTopK> ids = {};
  alignas(256) std::array<float, kTokens * kTopK> weights = {};
  const std::array<int64_t, 2> scores = {kTokens, kExperts};
  const std::array<int64_t, 2> chosen = {kTokens, kTopK};
  EXPECT_EQ(part.run({tensor("logits", logits.data(), 2, scores.data()),
                      tensor("ids", ids.data(), 2, chosen.data()),
                      tensor("weights", weights.data(), 2, chosen.data())}),
            "");
  EXPECT_EQ(ids, (std::array<int32_t, 6>{3, 2, 0, 1, 1, 3}));
  const float large = 1 / (1 + std::exp(-1.0f));
  const std::array<float, 6> expected = {large,     1 - large, large,
                                         1 - large, 0.5f,      0.5f};
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(weights[i], expected[i], 1e-6) << i;
}

TEST(Parts, AnOutputOfAPartIsNotOptional) {
  Part part("route");
  alignas(256) std::array<float, kTokens * kExperts> logits = {};
  alignas(256) std::array<int32_t, kTokens * kTopK> ids = {};
  const std::array<int64_t, 2> scores = {kTokens, kExperts};
  const std::array<int64_t, 2> chosen = {kTokens, kTopK};
  EXPECT_NE(part.run({tensor("logits", logits.data(), 2, scores.data()),
                      tensor("ids", ids.data(), 2, chosen.data())})
                .find("weights"),
            std::string::npos);
}

TEST(Parts, FinalizeSumsWhatIsGiven) {
  Part part("finalize");
  constexpr int64_t kPairs = kTokens * kTopK;
  alignas(256) std::array<float, kPairs * kHidden> partials = {};
  for (size_t i = 0; i < partials.size(); ++i)
    partials[i] = float(i / kHidden + 1);
  // The last pair is of no expert, and its row is not read.
  alignas(256) std::array<int32_t, kPairs> ids = {3, 2, 0, 1, 1, -1};
  alignas(256) std::array<float, kPairs> weights = {0.5f, 0.25f, 2, 1, 3, 9};
  for (int64_t c = 0; c < kHidden; ++c)
    partials[size_t((kPairs - 1) * kHidden + c)] = NAN;
  alignas(256) std::array<float, kTokens * kHidden> out = {};
  const std::array<int64_t, 3> outputs = {kTokens, kTopK, kHidden};
  const std::array<int64_t, 2> chosen = {kTokens, kTopK},
                               rows = {kTokens, kHidden};
  const auto given = [&](const char *name) {
    return std::vector<moec_tensor>{
        tensor(name, partials.data(), 3, outputs.data()),
        tensor("given_ids", ids.data(), 2, chosen.data()),
        tensor("given_weights", weights.data(), 2, chosen.data()),
        tensor("out", out.data(), 2, rows.data())};
  };
  EXPECT_EQ(part.run(given("partials")), "");
  for (int64_t c = 0; c < kHidden; ++c) {
    EXPECT_EQ(out[size_t(c)], 0.5f * 1 + 0.25f * 2);
    EXPECT_EQ(out[size_t(kHidden + c)], 2.0f * 3 + 1.0f * 4);
    EXPECT_EQ(out[size_t(2 * kHidden + c)], 3.0f * 5);
  }
  EXPECT_NE(part.run(given("x")).find("'x'"), std::string::npos);
}

TEST(Parts, OptionsOfMatmulsAreRefused) {
  for (const auto &[options, why] :
       {std::pair(R"({"arch": "sm_80", "part": "route", "engine": "simt"})",
                  "expected neither, got engine 'simt'"),
        {R"({"arch": "sm_80", "part": "sort"})",
         "--part=sort: expected route, quantize, gate_up, down, finalize"},
        {R"({"arch": "sm_80", "part": "finalize", "accumulate": "fast"})",
         "--accumulate: expected none with --part=finalize, which has no "
         "matmul"},
        {R"({"arch": "sm_80", "part": 1})",
         "options.part: expected a string, got 1"}}) {
    moec_package_files *files = nullptr;
    EXPECT_NE(moec_compile_config(kTiny, options, &files), MOEC_OK);
    EXPECT_NE(std::string(moec_last_error()).find(why), std::string::npos)
        << moec_last_error();
  }
}
