//===- MoecRunTest.cpp - moec-run and moec-check on the host device -------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exit statuses, JSON, and that a wrong layer description turns the check red.
//
//===----------------------------------------------------------------------===//

#include "test/tools/MoecRunTesting.h"
#include "tools/moec-run/LayerSizes.h"

#include <algorithm>

using namespace moec;
using namespace moec::test;
using nlohmann::json;
using testing::HasSubstr;

TEST_F(MoecRun, ChecksEveryKindOfRun) {
  for (const char *arguments :
       {"--tokens=0,1,7,8,9,64 --routing=uniform,skewed,ties,nan_inf",
        "--tokens=9 --inputs=ids64", "--tokens=5 --use-ids",
        "--tokens=9,64 --row-stride=8", "--tokens=20 --valid-tokens=11",
        "--variant=large --tokens=9,64", "--tokens=33 --against=."}) {
    std::string line = arguments;
    if (size_t at = line.find("=."); at != std::string::npos)
      line.replace(at, 2, "=" + root + "/package");
    EXPECT_EQ(check("--device=host --check --json " + line), 0)
        << arguments << "\n"
        << errors;
    auto report = json::parse(output, nullptr, false);
    ASSERT_TRUE(report.is_object()) << output;
    EXPECT_EQ(report["passed"], true);
    for (const json &each : report["runs"]) {
      EXPECT_EQ(each["passed"], true) << each.dump();
      if (each["tokens"] != 0) {
        EXPECT_EQ(each["twice"], "identical");
      }
    }
  }
}

TEST_F(MoecRun, TableAndTimes) {
  EXPECT_EQ(run("--device=host --tokens=1,9 --time --check"), 0) << errors;
  EXPECT_THAT(output, HasSubstr("tiny for sm_90a on host"));
  EXPECT_THAT(output, HasSubstr("median us"));
  EXPECT_THAT(output, HasSubstr("passed"));
}

TEST_F(MoecRun, AWrongKernelIsRed) {
  // The reference computes gelu, the kernels silu.
  package.manifest.layer["activation"]["function"] = "gelu";
  ASSERT_TRUE(writePackage(package, root + "/package"));
  EXPECT_EQ(run("--device=host --tokens=9 --check --json"), 1);
  EXPECT_THAT(errors, HasSubstr("9 tokens, routing uniform, variant large: "));
  EXPECT_EQ(json::parse(output, nullptr, false)["passed"], false);
  // Without tokens nothing is wrong; one wrong case of several is enough.
  EXPECT_EQ(run("--device=host --tokens=0 --check --json"), 0) << errors;
  for (const char *tokens : {"0,9", "9,0", "0,9,0"}) {
    EXPECT_EQ(
        run(std::string("--device=host --check --json --tokens=") + tokens), 1)
        << tokens;
    const json report = json::parse(output, nullptr, false);
    EXPECT_EQ(report["passed"], false) << tokens;
    for (const json &each : report["runs"])
      EXPECT_EQ(each["passed"], each["tokens"] == 0) << each.dump();
  }
}

/// The reference takes the sizes of `layer`, and the arrays have those of
/// `values`. Sizes that differ, or of which a product overflows, are an error
/// before anything is made.
TEST_F(MoecRun, TheLayerAgreesWithTheValues) {
  const json good = tinyLayer({});
  const auto problemOf = [&](const json &layer) {
    Result<reference::Layer> read = reference::parseLayer(layer);
    if (!read)
      return read.error().message;
    Result<void> same = run::checkSizes(*read, package.manifest);
    return same ? std::string() : same.error().message;
  };
  EXPECT_EQ(problemOf(good), "");
  constexpr int64_t kHuge = int64_t(1) << 61;
  for (const char *path :
       {"/num_experts", "/top_k", "/hidden_size",
        "/intermediate_size_per_partition", "/local_experts/count"}) {
    std::string field = path + 1;
    std::ranges::replace(field, '/', '.');
    const json::json_pointer at(path);
    const int64_t right = good[at];
    for (const int64_t wrong :
         {right - 1, right + 1, 2 * right, right + (int64_t(1) << 16),
          (int64_t(1) << 31) - 1, (int64_t(1) << 31) + right, kHuge, 2 * kHuge,
          kHuge + right, INT64_MAX, int64_t(-1), int64_t(0)}) {
      json layer = good;
      layer[at] = wrong;
      EXPECT_THAT(problemOf(layer),
                  testing::AnyOf(HasSubstr(field), HasSubstr("local_experts"),
                                 HasSubstr("top_k is larger")))
          << field << " = " << wrong;
    }
  }
  for (const char *field : {"in_dtype", "out_dtype"}) {
    json layer = good;
    layer[field] = "f32";
    EXPECT_THAT(problemOf(layer),
                HasSubstr(std::string("expected f32 as layer.") + field));
  }
  json layer = good;
  for (const char *operand : {"a1", "a2", "w1", "w2"})
    layer["quant"][operand]["element_type"] = "f32";
  EXPECT_THAT(problemOf(layer), HasSubstr("w13 has 4096 bytes by the "
                                          "manifest's values and 8192"));
  layer = good;
  layer["has_bias"] = true;
  EXPECT_THAT(problemOf(layer), HasSubstr("has a weight b13"));
  // Values that are of too few bytes for what is read of them.
  const auto change = [&](const char *name, auto changed) {
    Manifest manifest = package.manifest;
    changed(*std::ranges::find(manifest.values, name, &Value::name));
    Result<void> same = run::checkSizes(*reference::parseLayer(good), manifest);
    return same ? std::string() : same.error().message;
  };
  EXPECT_EQ(change("ids", [](Value &v) { v.elementTypes = {"i8"}; }),
            "value ids has elements of i8, expected i32");
  EXPECT_EQ(
      change("out", [](Value &v) { v.shape.clear(); }),
      "value out has no extents, expected 16 as layer.hidden_size specifies");
  EXPECT_EQ(change("weights", [](Value &v) { v.shape.back() = 1; }),
            "layer.top_k of the manifest makes the last extent of value "
            "weights 2, but its shape has 1");

  // A rank counts the tokens of the experts that it holds.
  layer = good;
  layer["num_experts"] = 2 * good["num_experts"].get<int64_t>();
  Manifest manifest = package.manifest;
  std::ranges::find(manifest.values, "logits", &Value::name)->shape.back() =
      layer["num_experts"].get<int64_t>();
  const Result<void> same =
      run::checkSizes(*reference::parseLayer(layer), manifest);
  EXPECT_TRUE(same) << same.error().message;

  for (const int64_t hidden : {kHuge, 2 * kHuge, int64_t(15), int64_t(32)}) {
    (*package.manifest.layer)["hidden_size"] = hidden;
    ASSERT_TRUE(writePackage(package, root + "/package"));
    EXPECT_EQ(run("--device=host --tokens=9 --check"), 1) << hidden;
    EXPECT_THAT(errors, HasSubstr("layer.hidden_size")) << hidden;
  }
}

TEST_F(MoecRun, ChainPacksAndRunsAgain) {
  EXPECT_EQ(check("--device=host --check --chain --tokens=0,1,9,64"), 0)
      << errors;
  EXPECT_THAT(output, HasSubstr("twice: identical"));
  EXPECT_THAT(output, HasSubstr("chain: identical"));
}

TEST_F(MoecRun, RefreshReplacesAnExpert) {
  // Freed memory is overwritten at once: names that outlive their
  // strings would be seen.
  setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
  setenv("MALLOC_PERTURB_", "165", 1);
  EXPECT_EQ(check("--device=host --check --refresh --tokens=1,9,64"), 0)
      << errors;
  unsetenv("GLIBC_TUNABLES");
  unsetenv("MALLOC_PERTURB_");
  EXPECT_THAT(output, HasSubstr("replaced: right"));
}

TEST_F(MoecRun, NoPoisonStillChecks) {
  EXPECT_EQ(check("--device=host --tokens=0,9,64 --check --json --no-poison"),
            0)
      << errors;
  auto report = json::parse(output, nullptr, false);
  ASSERT_TRUE(report.is_object()) << output;
  EXPECT_EQ(report["runs"][0]["text"], "0 tokens: not checked without poison");
  EXPECT_EQ(report["runs"][1]["twice"], "identical");
  EXPECT_EQ(check("--help"), 0);
  EXPECT_THAT(output, HasSubstr("--no-poison"));
  package.manifest.layer["activation"]["function"] = "gelu";
  ASSERT_TRUE(writePackage(package, root + "/package"));
  EXPECT_EQ(check("--device=host --tokens=9 --check --no-poison"), 1);
}

TEST_F(MoecRun, OptionsOfTestsAreNotTheProducts) {
  EXPECT_EQ(run("--help"), 0);
  const std::string product = output;
  EXPECT_EQ(check("--help"), 0);
  const std::string tests = output;
  for (const char *option : {"--chain", "--refresh", "--twice", "--cases",
                             "--at-once", "--device-limit", "--against"}) {
    EXPECT_THAT(product, testing::Not(HasSubstr(option)));
    EXPECT_THAT(tests, HasSubstr(option));
    EXPECT_EQ(run(std::string("--device=host ") + option), 2);
  }
}

TEST_F(MoecRun, SaysItsVersion) {
  EXPECT_EQ(run("--version"), 0);
  EXPECT_THAT(output, testing::MatchesRegex("moec-run [0-9]+.[0-9]+.[0-9]+\n"));
  EXPECT_EQ(check("--version"), 0);
  EXPECT_THAT(output, HasSubstr("moec-check "));
}

TEST_F(MoecRun, WrongCountsAreRefusedInShort) {
  EXPECT_EQ(run("--device=host --tokens=-1"), 2);
  EXPECT_EQ(errors, "moec-run: --tokens: expected an integer from 0 to "
                    "2147483647, got '-1'\n");
  EXPECT_EQ(run("--device=host --tokens=1,x"), 2);
  EXPECT_THAT(errors, HasSubstr("got 'x'\n"));
  EXPECT_EQ(run("--device=host --jobs=99999999999999999999"), 2);
  EXPECT_THAT(errors, HasSubstr("--jobs: expected an integer from 0 to "));
  EXPECT_EQ(check("--device=host --cases=x --device-limit=0"), 2);
  EXPECT_THAT(
      errors,
      HasSubstr("--device-limit: expected a number above 0, got '0'\n"));
  EXPECT_EQ(check("--device=host --sample=0"), 2);
  EXPECT_THAT(errors, HasSubstr("expected an integer from 1 to "));
}

/// Each option that would have no effect.
TEST_F(MoecRun, OptionsWithoutEffectAreRefused) {
  const auto refusal = [&](const std::string &arguments) {
    EXPECT_EQ(run(arguments), 2) << arguments;
    return errors;
  };
  for (const std::string option :
       {"--device=host", "--tokens=1", "--variant=small", "--seed=1",
        "--weights=a", "--input=x=a", "--output=out=a", "--check", "--time",
        "--routing=uniform"})
    EXPECT_EQ(refusal("--prebuild " + option),
              "moec-run: --prebuild runs nothing: expected no " +
                  option.substr(0, option.find('=')) + " with it\n");
  for (const std::string option :
       {"--layer=3", "--quantize", "--no-shared-experts", "--ignore-tensor=a"})
    EXPECT_EQ(refusal("--device=host " + option),
              "moec-run: " + option.substr(0, option.find('=')) +
                  " applies to a checkpoint: expected --weights=FOLDER with "
                  "it, got none\n");
  for (const std::string input : {"logits", "given_ids"})
    EXPECT_EQ(
        refusal("--device=host --routing=uniform --input=" + input + "=a"),
        "moec-run: --routing specifies how logits are drawn: expected "
        "none with logits or given_ids of --input\n");
  for (const std::string several : {"--tokens=1,2", "--routing=uniform,ties"})
    EXPECT_EQ(refusal("--device=host --output=out=a " + several),
              "moec-run: --output writes one run: expected one token count and "
              "one routing pattern\n");
  EXPECT_EQ(refusal("--device=emulated --time"),
            "moec-run: --time: expected --device=cuda or --device=host, got an "
            "emulated GPU, which has no time\n");
}

TEST_F(MoecRun, ExitStatus) {
  EXPECT_EQ(run("--tokens=1"), 2) << "no device";
  EXPECT_EQ(run("--device=host --no-such-option"), 2);
  EXPECT_EQ(run("--device=host --routing=funny"), 2);
  EXPECT_EQ(run("--device=host --variant=small --tokens=9"), 2);
  EXPECT_THAT(errors, HasSubstr("variant small supports 1 to 8 tokens"));
  EXPECT_EQ(run("--device=host --tokens=65"), 1);
  EXPECT_THAT(errors, HasSubstr("[too_many_tokens]"));
  ASSERT_TRUE(removeAll(root + "/package/sm_90a/route.cu"));
  EXPECT_EQ(run("--device=host --tokens=1"), 1);
  EXPECT_THAT(errors, HasSubstr("[damaged_package]"));
}
