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

#include "moec/compiler.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

static const char *const kTiny = R"({
  "moec_layer": 1, "name": "tiny", "num_experts": 4, "top_k": 2,
  "hidden_size": 32, "intermediate_size": 16, "in_dtype": "float32",
  "routing_method": "renormalize"})";

static std::string errorOf(const char *config, const char *options) {
  moec_package_files *files = nullptr;
  moec_status status = moec_compile_config(config, options, &files);
  moec_package_files_destroy(files);
  return status == MOEC_OK
             ? ""
             : std::string(moec_status_name(status)) + ": " + moec_last_error();
}

/// The report, or the error.
static std::string explained(const char *config, const char *options) {
  moec_text *report = nullptr;
  if (moec_status status = moec_explain_config(config, options, &report))
    return std::string(moec_status_name(status)) + ": " + moec_last_error();
  std::string text = moec_text_get(report);
  moec_text_destroy(report);
  return text;
}

/// The manifest's ranks of a load, or the error.
static std::string ranksOfLoad(const moec_package_files *files,
                               int32_t rankPlusOne) {
  moec_load_options options = {};
  options.struct_size = sizeof(options);
  options.device = MOEC_DEVICE_HOST;
  options.rank_plus_one = rankPlusOne;
  moec_package *package = nullptr;
  if (moec_package_load_files(files, &options, &package) != MOEC_OK)
    return moec_last_error();
  const std::string manifest = moec_package_manifest_json(package);
  moec_package_destroy(package);
  const size_t begin = manifest.find("\"ranks\": ");
  return manifest.substr(begin, manifest.find('\n', begin) - begin);
}

TEST(CompileConfig, AFamilyThatTheCallerNames) {
  const char *config = R"({
    "architectures": ["MineForCausalLM"], "model_type": "mine",
    "dtype": "bfloat16", "num_hidden_layers": 2, "hidden_size": 64,
    "num_local_experts": 4, "num_experts_per_tok": 2,
    "intermediate_size": 48, "hidden_act": "silu"})";
  const auto with = [&](const char *options) {
    return errorOf(config, options);
  };
  EXPECT_NE(with(R"({"arch": "sm_80"})")
                .find("unknown architecture \"MineForCausalLM\""),
            std::string::npos);
  EXPECT_EQ(with(R"({"arch": "sm_80", "as": "mixtral"})"), "");
  EXPECT_EQ(with(R"({"arch": "sm_80", "as": "MixtralForCausalLM"})"), "");
  EXPECT_NE(with(R"({"arch": "sm_80", "as": "mixtrall"})")
                .find("--as=mixtrall: unknown family (did you mean mixtral?)"),
            std::string::npos);
  EXPECT_NE(with(R"({"arch": "sm_80", "as": true})").find("as: expected"),
            std::string::npos);
  EXPECT_NE(errorOf(kTiny, R"({"arch": "sm_80", "as": "mixtral"})")
                .find("expected no --as with a layer JSON"),
            std::string::npos);
  // The layer that the report describes is the family's.
  const std::string report =
      explained(config, R"({"arch": "sm_80", "as": "mixtral"})");
  EXPECT_NE(report.find("\"renormalize_naive\""), std::string::npos) << report;
}

TEST(CompileConfig, OfAllRanks) {
  // 4 experts over 3 ranks: 2, 1 and 1.
  moec_package_files *files = nullptr;
  ASSERT_EQ(moec_compile_config(
                kTiny,
                R"({"arch": "sm_80", "dp": 3, "ep": true, "all_ranks": true})",
                &files),
            MOEC_OK)
      << moec_last_error();
  for (const auto &[rank, begin] : {std::pair(0, 0), {1, 2}, {2, 3}})
    EXPECT_NE(ranksOfLoad(files, rank + 1)
                  .find("[{\"rank\": " + std::to_string(rank) +
                        ", \"local_begin\": " + std::to_string(begin) + ","),
              std::string::npos)
        << ranksOfLoad(files, rank + 1);
  EXPECT_EQ(
      ranksOfLoad(files, 4),
      "package tiny is of ranks 0 to 2: expected `rank` to be one of them, got "
      "3; a package is for all ranks if it was compiled with all_ranks");
  EXPECT_NE(ranksOfLoad(files, 0).find("with 2 shares of several sizes"),
            std::string::npos);
  moec_package_files_destroy(files);
  EXPECT_EQ(errorOf(kTiny, R"({"arch": "sm_80", "all_ranks": 3})"),
            "invalid_argument: options.all_ranks: expected true or false, got "
            "3");
}

TEST(ExplainConfig, SaysWhatWouldBeChosen) {
  const std::string report = explained(kTiny, R"({"arch": "sm_80"})");
  EXPECT_EQ(report.find(R"({"moec_explain":1,"served":true,"name":"tiny",)"), 0)
      << report;
  EXPECT_NE(report.find(R"("arch":"sm_80")"), std::string::npos);
  EXPECT_NE(report.find(R"("engine":"simt")"), std::string::npos);
  EXPECT_NE(report.find(R"("code":"dtype_not_supported")"), std::string::npos);
}

TEST(ExplainConfig, ARefusedLayerHasTheReasonsOfEachCandidate) {
  const std::string report =
      explained(kTiny, R"({"arch": "sm_80", "engine": "mma_sync"})");
  EXPECT_EQ(report.find(R"({"moec_explain":1,"served":false,"message":)"), 0)
      << report;
  EXPECT_NE(report.find("no backend supports layer 'tiny' on sm_80"),
            std::string::npos);
  EXPECT_NE(report.find(R"({"backend":"grouped","engine":"mma_sync",)"
                        R"("realization":"native",)"
                        R"("code":"dtype_not_supported","reason":)"),
            std::string::npos)
      << report;
  EXPECT_NE(report.find(R"("code":"not_requested")"), std::string::npos);
}

/// The page, or the error.
static std::string drawn(const char *report, const char *bench) {
  moec_text *page = nullptr;
  if (moec_status status = moec_explain_html(report, bench, &page))
    return std::string(moec_status_name(status)) + ": " + moec_last_error();
  std::string text = moec_text_get(page);
  moec_text_destroy(page);
  return text;
}

TEST(ExplainHtml, DrawsTheReport) {
  const std::string report = explained(kTiny, R"({"arch": "sm_80"})");
  const std::string page = drawn(report.c_str(), nullptr);
  EXPECT_EQ(page.find("<!DOCTYPE html>"), 0) << page.substr(0, 200);
  EXPECT_NE(page.find("<h1>tiny</h1>"), std::string::npos);
  const std::string refusal = drawn(
      explained(kTiny, R"({"arch": "sm_80", "engine": "mma_sync"})").c_str(),
      nullptr);
  EXPECT_NE(refusal.find("<strong>Refused.</strong>"), std::string::npos);
}

TEST(ExplainHtml, WrongArgumentsAreErrors) {
  EXPECT_EQ(drawn(nullptr, nullptr),
            "invalid_argument: moec_explain_html: report_json is NULL");
  EXPECT_EQ(moec_explain_html("{}", nullptr, nullptr), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(drawn("{}", nullptr).find("invalid_argument: the report: "), 0);
  const std::string report = explained(kTiny, R"({"arch": "sm_80"})");
  EXPECT_EQ(drawn(report.c_str(), "{}"),
            "invalid_argument: <bench>: expected a result of moec-bench --json "
            "(moec_bench: 3), got a file without moec_bench");
}

TEST(ExplainConfig, WhatNoLayerCanBeReadFromIsRefusedWithoutTargets) {
  const std::string report =
      explained(R"({"model_type": "llama"})", R"({"arch": "sm_80"})");
  EXPECT_NE(report.find(R"("served":false)"), std::string::npos) << report;
  EXPECT_NE(report.find(R"("targets":[])"), std::string::npos) << report;
}

TEST(ExplainConfig, WrongArgumentsAreErrors) {
  EXPECT_EQ(explained(kTiny, R"({"arch": 80})"),
            "invalid_argument: options.arch: expected a string or an array of "
            "strings, got 80");
  EXPECT_EQ(explained(nullptr, ""),
            "invalid_argument: moec_explain_config: text is NULL");
  EXPECT_EQ(moec_explain_config(kTiny, "", nullptr), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(moec_text_get(nullptr), nullptr);
  moec_text_destroy(nullptr);
}

TEST(TuneConfig, WrongArgumentsAreErrors) {
  const auto said = [](const char *config, const char *options) -> std::string {
    moec_text *report = nullptr;
    const moec_status status = moec_tune_config(config, options, &report);
    EXPECT_EQ(report, nullptr);
    return std::string(moec_status_name(status)) + ": " + moec_last_error();
  };
  EXPECT_EQ(said(nullptr, ""),
            "invalid_argument: moec_tune_config: text is NULL");
  EXPECT_EQ(moec_tune_config(kTiny, "", nullptr), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(said(kTiny, R"({"arch": "sm_90a", "tokens": [0]})"),
            "invalid_argument: options.tokens: expected an array of integers "
            "from 1, got [0]");
  EXPECT_EQ(said(kTiny, R"({"arch": "sm_90a", "budget": "60s"})"),
            "invalid_argument: options.budget: expected a number above 0 and "
            "up to 2592000, got \"60s\"");
  EXPECT_EQ(said(kTiny, R"({"arch": "sm_90a", "deadline": 1e300})"),
            "invalid_argument: options.deadline: expected a number above 0 and "
            "up to 86400, got 1e+300");
  EXPECT_EQ(said(kTiny, R"({"arch": "sm_90a", "random": -1})"),
            "invalid_argument: options.random: expected an integer from 0 to "
            "100000, got -1");
  EXPECT_EQ(said(kTiny, R"({"arch": "sm_90a"})"),
            "refused: expected token counts to measure with (tokens), got "
            "none");
  EXPECT_EQ(said(kTiny, R"({"arch": "sm_90a", "tokens": [1], "device": "host",
                            "out": "/none/x", "log": "/none/./x"})"),
            "invalid_argument: the rows (--out) and the log (--log) are one "
            "file, '/none/./x'; expected a path of its own for each");
  // The environment is asked as by the other functions.
  for (const char *name : {"MOEC_BACKEND", "MOEC_ENGINE", "MOEC_EXCLUDE"}) {
    ::setenv(name, "no_such_word", 1);
    const std::string text =
        said(kTiny, R"({"arch": "sm_90a", "tokens": [1]})");
    EXPECT_NE(text.find(name), std::string::npos) << text;
    ::unsetenv(name);
  }
}

TEST(CompileConfig, IrIsBounded) {
  std::string deep;
  for (int i = 0; i < 20000; ++i)
    deep += "module {";
  EXPECT_EQ(errorOf(deep.c_str(), R"({"arch": "sm_80"})"),
            "refused: <config>:1:520: expected brackets at most 64 deep, got a "
            "deeper one");
}

TEST(CompileConfig, OptionsAreReadStrictly) {
  EXPECT_EQ(errorOf(kTiny, R"({"arch": ["sm_80"], "max_tokens": 64})"), "");
  EXPECT_EQ(errorOf(kTiny, R"({"arch": "sm_80"})"), "");
  EXPECT_EQ(errorOf(kTiny, "[]"),
            "invalid_argument: options: expected a JSON object, got an array");
  EXPECT_EQ(errorOf(kTiny, R"({"arch": "sm_80", "arch": "sm_90a"})"),
            "invalid_argument: options: line 1, column 19: expected each key "
            "once in an object, got \"arch\" twice");
  EXPECT_EQ(errorOf(kTiny, R"({"arch": "sm_80", "tp": 18446744073709551615})"),
            "invalid_argument: options.tp: expected an integer below 2^63, got "
            "18446744073709551615");
  EXPECT_EQ(errorOf(kTiny, R"({"arch": "sm_80", "max_tokens": "64"})"),
            "invalid_argument: options.max_tokens: expected an integer, got "
            "\"64\"");
  EXPECT_EQ(errorOf(kTiny, R"({"arch": "sm_80", "max_tokens": 0})"),
            "invalid_argument: expected max_tokens of at least 1, got 0");
  EXPECT_EQ(errorOf(kTiny, R"({"arch": 80})"),
            "invalid_argument: options.arch: expected a string or an array of "
            "strings, got 80");
  EXPECT_EQ(errorOf(kTiny, R"({"archs": "sm_80"})"),
            "invalid_argument: options: unknown field 'archs'; did you mean "
            "arch?");
  EXPECT_EQ(errorOf(kTiny, nullptr),
            "invalid_argument: no arch is given; expected one, such as sm_90a "
            "(`moec list archs`)");
  EXPECT_NE(errorOf(nullptr, nullptr), "");
  EXPECT_NE(moec_compile_config(kTiny, nullptr, nullptr), MOEC_OK);
}

TEST(CompileConfig, CubinsAreInTheCacheThatIsNamed) {
  const char *nvrtc = std::getenv("MOEC_NVRTC_PATH");
  if (!nvrtc || !*nvrtc)
    GTEST_SKIP() << "no NVRTC on this machine";
  std::string folder = testing::TempDir() + "moec-cache-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string options = R"({"arch": "sm_80", "max_tokens": 1, "cubin": )"
                              R"(true, "cache_dir": ")" +
                              folder + R"("})";
  EXPECT_EQ(errorOf(kTiny, options.c_str()), "");
  EXPECT_TRUE(std::filesystem::exists(folder + "/sm_80/"));
  std::filesystem::remove_all(folder);
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
  const int64_t w13Shape[] = {kExperts, 2 * kInner, kHidden};
  const int64_t w2Shape[] = {kExperts, kHidden, kInner};
  const int64_t rows[] = {kTokens, kHidden}, scores[] = {kTokens, kExperts};
  const moec_tensor weights[] = {{"w13", w13, nullptr, 3, w13Shape, nullptr},
                                 {"w2", w2, nullptr, 3, w2Shape, nullptr}};
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
  ASSERT_EQ(moec_context_create(package, workspace, bytes, nullptr, &context),
            MOEC_OK)
      << moec_last_error();
  const moec_tensor tensors[] = {
      {"x", x, nullptr, 2, rows, nullptr},
      {"logits", logits, nullptr, 2, scores, nullptr},
      {"out", out, nullptr, 2, rows, nullptr}};
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

//===----------------------------------------------------------------------===//
// Weights stored as floats
//===----------------------------------------------------------------------===//

namespace {
/// Bytes at an address that a package accepts.
class Bytes {
public:
  explicit Bytes(size_t count)
      : size(count),
        memory(std::aligned_alloc(256, (count + 511) / 256 * 256), std::free) {
    std::memset(memory.get(), 0, (count + 511) / 256 * 256);
  }
  template <typename T>
  explicit Bytes(const std::vector<T> &values)
      : Bytes(values.size() * sizeof(T)) {
    std::memcpy(memory.get(), values.data(), values.size() * sizeof(T));
  }
  void *data() const { return memory.get(); }
  std::string text() const {
    return {static_cast<const char *>(memory.get()), size};
  }

private:
  size_t size;
  std::unique_ptr<void, void (*)(void *)> memory;
};

/// The packed weights of a layer, and the outputs of a run of it.
using Made = std::map<std::string, std::string>;

const char *const kBlocks = R"({
  "moec_layer": 1, "name": "blocks", "num_experts": 2, "top_k": 1,
  "hidden_size": 256, "intermediate_size": 128, "in_dtype": "bf16",
  "routing_method": "renormalize", "quant_config": "fp8_block"})";
constexpr int64_t kExperts = 2, kHidden = 256, kInner = 128, kTokens = 3;

uint16_t bf16Of(float value) {
  return uint16_t(std::bit_cast<uint32_t>(value) >> 16);
}

float e4m3Of(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const float size = exponent ? std::ldexp(float(8 + mantissa), exponent - 10)
                              : std::ldexp(float(mantissa), -9);
  return code & 0x80 ? -size : size;
}

/// Codes of a weight and scales of its blocks of 128 x 128, of which the
/// largest value is 448 times the scale, a power of two: so floats that are
/// their products, which bf16 has exactly, have these codes alone.
struct Weight {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<uint16_t> floats;

  Weight(int64_t rows, int64_t columns, unsigned seed) {
    const int64_t blocks = columns / 128;
    for (int64_t r = 0; r < kExperts * rows; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        const int64_t block = r / 128 * blocks + c / 128;
        const float scale = std::ldexp(1.0f, -9 - int(block % 3));
        seed = seed * 1664525u + 1013904223u;
        uint8_t code = uint8_t((seed >> 8) % 0x7f | (seed >> 24 & 0x80));
        if (r % 128 == 5 && c % 128 == 7)
          code = 0x7e;
        if (r % 128 == 0 && c % 128 == 0)
          scales.push_back(scale);
        codes.push_back(code);
        floats.push_back(bf16Of(e4m3Of(code) * scale));
      }
  }
};

/// In the shape that the package says; extents stay until the process ends.
moec_tensor tensorOf(const moec_package *package, const char *name,
                     void *data) {
  static std::deque<std::array<int64_t, 8>> shapes;
  int64_t *shape = shapes.emplace_back().data();
  moec_tensor made = {name, data, nullptr, 0, shape, nullptr};
  for (size_t i = 0; i < moec_package_num_values(package); ++i) {
    moec_value value = {};
    value.struct_size = sizeof(value);
    EXPECT_EQ(moec_package_value(package, i, &value), MOEC_OK);
    if (std::string_view(value.name) == name)
      made.rank = value.rank;
  }
  EXPECT_EQ(moec_package_value_shape(package, name, kTokens, shape), MOEC_OK);
  return made;
}

Made runBlocks(const char *options, const std::map<std::string, Bytes> &given) {
  Made made;
  moec_package_files *files = nullptr;
  EXPECT_EQ(moec_compile_config(kBlocks, options, &files), MOEC_OK)
      << moec_last_error();
  moec_load_options load = {};
  load.struct_size = sizeof(load);
  load.device = MOEC_DEVICE_HOST;
  moec_package *package = nullptr;
  EXPECT_EQ(moec_package_load_files(files, &load, &package), MOEC_OK)
      << moec_last_error();
  moec_package_files_destroy(files);

  std::map<std::string, Bytes> packed;
  std::vector<moec_tensor> weights;
  for (const auto &[name, bytes] : given)
    weights.push_back(tensorOf(package, name.c_str(), bytes.data()));
  for (size_t i = 0; i < moec_package_num_values(package); ++i) {
    moec_value value = {};
    value.struct_size = sizeof(value);
    EXPECT_EQ(moec_package_value(package, i, &value), MOEC_OK);
    if (value.role != MOEC_PACKED_WEIGHT)
      continue;
    uint64_t bytes = 0;
    EXPECT_EQ(moec_package_value_bytes(package, value.name, 1, &bytes),
              MOEC_OK);
    auto place = packed.emplace(value.name, Bytes(bytes)).first;
    weights.push_back(tensorOf(package, value.name, place->second.data()));
  }
  moec_layer *layer = nullptr;
  EXPECT_EQ(moec_layer_create(package, weights.data(), weights.size(), nullptr,
                              nullptr, &layer),
            MOEC_OK)
      << moec_last_error();
  uint64_t bytes = 0;
  EXPECT_EQ(moec_package_workspace_bytes(package, kTokens, &bytes), MOEC_OK);
  const Bytes workspace(bytes), out(kTokens * kHidden * 2);
  moec_context *context = nullptr;
  EXPECT_EQ(
      moec_context_create(package, workspace.data(), bytes, nullptr, &context),
      MOEC_OK)
      << moec_last_error();
  std::vector<uint16_t> x, logits;
  for (int64_t i = 0; i < kTokens * kHidden; ++i)
    x.push_back(bf16Of(float(i % 11 - 5)));
  for (int64_t i = 0; i < kTokens * kExperts; ++i)
    logits.push_back(bf16Of(float(i * 5 % 7)));
  const Bytes xBytes(x), logitBytes(logits);
  const moec_tensor tensors[] = {tensorOf(package, "x", xBytes.data()),
                                 tensorOf(package, "logits", logitBytes.data()),
                                 tensorOf(package, "out", out.data())};
  EXPECT_EQ(moec_run(layer, context, nullptr, tensors, 3, kTokens, nullptr),
            MOEC_OK)
      << moec_last_error();
  for (const auto &[name, memory] : packed)
    made[name] = memory.text();
  made["out"] = out.text();
  moec_context_destroy(context);
  moec_layer_destroy(layer);
  moec_package_destroy(package);
  return made;
}
} // namespace

TEST(CompileConfig, WeightsOfFloatsAreQuantizedWhenTheLayerIsMade) {
  const Weight w13(2 * kInner, kHidden, 1), w2(kHidden, kInner, 2);
  std::map<std::string, Bytes> floats, codes;
  floats.emplace("w13", Bytes(w13.floats));
  floats.emplace("w2", Bytes(w2.floats));
  codes.emplace("w13", Bytes(w13.codes));
  codes.emplace("w2", Bytes(w2.codes));
  codes.emplace("w13_scale", Bytes(w13.scales));
  codes.emplace("w2_scale", Bytes(w2.scales));
  const Made ofFloats = runBlocks(
      R"({"arch": "sm_90a", "max_tokens": 8, "weights_dtype": "bf16"})",
      floats);
  const Made ofCodes =
      runBlocks(R"({"arch": "sm_90a", "max_tokens": 8})", codes);
  EXPECT_EQ(ofFloats.at("w13_scale_packed"), Bytes(w13.scales).text());
  EXPECT_EQ(ofFloats.at("w2_scale_packed"), Bytes(w2.scales).text());
  EXPECT_EQ(ofFloats.at("w2_packed"), Bytes(w2.codes).text());
  // Gate and up rows are interleaved, whatever they come from.
  EXPECT_EQ(ofFloats.at("w13_packed"), ofCodes.at("w13_packed"));
  EXPECT_NE(ofFloats.at("w13_packed"), Bytes(w13.codes).text());
  EXPECT_EQ(ofFloats.at("out"), ofCodes.at("out"));
  EXPECT_NE(ofFloats.at("out"), Bytes(size_t(kTokens * kHidden * 2)).text());
}

TEST(CompileConfig, TheTypeOfStoredWeightsIsReadStrictly) {
  EXPECT_EQ(errorOf(kBlocks, R"({"arch": "sm_90a", "weights_dtype": "f8"})"),
            "refused: <config>: --weights-dtype=f8: expected bf16, f16 or f32");
  EXPECT_EQ(errorOf(kBlocks, R"({"arch": "sm_90a", "weights_dtype": 16})"),
            "invalid_argument: options.weights_dtype: expected a string, got "
            "16");
}
