//===- HtmlBenchTest.cpp - measured times on a page -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times stand beside predictions where layer, arch and GPU are the report's.
// Others are an error, or are named and not drawn.
//
//===----------------------------------------------------------------------===//

#include "compiler/html/Report.h"
#include "test/compiler/unit/HtmlTesting.h"

#include <gmock/gmock.h>

using namespace moec::compiler::html;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(HtmlBench, StandsBesidePredictions) {
  const std::string page = pageOf(smallReport(), smallBench());
  EXPECT_THAT(
      page, AllOf(HasSubstr("Measured on NVIDIA H100 80GB HBM3, routing "
                            "uniform."),
                  HasSubstr("measured at 8 tokens: 10.0 µs"),
                  HasSubstr("9.50 µs to 11.0 µs"), HasSubstr("125 %"),
                  Not(HasSubstr("other kernels")), Not(HasSubstr("suspect"))));
}

/// The floors of 8 tokens: 10,050,000 bytes by 3350 GB/s; of matmuls, 1.5 GFLOP
/// by the rate of 8-bit operands.
TEST(HtmlBench, FloorsFollowFromTheHardware) {
  EXPECT_THAT(pageOf(smallReport()), HasSubstr("<td class=\"number\">3.00 µs"));
  json report = smallReport();
  report["targets"][0]["hardware"]["bandwidth_gb_s"] = 1e6;
  // 1.5e9 by 1979 TFLOP/s.
  EXPECT_THAT(pageOf(report), HasSubstr("<td class=\"number\">0.76 µs"));
  // Emulated operands are multiplied as 16 bits.
  report["targets"][0]["realization"] = "emulated";
  EXPECT_THAT(pageOf(report), HasSubstr("<td class=\"number\">1.52 µs"));
}

TEST(HtmlBench, WithoutPredictionsHasItsOwnFloor) {
  json report = smallReport();
  report["targets"][0]["variants"][0].erase("predictions");
  EXPECT_THAT(pageOf(report, smallBench()),
              AllOf(HasSubstr("This report has no prediction of times."),
                    HasSubstr("floor of the bench"),
                    HasSubstr("measured at 8 tokens")));
}

TEST(HtmlBench, OtherKernelsAreMarked) {
  json bench = smallBench();
  bench["packages"][0]["cells"][0]["kernels"][1]["entry"] = "moec_down_2";
  EXPECT_THAT(pageOf(smallReport(), bench),
              AllOf(HasSubstr("other kernels ran"),
                    HasSubstr("10.0 µs, with other kernels"),
                    HasSubstr("mark hollow")));
}

TEST(HtmlBench, ASuspectRunIsNamed) {
  json bench = smallBench();
  bench["suspect"] = true;
  EXPECT_THAT(pageOf(smallReport(), bench), HasSubstr("the times are suspect"));
}

TEST(HtmlBench, AnotherGpuIsNamedAndNotDrawn) {
  for (const char *device : {"NVIDIA H200", "host"}) {
    json bench = smallBench();
    bench["device"] = device;
    EXPECT_THAT(pageOf(smallReport(), bench),
                AllOf(HasSubstr(std::string("Not shown: times of ") + device +
                                ". These schedules and predictions are for "
                                "h100_sxm."),
                      Not(HasSubstr("measured at 8 tokens"))));
  }
}

TEST(HtmlBench, AnotherLayerOrArchIsAnError) {
  json bench = smallBench();
  json &package = bench["packages"][0];
  package["layer"]["name"] = "another name";
  package["layer"].erase("origin");
  EXPECT_THAT(pageOf(smallReport(), bench), HasSubstr("measured at 8 tokens"));
  package["layer"]["hidden_size"] = 4096;
  package["layer"]["extra"] = true;
  EXPECT_EQ(pageOf(smallReport(), bench),
            "b.json: expected times of layer small, got small (hidden_size "
            "4096 where the report has 2048, extra true where the report has "
            "nothing)");
  bench = smallBench();
  bench["packages"][0]["arch"] = "sm_80";
  EXPECT_EQ(pageOf(smallReport(), bench),
            "b.json: expected times of layer small, got small (arch sm_80 "
            "where the report has sm_90a)");
  bench["packages"] = json::array();
  EXPECT_EQ(pageOf(smallReport(), bench),
            "b.json: expected times of layer small, got no package");
}

TEST(HtmlBench, EachArchHasItsOwnTimes) {
  const auto countIn = [](const std::string &page) {
    const std::string_view text = "measured at 8 tokens";
    int count = 0;
    for (size_t at = page.find(text); at != std::string::npos;
         at = page.find(text, at + 1))
      ++count;
    return count;
  };
  json report = smallReport(), bench = smallBench();
  const int ofOne = countIn(pageOf(report, bench));
  ASSERT_GT(ofOne, 0);
  json target = report["targets"][0], package = bench["packages"][0];
  target["arch"] = package["arch"] = "sm_90";
  report["targets"].push_back(target);
  bench["packages"].push_back(package);
  EXPECT_EQ(countIn(pageOf(report, bench)), 2 * ofOne);
}

TEST(HtmlBench, OthersPackagesArePassedBy) {
  json bench = smallBench();
  json other = bench["packages"][0];
  other["layer"]["top_k"] = 4;
  other["cells"][0]["us"] = 777;
  bench["packages"].push_back(other);
  EXPECT_THAT(
      pageOf(smallReport(), bench),
      AllOf(HasSubstr("measured at 8 tokens: 10.0 µs"), Not(HasSubstr("777"))));
}

TEST(HtmlBench, EveryCellOfEveryPackageIsShown) {
  json bench = smallBench();
  json other = bench["packages"][0];
  other["cells"][0]["tokens"] = 2;
  other["cells"][0]["us"] = 4;
  json cell = other["cells"][0];
  cell["tokens"] = 64;
  cell["us"] = 30;
  bench["packages"][0]["cells"].push_back(cell);
  bench["packages"].push_back(other);
  for (const char *words :
       {"measured at 2 tokens: 4.00 µs", "measured at 8 tokens: 10.0 µs",
        "measured at 64 tokens: 30.0 µs"})
    EXPECT_THAT(pageOf(smallReport(), bench), HasSubstr(words));
  // A field that the bench's layer lacks is a difference, too.
  bench["packages"][0]["layer"].erase("hidden_size");
  bench["packages"][1]["layer"]["hidden_size"] = 1;
  EXPECT_EQ(pageOf(smallReport(), bench),
            "b.json: expected times of layer small, got small (hidden_size "
            "nothing where the report has 2048); small (hidden_size 1 where "
            "the report has 2048)");
}

TEST(HtmlBench, KernelsAreThoseOfTheirVariant) {
  json report = smallReport();
  json &variants = report["targets"][0]["variants"];
  json few = variants[0];
  few["name"] = "up_to_4";
  few["tokens"] = {1, 4};
  few.erase("predictions");
  for (json &kernel : few["kernels"])
    kernel["entry"] = "moec_few";
  variants[0]["tokens"] = {5, 64};
  variants.insert(variants.begin(), few);
  EXPECT_THAT(pageOf(report, smallBench()), Not(HasSubstr("other kernels")));
  json bench = smallBench();
  json &kernels = bench["packages"][0]["cells"][0]["kernels"];
  kernels.erase(1);
  EXPECT_THAT(pageOf(report, bench), HasSubstr("other kernels ran"));
  // A variant that is gone.
  bench = smallBench();
  bench["packages"][0]["cells"][0]["variant"] = "up_to_32";
  EXPECT_THAT(pageOf(report, bench), HasSubstr("other kernels ran"));
}

TEST(HtmlReport, KernelsAreShownWithoutTheirVariant) {
  Target target;
  for (const char *name : {"a", "up_to_64", "up_to_6", "a_b"})
    target.variants.emplace_back().name = name;
  for (const auto &[kernel, wanted] : {std::pair("up_to_64_gate_up", "gate_up"),
                                       {"up_to_6_down", "down"},
                                       {"up_to_64", "up_to_64"},
                                       {"up_to_64_", "up_to_64_"},
                                       {"up_to_64xdown", "up_to_64xdown"},
                                       {"route", "route"},
                                       {"a_b_c", "c"},
                                       {"a_c", "c"}})
    EXPECT_EQ(shortName(kernel, target), wanted) << kernel;
}

TEST(HtmlReport, TheRateIsThatOfWhatIsMultiplied) {
  const auto rateOf = [](const char *activation, const char *weight,
                         const char *realization) {
    json report = smallReport();
    report["layer"]["quant"]["a1"]["element_type"] = activation;
    report["layer"]["quant"]["w1"]["element_type"] = weight;
    report["targets"][0]["realization"] = realization;
    const auto read = readReport(report.dump());
    EXPECT_TRUE(read) << read.error().message;
    return matmulRate(*read->layer, read->targets[0]);
  };
  EXPECT_EQ(rateOf("f8E4M3FN", "f8E4M3FN", "native"), 1979);
  EXPECT_EQ(rateOf("i8", "i8", "native"), 1979);
  EXPECT_EQ(rateOf("i8", "i8", ""), 1979);
  EXPECT_EQ(rateOf("f8E4M3FN", "f4E2M1FN", "native"), 989);
  EXPECT_EQ(rateOf("bf16", "f8E4M3FN", "native"), 989);
  EXPECT_EQ(rateOf("f8E4M3FN", "f8E4M3FN", "dequantized"), 989);
  json report = smallReport();
  report["targets"][0]["hardware"]["tensor_tflops"].erase("8_bit");
  auto read = readReport(report.dump());
  EXPECT_EQ(matmulRate(*read->layer, read->targets[0]), 989);
  report["targets"][0].erase("hardware");
  read = readReport(report.dump());
  EXPECT_EQ(matmulRate(*read->layer, read->targets[0]), 0);
}

TEST(HtmlBench, WhatIsNoResultIsAnError) {
  const std::string wanted =
      "b.json: expected a result of moec-bench --json (moec_bench: 3), got ";
  EXPECT_EQ(pageOf(smallReport(), json::object()),
            wanted + "a file without moec_bench");
  EXPECT_EQ(pageOf(smallReport(), {{"moec_bench", 2}}),
            wanted + "moec_bench: 2");
  moec::Result<std::string> page =
      makePage(smallReport().dump(), NamedText{"b.json", "[]"});
  ASSERT_FALSE(page);
  EXPECT_THAT(page.error().message, HasSubstr("b.json: "));
  json bench = smallBench();
  bench["packages"][0].erase("layer");
  EXPECT_THAT(pageOf(smallReport(), bench),
              HasSubstr("b.json: packages[0].layer: expected the manifest's "
                        "layer, got nothing"));
  bench = smallBench();
  bench["packages"] = 1;
  EXPECT_THAT(pageOf(smallReport(), bench),
              HasSubstr("b.json: packages: expected an array of objects"));
  bench = smallBench();
  bench["packages"][0]["cells"][0]["us"] = -1;
  EXPECT_THAT(pageOf(smallReport(), bench),
              HasSubstr("cells[0].us: expected a number of 0 or more"));
  bench = smallBench();
  bench["packages"][0]["cells"][0]["passes_us"] = {"x"};
  EXPECT_THAT(pageOf(smallReport(), bench),
              HasSubstr("passes_us: expected an array of numbers"));
}
