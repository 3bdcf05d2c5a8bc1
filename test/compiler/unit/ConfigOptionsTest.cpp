//===- ConfigOptionsTest.cpp - options of the C ABI as JSON ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each field reaches its own option, and numbers are taken up to their limits.
//
//===----------------------------------------------------------------------===//

#include "compiler/capi/ConfigOptions.h"

#include <gmock/gmock.h>

using namespace moec;
using namespace moec::compiler;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(ConfigOptions, EachFieldIsItsOwn) {
  Result<ConfigOptions> read = readConfigOptions(
      R"({"arch": ["sm_80", "sm_90a"], "gpu": "a gpu", "max_tokens": 3,
          "default_max_tokens": 4, "backend": "a backend",
          "engine": "an engine", "exclude": "wgmma", "allow": ["x", "y"],
          "cache_dir": "a folder", "tuned": "a file", "tuned_store": false,
          "cubin": true, "tokens": [5, 6], "histogram": "zipf",
          "scheme": "a scheme", "dtype": "f16", "logits_dtype": "f32",
          "weights_dtype": "bf16", "accumulate": "fast", "tp": 7, "pcp": 8,
          "dp": 9, "ep": true, "sp": 10, "placement": "round_robin",
          "all_to_all": "one_sided", "rank": 11, "all_ranks": true,
          "no_shared_experts": true, "part": "route", "layer": 12,
          "as": "a family", "ignore_field": ["one", "two"]})",
      /*explains=*/true);
  ASSERT_TRUE(read) << read.error().message;
  const CompileOptions &compile = read->compile;
  EXPECT_THAT(compile.archs, ElementsAre("sm_80", "sm_90a"));
  EXPECT_EQ(compile.gpu, "a gpu");
  EXPECT_EQ(compile.maxTokens, 3);
  EXPECT_TRUE(compile.asksMaxTokens);
  EXPECT_EQ(compile.backend, "a backend");
  EXPECT_EQ(compile.engine, "an engine");
  EXPECT_THAT(compile.exclude, ElementsAre("wgmma"));
  EXPECT_THAT(compile.allow, ElementsAre("x", "y"));
  EXPECT_EQ(compile.cacheFolder, "a folder");
  EXPECT_EQ(compile.tunedFile, "a file");
  EXPECT_FALSE(compile.tunedStore);
  EXPECT_TRUE(compile.cubins);
  EXPECT_THAT(read->explain.tokens, ElementsAre(5, 6));
  EXPECT_EQ(read->explain.histogram, "zipf");
  const ImportOptions &import = read->import;
  EXPECT_EQ(import.scheme, "a scheme");
  EXPECT_EQ(import.dtype, "f16");
  EXPECT_EQ(import.logitsDtype, "f32");
  EXPECT_EQ(import.weightsDtype, "bf16");
  EXPECT_EQ(import.accumulate, "fast");
  EXPECT_EQ(import.tp, 7);
  EXPECT_EQ(import.pcp, 8);
  EXPECT_EQ(import.dp, 9);
  EXPECT_TRUE(import.ep);
  EXPECT_EQ(import.sp, 10);
  EXPECT_EQ(import.placement, "round_robin");
  EXPECT_EQ(import.allToAll, "one_sided");
  EXPECT_EQ(import.rank, 11);
  EXPECT_TRUE(import.allRanks && import.noSharedExperts);
  EXPECT_EQ(import.part, "route");
  EXPECT_EQ(import.layer, 12);
  EXPECT_EQ(import.as, "a family");
  EXPECT_THAT(import.ignoreFields, ElementsAre("one", "two"));

  Result<TuneOptions> tune = readTuneOptions(
      R"({"arch": "sm_90a", "max_tokens": 3, "tp": 4, "tokens": [5, 6],
          "budget": 7, "exhaustive": true, "random": 8, "seed": 9,
          "device": "host", "deadline": 10.5, "min_gain": 11, "sample": 12,
          "out": "rows", "log": "a log"})");
  ASSERT_TRUE(tune) << tune.error().message;
  EXPECT_THAT(tune->compile.archs, ElementsAre("sm_90a"));
  EXPECT_EQ(tune->compile.maxTokens, 3);
  EXPECT_EQ(tune->import.tp, 4);
  EXPECT_THAT(tune->tokens, ElementsAre(5, 6));
  EXPECT_EQ(tune->budget, 7);
  EXPECT_TRUE(tune->exhaustive);
  EXPECT_EQ(tune->random, 8);
  EXPECT_EQ(tune->seed, 9U);
  EXPECT_EQ(tune->device, "host");
  EXPECT_EQ(tune->deadline, 10.5);
  EXPECT_EQ(tune->minGain, 11);
  EXPECT_EQ(tune->sample, 12);
  EXPECT_EQ(tune->output, "rows");
  EXPECT_EQ(tune->log, "a log");
}

TEST(ConfigOptions, Defaults) {
  for (const char *none : {"", "{}"}) {
    Result<ConfigOptions> read = readConfigOptions(none, /*explains=*/false);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_FALSE(read->compile.cubins);
    EXPECT_TRUE(read->compile.tunedStore);
    EXPECT_FALSE(read->compile.asksMaxTokens);
    EXPECT_EQ(read->compile.maxTokens, 65536);
    EXPECT_EQ(read->compile.cacheFolder, "");
    EXPECT_FALSE(read->import.tp || read->import.ep || read->import.layer);
    Result<TuneOptions> tune = readTuneOptions(none);
    ASSERT_TRUE(tune) << tune.error().message;
    EXPECT_EQ(tune->budget, 60);
    EXPECT_EQ(tune->seed, 1U);
    EXPECT_EQ(tune->device, "cuda");
    EXPECT_EQ(tune->deadline, 30);
    EXPECT_EQ(tune->minGain, 1);
    EXPECT_EQ(tune->sample, 8);
  }
  // A library's own bound is none that its caller asked for.
  Result<ConfigOptions> read =
      readConfigOptions(R"({"default_max_tokens": 4})", false);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->compile.maxTokens, 4);
  EXPECT_FALSE(read->compile.asksMaxTokens);
}

TEST(ConfigOptions, NumbersUpToTheirLimits) {
  const auto said = [](const char *text) -> std::string {
    Result<TuneOptions> read = readTuneOptions(text);
    return read ? "" : read.error().message;
  };
  for (const char *taken :
       {R"({"tokens": [1, 2147483647]})", R"({"budget": 2592000})",
        R"({"budget": 0.5})", R"({"deadline": 86400})", R"({"random": 0})",
        R"({"random": 100000})", R"({"sample": 1})",
        R"({"sample": 2147483647})", R"({"max_tokens": 9223372036854775807})",
        R"({"max_tokens": -9223372036854775808})", R"({"tokens": []})"})
    EXPECT_EQ(said(taken), "") << taken;
  for (const auto &[text, what] :
       {std::pair(R"({"tokens": [2147483648]})",
                  "options.tokens: expected an "),
        {R"({"tokens": 1})", "options.tokens: expected an array of integers"},
        {R"({"budget": 2592000.5})", "a number above 0 and up to 2592000"},
        {R"({"budget": 0})", "a number above 0 and up to 2592000"},
        {R"({"deadline": 86401})", "a number above 0 and up to 86400"},
        {R"({"random": 100001})", "an integer from 0 to 100000, got 100001"},
        {R"({"sample": 0})", "an integer from 1 to 2147483647, got 0"},
        {R"({"sample": 2147483648})", "an integer from 1 to 2147483647"},
        {R"({"max_tokens": 9223372036854775808})", "an integer below 2^63"},
        {R"({"exclude": [1]})", "a string or an array of strings, got [1]"},
        {R"({"ep": 1})", "options.ep: expected true or false, got 1"},
        {R"({"tuned": "x"})", "unknown field 'tuned'"},
        {R"({"cubin": true})", "unknown field 'cubin'"}})
    EXPECT_THAT(said(text), HasSubstr(what)) << text;
  // A report alone takes token counts.
  EXPECT_FALSE(readConfigOptions(R"({"tokens": 1})", /*explains=*/false));
  Result<ConfigOptions> one = readConfigOptions(R"({"tokens": 1})", true);
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_THAT(one->explain.tokens, ElementsAre(1));
  EXPECT_FALSE(readConfigOptions(R"({"tokens": ["1"]})", true));
}
