//===- HtmlPageTest.cpp - the page of a report ----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A page shows all of a report, holds every text of a user as text, and is the
// same for the same report.
//
//===----------------------------------------------------------------------===//

#include "compiler/html/Markup.h"
#include "compiler/html/Numbers.h"
#include "test/compiler/unit/HtmlTesting.h"

#include <gmock/gmock.h>

using namespace moec::compiler::html;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

static size_t countOf(const std::string &text, const std::string &part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + part.size()))
    ++count;
  return count;
}

TEST(HtmlPage, ShowsAllOfAReport) {
  const std::string page = pageOf(smallReport());
  for (const char *part :
       {"<h1>small</h1>", "8, 2 a token", "96, 48 on a rank",
        "SmallForCausalLM", "1 of 4", "at most 64", "sm_90a", "h100_sxm",
        "not_requested", "another was asked", "1 to 64 tokens",
        "2 launches, workspace 4.0 KiB at 64 tokens, predicted 25.0 µs at 64",
        "tile 64x128x64, 4 pipeline stages, warps 4+8",
        "starts before the launch above ends", "entry moec_gate_up_1",
        "in place of w13", "rows * 2",
        "t: 4.0 KiB at offset 0 B, launches 1 to 2"})
    EXPECT_THAT(page, HasSubstr(part));
  // Strip, two charts, shares, timeline, graph and workspace; all but the last
  // two have a wide and a narrow picture.
  EXPECT_EQ(countOf(page, "<figure"), 7u);
  EXPECT_EQ(countOf(page, "role=\"img\""), 12u);
  EXPECT_EQ(countOf(page, "<desc>"), 12u);
}

/// The engine that a target chose serves no variant if max_tokens is small.
TEST(HtmlPage, TheEnginesAreThoseThatAreLaunched) {
  json report = smallReport();
  EXPECT_THAT(pageOf(report), HasSubstr("<dt>engine</dt><dd>wgmma</dd>"));
  report["targets"][0]["engine"] = "wgmma_rs";
  EXPECT_THAT(pageOf(report), HasSubstr("<dt>engine</dt><dd>wgmma</dd>"));
  json &variant = report["targets"][0]["variants"][0];
  json early = variant;
  early["name"] = "up_to_8";
  early["tokens"] = {8, 8};
  for (json &kernel : early["kernels"])
    kernel["engine"] = "gemv";
  variant["tokens"] = {9, 64};
  report["targets"][0]["variants"] = {early, variant};
  EXPECT_THAT(
      pageOf(report),
      AllOf(HasSubstr("<dt>engines, by tokens</dt><dd>gemv, wgmma</dd>"),
            HasSubstr("<summary>8 tokens "),
            HasSubstr("<summary>9 to 64 tokens ")));
}

TEST(HtmlPage, TheHeadSaysRankRoutingAndWhatRan) {
  json report = smallReport();
  report["ranks"] = {3};
  report["layer"]["num_experts"] = 256;
  report["layer"]["parallel"] = {
      {"dp_size", 8}, {"pcp_size", 1}, {"tp_size", 1}};
  report["layer"]["local_experts"] = {
      {"begin", 96}, {"count", 32}, {"stride", 1}};
  report["targets"][0]["histogram"] = "zipf:1.2";
  report["targets"][0]["evidence"] = "no GPU has run its kernels";
  report["targets"][0]["variants"][0]["min_sms"] = 48;
  for (const char *part :
       {"<dt>rank</dt><dd>3 of 8</dd>", "<dd>experts 96 to 127</dd>",
        "Predicted for routing zipf:1.2; nothing was run.",
        "sm_90a: no GPU has run its kernels.",
        "at 64 tokens, for GPUs of 48 SMs or more, predicted 25.0 µs at 64",
        "class=\"headline\">Predicted for h100_sxm: 12.5 µs at 8 tokens (",
        " x the floor, bound by matmuls).</p>",
        " x the floor, bound by memory), 25.0 µs at 64 tokens (",
        "x floor</th>"})
    EXPECT_THAT(pageOf(report), HasSubstr(part));
  report["layer"]["local_experts"] = {
      {"begin", 3}, {"count", 32}, {"stride", 8}};
  EXPECT_THAT(pageOf(report), HasSubstr("experts 3, 11 and so on to 251"));
  for (const auto &[begin, count, stride, words] :
       {std::tuple(5, 1, 8, "<dd>expert 5</dd>"),
        std::tuple(5, 2, 1, "<dd>experts 5 to 6</dd>"),
        std::tuple(5, 2, 8, "<dd>experts 5 and 13</dd>"),
        std::tuple(5, 3, 8, "<dd>experts 5, 13 and so on to 21</dd>")}) {
    report["layer"]["local_experts"] = {
        {"begin", begin}, {"count", count}, {"stride", stride}};
    EXPECT_THAT(pageOf(report), HasSubstr(words));
  }
  report["ranks"] = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_THAT(pageOf(report), HasSubstr("<dd>0 to 7 of 8</dd>"));
  report["ranks"] = "all";
  EXPECT_FALSE(makePage(report.dump(), std::nullopt));
}

TEST(HtmlPage, SaysHowATargetWasChosen) {
  json report = smallReport();
  json &target = report["targets"][0];
  target["degraded"] = "grouped";
  target["emulated_since"] = "sm_100";
  target["choices"] = {
      {"engine", {{"value", "wgmma"}, {"by", "option"}}},
      {"exclude", {{"value", "gemv"}, {"by", "MOEC_EXCLUDE"}}}};
  target["weights"].push_back({{"name", "b2"}, {"role", "stored"}});
  json &kernels = target["variants"][0]["kernels"];
  kernels[1]["apart"] = "its rows are not there yet";
  kernels[0]["measured_by"] = "one row";
  kernels[1]["measured_beside"] = "9 to 12";
  for (const char *part :
       {"Emulated since sm_100.", "Degraded from grouped.",
        "engine: wgmma, by option", "exclude: gemv, by MOEC_EXCLUDE",
        "<dt>weights</dt><dd>1.0 MiB</dd>",
        "<dt>workspace, 1 token</dt><dd>256 B</dd>",
        "<dt>operands</dt><dd>native</dd>",
        "up_to_64_down is a launch of its own: its rows are not there yet",
        "tuned: one row", "default; measured for other tokens: 9 to 12"})
    EXPECT_THAT(pageOf(report), HasSubstr(part));
  // Every row, and a kernel of two variants once.
  target["refused"].push_back({{"backend", "unfused"},
                               {"engine", "simt"},
                               {"code", "engine_missing"},
                               {"reason", "it is last"}});
  target["summary"]["at"].push_back(
      {{"tokens", 64}, {"workspace_bytes", 2048}});
  json large = target["variants"][0];
  large["name"] = "up_to_128";
  large["tokens"] = {65, 128};
  target["variants"].push_back(large);
  const std::string both = pageOf(report);
  for (const char *part :
       {"it is last", "another was asked", "1 to 64 tokens", "65 to 128 tokens",
        "<dt>workspace, 64 tokens</dt><dd>2.0 KiB</dd>",
        "<td class=\"number\">1.0 MiB</td><td>in place of w13</td>",
        "<td class=\"number\"></td><td></td>",
        "<td class=\"reason\">tile 64x128x64, 4 pipeline stages, warps 4+8"})
    EXPECT_THAT(both, HasSubstr(part));
  EXPECT_EQ(countOf(both, "</span>up_to_64_down</td>"), 1u);
  for (const auto &[realization, words] :
       {std::pair("dequantized", "Operands are dequantized, exactly, before"),
        std::pair("emulated", "Activations are emulated: quantized and"),
        std::pair("weight_only", "Another layer: activations are not")}) {
    EXPECT_THAT(pageOf(report), Not(HasSubstr(words)));
    target["realization"] = realization;
    EXPECT_THAT(pageOf(report), HasSubstr(words));
  }
  const auto candidate = [](const char *realization, const char *state) {
    return json{{"realization", realization},
                {"computed", "w8a8"},
                {"backend", "grouped"},
                {"engine", "simt"},
                {"state", state},
                {"code", "no_code"},
                {"reason", "no reason"}};
  };
  EXPECT_THAT(pageOf(report), HasSubstr("<h3>Candidates</h3>"));
  target["realizations"] = {candidate("native", "chosen"),
                            candidate("emulated", "refused"),
                            candidate("weight_only", "open")};
  const std::string page = pageOf(report);
  EXPECT_THAT(page, HasSubstr("<h3>Candidates, the best first</h3>"));
  EXPECT_EQ(countOf(page, ">also supported</"), 1u);
  EXPECT_EQ(countOf(page, ">chosen</"), 1u);
  EXPECT_EQ(countOf(page, ">refused</"), 1u);
}

TEST(HtmlPage, AKernelsColorIsOfItsWork) {
  using Words = std::vector<std::string>;
  for (const auto &[stages, wanted] :
       {std::pair(Words{"route"}, "w-route"),
        std::pair(Words{"permute"}, "w-route"),
        std::pair(Words{"batch"}, "w-route"),
        std::pair(Words{"pair_rows"}, "w-route"),
        std::pair(Words{"shared_rows"}, "w-route"),
        std::pair(Words{"quantize"}, "w-quantize"),
        std::pair(Words{"dequantize"}, "w-quantize"),
        std::pair(Words{"amax"}, "w-quantize"),
        std::pair(Words{"grouped_matmul", "activate"}, "w-gate-up"),
        std::pair(Words{"grouped_matmul", "combine"}, "w-down"),
        std::pair(Words{"combine"}, "w-combine"),
        std::pair(Words{"combine_normed"}, "w-combine"),
        std::pair(Words{"combine_constants"}, "w-combine"),
        std::pair(Words{"count"}, "w-other")}) {
    json report = smallReport();
    report["targets"][0]["variants"][0]["kernels"][0]["stages"] = stages;
    EXPECT_THAT(pageOf(report), HasSubstr(std::string(wanted) +
                                          "\"></span>up_to_64_gate_up</td>"))
        << stages[0];
  }
}

TEST(HtmlPage, ARankSaysWhatItHolds) {
  json report = smallReport();
  json &layer = report["layer"];
  const auto has = [&](const char *words) {
    EXPECT_THAT(pageOf(report), HasSubstr(words)) << layer["local_experts"];
  };
  layer["n_shared_experts"] = 1;
  layer["local_experts"] = {{"begin", 2}, {"count", 3}, {"stride", 1}};
  has("<dd>experts 2 to 3</dd>");
  layer["shared_apart"] = true;
  has("<dd>experts 2 to 4</dd>");
  // Numbers of another file may be any.
  for (const json &local :
       {json{{"begin", -1}, {"count", 3}, {"stride", 1}},
        json{{"begin", 1 << 21}, {"count", 3}},
        json{{"begin", 0}, {"count", 3}, {"stride", 0}},
        json{{"begin", 0}, {"count", 3}, {"stride", 1 << 21}}}) {
    layer["local_experts"] = local;
    has("<dt>experts of the rank</dt><dd>3</dd>");
  }
  layer["local_experts"] = {{"begin", 0}, {"count", 8}, {"stride", 1}};
  EXPECT_THAT(pageOf(report), Not(HasSubstr("experts of the rank")));
  layer["local_experts"]["count"] = 0;
  EXPECT_THAT(pageOf(report), Not(HasSubstr("experts of the rank")));
  // One size of three is enough to make ranks.
  for (const char *size : {"dp_size", "pcp_size", "tp_size"}) {
    report["ranks"] = {1};
    layer["parallel"] = {{size, 4}};
    has("<dt>rank</dt><dd>1 of 4</dd>");
  }
  layer["parallel"] = {{"dp_size", 2}, {"pcp_size", 3}, {"tp_size", 4}};
  has("<dt>rank</dt><dd>1 of 24</dd>");
  layer["parallel"] = {{"tp_size", 1}};
  EXPECT_THAT(pageOf(report), Not(HasSubstr("<dt>rank</dt>")));
  layer["intermediate_size_per_partition"] = 96;
  has("<dt>intermediate</dt><dd>96</dd>");
  layer.erase("intermediate_size_per_partition");
  has("<dt>intermediate</dt><dd>96</dd>");
}

TEST(HtmlPage, TwoTargetsAreInOneChart) {
  json report = smallReport();
  EXPECT_THAT(pageOf(report), Not(HasSubstr("Time of the layer on each")));
  json other = report["targets"][0];
  other["arch"] = "sm_80";
  other["gpu"] = "a100_sxm";
  report["targets"].push_back(other);
  const std::string page = pageOf(report);
  EXPECT_THAT(page, HasSubstr("Time of the layer on each target"));
  EXPECT_THAT(page, HasSubstr("sm_90a, h100_sxm</li>"));
  EXPECT_THAT(page, HasSubstr("sm_80, a100_sxm</li>"));
}

TEST(HtmlPage, ComparesReports) {
  json report = smallReport();
  json other = report;
  other["targets"][0]["gpu"] = "h200_sxm";
  json &first = other["targets"][0]["variants"][0]["predictions"][0];
  first["microseconds"] = 2 * first["microseconds"].get<double>();
  report["compared"] = {{{"name", "h200_sxm"}, {"report", other}},
                        {{"name", "mine"}, {"report", smallReport()}}};
  const std::string page = pageOf(report);
  EXPECT_THAT(page, HasSubstr("sm_90a, h200_sxm</li>"));
  EXPECT_THAT(page, HasSubstr("mine (sm_90a, h100_sxm)</li>"));
  EXPECT_THAT(page, HasSubstr("sm_90a, h200_sxm: "));
  EXPECT_THAT(page, HasSubstr("mine (sm_90a, h100_sxm): 1.00 x the time of "
                              "sm_90a, h100_sxm."));
  report["compared"][1]["name"] = 3;
  EXPECT_EQ(pageOf(report), "the report: compared[1].name: expected a string, "
                            "got the number 3");
  report["compared"] = {{{"name", "h200_sxm"}, {"report", {{"targets", 1}}}}};
  EXPECT_THAT(pageOf(report), HasSubstr("compared[0].report.targets: expected "
                                        "an array of objects"));
}

TEST(HtmlPage, RowsOfExperts) {
  json report = smallReport();
  json &prediction = report["targets"][0]["variants"][0]["predictions"][0];
  EXPECT_THAT(pageOf(report), Not(HasSubstr("Rows of each expert")));
  prediction["experts"] = json::parse(R"json([
    {"experts": 6, "rows": 2, "tile_rows": 16},
    {"experts": 2, "rows": 24, "tile_rows": 32}])json");
  const std::string page = pageOf(report);
  EXPECT_EQ(countOf(page, "class=\"solid\""), 4u);
  EXPECT_EQ(countOf(page, "class=\"padding\""), 4u);
  // The most chosen experts come first: 24 of 32, then 2 of 16 rows.
  EXPECT_THAT(page, HasSubstr("2 experts: 24 rows each, 32 with padding"));
  const size_t cells = page.find(">32</td><td class=\"number\">25 %</td>");
  EXPECT_NE(cells, std::string::npos);
  EXPECT_LT(cells, page.find(">16</td><td class=\"number\">88 %</td>"));
  prediction["experts"][0]["rows"] = -1;
  EXPECT_THAT(pageOf(report),
              HasSubstr("experts[0].rows: expected a number of 0 or more"));
}

TEST(HtmlPage, IsTheSameForTheSameReport) {
  EXPECT_EQ(pageOf(smallReport(), smallBench()),
            pageOf(smallReport(), smallBench()));
}

TEST(HtmlPage, NeedsNothingElse) {
  const std::string page = pageOf(smallReport(), smallBench());
  for (const char *part : {"<script", "http:", "https:", "url(", "@import",
                           " style=", " src=", " onclick", "<link"})
    EXPECT_THAT(page, Not(HasSubstr(part))) << part;
  EXPECT_THAT(page, HasSubstr("default-src 'none'; style-src 'sha256-"));
}

TEST(HtmlPage, TextsOfAUserAreTexts) {
  const std::string evil = "</title><script>alert(\"1\")</script>&'";
  json report = smallReport();
  report["name"] = report["layer"]["name"] = evil;
  report["scheme"] = evil;
  report["layer"]["origin"]["model"] = evil;
  json &target = report["targets"][0];
  for (const char *key : {"arch", "gpu", "backend", "engine", "degraded",
                          "realization", "emulated_since"})
    target[key] = evil;
  target["summary"]["scheme"] = evil;
  target["refused"][0] = {
      {"backend", evil}, {"engine", evil}, {"code", evil}, {"reason", evil}};
  target["weights"][0] = {{"name", evil}, {"role", evil}, {"may_alias", evil}};
  json &variant = target["variants"][0];
  variant["name"] = variant["buffers"][0]["name"] = evil;
  for (const char *key :
       {"name", "entry", "engine", "schedule_source", "grid", "apart"})
    variant["kernels"][0][key] = evil;
  variant["kernels"][0]["stages"] = variant["kernels"][0]["reads"] =
      variant["kernels"][0]["writes"] = {evil};
  variant["predictions"][0]["kernels"][0]["bound"] =
      variant["predictions"][0]["kernels"][0]["kernel"] = evil;
  target["hardware"]["gpu"] = evil;
  target["hardware"]["tensor_tflops"][evil] = 1;
  json bench = smallBench();
  bench["packages"][0]["layer"] = report["layer"];
  bench["packages"][0]["arch"] = evil;
  bench["device"] = bench["routing"] = evil;
  const std::string page = pageOf(report, bench);
  EXPECT_THAT(page, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_EQ(countOf(page, "</title>"), countOf(page, "<title>"));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(&quot;1&quot;)"));
}

TEST(HtmlPage, WithoutPredictionsSaysSo) {
  json report = smallReport();
  report["targets"][0].erase("hardware");
  report["targets"][0]["variants"][0].erase("predictions");
  const std::string page = pageOf(report);
  EXPECT_THAT(page, HasSubstr("This report has no prediction of times."));
  EXPECT_THAT(page, Not(HasSubstr("predicted layer")));
  EXPECT_EQ(countOf(page, "<figure"), 3u);
}

TEST(HtmlPage, ARefusedLayerHasItsReasons) {
  const std::string page = pageOf(json::parse(R"json({
    "moec_explain": 1, "served": false, "message": "no backend supports it",
    "targets": [{"arch": "sm_75", "refused": [{"backend": "grouped",
      "engine": "wgmma", "code": "feature_missing", "reason": "needs wgmma"}]}]
  })json"));
  EXPECT_THAT(
      page, AllOf(HasSubstr("<strong>Refused.</strong> no backend supports it"),
                  HasSubstr("feature_missing"), HasSubstr("needs wgmma"),
                  Not(HasSubstr("chosen"))));
  EXPECT_EQ(countOf(page, "<figure"), 0u);
}

TEST(HtmlPage, AnotherReportIsAnError) {
  json report = smallReport();
  report["moec_explain"] = 2;
  EXPECT_EQ(pageOf(report), "the report: moec_explain: expected 1, the format "
                            "of moec explain --json, got the number 2");
  report = smallReport();
  report["targets"] = 3;
  EXPECT_EQ(pageOf(report), "the report: targets: expected an array of "
                            "objects, got the number 3");
  report = smallReport();
  report["targets"][0] = "x";
  EXPECT_EQ(pageOf(report), "the report: targets[0]: expected an object, got "
                            "the string \"x\"");
  report = smallReport();
  report["targets"][0]["variants"][0]["buffers"][0]["launches"] = {0, 2};
  EXPECT_THAT(pageOf(report),
              HasSubstr("targets[0].variants[0].buffers[0].launches: expected "
                        "launches of the variant's 2 kernels, got an array"));
  report["targets"][0]["variants"][0]["buffers"][0]["launches"] = {1, 0};
  EXPECT_THAT(pageOf(report), HasSubstr("expected two ascending integers"));
  report = smallReport();
  report["targets"][0]["variants"][0]["kernels"][0]["reads"] = {1};
  EXPECT_THAT(pageOf(report), HasSubstr("reads: expected an array of strings"));
  report = smallReport();
  report["targets"][0]["variants"][0]["predictions"][0]["microseconds"] = -1;
  EXPECT_THAT(pageOf(report), HasSubstr("expected a number of 0 or more"));
}

TEST(HtmlPage, CandidatesStandInTheirOrder) {
  json report = smallReport();
  json &target = report["targets"][0];
  target["realizations"] = json::parse(R"json([
    {"realization": "native", "computed": "nvfp4", "backend": "", "engine": "",
     "state": "refused", "code": "feature_missing", "reason": "no fp4 core"},
    {"realization": "weight_only", "computed": "w4a16", "backend": "grouped",
     "engine": "wgmma_rs", "state": "chosen"},
    {"realization": "emulated", "computed": "nvfp4", "backend": "grouped",
     "engine": "simt", "state": "would_serve"}])json");
  target["choices"]["allow"] = {{"value", "weight_only"}, {"by", "--allow"}};
  target["realization"] = "weight_only";
  report["scheme"] = "nvfp4_stored";
  const std::string page = pageOf(report);
  for (const char *part :
       {"Candidates, the best first", "no fp4 core", ">w4a16<",
        ">also supported<", "allow: weight_only, by --allow",
        "activations are not quantized", "<dd>nvfp4_stored</dd>"})
    EXPECT_THAT(page, HasSubstr(part));
  EXPECT_LT(page.find("no fp4 core"), page.find(">w4a16<"));
  // They stand once.
  EXPECT_THAT(page, Not(HasSubstr("another was asked")));
}

TEST(HtmlPage, MeasuredRowsAreNamed) {
  json report = smallReport();
  json &kernels = report["targets"][0]["variants"][0]["kernels"];
  kernels[0]["measured_by"] = "my.json, 1 to 64 tokens";
  kernels[1]["measured_beside"] = "128 to 256";
  EXPECT_THAT(pageOf(report),
              AllOf(HasSubstr("tuned: my.json, 1 to 64 tokens"),
                    HasSubstr("default; measured for other tokens: 128 to "
                              "256")));
}

TEST(HtmlPage, ManyTargetsHaveLinks) {
  json report = smallReport();
  report["targets"].push_back(report["targets"][0]);
  report["targets"][1]["arch"] = "sm_80";
  EXPECT_THAT(pageOf(report),
              AllOf(HasSubstr("<a href=\"#target-1\">sm_80</a>"),
                    HasSubstr("<section id=\"target-1\">")));
}

TEST(HtmlMarkup, ControlCharactersAndCuts) {
  EXPECT_EQ(escaped(std::string("a\0b\x1b\x7f\n\t", 7)),
            "a\xef\xbf\xbd"
            "b\xef\xbf\xbd\xef\xbf\xbd\n\t");
  EXPECT_EQ(shortened("four", 4), "four");
  EXPECT_EQ(shortened("fours", 4), "fou…");
  EXPECT_EQ(shortened("a\xc3\xa9\xc3\xa9\xc3\xa9", 5), "a\xc3\xa9…");
}

TEST(HtmlNumbers, HaveUnitsThatFit) {
  EXPECT_EQ(timeText(0.5), "0.50 µs");
  EXPECT_EQ(timeText(243.06), "243 µs");
  EXPECT_EQ(timeText(1250), "1.25 ms");
  EXPECT_EQ(timeText(2.5e6), "2.50 s");
  EXPECT_EQ(timeText(999.4), "999 µs");
  EXPECT_EQ(timeText(999.5), "1.00 ms");
  EXPECT_EQ(timeText(999499), "999 ms");
  EXPECT_EQ(timeText(999500), "1.00 s");
  EXPECT_EQ(timeTick(5e6), "5 s");
  EXPECT_EQ(numberText(0), "0");
  EXPECT_EQ(numberText(0.001), "0.001");
  EXPECT_EQ(numberText(0.0123), "0.012");
  EXPECT_EQ(numberText(0.0995), "0.10");
  EXPECT_EQ(numberText(9.994), "9.99");
  EXPECT_EQ(numberText(9.995), "10.0");
  EXPECT_EQ(numberText(99.94), "99.9");
  EXPECT_EQ(numberText(99.95), "100");
  EXPECT_EQ(timeTick(1000), "1 ms");
  EXPECT_EQ(timeTick(0.5), "0.5 µs");
  EXPECT_EQ(countText(999), "999");
  EXPECT_EQ(countText(65536), "65,536");
  EXPECT_EQ(countText(-1234567), "-1,234,567");
  EXPECT_EQ(countText(-123456), "-123,456");
  EXPECT_EQ(countText(-123), "-123");
  EXPECT_EQ(countedText(1, "launch", "launches"), "1 launch");
  EXPECT_EQ(countedText(1000, "token", "tokens"), "1,000 tokens");
  EXPECT_EQ(sizeText(1023), "1023 B");
  EXPECT_EQ(sizeText(1536), "1.5 KiB");
  EXPECT_EQ(percentText(0.934), "93 %");
  EXPECT_EQ(percentText(0.004), "0.4 %");
  EXPECT_EQ(numberText(1.5e9), "1.5e+09");
  EXPECT_EQ(numberText(0), "0");
}
