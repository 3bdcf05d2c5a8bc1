//===- WordsTest.cpp - misspelt words -------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Words.h"
#include "runtime/support/Env.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fmt/core.h>

using namespace moec;
using testing::ElementsAre;
using testing::IsEmpty;

namespace {
constexpr std::string_view kArchs[] = {"sm_80", "sm_90", "sm_90a", "sm_100a"};
constexpr std::string_view kOptions[] = {"--arch", "--max-tokens", "--tokens",
                                         "--tp", "--ep"};
} // namespace

TEST(Words, NearestOf) {
  EXPECT_EQ(nearestOf("sm90a", kArchs), "sm_90a");               // added
  EXPECT_EQ(nearestOf("--max-token", kOptions), "--max-tokens"); // absent
  EXPECT_EQ(nearestOf("--aech", kOptions), "--arch");            // another
  EXPECT_EQ(nearestOf("--arhc", kOptions), "--arch");            // swapped
  EXPECT_EQ(nearestOf("--xach", kOptions), ""); // half a swap is two changes
  EXPECT_EQ(nearestOf("--kolour", kOptions), "");
  EXPECT_EQ(nearestOf("tp", kOptions), "");
  EXPECT_EQ(nearestOf("", kOptions), "");
  EXPECT_EQ(nearestOf(std::string(100, 'a'), kOptions), "");
}

TEST(Words, NearestOfTheShortestAndTheLongest) {
  constexpr std::string_view kShort[] = {"ip", "hop"};
  EXPECT_EQ(nearestOf("op", kShort), "");
  EXPECT_EQ(nearestOf("hip", kShort), "ip");
  const std::string longest(64, 'a');
  const std::string_view names[] = {longest};
  EXPECT_EQ(nearestOf(std::string(63, 'a') + "b", names), longest);
  EXPECT_EQ(nearestOf(longest + "b", names), "");
}

TEST(Words, MeantByABeginning) {
  constexpr std::string_view kGpus[] = {"a10", "h100_pcie", "h100_sxm", "h20"};
  EXPECT_THAT(meantBy("h100", kGpus), ElementsAre("h100_pcie", "h100_sxm"));
  EXPECT_THAT(meantBy("H100_SXN", kGpus), ElementsAre("h100_sxm"));
  EXPECT_THAT(meantBy("b200", kGpus), IsEmpty());
  EXPECT_EQ(didYouMean("h100", kGpus), "did you mean h100_pcie or h100_sxm? ");
  EXPECT_EQ(didYouMean("b200", kGpus), "");
  // The beginning, then what is nearest, then a part.
  EXPECT_THAT(meantBy("pcie", kGpus), ElementsAre("h100_pcie"));
  EXPECT_THAT(meantBy("xm", kGpus), IsEmpty());
  // Too many are no help.
  std::vector<std::string> many;
  for (int i = 0; i < 20; ++i)
    many.push_back("fp8_" + std::to_string(i));
  const std::vector<std::string_view> views(many.begin(), many.end());
  EXPECT_THAT(meantBy("fp8_scheme_of_blocks", views), IsEmpty());
}

TEST(Words, MeantByOffersAtMostTwelve) {
  for (std::string_view before : {"", "mx"}) { // by a beginning, by a part
    std::vector<std::string> many;
    for (int i = 100; i < 113; ++i)
      many.push_back(fmt::format("{}fp8_{}", before, i));
    const std::vector<std::string_view> names(many.begin(), many.end());
    EXPECT_EQ(meantBy("fp8_", std::span(names).first(12)).size(), 12u);
    EXPECT_THAT(meantBy("fp8_", names), IsEmpty());
  }
}

TEST(Words, UnknownWord) {
  EXPECT_EQ(unknownWord("arch", "sm_90b", kArchs),
            "unknown arch 'sm_90b'; did you mean sm_90? known archs: sm_80, "
            "sm_90, sm_90a, sm_100a");
  EXPECT_EQ(unknownWord("arch", "hopper", kArchs),
            "unknown arch 'hopper'; known archs: sm_80, sm_90, sm_90a, "
            "sm_100a");
}

/// A suggestion replaces a list of more than 8 names.
TEST(Words, UnknownWordOfManyNames) {
  constexpr std::string_view kNames[] = {
      "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"};
  EXPECT_EQ(unknownWord("count", "eigth", kNames),
            "unknown count 'eigth'; did you mean eight?");
  EXPECT_EQ(unknownWord("count", "eigth", std::span(kNames).first(8)),
            "unknown count 'eigth'; did you mean eight? known counts: one, "
            "two, three, four, five, six, seven, eight");
  EXPECT_EQ(unknownWord("count", "dozens", kNames),
            "unknown count 'dozens'; known counts: one, two, three, four, "
            "five, six, seven, eight, nine");
}

TEST(Words, ListOf) {
  EXPECT_EQ(listOf(kArchs, "and", false), "sm_80, sm_90, sm_90a and sm_100a");
  EXPECT_EQ(listOf(std::span(kArchs).first(1)), "\"sm_80\"");
}

TEST(Words, MisspeltVariables) {
  setenv("MOEC_JOB", "3", 1);
  setenv("MOEC_STRICT", "1", 1); // known, so not misspelt
  setenv("MOEC_SOMETHING_ELSE", "3", 1);
  const std::vector<std::string> warnings = misspeltVariables();
  unsetenv("MOEC_JOB");
  unsetenv("MOEC_STRICT");
  unsetenv("MOEC_SOMETHING_ELSE");
  EXPECT_THAT(warnings, ElementsAre("environment variable MOEC_JOB is not "
                                    "read; did you mean MOEC_JOBS?"));
}
