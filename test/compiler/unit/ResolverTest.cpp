//===- ResolverTest.cpp - who serves a layer, and why not -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Winners, refusals with their codes, degradations and forced choices.
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/Resolver.h"

#include <fmt/core.h>
#include <gmock/gmock.h>

using namespace moec;
using namespace moec::compiler;

static LayerFacts layerOf(const std::string &type) {
  LayerFacts layer;
  layer.name = "tiny";
  layer.experts = layer.localExperts = 8;
  layer.pairs = 2;
  layer.gated = true;
  layer.hidden = 64;
  layer.intermediate = 32;
  layer.elementTypes = {type, type, type, type};
  return layer;
}

static Result<Resolution> ask(const LayerFacts &layer, const std::string &arch,
                              const std::string &backend,
                              const std::string &engine) {
  Choices choices;
  choices.backend = backend;
  choices.engine = engine;
  return resolve({layer}, arch, choices);
}

static std::vector<Candidate> refusedOf(const Result<Resolution> &resolution) {
  std::vector<Candidate> refused;
  for (const Candidate &candidate : resolution->candidates)
    if (candidate.isRefused())
      refused.push_back(candidate);
  return refused;
}

static std::string winner(const Result<Resolution> &r) {
  return r ? r->backend + " " + r->engine : r.error().message;
}

TEST(Resolver, TakesTheHighestPriorityThatServes) {
  auto r = ask(layerOf("bf16"), "sm_90a", "", "");
  EXPECT_EQ(winner(r), "grouped wgmma");
  EXPECT_TRUE(refusedOf(r).empty());
  EXPECT_EQ(r->degraded, "");
}

TEST(Resolver, WgmmaNeedsAnArchThatHasIt) {
  for (const char *arch : {"sm_80", "sm_90", "sm_100", "sm_120a"})
    EXPECT_EQ(winner(ask(layerOf("bf16"), arch, "", "")), "grouped mma_sync");
}

TEST(Resolver, PowersOfTwoOf128AreScalesOfBlocksOnArchsThatHaveThem) {
  LayerFacts layer = layerOf("f8E4M3FN");
  layer.quantized = layer.nativeScales = true;
  EXPECT_EQ(winner(ask(layer, "sm_120f", "", "")), "grouped mma_sync");
  layer.powerGroups =
      catalog::blockPair("f8E4M3FN", "f8E4M3FN", "f8E8M0FNU", 128);
  ASSERT_NE(layer.powerGroups, nullptr);
  EXPECT_EQ(winner(ask(layer, "sm_120f", "", "")), "grouped mma_sync_scaled");
  EXPECT_EQ(winner(ask(layer, "sm_120f", "", "mma_sync")), "grouped mma_sync");
  // Elsewhere it is no candidate, so that nothing is degraded from it.
  const auto r = ask(layer, "sm_89", "", "");
  EXPECT_EQ(winner(r), "grouped mma_sync");
  for (const Candidate &candidate : r->candidates)
    EXPECT_NE(candidate.engine, "mma_sync_scaled");
}

TEST(Resolver, SaysWhatItDegradedFrom) {
  auto r = ask(layerOf("f16"), "sm_75", "", "");
  EXPECT_EQ(winner(r), "grouped simt");
  ASSERT_EQ(refusedOf(r).size(), 2u);
  EXPECT_EQ(refusedOf(r)[0].code, "feature_missing");
  EXPECT_EQ(refusedOf(r)[1].code, "feature_missing");
  EXPECT_EQ(r->degraded,
            "grouped with wgmma, since engine 'wgmma' needs wgmma, "
            "which sm_75 lacks");
}

TEST(Resolver, F32HasNoTensorCoreEngine) {
  auto r = ask(layerOf("f32"), "sm_90a", "", "");
  EXPECT_EQ(winner(r), "grouped simt");
  EXPECT_EQ(refusedOf(r)[0].code, "dtype_not_supported");
  EXPECT_EQ(refusedOf(r)[0].reason,
            "engine 'wgmma' multiplies f16, bf16, f8E4M3FN, not f32");
}

TEST(Resolver, ForcedChoicesHold) {
  EXPECT_EQ(winner(ask(layerOf("bf16"), "sm_90a", "unfused", "")),
            "unfused simt");
  EXPECT_EQ(winner(ask(layerOf("bf16"), "sm_90a", "", "simt")), "grouped simt");
  auto r = ask(layerOf("bf16"), "sm_90a", "unfused", "");
  EXPECT_EQ(r->degraded, "");
  EXPECT_EQ(refusedOf(r)[0].code, "not_requested");
}

TEST(Resolver, ForcedChoicesThatCannotServeListTheirReasons) {
  EXPECT_EQ(winner(ask(layerOf("f32"), "sm_90a", "", "mma_sync")),
            "no backend supports layer 'tiny' on sm_90a: grouped with mma_sync "
            "[dtype_not_supported]: engine 'mma_sync' multiplies f16, bf16, "
            "f8E4M3FN, i8, not f32");
  EXPECT_EQ(
      winner(ask(layerOf("bf16"), "sm_90a", "unfused", "mma_sync")),
      "no backend supports layer 'tiny' on sm_90a: [engine_not_admitted]: "
      "backend 'unfused' takes engine simt, not mma_sync");
}

TEST(Resolver, BackendsServeTheirFormatAlone) {
  LayerFacts layer = layerOf("bf16");
  layer.format = "batched";
  auto r = ask(layer, "sm_90a", "", "");
  EXPECT_EQ(winner(r), "batched wgmma");
  EXPECT_TRUE(refusedOf(r).empty());
  EXPECT_EQ(r->degraded, "");
  EXPECT_EQ(winner(ask(layer, "sm_80", "", "")), "batched mma_sync");
  EXPECT_EQ(winner(ask(layer, "sm_90a", "unfused", "")),
            "no backend supports layer 'tiny' on sm_90a: "
            "[format_not_supported]: backend 'unfused' is for layers with "
            "activation_format standard, this one's is batched");
  EXPECT_EQ(winner(ask(layerOf("bf16"), "sm_90a", "batched", "")),
            "no backend supports layer 'tiny' on sm_90a: "
            "[format_not_supported]: backend 'batched' is for layers with "
            "activation_format batched, this one's is standard");
}

TEST(Resolver, EmulatedActivationsAreServedAsWhatTheyBecome) {
  LayerFacts layer = layerOf("bf16");
  layer.quantized = true;
  layer.codes = {"f4E2M1FN", "f4E2M1FN"};
  for (bool emulated : {false, true}) {
    layer.emulated = emulated;
    layer.realization = emulated ? "emulated" : "dequantized";
    auto ampere = ask(layer, "sm_80", "", "");
    EXPECT_EQ(winner(ampere), "grouped mma_sync");
    EXPECT_EQ(ampere->realization, emulated ? "emulated" : "dequantized");
    EXPECT_EQ(winner(ask(layer, "sm_75", "", "")), "grouped simt");
  }
}

TEST(Resolver, NamedSchemesAreServedAndSayHow) {
  LayerFacts layer = layerOf("f8E4M3FN");
  layer.quantized = true;
  layer.scheme = "fp8_block";
  for (auto [arch, realization] : {std::pair("sm_80", "dequantized"),
                                   {"sm_89", "native"},
                                   {"sm_90", "dequantized"},
                                   {"sm_100a", "dequantized"},
                                   {"sm_120", "native"}}) {
    auto r = ask(layer, arch, "", "mma_sync");
    EXPECT_EQ(winner(r), "grouped mma_sync") << arch;
    EXPECT_EQ(r->realization, realization) << arch;
  }
  EXPECT_EQ(winner(ask(layer, "sm_75", "", "")), "grouped simt");
  auto hopper = ask(layer, "sm_90a", "", "");
  EXPECT_EQ(winner(hopper), "grouped wgmma");
  EXPECT_EQ(hopper->realization, "native");
  EXPECT_EQ(winner(ask(layer, "sm_90", "", "")), "grouped mma_sync");
  layer.hidden = 72;
  EXPECT_NE(winner(ask(layer, "sm_90a", "", ""))
                .find("hidden size 72 is no multiple of 16"),
            std::string::npos);
}

TEST(Resolver, UnknownNamesListTheKnownOnes) {
  EXPECT_EQ(winner(ask(layerOf("bf16"), "sm_90a", "layered", "")),
            "unknown backend 'layered'; known backends: grouped, batched, "
            "unfused");
  EXPECT_EQ(winner(ask(layerOf("bf16"), "sm_90a", "", "wmma")),
            "unknown engine 'wmma'; did you mean wgmma? known engines: wgmma, "
            "wgmma_rs, mma_sync_scaled, mma_sync, tcgen05, simt, gemv");
}

TEST(Resolver, AnEngineOfFewTokensIsNeverTheProgramsOwn) {
  auto forced = ask(layerOf("bf16"), "sm_90a", "", "gemv");
  ASSERT_FALSE(forced);
  EXPECT_EQ(forced.error().code, ErrorCode::Refused);
  EXPECT_EQ(forced.error().message,
            "no backend supports layer 'tiny' on sm_90a: [few_tokens_only]: "
            "engine 'gemv' supports at most 8 tokens and needs another engine "
            "for more; it is used automatically if no engine is requested");
  auto open = ask(layerOf("bf16"), "sm_90a", "", "");
  ASSERT_TRUE(open);
  for (const Candidate &refused : refusedOf(open))
    EXPECT_NE(refused.engine, "gemv");
}

TEST(Resolver, ArchsWithTensorMemoryTakeTheirEngine) {
  for (const char *type : {"bf16", "f16", "f8E4M3FN"}) {
    LayerFacts layer = layerOf(type);
    if (layer.elementTypes.front() == "f8E4M3FN")
      layer.quantized = true, layer.scheme = "fp8_channel";
    auto open = ask(layer, "sm_100f", "", "");
    EXPECT_EQ(winner(open), "grouped tcgen05");
    EXPECT_EQ(open->realization, "native");
    const std::vector<Candidate> refused = refusedOf(open);
    ASSERT_EQ(refused.size(), 1U);
    EXPECT_EQ(refused[0].engine, "wgmma");
    Choices choices;
    choices.exclude = {"tcgen05"};
    auto without = resolve({layer}, "sm_100f", choices);
    EXPECT_EQ(winner(without), "grouped mma_sync");
    EXPECT_EQ(without->degraded.find("tcgen05"), std::string::npos);
  }
  // Reports on other archs do not name it, unless the user does.
  const auto hopper = ask(layerOf("bf16"), "sm_90a", "", "");
  ASSERT_TRUE(hopper);
  for (const Candidate &candidate : hopper->candidates)
    EXPECT_NE(candidate.engine, "tcgen05");
  EXPECT_EQ(
      winner(ask(layerOf("bf16"), "sm_100", "", "tcgen05")),
      "no backend supports layer 'tiny' on sm_100: grouped with tcgen05 "
      "[feature_missing]: engine 'tcgen05' needs tcgen05, which sm_100 lacks");
}

TEST(Resolver, AnEngineThatReadsFragmentsServesWholeBlocks) {
  LayerFacts layer = layerOf("bf16");
  layer.intermediate = 64;
  layer.quantized = true;
  layer.elementTypes = {"bf16", "bf16"};
  layer.codes = {"i4", "i4"};
  for (const auto &[rows, columns] : {std::pair(1, -1),
                                      {1, 16},
                                      {1, 32},
                                      {1, 64},
                                      {1, 192},
                                      {128, 128},
                                      {-1, -1}}) {
    layer.codeGroups = {{rows, columns}, {rows, columns}};
    EXPECT_EQ(winner(ask(layer, "sm_90a", "", "wgmma_rs")), "grouped wgmma_rs");
    EXPECT_EQ(winner(ask(layer, "sm_90a", "", "")), "grouped wgmma_rs");
    EXPECT_EQ(winner(ask(layer, "sm_80", "", "")), "grouped mma_sync");
  }
  for (const auto &[rows, columns] : {std::pair(128, 48), {1, 48}, {1, 8}}) {
    layer.codeGroups = {{1, 128}, {rows, columns}};
    const std::string expected =
        fmt::format("engine 'wgmma_rs' takes a scale for all of k, or for 16, "
                    "32 or a multiple of 64 of it, not for groups of [{}, {}]",
                    rows, columns);
    EXPECT_THAT(winner(ask(layer, "sm_90a", "", "wgmma_rs")),
                testing::HasSubstr(expected));
    EXPECT_EQ(winner(ask(layer, "sm_90a", "", "")), "grouped mma_sync");
  }
}

TEST(Resolver, AnEngineOfBothOrdersReadsFragmentsWhereItCan) {
  const catalog::Engine &mmaSync =
      *catalog::find(catalog::kEngines, "mma_sync");
  LayerFacts fits = layerOf("bf16");
  fits.intermediate = 64;
  fits.quantized = true;
  fits.elementTypes = {"bf16", "bf16"};
  fits.codes = {"i4", "i4"};
  fits.codeGroups = {{1, 32}, {1, -1}};
  EXPECT_EQ(orderOf(fits, mmaSync), "fragment");
  EXPECT_EQ(orderOf(fits, *catalog::find(catalog::kEngines, "simt")), "rows");
  EXPECT_EQ(orderOf(layerOf("bf16"), mmaSync), "rows");

  // Registers of a warpgroup are no concern of this engine.
  LayerFacts layer = fits;
  layer.takesManyRegisters = true, layer.gated = false;
  EXPECT_EQ(orderOf(layer, mmaSync), "fragment");

  layer = fits, layer.intermediate = 96;
  EXPECT_EQ(orderOf(layer, mmaSync), "rows");
  layer = fits, layer.codes = {"f6E3M2FN", "f6E3M2FN"};
  EXPECT_EQ(orderOf(layer, mmaSync), "rows");
  layer = fits, layer.elementTypes = {"f8E4M3FN", "f8E4M3FN"};
  EXPECT_EQ(orderOf(layer, mmaSync), "rows");
  // Packing repeats the scales of several rows.
  layer = fits, layer.codeGroups = {{1, 32}, {128, 128}};
  EXPECT_EQ(orderOf(layer, mmaSync), "fragment");
  layer = fits, layer.codeGroups = {{1, 32}, {1, 24}};
  EXPECT_EQ(orderOf(layer, mmaSync), "rows");
  layer = fits, layer.emulated = true;
  EXPECT_EQ(orderOf(layer, mmaSync), "rows");
  layer = fits, layer.quantizesWeights = true;
  EXPECT_EQ(orderOf(layer, mmaSync), "rows");
}

TEST(Resolver, SizesCountsAndScalesAreRefused) {
  LayerFacts layer = layerOf("bf16");
  layer.hidden = 60;
  auto r = ask(layer, "sm_90a", "", "");
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code, ErrorCode::Refused);
  EXPECT_NE(r.error().message.find(
                "grouped with wgmma, mma_sync, simt [size_not_supported]: "
                "backend 'grouped' loads rows in 16 bytes: hidden size 60 is "
                "no multiple of 8"),
            std::string::npos)
      << r.error().message;
  layer = layerOf("f32");
  layer.intermediate = 36;
  EXPECT_FALSE(ask(layer, "sm_90a", "", ""));
  layer.gated = false;
  EXPECT_TRUE(ask(layer, "sm_90a", "", ""));
  layer = layerOf("bf16");
  layer.experts = 2000;
  EXPECT_NE(winner(ask(layer, "sm_90a", "", "")).find("experts_not_supported"),
            std::string::npos);
  layer = layerOf("bf16");
  layer.pairs = 33;
  EXPECT_NE(winner(ask(layer, "sm_90a", "", "")).find("pairs_not_supported"),
            std::string::npos);
  layer = layerOf("bf16");
  layer.quantized = true;
  EXPECT_NE(winner(ask(layer, "sm_90a", "", "")).find("quant_not_supported"),
            std::string::npos);
}

TEST(Resolver, SaysWhatEachIsRefusedFor) {
  const auto refusalOf = [](const LayerFacts &layer) {
    return ask(layer, "sm_90a", "grouped", "mma_sync").error().message;
  };
  const auto expectReason = [&](const LayerFacts &layer,
                                const std::string &reason) {
    EXPECT_NE(refusalOf(layer).find("grouped with mma_sync " + reason),
              std::string::npos)
        << refusalOf(layer);
  };
  LayerFacts layer = layerOf("bf16");
  layer.quantized = true;
  expectReason(layer, "[quant_not_supported]: backend 'grouped' has kernels "
                      "for named schemes only, these descriptors are none");
  layer = layerOf("bf16");
  layer.intermediate = 36;
  expectReason(layer, "[size_not_supported]: backend 'grouped' loads rows in "
                      "16 bytes and gates in runs of 8: intermediate size 36 "
                      "of this rank is no multiple of 8");
  layer = layerOf("bf16");
  layer.experts = 2000;
  expectReason(layer, "[experts_not_supported]: backend 'grouped' routes over "
                      "at most 1024 experts, not 2000");
  layer = layerOf("bf16");
  layer.pairs = 33;
  expectReason(layer, "[pairs_not_supported]: backend 'grouped' routes at most "
                      "32 pairs of a token, not 33");
  layer = layerOf("bf16");
  layer.elementTypes.back() = "f16";
  expectReason(layer, "[dtype_not_supported]: engine 'mma_sync' multiplies "
                      "operands of one type, not a1 of bf16 beside w2 of f16; "
                      "accepted: one type for both matmuls");
  layer = layerOf("f32");
  layer.codes = {"i4"};
  EXPECT_NE(ask(layer, "sm_90a", "grouped", "simt")
                .error()
                .message.find("grouped with simt [dtype_not_supported]: engine "
                              "'simt' converts weights to f16 or bf16, not to "
                              "f32"),
            std::string::npos);
}

/// The largest number that is accepted, and the smallest that is not.
TEST(Resolver, SizesAndCountsAreAcceptedUpToTheirLimits) {
  using Change = void (*)(LayerFacts &, int64_t);
  struct Limit {
    Change set;
    int64_t accepted, refused;
  };
  for (const auto &[set, accepted, refused] :
       {Limit{[](LayerFacts &l, int64_t n) { l.experts = n; }, 1024, 1025},
        {[](LayerFacts &l, int64_t n) { l.pairs = n; }, 32, 33},
        {[](LayerFacts &l, int64_t n) { l.hidden = n; }, 72, 76},
        {[](LayerFacts &l, int64_t n) { l.intermediate = n; }, 24, 28},
        {[](LayerFacts &l, int64_t n) { l.sharedIntermediate = n; }, 24, 28}})
    for (const char *engine : {"wgmma", "mma_sync", "simt"}) {
      LayerFacts layer = layerOf("bf16");
      set(layer, accepted);
      EXPECT_TRUE(ask(layer, "sm_90a", "", engine)) << accepted;
      set(layer, refused);
      EXPECT_FALSE(ask(layer, "sm_90a", "", engine)) << refused;
    }
}

TEST(Resolver, FragmentsAreWholeBlocksOfEachWeight) {
  LayerFacts fits = layerOf("bf16");
  fits.intermediate = 64;
  fits.quantized = true;
  fits.elementTypes = {"bf16", "bf16"};
  fits.codes = {"i4", "i4"};
  fits.codeGroups = {{1, 32}, {1, 32}};
  const auto engineOf = [](const LayerFacts &layer) {
    return winner(ask(layer, "sm_90a", "", ""));
  };
  EXPECT_EQ(engineOf(fits), "grouped wgmma_rs");
  using Change = void (*)(LayerFacts &);
  for (const Change change : std::initializer_list<Change>{
           [](LayerFacts &l) { l.hidden = 96; },
           [](LayerFacts &l) { l.intermediate = 96; },
           [](LayerFacts &l) { l.sharedIntermediate = 96; },
           [](LayerFacts &l) { l.codeGroups[0] = {1, 24}; },
           [](LayerFacts &l) { l.codeGroups[1] = {1, 24}; },
           [](LayerFacts &l) { l.quantizesWeights = true; },
           [](LayerFacts &l) {
             l.takesManyRegisters = true, l.gated = false;
           }}) {
    LayerFacts layer = fits;
    change(layer);
    EXPECT_EQ(engineOf(layer), "grouped mma_sync");
  }
  for (const Change change : std::initializer_list<Change>{
           [](LayerFacts &l) { l.hidden = 128; },
           [](LayerFacts &l) { l.sharedIntermediate = 128; },
           [](LayerFacts &l) { l.takesManyRegisters = true; },
           [](LayerFacts &l) { l.gated = false; }}) {
    LayerFacts layer = fits;
    change(layer);
    EXPECT_EQ(engineOf(layer), "grouped wgmma_rs");
  }
  // Integers by 8-bit floats: groups of whole blocks of 128 columns.
  LayerFacts bytes = fits;
  bytes.hidden = bytes.intermediate = 128;
  bytes.elementTypes = {"f8E4M3FN", "f8E4M3FN"};
  for (const auto &[group, engine] : {std::pair(-1, "grouped wgmma_rs"),
                                      {128, "grouped wgmma_rs"},
                                      {256, "grouped wgmma_rs"}}) {
    bytes.codeGroups = {{1, group}, {1, group}};
    EXPECT_EQ(engineOf(bytes), engine) << group;
  }
  for (const int64_t group : {16, 32, 64}) {
    bytes.codeGroups = {{1, group}, {1, 128}};
    EXPECT_THAT(winner(ask(bytes, "sm_90a", "", "wgmma_rs")),
                testing::HasSubstr("takes a scale for all of k, or for a "
                                   "multiple of 128 of it"))
        << group;
  }
}

/// A target decides the realization of another one: `native` and `dequantized`
/// compute the same layer, and an emulated one is another.
TEST(Resolver, WhatIsDecidedIsAnyOfTheSameLayer) {
  LayerFacts native = layerOf("f8E4M3FN");
  native.quantized = true, native.scheme = "fp8_block";
  LayerFacts emulated = layerOf("bf16");
  emulated.quantized = true, emulated.realization = "emulated";
  emulated.codes = {"f4E2M1FN", "f4E2M1FN"}, emulated.emulated = true;
  const auto with = [&](const char *decided) {
    const auto made = resolve({native, emulated}, "sm_90a", {}, decided);
    return made ? made->realization : made.error().message;
  };
  EXPECT_EQ(with(""), "native");
  EXPECT_EQ(with("native"), "native");
  EXPECT_EQ(with("dequantized"), "native");
  EXPECT_EQ(with("emulated"), "emulated");
  const auto made = resolve({native, emulated}, "sm_90a", {}, "emulated");
  ASSERT_TRUE(made);
  EXPECT_EQ(made->candidates.front().code, "other_target");
  EXPECT_THAT(made->degraded, testing::HasSubstr("all must compute the same"));
}
