//===- ValidateRunTest.cpp - wrong launches, regions, packs and state
//----------- ===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rows of ValidateTest.cpp for the dynamic side of a target.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/package/ValidateCases.h"

using namespace moec;
using namespace moec::test;

/// A second place of a region's value, in its last launch.
static void placeAgain(Variant &variant, size_t index) {
  Region again = variant.regions[index];
  again.firstLaunch = again.lastLaunch;
  again.offset = variant.workspaceBytes;
  variant.workspaceBytes = variant.workspaceBytes + 4096;
  variant.regions.push_back(again);
}

static std::vector<Row> variantRows() {
  return {
      {"targets[0].variants", "at least one", CHANGE(t.variants.clear())},
      {"targets[0].variants[1].min_tokens", "expected 9",
       CHANGE(t.variants[1].minTokens = 10)},
      {"targets[0].variants[1].max_tokens", "expected 64, the max_tokens",
       CHANGE(t.variants[1].maxTokens = 63)},
      {"targets[0].variants[0].max_tokens", "expected 1 to 64",
       CHANGE(t.variants[0].maxTokens = 65)},
      {"targets[0].variants[1].min_sms", "expected 0 to 1024",
       CHANGE(t.variants[1].minSms = -1)},
      {"targets[0].variants[2].min_tokens", "expected at least 65",
       CHANGE(t.variants.push_back(t.variants[1]); t.variants[2].name = "many";
              t.variants[2].minSms = 100)},
      {"targets[0].variants[0].max_tokens", "expected 64, the max_tokens",
       CHANGE(t.variants.erase(t.variants.begin() + 1))},
      {"targets[0].variants[1].name", "'small' again",
       CHANGE(t.variants[1].name = "small")},
      {"targets[0].variants[0].launches", "at least one",
       CHANGE(t.variants[0].launches.clear())},
      {"targets[0].variants[0].launches[1].kernel", "name of a kernel",
       CHANGE(t.variants[0].launches[1].kernel = "none")},
      {"targets[0].variants[0].launches[1].kernel", "belongs to pack",
       CHANGE(t.variants[0].launches[1].kernel = "pack_copy")},
      {"targets[0].variants[0].launches[1].grid.ctas[0]", "expected 1 to",
       CHANGE(t.variants[0].launches[1].grid.ctas[0] = kTokens - 1)},
      {"targets[0].variants[0].launches[1].grid.ctas[1]", "1 to 65535",
       CHANGE(t.variants[0].launches[1].grid.ctas[1] = 65536)},
      {"targets[0].variants[0].launches[1].grid.ctas[0]", "has no value here",
       CHANGE(t.variants[0].launches[1].grid.ctas[0] =
                  Expression::symbol("experts"))},
      {"targets[0].variants[1].launches[4].grid.ctas_per_sm", "at most 2",
       CHANGE(t.variants[1].launches[4].grid.ctasPerSm = 3)},
      {"targets[0].variants[1].launches[4].grid.tiles", "cluster's 2 CTAs",
       CHANGE(t.variants[1].launches[4].grid.tiles = kTokens)},
      {"targets[0].variants[1].launches[4].grid.persistent", "only in x",
       CHANGE(t.kernels[8].cluster = {2, 2, 1})},
      {"targets[0].variants[1].launches[4].grid.ctas[0]", "constant",
       CHANGE(t.variants[1].launches[4].grid.persistent = false,
              t.variants[1].launches[4].grid.ctas[0] = kTokens * 2)},
      {"targets[0].variants[1].launches[4].grid.ctas[0]", "cluster's 2 CTAs",
       CHANGE(t.variants[1].launches[4].grid.persistent = false,
              t.variants[1].launches[4].grid.ctas[0] = 3)},
      {"targets[0].variants[0].launches", "writes output 'out'",
       CHANGE(for (ArgumentField &field : t.kernels[5]
                       .arguments.fields) if (field.name == "out") field.value =
                  "ids")}};
}

static std::vector<Row> regionRows() {
  return {
      {"targets[0].variants[0].regions", "at most 1000 regions, got 1001",
       CHANGE(t.variants[0].regions.resize(1001))},
      {"targets[0].state_regions", "at most 1000 regions, got 1001",
       CHANGE(t.stateRegions.resize(1001))},
      {"targets[0].variants[0].regions[0].value", "workspace value",
       CHANGE(t.variants[0].regions[0].value = "x")},
      {"targets[0].variants[0].regions[0].offset", "multiple of 16",
       CHANGE(t.variants[0].regions[0].offset = 8)},
      {"targets[0].variants[0].regions[0].offset", "expected 0 to",
       CHANGE(t.variants[0].regions[0].offset = kTokens - 2)},
      {"targets[0].variants[0].regions[1]", "expected no overlap",
       CHANGE(t.variants[0].regions[1].offset = 0)},
      {"targets[0].variants[0].regions[8]", "end within the workspace",
       CHANGE(t.variants[0].workspaceBytes =
                  t.variants[0].workspaceBytes - 256)},
      {"targets[0].variants[0].workspace_bytes", "where the last region ends",
       CHANGE(t.variants[0].workspaceBytes =
                  t.variants[0].workspaceBytes + 256)},
      {"targets[0].variants[0].regions[0].bytes", "expected the 8 bytes of",
       CHANGE(t.variants[0].regions[0].bytes =
                  t.variants[0].regions[0].bytes - 1)},
      {"targets[0].variants[0].regions[0].bytes", "got 257 = 257",
       CHANGE(t.variants[0].regions[0].bytes = 257)},
      {"targets[0].variants[0].regions[9]",
       "expected one place at a time for 'topk_ids', regions[0] is another",
       CHANGE(placeAgain(t.variants[0], 0))},
      {"targets[0].pack[0].launches", "at least one launch",
       CHANGE(t.pack[0].launches = {})},
      {"targets[0].variants[0].regions[0].last_launch", "expected 0 to 3",
       CHANGE(t.variants[0].regions[0].lastLaunch = 4)},
      {"targets[0].variants[0].regions[0].first_launch", "expected 0 to 3",
       CHANGE(t.variants[0].regions[0].firstLaunch = -1)},
      {"targets[0].variants[0].launches[3]", "expected a region of 'y_f32'",
       CHANGE(t.variants[0].regions[8].lastLaunch = 2)},
      {"targets[0].variants[0].launches[0]", "expected a region of 'rows'",
       CHANGE(t.variants[0].regions.erase(t.variants[0].regions.begin() + 2))}};
}

static std::vector<Row> packRows() {
  return {
      {"targets[0].pack[0].result", "packed weight",
       CHANGE(t.pack[0].result = "w13")},
      {"targets[0].pack[0].from", "at least one", CHANGE(t.pack[0].from = {})},
      {"targets[0].pack[0].from[0]", "stored weight",
       CHANGE(t.pack[0].from = {"x"})},
      {"targets[0].pack[0].from[1]", "a packed weight of an earlier entry",
       CHANGE(t.pack[0].from.push_back("w13_packed"))},
      {"targets[0].pack[0].in_place", "may_alias = 'w13'",
       CHANGE(t.values[0].mayAlias = "")},
      {"targets[0].pack[0].experts_per_step", "expected 1 to 4",
       CHANGE(t.pack[0].expertsPerStep = 5)},
      {"targets[0].pack[0].total_experts", "outermost extent",
       CHANGE(t.pack[0].totalExperts = 5)},
      {"targets[0].pack[0].scratch", "workspace value or ''",
       CHANGE(t.pack[0].scratch = "w2")},
      {"targets[0].pack[0].scratch_bytes", "expected 0 without",
       CHANGE(t.pack[0].scratch = "")},
      {"targets[0].pack[0].scratch_bytes", "has no value here",
       CHANGE(t.pack[0].scratchBytes = kTokens)},
      {"targets[0].pack[0].scratch_bytes", "of 'pack_scratch', got",
       CHANGE(t.pack[0].scratchBytes = t.pack[0].scratchBytes + 1)},
      {"targets[0].pack[0].launches[0].kernel", "'combine' touches 'y_f32'",
       CHANGE(t.pack[0].launches[0] = launch("combine", 1);
              t.kernels[5].arguments.fields[3].expression = Expression(1))},
      {"targets[0].pack[0].launches", "writes 'w13_packed'",
       CHANGE(t.pack[0].launches.pop_back())},
      {"targets[0].values[0]", "that makes 'w13_packed'",
       CHANGE(t.pack.clear())},
      {"targets[0].pack[1].result", "'w13_packed' again",
       CHANGE(t.pack.push_back(Pack(t.pack[0])))},
      {"targets[0].variants[0].launches[2].kernel", "replaces in place",
       CHANGE(for (ArgumentField &field : t.kernels[4]
                       .arguments.fields) if (field.name == "rhs") field.value =
                  "w13")}};
}

static std::vector<Row> stateRows() {
  return {
      {"targets[0].state_bytes", "expected 0 to", CHANGE(t.stateBytes = -1)},
      {"targets[0].state_bytes", "expected at most 272, where the last",
       CHANGE(t.stateBytes = 513)},
      {"targets[0].state_regions[1].offset", "within state_bytes = 271",
       CHANGE(t.stateBytes = 271)},
      {"targets[0].state_regions[1].offset", "multiple of 16",
       CHANGE(t.stateRegions[1].offset = 250)},
      {"targets[0].state_regions[1]", "'flags' meets 'barrier'",
       CHANGE(t.stateRegions[1].offset = 240)},
      {"targets[0].state_regions[1].value", "'barrier' again",
       CHANGE(t.stateRegions[1].value = "barrier")},
      {"targets[0].state_regions[1].value", "a state value",
       CHANGE(t.stateRegions[1].value = "x")},
      {"targets[0].values[13]", "places 'flags'",
       CHANGE(t.stateRegions.pop_back())}};
}

TEST(ValidateRun, everyWrongVariantIsNamed) { expectFailures(variantRows()); }
TEST(ValidateRun, everyWrongRegionIsNamed) { expectFailures(regionRows()); }
TEST(ValidateRun, everyWrongPackIsNamed) { expectFailures(packRows()); }
TEST(ValidateRun, everyWrongStateIsNamed) { expectFailures(stateRows()); }
