//===- RealizationsTest.cpp - which realization is taken ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The order of realizations, what each is refused for, and what a caller may
// ask.
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/Resolver.h"

#include <gmock/gmock.h>

#include <cstdlib>

using namespace moec;
using namespace moec::compiler;
using testing::ElementsAre;
using testing::HasSubstr;

/// NVFP4, or MXFP8 if `isMx`, as its realizations compute it.
static std::vector<LayerFacts> quantizedWays(bool isMx = false) {
  LayerFacts layer;
  layer.name = "tiny";
  layer.experts = layer.localExperts = 8;
  layer.pairs = 2;
  layer.gated = true;
  layer.hidden = 256;
  layer.intermediate = 128;
  layer.quantized = true;
  layer.scheme = isMx ? "mxfp8" : "nvfp4";
  layer.elementTypes = {"bf16", "bf16"};
  const std::string code = isMx ? "f8E4M3FN" : "f4E2M1FN";
  layer.codes = {code, code};
  layer.codeGroups = {{1, 32}, {1, 32}};
  std::vector<LayerFacts> ways(3, layer);
  ways[0].realization = "native";
  ways[0].bits = isMx ? "w8a8" : "w4a4";
  ways[0].impossible = "no engine does";
  ways[0].instruction =
      catalog::blockInstruction(code, "f8E8M0FNU", code, "f8E8M0FNU");
  ways[1].realization = "weight_only";
  ways[1].bits = isMx ? "w8a16" : "w4a16";
  ways[2].realization = "emulated";
  ways[2].bits = ways[0].bits;
  ways[2].emulated = true;
  return ways;
}

/// "native  [feature_missing]" of each, in order; those in a row once.
static std::vector<std::string> answers(const std::vector<Candidate> &judged) {
  std::vector<std::string> made;
  for (const Candidate &candidate : judged) {
    const std::string text = candidate.realization + " " + candidate.bits +
                             " " + candidate.engine + " " + candidate.code;
    if (made.empty() || made.back() != text)
      made.push_back(text);
  }
  return made;
}

TEST(Realizations, ComeInTheOrderOfTheRow) {
  const auto r = resolve(quantizedWays(), "sm_90a", {});
  ASSERT_TRUE(r);
  EXPECT_EQ(r->realization, "emulated");
  EXPECT_EQ(r->engine, "wgmma_rs");
  EXPECT_EQ(r->degraded,
            "native, since sm_90a has no fp4 tensor core (feature 'fp4')");
  EXPECT_THAT(answers(r->candidates),
              ElementsAre("native w4a4  feature_missing",
                          "weight_only w4a16 wgmma_rs not_allowed",
                          "weight_only w4a16 mma_sync not_allowed",
                          "weight_only w4a16 simt not_allowed",
                          "emulated w4a4 wgmma_rs ", "emulated w4a4 mma_sync ",
                          "emulated w4a4 simt "));
}

TEST(Realizations, NameTheArchBeforeTheEngine) {
  const auto reasonOn = [](const char *arch, bool isMx) {
    const auto r = resolve(quantizedWays(isMx), arch, {});
    return r->candidates.front().code + ": " + r->candidates.front().reason;
  };
  EXPECT_EQ(reasonOn("sm_80", false),
            "feature_missing: sm_80 has no fp4 tensor core (feature 'fp4')");
  EXPECT_EQ(reasonOn("sm_90a", true),
            "feature_missing: sm_90a has no tensor core with scales of blocks "
            "(feature 'tcgen05' or 'block_scaled_mma')");
  for (const char *arch : {"sm_100a", "sm_120a"})
    for (const bool isMx : {false, true})
      EXPECT_EQ(reasonOn(arch, isMx), "engine_missing: no engine does");
  // Engines that lack a feature say so first, whatever else they lack.
  std::vector<LayerFacts> ways = quantizedWays();
  ways[2].hidden = 200;
  const auto r = resolve(ways, "sm_80", {});
  for (const Candidate &candidate : r->candidates)
    if (candidate.engine == "wgmma_rs") {
      EXPECT_EQ(candidate.code, "feature_missing");
    }
}

TEST(Realizations, AnotherLayerIsTakenIfAllowed) {
  Choices choices;
  choices.allow = {"weight_only"};
  const auto r = resolve(quantizedWays(), "sm_90a", choices);
  EXPECT_EQ(r->realization, "weight_only");
  EXPECT_EQ(r->engine, "wgmma_rs");
  const auto closed = resolve(quantizedWays(), "sm_80", {});
  EXPECT_EQ(closed->candidates[2].reason,
            "activations would stay bf16, which is another layer; "
            "--allow=weight_only takes it: engine mma_sync, and no activation "
            "is quantized");
}

TEST(Realizations, CodesThatComeAreMultiplied) {
  std::vector<LayerFacts> ways = quantizedWays();
  for (LayerFacts &way : ways)
    way.takesCodes = true;
  Choices choices;
  choices.allow = {"weight_only"};
  const auto r = resolve(ways, "sm_90a", choices);
  EXPECT_EQ(r->realization, "emulated");
  EXPECT_EQ(r->candidates[1].code, "input_quantized");
  EXPECT_EQ(r->candidates[1].reason, "x comes as codes (input_quantized), and "
                                     "these are what is multiplied");
}

TEST(Realizations, AreExcluded) {
  Choices choices;
  choices.exclude = {"emulated", "simt"};
  const auto none = resolve(quantizedWays(), "sm_80", choices);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::Refused);
  EXPECT_EQ(
      none.error().message,
      "no backend supports layer 'tiny' on sm_80: native [feature_missing]: "
      "sm_80 has no fp4 tensor core (feature 'fp4'); weight_only, grouped with "
      "wgmma_rs [feature_missing]: engine 'wgmma_rs' needs wgmma, which sm_80 "
      "lacks; weight_only, grouped with mma_sync [not_allowed]: activations "
      "would stay bf16, which is another layer; --allow=weight_only takes it: "
      "engine mma_sync, and no activation is quantized; weight_only, grouped "
      "with simt; unfused with simt [excluded]: 'simt' is excluded; emulated, "
      "grouped with wgmma_rs, mma_sync [excluded]: 'emulated' is excluded; "
      "emulated, grouped with simt; unfused with simt [excluded]: 'simt' is "
      "excluded");
  choices.exclude = {"native"};
  EXPECT_EQ(resolve(quantizedWays(), "sm_80", choices)->candidates[0].code,
            "excluded");
  choices.exclude = {"grouped"};
  EXPECT_EQ(resolve(quantizedWays(), "sm_80", choices)->backend, "unfused");
}

TEST(Realizations, OfAPackageAreAlike) {
  Choices choices;
  choices.allow = {"weight_only"};
  const auto r = resolve(quantizedWays(), "sm_90a", choices, "emulated");
  EXPECT_EQ(r->realization, "emulated");
  EXPECT_EQ(r->candidates[1].code, "other_target");
  EXPECT_EQ(r->candidates[1].reason,
            "another target or rank of the package does not support it, and "
            "all must compute the same way");
}

static std::string whyNot(const Choices &choices) {
  const Result<void> checked = checkChoices(choices);
  return checked ? "" : checked.error().message;
}

TEST(Choices, ThatMakeNoSenseAreErrors) {
  Choices choices;
  choices.exclude = {"wgmmma"};
  EXPECT_THAT(whyNot(choices),
              HasSubstr("exclude: unknown word 'wgmmma'; did you mean wgmma? "
                        "known backends: grouped, batched, unfused; engines: "
                        "wgmma,"));
  choices.exclude = {"simt"};
  choices.engine = "simt";
  EXPECT_EQ(whyNot(choices),
            "engine and exclude both name 'simt'; expected one of them");
  choices.variables = {"exclude"};
  EXPECT_EQ(whyNot(choices), "engine and exclude (MOEC_EXCLUDE) both name "
                             "'simt'; expected one of them");
  choices = {};
  choices.backend = "grouped";
  choices.exclude = {"grouped"};
  EXPECT_EQ(whyNot(choices),
            "backend and exclude both name 'grouped'; expected one of them");
  choices = {};
  choices.exclude = {"grouped", "batched", "unfused"};
  EXPECT_EQ(whyNot(choices), "exclude names every backend; expected one at "
                             "least that is left");
  choices.exclude = {"wgmma",    "wgmma_rs", "mma_sync_scaled",
                     "mma_sync", "tcgen05",  "simt",
                     "gemv"};
  EXPECT_EQ(whyNot(choices), "exclude names every engine; expected one at "
                             "least that is left");
  choices.exclude = {"native", "dequantized", "weight_only", "emulated"};
  EXPECT_EQ(whyNot(choices), "exclude names every realization; expected one at "
                             "least that is left");
  choices = {};
  choices.allow = {"emulated"};
  EXPECT_EQ(whyNot(choices), "allow: expected weight_only, the one realization "
                             "that is another layer, got 'emulated'");
  choices.allow = {"weight_only"};
  EXPECT_EQ(whyNot(choices), "");
  choices.exclude = {"weight_only"};
  EXPECT_EQ(whyNot(choices), "allow and exclude both name 'weight_only'; "
                             "expected one of them");
}

TEST(Choices, OfAVariableForbidWhatIsAllowed) {
  Choices choices;
  choices.allow = {"weight_only"};
  choices.exclude = {"weight_only"};
  choices.variables = {"exclude"};
  EXPECT_EQ(whyNot(choices), "");
  const auto r = resolve(quantizedWays(), "sm_90a", choices);
  EXPECT_EQ(r->realization, "emulated");
  EXPECT_EQ(r->candidates[1].code, "excluded");
  EXPECT_EQ(r->candidates[1].reason,
            "'weight_only' is excluded by MOEC_EXCLUDE");
}

TEST(Choices, ComeFromVariablesWhereNoOptionSaysThem) {
  ::setenv("MOEC_BACKEND", "unfused", 1);
  ::setenv("MOEC_ENGINE", "simt", 1);
  ::setenv("MOEC_EXCLUDE", "gemv,emulated", 1);
  Choices choices;
  choices.engine = "mma_sync";
  addVariables(choices);
  ::unsetenv("MOEC_BACKEND");
  ::unsetenv("MOEC_ENGINE");
  ::unsetenv("MOEC_EXCLUDE");
  EXPECT_EQ(choices.backend, "unfused");
  EXPECT_EQ(choices.engine, "mma_sync");
  EXPECT_THAT(choices.exclude, ElementsAre("gemv", "emulated"));
  EXPECT_EQ(choices.saidBy("backend"), "MOEC_BACKEND");
  EXPECT_EQ(choices.saidBy("engine"), "option");
  EXPECT_EQ(choices.saidBy("exclude"), "MOEC_EXCLUDE");
}
