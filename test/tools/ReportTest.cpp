//===- ReportTest.cpp - each number of a report has its own name ----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/moec-run/Report.h"

#include "test/tools/MoecRunTesting.h"
#include "tools/moec-measure/Measure.h"

#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace moec;
using namespace moec::run;
using nlohmann::json;
using testing::HasSubstr;

namespace {

/// A load of a GPU, all of whose numbers differ.
runtime::LoadReport loadReport() {
  runtime::LoadReport load;
  load.read = 1.5, load.driverOpen = 2.5, load.cuInit = 3.5;
  load.context = 4.5, load.compile = 5.5, load.moduleLoad = 6.5;
  load.total = 7.5;
  load.jit.nvrtcOpenMilliseconds = 8.5;
  load.jit.nvrtcPath = "a library", load.jit.nvrtcFoundBy = "a search";
  load.jit.jobs = 9, load.jit.workers = 10;
  load.kernels = {{"a", runtime::CubinSource::Package, 11.5, {12, 0, 14}},
                  {"b", runtime::CubinSource::Cache, 15.5, {16, 17, 18}},
                  {"c", runtime::CubinSource::Cache, 19.5, {20, 0, 22}},
                  {"d", runtime::CubinSource::Compiled, 23.5, {24, 0, 26}},
                  {"e", runtime::CubinSource::Compiled, 27.5, {28, 0, 30}},
                  {"f", runtime::CubinSource::Compiled, 31.5, {32, 0, 34}}};
  load.smCount = 35;
  load.unfit = {{"large", "it does not fit"}};
  return load;
}

RunReport runReport() {
  RunReport report;
  report.package = "a folder", report.name = "a name";
  report.device = "a device", report.arch = "sm_90a";
  report.processStart = 41.5, report.driverOpen = 42.5, report.cuInit = 43.5;
  report.context = 44.5, report.weights = 45.5, report.pack = 46.5;
  report.loads = {loadReport()};
  report.loadArchs = {"sm_90a"};
  CaseResult result;
  result.tokens = 51;
  result.variant = "a variant", result.routing = "a routing";
  result.inputs = "some inputs", result.text = "a text";
  result.bound = 52.5, result.error = 53.5;
  result.worstRow = 54.5, result.worstElement = 55.5;
  report.cases = {result};
  result.passed = false;
  result.roundings = 56, result.roundingsTaken = 57;
  result.twice = "identical", result.medianMicroseconds = 58.5;
  report.cases.push_back(result);
  return report;
}

template <typename... Args>
std::string printed(void (*print)(const RunReport &, Args...),
                    const RunReport &report,
                    std::type_identity_t<Args>... args) {
  testing::internal::CaptureStdout();
  print(report, args...);
  std::fflush(stdout);
  return testing::internal::GetCapturedStdout();
}

json loadJson() {
  json made = {{"read_ms", 1.5},
               {"driver_open_ms", 2.5},
               {"cuinit_ms", 3.5},
               {"context_ms", 4.5},
               {"nvrtc_open_ms", 8.5},
               {"compile_ms", 5.5},
               {"module_load_ms", 6.5},
               {"total_ms", 7.5},
               {"nvrtc", "a library"},
               {"nvrtc_found_by", "a search"},
               {"jobs", 9},
               {"workers", 10},
               {"sm_count", 35}};
  made["variants_not_taken"] = {
      {{"name", "large"}, {"reason", "it does not fit"}}};
  const std::tuple<const char *, const char *, double, int, int, int> rows[] = {
      {"a", "package", 11.5, 12, 0, 14},  {"b", "cache", 15.5, 16, 17, 18},
      {"c", "cache", 19.5, 20, 0, 22},    {"d", "compiled", 23.5, 24, 0, 26},
      {"e", "compiled", 27.5, 28, 0, 30}, {"f", "compiled", 31.5, 32, 0, 34}};
  for (const auto &[name, source, ms, registers, local, ctas] : rows)
    made["kernels"].push_back({{"name", name},
                               {"source", source},
                               {"compile_ms", ms},
                               {"registers", registers},
                               {"local_bytes", local},
                               {"ctas_per_sm", ctas}});
  return made;
}

} // namespace

TEST(LoadReports, OfAGpu) {
  EXPECT_EQ(json::parse(loadReport().json()), loadJson());
}

TEST(LoadReports, OfTheHost) {
  runtime::LoadReport load = loadReport();
  load.smCount = 0;
  json expected = loadJson();
  expected.erase("sm_count"), expected.erase("variants_not_taken");
  for (json &kernel : expected["kernels"])
    for (const char *name : {"registers", "local_bytes", "ctas_per_sm"})
      kernel.erase(name);
  EXPECT_EQ(json::parse(load.json()), expected);
}

TEST(Reports, AsJson) {
  json load = loadJson();
  // Numbers of the process, which loads once.
  load.update({{"process_start_ms", 41.5},
               {"driver_open_ms", 42.5},
               {"cuinit_ms", 43.5},
               {"context_ms", 44.5},
               {"weights_ms", 45.5},
               {"pack_ms", 46.5}});
  json run = {{"tokens", 51},           {"variant", "a variant"},
              {"routing", "a routing"}, {"inputs", "some inputs"},
              {"passed", true},         {"error", 53.5},
              {"worst_row", 54.5},      {"worst_element", 55.5},
              {"bound", 52.5},          {"text", "a text"}};
  json second = run;
  second.update({{"passed", false},
                 {"roundings", 56},
                 {"roundings_taken", 57},
                 {"twice", "identical"},
                 {"median_us", 58.5}});
  const json expected = {{"package", "a folder"}, {"name", "a name"},
                         {"device", "a device"},  {"arch", "sm_90a"},
                         {"load", load},          {"runs", {run, second}},
                         {"passed", false},       {"status", 0}};
  RunReport report = runReport();
  EXPECT_EQ(json::parse(printed(printJson, report, 1)), expected);
  EXPECT_EQ(std::ranges::count(printed(printJson, report, -1), '\n'), 1);

  report.line = 61, report.wall = 62.5, report.onDevice = 63.5;
  report.status = 1, report.error = "an error";
  report.driverFailed = report.hung = true;
  report.checkpoint = "a checkpoint", report.checkpointLayer = 64;
  report.digests = {{"w13", "a hash"}};
  report.cases.pop_back();
  json more = expected;
  more["runs"] = {run};
  more.update({{"line", 61},
               {"wall_ms", 62.5},
               {"on_device_ms", 63.5},
               {"status", 1},
               {"error", "an error"},
               {"driver_failed", true},
               {"hung", true}});
  more["weights"] = {{"checkpoint", "a checkpoint"},
                     {"layer", 64},
                     {"sha256", {{"w13", "a hash"}}}};
  EXPECT_EQ(json::parse(printed(printJson, report, 1)), more);

  // Loads of several archs are apart.
  report = runReport();
  report.loads.push_back(loadReport());
  report.loads.back().read = 71.5;
  report.loadArchs = {"sm_80", "sm_90a"};
  report.cases.clear();
  const json several = json::parse(printed(printJson, report, 1));
  EXPECT_EQ(several["prebuilt"]["sm_80"]["read_ms"], 1.5);
  EXPECT_EQ(several["prebuilt"]["sm_90a"]["read_ms"], 71.5);
  EXPECT_FALSE(several["load"].contains("read_ms"));
  EXPECT_EQ(several["passed"], true);
}

TEST(Reports, AsATable) {
  RunReport report = runReport();
  const std::string head =
      "a name for sm_90a on a device\n"
      "driver 42.5 ms, cuInit 43.5 ms, context 44.5 ms\n"
      "load sm_90a: 7.5 ms (read 1.5, kernels 5.5, modules 6.5); 6 kernels: 1 "
      "from the package, 2 from the cache, 3 compiled\n"
      "kernel b: 17 bytes of local memory a thread\n"
      "variant large is not taken: it does not fit\n"
      "NVRTC: a library (found by a search), opened in 8.5 ms, 9 jobs, 10 "
      "workers\n";
  EXPECT_EQ(
      printed(printTable, report, true, true),
      head +
          "weights made in 46 ms, packed in 46.5 ms\n"
          "  tokens  variant              routing          median us  check   "
          "result\n"
          "      51  a variant            a routing                -  passed  "
          "a "
          "text\n"
          "      51  a variant            a routing            58.50  FAILED  "
          "a "
          "text; twice: identical\n");
  report.checkpoint = "a checkpoint", report.checkpointLayer = 64;
  report.cases.pop_back();
  EXPECT_EQ(printed(printTable, report, false, false),
            head + "weights of layer 64 of a checkpoint, loaded in 46 ms, "
                   "packed in 46.5 ms\n"
                   "  tokens  variant              routing      \n"
                   "      51  a variant            a routing    \n");
}

TEST(Jobs, EachFieldIsRead) {
  const json good = {{"package", "a"}, {"baseline", "b"}, {"tokens", 2},
                     {"seed", 3},      {"sample", 4},     {"rounds", 5},
                     {"worse", 1.5}};
  const auto job = measure::Job::parse(good.dump());
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->package, "a");
  EXPECT_EQ(job->baseline, "b");
  EXPECT_EQ(job->tokens, 2);
  EXPECT_EQ(job->seed, 3u);
  EXPECT_EQ(job->sample, 4);
  EXPECT_EQ(job->rounds, 5);
  EXPECT_EQ(job->worse, 1.5);
  for (const auto &[name, value] : good.items()) {
    json lacking = good, wrong = good;
    lacking.erase(name);
    wrong[name] = json::array();
    EXPECT_FALSE(measure::Job::parse(wrong.dump())) << name;
    const auto read = measure::Job::parse(lacking.dump());
    if (read)
      EXPECT_EQ(name, "worse");
    else
      EXPECT_THAT(read.error().message, HasSubstr(name));
    if (read)
      EXPECT_EQ(read->worse, 0) << "it never ends early";
  }
  for (const auto &[name, value, taken] :
       {std::tuple<const char *, int64_t, bool>("tokens", 0, false),
        {"tokens", INT32_MAX, true},
        {"tokens", int64_t(INT32_MAX) + 1, false},
        {"seed", 0, true},
        {"seed", -1, false},
        {"sample", 0, false},
        {"rounds", 0, false},
        {"rounds", 1000, true},
        {"rounds", 1001, false},
        {"more", 1, false}}) {
    json changed = good;
    changed[name] = value;
    EXPECT_EQ(bool(measure::Job::parse(changed.dump())), taken)
        << name << " " << value;
  }
}

TEST(Jobs, AnswersHaveTheirNumbers) {
  measure::Answer answer;
  answer.us = 1.5, answer.baselineUs = 2.5, answer.noise = 3.5;
  answer.rounds = 4, answer.check = "right";
  answer.kind = "refused", answer.text = "a text";
  EXPECT_EQ(json::parse(answer.print()),
            (json{{"ok", false}, {"kind", "refused"}, {"text", "a text"}}));
  answer.ok = true;
  EXPECT_EQ(json::parse(answer.print()), (json{{"ok", true},
                                               {"us", 1.5},
                                               {"baseline_us", 2.5},
                                               {"noise", 3.5},
                                               {"rounds", 4},
                                               {"check", "right"}}));
}
