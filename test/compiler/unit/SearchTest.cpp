//===- SearchTest.cpp - what a tuner measures, where and what it says -----===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Trials next to measured ones, the jobs that a measuring process gets, the
// files of rows and logs, and the text of a report.
//
//===----------------------------------------------------------------------===//

#include "compiler/tune/Search.h"
#include "compiler/plan/TunedStore.h"
#include "compiler/tune/Measuring.h"
#include "runtime/support/Files.h"
#include "runtime/support/Log.h"
#include "test/compiler/unit/ScheduleTesting.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

using namespace moec;
using namespace moec::compiler;
using namespace moec::test;
using nlohmann::ordered_json;
using testing::ElementsAre;

namespace {
/// A folder that goes with the test.
struct Scratch {
  std::string path = std::filesystem::temp_directory_path() /
                     ("moec-search-" + std::to_string(::getpid()));
  Scratch() {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~Scratch() { std::filesystem::remove_all(path); }
};

/// The best trial of a tile size, with a measured ratio.
Trial centerFor(int64_t tileRows, double ratio) {
  Trial trial;
  trial.layer.first = trial.layer.second = gateUp(1, 64, tileRows);
  MatmulProblem &second = trial.layer.second;
  second.gated = second.gather = second.first = false;
  second.n = 2048, second.k = 768;
  trial.layer.engines = trial.layer.secondEngines = {&engines::mma_sync()};
  trial.candidate = predict(
      trial.layer, *centerOf(trial.layer.first, trial.layer.engines, h100()),
      *centerOf(trial.layer.second, trial.layer.engines, h100()), h100(), 32);
  trial.ratio = ratio;
  return trial;
}

std::set<int64_t> tilesOf(const std::vector<Trial> &trials) {
  std::set<int64_t> tiles;
  for (const Trial &trial : trials)
    tiles.insert(trial.layer.first.tileRows);
  return tiles;
}

std::vector<SchedulePair> candidatesOf(const std::vector<Trial> &trials) {
  std::vector<SchedulePair> all;
  for (const Trial &trial : trials)
    all.push_back(trial.candidate);
  return all;
}
} // namespace

TEST(Search, VariationsAreOfTheTwoFastestTileSizes) {
  const std::vector<Trial> centers = {centerFor(16, 0.9), centerFor(32, 0),
                                      centerFor(64, 0.7), centerFor(128, 0.8)};
  TuneOptions options;
  EXPECT_THAT(tilesOf(besideOf(centers, options, h100(), 32)),
              ElementsAre(64, 128));
  options.exhaustive = true;
  EXPECT_THAT(tilesOf(besideOf(centers, options, h100(), 32)),
              ElementsAre(16, 32, 64, 128));
  // Without a time, sizes stay in their order.
  options.exhaustive = false;
  EXPECT_THAT(
      tilesOf(besideOf({centerFor(64, 0), centerFor(32, 0), centerFor(16, 0)},
                       options, h100(), 32)),
      ElementsAre(32, 64));
}

/// Each token count and each matmul draws schedules of its own.
TEST(Search, RandomSchedulesFollowTheSeedAndTheTokens) {
  const std::vector<Trial> centers = {centerFor(64, 0.7)};
  TuneOptions options;
  const size_t enumerated = besideOf(centers, options, h100(), 32).size();
  options.random = 6;
  const auto of = [&](uint64_t seed, int64_t tokens) {
    options.seed = seed;
    std::vector<SchedulePair> all =
        candidatesOf(besideOf(centers, options, h100(), tokens));
    EXPECT_EQ(all.size(), enumerated + 12);
    return all;
  };
  const auto areEqual = [](const std::vector<SchedulePair> &a,
                           const std::vector<SchedulePair> &b) {
    return std::ranges::is_permutation(a, b);
  };
  EXPECT_TRUE(areEqual(of(1, 32), of(1, 32)));
  EXPECT_FALSE(areEqual(of(1, 32), of(2, 32)));
  EXPECT_FALSE(areEqual(of(1, 32), of(1, 64)));
  EXPECT_TRUE(areEqual(of(33, 32), of(1, 64))) << "the sum is the seed";
}

/// The fastest schedules of each matmul, which were measured with other ones.
TEST(Search, FastSchedulesOfBothMatmulsAreTriedTogether) {
  const Trial center = centerFor(64, 0.9);
  const auto with = [&](int64_t first, int64_t second, double ratio) {
    Trial trial = center;
    trial.candidate.first.stages = first;
    trial.candidate.second.stages = second;
    trial.ratio = ratio;
    return trial;
  };
  // The schedules with 2 stages are the slowest.
  std::vector<Trial> all = {with(2, 2, 0.95), with(3, 2, 0.5), with(4, 2, 0.6),
                            with(5, 2, 0.7),  with(6, 2, 0.8), with(2, 7, 0.55),
                            with(2, 8, 0.65), with(2, 6, 0)};
  Trial other = centerFor(128, 0.51);
  all.push_back(other);
  std::set<std::pair<int64_t, int64_t>> pairs;
  for (const Trial &trial : togetherOf(all, h100(), 32)) {
    EXPECT_EQ(trial.layer.first.tileRows, 64);
    EXPECT_EQ(trial.ratio, 0);
    EXPECT_TRUE(pairs
                    .emplace(trial.candidate.first.stages,
                             trial.candidate.second.stages)
                    .second);
  }
  const std::set<std::pair<int64_t, int64_t>> wanted = {
      {3, 7}, {3, 8}, {4, 7}, {4, 8}};
  EXPECT_EQ(pairs, wanted);
  EXPECT_TRUE(togetherOf({with(2, 2, 0)}, h100(), 32).empty());
}

TEST(Search, TileRowsAreThoseOfTheOperandsSize) {
  const Engines wgmma = {&engines::wgmma()};
  const std::vector<int64_t> two = tileRowsOf(wgmma, 2),
                             one = tileRowsOf(wgmma, 1);
  EXPECT_TRUE(std::ranges::is_sorted(two));
  EXPECT_THAT(two, testing::Contains(256));
  EXPECT_THAT(one, testing::Not(testing::Contains(256)));
  EXPECT_THAT(one, testing::Contains(192));
}

/// A measurement in the log is of one problem: each member that a schedule's
/// time depends on is in its key.
TEST(Search, EachMemberOfAProblemIsInTheLog) {
  using Change = void (*)(MatmulProblem &);
  const MatmulProblem plain = gateUp(1, 64, 16);
  std::set<std::string> texts = {problemJson(plain).dump()};
  const std::initializer_list<Change> changes = {
      [](MatmulProblem &p) { p.n += 8; },
      [](MatmulProblem &p) { p.k += 8; },
      [](MatmulProblem &p) { ++p.experts; },
      [](MatmulProblem &p) { --p.localExperts; },
      [](MatmulProblem &p) { ++p.pairs; },
      [](MatmulProblem &p) { p.elementType = "f16"; },
      [](MatmulProblem &p) { p.elementBytes = 1; },
      [](MatmulProblem &p) { p.resultBytes = 4; },
      [](MatmulProblem &p) { p.scheme = "f16"; },
      [](MatmulProblem &p) { p.first = false; },
      [](MatmulProblem &p) { p.gated = false; },
      [](MatmulProblem &p) { p.gather = false; },
      [](MatmulProblem &p) { p.groupScales = true; },
      [](MatmulProblem &p) { p.rowScales = true; },
      [](MatmulProblem &p) { p.groupColumns = 128; },
      [](MatmulProblem &p) { p.codeBits = 4; },
      [](MatmulProblem &p) { p.inFragments = true; },
      [](MatmulProblem &p) { p.groupK = 32; },
      [](MatmulProblem &p) { p.addsFast = true; },
      [](MatmulProblem &p) { p.tileRows = 32; }};
  for (const Change change : changes) {
    MatmulProblem other = plain;
    change(other);
    texts.insert(problemJson(other).dump());
  }
  EXPECT_EQ(texts.size(), changes.size() + 1);
  EXPECT_EQ(problemJson(plain)["experts"], plain.localExperts);
  EXPECT_EQ(problemJson(plain)["of_experts"], plain.experts);
}

/// Groups of m tiles are tried with each schedule that is known to be good, and
/// both matmuls draw other random ones.
TEST(Search, SchedulesHaveSeveralGroups) {
  const MatmulProblem problem = gateUp(1, 64, 64);
  const Engines mmaSync = {&engines::mma_sync()};
  const auto all = schedulesOf(problem, mmaSync, h100(), 32, 0, 1);
  size_t good = 0;
  for (const GoodSchedule &known :
       engines::mma_sync().goodSchedules(problem, h100())) {
    if (whyIllegal(problem, known.schedule, h100()))
      continue;
    ++good;
    for (const int64_t group : {1, 4, 8}) {
      Schedule other = known.schedule;
      other.groupM = group, other.source = "tuned";
      other.ctasPerSm = engines::mma_sync().ctasPerSm(problem, other, h100());
      EXPECT_EQ(std::ranges::count(all, other), 1) << group;
    }
  }
  EXPECT_GT(good, 0U);
  TunedLayer layer;
  layer.first = layer.second = problem;
  layer.engines = layer.secondEngines = mmaSync;
  const Schedule center = *centerOf(problem, mmaSync, h100());
  const SchedulePair both = predict(layer, center, center, h100(), 32);
  std::vector<Schedule> first, second;
  for (const SchedulePair &one : variationsOf(layer, both, h100(), 32, 6, 1))
    (one.second == center ? first : second)
        .push_back(one.second == center ? one.first : one.second);
  EXPECT_EQ(first.size(), second.size());
  EXPECT_FALSE(std::ranges::is_permutation(first, second));
}

namespace {
/// A layer whose schedules are tuned, with the user's store in `folder`.
Result<TunedInput> openLayer(const std::string &folder) {
  TuneSource source;
  source.text = R"({"moec_layer": 1, "name": "mine", "num_experts": 8,
      "top_k": 2, "hidden_size": 1024, "intermediate_size": 1024,
      "in_dtype": "bf16", "routing_method": "renormalize"})";
  CompileOptions options;
  options.archs = {"sm_90a"};
  options.cubins = false, options.tunedStore = true;
  options.cacheFolder = folder;
  return TunedInput::open(source, {}, options);
}
} // namespace

/// Measurements are compared with what the compiler chooses by itself, as a
/// schedule of a row.
TEST(Search, TheDefaultIsWithoutRowsOfTheStore) {
  Scratch folder;
  const auto input = openLayer(folder.path);
  ASSERT_TRUE(input) << input.error().message;
  const auto before = input->defaultFor(512);
  ASSERT_TRUE(before && before->schedules);
  for (const Schedule &s :
       {before->schedules->first, before->schedules->second}) {
    EXPECT_EQ(s.source, "tuned");
    EXPECT_FALSE(s.programmatic);
    EXPECT_TRUE(s.cluster.empty());
  }
  const TokenRange range = {512, 400, 600};
  const auto layer = input->problemsFor(range, 16);
  ASSERT_TRUE(layer) << layer.error().message;
  const SchedulePair rows = {
      *centerOf(layer->first, layer->engines, h100()),
      *centerOf(layer->second, layer->secondEngines, h100())};
  EXPECT_NE(before->tileRows, 16);
  ASSERT_TRUE(addToTuned(folder.path + "/tuned/rows.json",
                         input->rowsFor(range, *layer, rows)));
  ASSERT_EQ(readableStore(folder.path).size(), 1U);
  const auto after = openLayer(folder.path)->defaultFor(512);
  ASSERT_TRUE(after && after->schedules);
  EXPECT_EQ(*after->schedules, *before->schedules);
  EXPECT_EQ(after->tileRows, before->tileRows);
}

TEST(Search, EarlierRowsAreThoseOfTheTokens) {
  Scratch folder;
  const std::string path = folder.path + "/rows.json";
  const auto input = openLayer(folder.path);
  ASSERT_TRUE(input) << input.error().message;
  const TokenRange range = {512, 500, 520};
  const auto layer = input->problemsFor(range, 64);
  ASSERT_TRUE(layer) << layer.error().message;
  const SchedulePair pair = {
      *centerOf(layer->first, layer->engines, h100()),
      *centerOf(layer->second, layer->secondEngines, h100())};
  std::vector<TunedRow> rows = input->rowsFor(range, *layer, pair);
  ASSERT_EQ(rows.size(), 2U);
  for (const TunedRow &row : rows)
    EXPECT_EQ(std::tuple(row.first, row.tokens, row.last),
              std::tuple(500, 512, 520));
  // The second matmul's row is of any scheme.
  rows[1].scheme.clear();
  ASSERT_TRUE(addToTuned(path, rows));
  for (const auto &[tokens, found] :
       {std::pair(499, 0), {500, 1}, {520, 1}, {521, 0}}) {
    const auto earlier = earlierRows(path, *input, {tokens, tokens, tokens});
    ASSERT_TRUE(earlier) << earlier.error().message;
    EXPECT_EQ(earlier->trials.size(), size_t(found)) << tokens;
    EXPECT_EQ(earlier->rows.size(), size_t(found)) << tokens;
    EXPECT_EQ(earlier->anyScheme, found) << tokens;
  }
  EXPECT_TRUE(
      earlierRows(folder.path + "/none", *input, range)->trials.empty());
}

/// A process that answers each job keeps the jobs.
TEST(Measuring, JobsSayWhatIsMeasured) {
  Scratch folder;
  const std::string program = folder.path + "/measure",
                    jobs = folder.path + "/jobs";
  std::ofstream(program) << "#!/bin/sh\n"
                         << "echo '{\"moec_measure\": 1, \"device\": \"d\"}'\n"
                         << "while read -r line; do\n"
                         << "  echo \"$line\" >> " << jobs << "\n"
                         << "  echo '{\"ok\": true, \"us\": 3, \"baseline_us\":"
                         << " 4, \"noise\": 0.5, \"rounds\": 6, \"check\":"
                         << " \"passed\", \"more\": 1}'\n"
                         << "done\n";
  ASSERT_EQ(::chmod(program.c_str(), 0755), 0);
  TuneOptions options;
  options.device = "host", options.seed = 17, options.sample = 5;
  Measuring measuring(options, program, folder.path);
  ASSERT_TRUE(measuring.start());
  EXPECT_EQ(measuring.device(), "d");
  measuring.setBaseline("baseline");
  for (const auto &[package, rounds, worse] :
       {std::tuple("one", 5, 1.25), {"two", 9, 0.0}}) {
    const Result<JobOutcome> done =
        measuring.measure(package, 33, rounds, worse);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_TRUE(done->ok);
    EXPECT_FALSE(done->transient);
    EXPECT_EQ(done->answer->dump(), R"({"us":3,"baseline_us":4,"noise":0.5,)"
                                    R"("rounds":6,"check":"passed"})");
  }
  // The first job makes the weights, once a process.
  const std::string rest = R"(,"tokens":33,"seed":17,"sample":5,"rounds":)";
  EXPECT_EQ(*readFile(jobs), R"({"package":"baseline","baseline":"baseline")" +
                                 rest + "1,\"worse\":0.0}\n" +
                                 R"({"package":"one","baseline":"baseline")" +
                                 rest + "5,\"worse\":1.25}\n" +
                                 R"({"package":"two","baseline":"baseline")" +
                                 rest + "9,\"worse\":0.0}\n");
}

TEST(Store, TheVariableWinsOverTheFolderOfTheCache) {
  EXPECT_EQ(tunedStoreFolder("/cache"), "/cache/tuned");
  ::setenv("MOEC_TUNED_STORE", "/mine", 1);
  EXPECT_EQ(tunedStoreFolder("/cache"), "/mine");
  EXPECT_EQ(tunedStoreFolder(""), "/mine");
  ::setenv("MOEC_TUNED_STORE", "off", 1);
  EXPECT_EQ(tunedStoreFolder("/cache"), "");
  ::unsetenv("MOEC_TUNED_STORE");
}

TEST(Store, OtherFilesAreNoRows) {
  Scratch folder;
  const std::string store = folder.path + "/tuned";
  std::filesystem::create_directories(store + "/log.json");
  for (const char *name : {"/rows.json.lock", "/log.json/a.json", "/readme"})
    std::ofstream(store + name) << "no rows";
  std::ofstream(store + "/b.json") << R"({"tuned": 2, "rows": []})";
  std::ofstream(store + "/a.json") << R"({"tuned": 2, "rows": []})";
  std::string warnings;
  setLogSink([&](LogLevel, std::string_view text) { warnings += text; },
             LogLevel::Warning);
  const std::vector<std::string> files = readableStore(folder.path);
  setLogSink({}, LogLevel::Warning);
  EXPECT_THAT(files, ElementsAre(store + "/a.json", store + "/b.json"));
  EXPECT_EQ(warnings, "");
}

TEST(Store, APathIsTriedWithoutATrace) {
  Scratch folder;
  const std::string path = folder.path + "/new/rows.json";
  EXPECT_TRUE(checkWritable(path));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path + "/new"));
  std::filesystem::create_directories(path);
  EXPECT_FALSE(checkWritable(path));
}

/// Files that no option names lie in the store, by GPU, layer and digest.
TEST(Store, RowsAndLogHaveTheirPlaces) {
  Scratch folder;
  TuneOptions options;
  options.source.text = R"({"moec_layer": 1, "name": "mine", "num_experts": 8,
      "top_k": 2, "hidden_size": 256, "intermediate_size": 256,
      "in_dtype": "bf16", "routing_method": "renormalize"})";
  options.compile.archs = {"sm_90a"};
  options.compile.gpu = "h200_sxm";
  options.compile.cacheFolder = folder.path;
  const auto input =
      TunedInput::open(options.source, options.import, options.compile);
  ASSERT_TRUE(input) << input.error().message;
  const std::string store = folder.path + "/tuned";
  auto files = filesOf(options, *input);
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->rows, store + "/h200_sxm.json");
  EXPECT_EQ(files->log, store + "/log/mine-" + input->digest() + ".jsonl");
  options.output = folder.path + "/out.json";
  files = filesOf(options, *input);
  ASSERT_TRUE(files);
  EXPECT_EQ(files->rows, options.output);
  EXPECT_EQ(files->log, store + "/log/mine-" + input->digest() + ".jsonl");
  options.output.clear(), options.log = folder.path + "/log.jsonl";
  files = filesOf(options, *input);
  ASSERT_TRUE(files);
  EXPECT_EQ(files->rows, store + "/h200_sxm.json");
  EXPECT_EQ(files->log, options.log);
}

TEST(TuneText, SaysEachNumberOfAReport) {
  const ordered_json trial = ordered_json::parse(
      R"({"tokens": 9, "kind": "hang", "first": {"a": 1}, "second": {"b": 2},
          "text": "why"})");
  ordered_json report = ordered_json::parse(R"({
    "layer": "mine", "gpu": "g", "arch": "sm_90a", "device": "d",
    "seconds": 12.4, "measured": 3, "known": 4, "rows": 2, "output": "o.json",
    "log": "l.jsonl", "quarantined": [], "not_measured": [], "results": [
      {"tokens": 1, "schedules": 5, "of": 6, "chosen": "measured",
       "default_us": 20.0, "us": 15.0, "noise": 0.012, "best": "words",
       "range": [1, 2], "removed": 7, "any_scheme": 8, "kept": 9},
      {"tokens": 32, "chosen": "failed", "text": "a fault"},
      {"tokens": 64, "chosen": "none measured"}]})");
  const std::string text =
      "mine for sm_90a on d: 3 measured, 4 known, 12 s\n"
      "  tokens  default us     best us   ratio   noise schedules  chosen      "
      " "
      "     best\n"
      "       1        20.0        15.0   0.750    1.2%       5/6  measured    "
      " "
      "     words\n"
      "         used for 1 to 2 tokens\n"
      "         7 older rows for these tokens are removed: none is faster now\n"
      "         8 older rows without a scheme remain in use for these tokens: "
      "other layers may need them\n"
      "         9 older rows for these tokens stay: they could not be "
      "measured\n"
      "      32 failed: a fault\n"
      "      64         0.0         0.0   0.000    0.0%       0/0  none "
      "measured"
      "     \n";
  EXPECT_EQ(tuneText(report), text + "o.json: 2 rows\n");
  report["rows"] = 0;
  report["not_measured"].push_back(trial);
  report["quarantined"].push_back(trial);
  report["quarantined"][0]["kind"] = "wrong";
  EXPECT_EQ(tuneText(report),
            text +
                "not measured for 9 tokens (hang): first {\"a\":1}, second "
                "{\"b\":2}: why\n"
                "quarantined for 9 tokens (wrong): first {\"a\":1}, second "
                "{\"b\":2}: why\n"
                "l.jsonl tells which were not taken; they are measured again "
                "when compiler, templates or layer change\n"
                "no rows: the compiler's choice stays\n");
}
