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
  EXPECT_EQ(errors, "--tokens: expected an integer from 0 to 2147483647, got "
                    "-1\nRun with --help for more information.\n");
  EXPECT_EQ(run("--device=host --tokens=1,x"), 2);
  EXPECT_THAT(errors, HasSubstr("got x\n"));
  EXPECT_EQ(run("--device=host --jobs=99999999999999999999"), 2);
  EXPECT_THAT(errors, HasSubstr("--jobs: expected an integer from 0 to "));
  EXPECT_EQ(check("--device=host --cases=x --device-limit=0"), 2);
  EXPECT_THAT(errors,
              HasSubstr("--device-limit: expected a number above 0, got 0\n"));
  EXPECT_EQ(check("--device=host --sample=0"), 2);
  EXPECT_THAT(errors, HasSubstr("expected an integer from 1 to "));
}

TEST_F(MoecRun, ExitStatus) {
  EXPECT_EQ(run("--tokens=1"), 2) << "no device";
  EXPECT_EQ(run("--device=host --no-such-option"), 2);
  EXPECT_EQ(run("--device=host --routing=funny"), 2);
  EXPECT_EQ(run("--device=host --variant=small --tokens=9"), 2);
  EXPECT_THAT(errors, HasSubstr("variant small serves 1 to 8 tokens"));
  EXPECT_EQ(run("--device=host --tokens=65"), 1);
  EXPECT_THAT(errors, HasSubstr("[too_many_tokens]"));
  ASSERT_TRUE(removeAll(root + "/package/sm_90a/route.cu"));
  EXPECT_EQ(run("--device=host --tokens=1"), 1);
  EXPECT_THAT(errors, HasSubstr("[damaged_package]"));
}
