//===- ValidateCollectivesTest.cpp - wrong collectives --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rows of ValidateTest.cpp for what ranks do together, and the same through
// JSON.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/SumManifest.h"
#include "test/runtime/package/RoundTrip.h"
#include "test/runtime/package/ValidateCases.h"

using namespace moec;
using namespace moec::test;
using testing::HasSubstr;

#define CHANGE_SUM(...)                                                        \
  []([[maybe_unused]] Manifest &m, [[maybe_unused]] Target &t) {               \
    [[maybe_unused]] Collective &sum = addSum(m);                              \
    __VA_ARGS__;                                                               \
  }

TEST(ValidateCollectives, aSumIsTaken) {
  Manifest manifest = richManifest();
  addSum(manifest);
  const std::string text = textOfValid(manifest);
  EXPECT_THAT(text, HasSubstr(R"({"collective": {"kind": "all_reduce", )"
                              R"("ranks": 2, "stride": 1, "operands": )"
                              R"(["partial"], "results": ["out"]}})"));
}

TEST(ValidateCollectives, everyWrongEntryIsNamed) {
  const char *const path = "targets[0].variants[0].launches[4].collective";
  const std::string operand = std::string(path) + ".operands[0]";
  expectFailures({
      {"token_ranks", "expected 1 to 64", CHANGE(m.tokenRanks = 65)},
      {"targets[0].variants[0].launches[4].collective.ranks", "expected 2 to",
       CHANGE_SUM(sum.ranks = 1)},
      {"targets[0].variants[0].launches[4].collective.stride", "expected 1 to",
       CHANGE_SUM(sum.stride = 0)},
      {"targets[0].variants[0].launches[4].collective.results",
       "one for each of the operands, of which there is one or more, got 2 of "
       "1",
       CHANGE_SUM(sum.results.push_back("out"))},
      {"targets[0].variants[0].launches[4].collective.ranks",
       "expected 1, the token_ranks of the manifest, got 2",
       CHANGE_SUM(sum.kind = Collective::Kind::AllGather)},
      {operand.c_str(), "an input or a workspace value, got 'w13'",
       CHANGE_SUM(sum.operands = {"w13"})},
      {"targets[0].variants[0].launches[4].collective.results[0]",
       "an output or a workspace value, got 'x'",
       CHANGE_SUM(sum.results = {"x"})},
      {operand.c_str(), "without gaps, and 'x' may be another",
       CHANGE_SUM(sum.operands = {"x"})},
      {operand.c_str(),
       "expected 'y_f32' and 'out' to differ only in the first",
       CHANGE_SUM(sum.operands = {"y_f32"})},
      {operand.c_str(), "expected the first extents equal and equal",
       CHANGE_SUM(t.values.back().shape[0] = kTokens * 2)},
      {operand.c_str(), "expected the first extents tokens and own_tokens",
       CHANGE_SUM(m.tokenRanks = 2;
                  sum.kind = Collective::Kind::ReduceScatter)},
      {operand.c_str(), "expected one of f32, f16, bf16, got 'i32'",
       CHANGE_SUM(sum.operands = sum.results = {"topk_ids"})},
      {"targets[0].variants[0].launches[4]", "since the collective touches it",
       CHANGE_SUM(--t.variants[0].regions.back().lastLaunch)},
  });
}
