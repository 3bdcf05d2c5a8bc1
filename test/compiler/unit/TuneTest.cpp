//===- TuneTest.cpp - candidates, ranges and the log of a tuner -----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parts that need no program beside them; test/tune runs the whole.
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/PlannedRanges.h"
#include "compiler/plan/TunedStore.h"
#include "compiler/tune/BuildAhead.h"
#include "compiler/tune/Candidates.h"
#include "compiler/tune/Measuring.h"
#include "compiler/tune/Search.h"
#include "compiler/tune/TuneLog.h"
#include "compiler/tune/TunedInput.h"
#include "dialect/catalog/Schemes.h"
#include "runtime/support/Files.h"
#include "runtime/support/Log.h"
#include "test/compiler/unit/ScheduleTesting.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <set>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace moec;
using namespace moec::compiler;
using namespace moec::test;

namespace {
/// A folder that goes with the test.
struct Folder {
  std::string path = std::filesystem::temp_directory_path() /
                     ("moec-tune-" + std::to_string(::getpid()));
  Folder() {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
};
const Engines kEngines = {&engines::wgmma(), &engines::mma_sync()};
} // namespace

TEST(Tune, CandidatesAreLegalDistinctAndSeeded) {
  const MatmulProblem problem = gateUp(1, 64, 64);
  const auto all = schedulesOf(problem, kEngines, h100(), 32, 16, 1);
  std::set<std::string> engines;
  for (const Schedule &s : all) {
    EXPECT_EQ(whyIllegal(problem, s, h100()), std::nullopt) << describe(s);
    EXPECT_EQ(std::ranges::count(all, s), 1) << describe(s);
    engines.emplace(s.engineName());
  }
  EXPECT_EQ(engines.size(), 2u);
  // Whatever an engine enumerates is among them, and so is what it takes.
  for (const Engine *engine : kEngines)
    for (Schedule s : engine->candidates(problem, h100())) {
      s.source = "tuned";
      s.ctasPerSm = engine->ctasPerSm(problem, s, h100());
      EXPECT_EQ(std::ranges::count(all, s), 1) << describe(s);
    }
  EXPECT_EQ(std::ranges::count(all, *centerOf(problem, kEngines, h100())), 1);
  const auto none = schedulesOf(problem, kEngines, h100(), 32, 0, 1);
  EXPECT_EQ(all.size(), none.size() + 16);
  EXPECT_EQ(all, schedulesOf(problem, kEngines, h100(), 32, 16, 1));
  EXPECT_NE(all, schedulesOf(problem, kEngines, h100(), 32, 16, 2));
}

TEST(Tune, VariationsChangeOneMatmul) {
  TunedLayer layer;
  layer.first = gateUp(1, 64, 64);
  layer.second = gateUp(1, 64, 64);
  layer.second.gated = layer.second.gather = layer.second.first = false;
  layer.second.n = 2048, layer.second.k = 768;
  layer.engines = layer.secondEngines = kEngines;
  const SchedulePair center =
      predict(layer, *centerOf(layer.first, kEngines, h100()),
              *centerOf(layer.second, kEngines, h100()), h100(), 32);
  const auto all = variationsOf(layer, center, h100(), 32, 4, 1);
  EXPECT_GT(all.size(), 8u);
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, &SchedulePair::predicted));
  for (const SchedulePair &one : all)
    EXPECT_TRUE((one.first == center.first) != (one.second == center.second));
}

TEST(Tune, RowsOfEachSchemeServeTheirLayer) {
  Folder folder;
  TuneSource source;
  source.text = R"({"moec_layer": 1, "name": "mine", "num_experts": 8,
      "top_k": 2, "hidden_size": 1024, "intermediate_size": 1024,
      "in_dtype": "bf16", "routing_method": "renormalize",
      "activation": "silu", "quant_config": null})";
  CompileOptions options;
  options.archs = {"sm_90a"};
  options.cubins = false;
  const TokenRange range = {512, 363, 724};
  int built = 0;
  for (const catalog::Scheme &scheme : catalog::kSchemes) {
    ImportOptions import;
    import.scheme = scheme.name;
    const auto input = TunedInput::open(source, import, options);
    const auto any = input ? input->problemsFor(range, 16)
                           : Result<TunedLayer>(input.error());
    if (!any)
      continue; // sm_90a has no grouped matmul for it
    for (int64_t rows : tileRowsOf(any->engines, any->first.elementBytes)) {
      const auto layer = input->problemsFor(range, rows);
      ASSERT_TRUE(layer) << scheme.name << " " << layer.error().message;
      const auto first = centerOf(layer->first, layer->engines, h100());
      const auto second = centerOf(layer->second, layer->secondEngines, h100());
      if (!first || !second)
        continue;
      const auto candidate =
          predict(*layer, *first, *second, h100(), range.tokens);
      const auto done =
          input->build(range.tokens, input->rowsFor(range, *layer, candidate),
                       folder.path + "/package");
      EXPECT_TRUE(done) << scheme.name << ", tiles of " << rows
                        << " rows: " << done.error().message;
      std::filesystem::remove_all(folder.path + "/package");
      ++built;
    }
  }
  EXPECT_GT(built, 60);
}

/// The log keeps measurements by the digest: another choice of engines has
/// another default, and ratios to another baseline.
TEST(Tune, TheDigestIsOfEveryOption) {
  TuneSource source;
  source.text = R"({"moec_layer": 1, "name": "mine", "num_experts": 8,
      "top_k": 2, "hidden_size": 256, "intermediate_size": 256,
      "in_dtype": "bf16", "routing_method": "renormalize",
      "activation": "silu", "quant_config": null})";
  CompileOptions plain;
  plain.archs = {"sm_90a"};
  plain.cubins = false;
  std::vector<CompileOptions> all(8, plain);
  all[1].engine = "wgmma";
  all[2].engine = "mma_sync";
  all[3].backend = "grouped";
  all[4].exclude = {"gemv"};
  all[5].exclude = {"simt"};
  all[6].allow = {"weight_only"};
  all[7].maxTokens = plain.maxTokens / 2;
  std::set<std::string> digests;
  for (const CompileOptions &options : all) {
    const auto input = TunedInput::open(source, {}, options);
    ASSERT_TRUE(input) << input.error().message;
    digests.insert(input->digest());
  }
  EXPECT_EQ(digests.size(), all.size());
}

TEST(Tune, RangesAreHalfAnOctaveAndDoNotMeet) {
  const auto of = [](std::vector<int64_t> tokens, int64_t most) {
    std::string text;
    for (const auto &range : rangesAround(std::move(tokens), most, 128))
      text += std::to_string(range.first) + "-" + std::to_string(range.tokens) +
              "-" + std::to_string(range.last) + " ";
    return text;
  };
  EXPECT_EQ(of({32}, 65536), "23-32-45 ");
  EXPECT_EQ(of({1, 32, 512, 2048}, 65536),
            "1-1-1 23-32-45 363-512-724 1449-2048-2896 ");
  // Neighbours share what lies between them.
  EXPECT_EQ(of({16, 24, 16}, 65536), "12-16-19 20-24-33 ");
  EXPECT_EQ(of({1, 2}, 65536), "1-1-1 2-2-2 ");
  EXPECT_EQ(of({128, 129}, 65536), "91-128-128 129-129-182 ");
  EXPECT_EQ(of({100}, 110), "71-100-110 ");
  // Neither is a range's part beyond the border.
  EXPECT_EQ(of({150}, 65536), "129-150-212 ");
  for (int64_t first = 1; first <= 300; first += 7)
    for (int64_t second = first + 1; second <= 600; second += 13) {
      constexpr int64_t kBorder = 128, kMost = 580;
      const auto ranges =
          rangesAround({second, first}, std::max(kMost, second), kBorder);
      ASSERT_EQ(ranges.size(), 2u);
      int64_t before = 0;
      for (const TokenRange &range : ranges) {
        const int64_t tokens = before == 0 ? first : second;
        EXPECT_EQ(range.tokens, tokens);
        EXPECT_LT(before, range.first);
        EXPECT_LE(range.first, tokens);
        EXPECT_LE(tokens, range.last);
        EXPECT_LE(range.last, std::max(kMost, second));
        EXPECT_GE(2 * range.first * range.first, tokens * tokens);
        EXPECT_LE(range.last * range.last, 2 * tokens * tokens);
        EXPECT_TRUE(range.last <= kBorder || kBorder < range.first)
            << range.first << " to " << range.last;
        before = range.last;
      }
    }
}

/// A row must gain more than the minimum and more than twice the noise.
TEST(Tune, AGainIsMoreThanTheMinimumAndTheNoise) {
  struct Case {
    double ratio, noise, minGain;
    bool faster;
  };
  for (const Case &each : {Case{0.75, 0, 25, false},
                           {0.7499, 0, 25, true},
                           {0.75, 0.125, 1, false},
                           {0.7499, 0.125, 1, true},
                           {0.75, 0.25, 1, false},
                           {0.98, 0, 1, true},
                           {1, 0, 1, false},
                           {1.25, 0, 1, false},
                           {0, 0, 1, false}}) {
    Trial trial;
    trial.ratio = each.ratio, trial.noise = each.noise;
    EXPECT_EQ(isFaster(trial, each.minGain), each.faster)
        << each.ratio << ", noise " << each.noise << ", at least "
        << each.minGain << " %";
  }
}

TEST(Tune, TheFastestHasAGain) {
  std::vector<Trial> trials(4);
  EXPECT_EQ(fastest(trials), nullptr) << "none was measured";
  trials[1].ratio = 0.5, trials[1].noise = 0.25;
  trials[2].ratio = 0.75;
  trials[3].ratio = 0.8125;
  EXPECT_EQ(fastest(trials), &trials[1]);
  EXPECT_EQ(fastest(trials, 1), &trials[2]) << "the first may be noise";
  EXPECT_EQ(fastest(trials, 25), nullptr);
}

TEST(Tune, TheLogKeepsWholeLines) {
  Folder folder;
  const std::string path = folder.path + "/log.jsonl";
  {
    auto log = TuneLog::open(path);
    ASSERT_TRUE(log) << log.error().message;
    ASSERT_TRUE(log->add({{"key", "a"}, {"ok", true}, {"us", 1.5}}));
    ASSERT_TRUE(log->add({{"key", "b"}, {"ok", false}}));
    auto second = TuneLog::open(path);
    ASSERT_FALSE(second);
    EXPECT_NE(second.error().message.find("is in use: another moec tune"),
              std::string::npos);
  }
  // A process that was killed while it wrote.
  std::ofstream(path, std::ios::app) << R"({"key": "c", "ok": tr)";
  {
    auto log = TuneLog::open(path);
    ASSERT_TRUE(log);
    EXPECT_EQ(log->damagedLines(), 1);
    ASSERT_TRUE(log->find("a"));
    EXPECT_EQ((*log->find("a"))["us"], 1.5);
    EXPECT_FALSE(log->find("c"));
    ASSERT_TRUE(log->add({{"key", "d"}, {"ok", true}}));
  }
  auto log = TuneLog::open(path);
  ASSERT_TRUE(log);
  EXPECT_TRUE(log->find("d"));
  EXPECT_EQ(log->damagedLines(), 1);
}

TEST(Tune, PackagesAreBuiltAheadInOrder) {
  std::atomic<size_t> begun = 0;
  constexpr size_t kCount = 40, kBad = 7;
  BuildAhead builds(kCount, [&](size_t i) -> Result<void> {
    ++begun;
    return i == kBad ? Result<void>(refused("not this one")) : Result<void>();
  });
  const auto until = std::chrono::steady_clock::now() + std::chrono::hours(1);
  ASSERT_TRUE(builds.await(0, until));
  // Nobody has asked for the last ones yet.
  EXPECT_LT(begun, kCount);
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(builds.await(i, until));
    EXPECT_EQ(bool(builds.result(i)), i != kBad);
  }
  EXPECT_EQ(begun, kCount);
}

static TunedRow rowFor(int64_t first, int64_t last, double us) {
  TunedRow row;
  row.gpu = "h100_sxm", row.date = "2026-11-28", row.commit = "moec";
  row.first = first, row.last = last, row.tokens = first;
  row.n = 1536, row.k = 2048, row.experts = 128, row.pairs = 8;
  row.elementType = "bf16", row.gated = row.gather = true;
  row.microseconds = us;
  row.schedule.tileM = 16, row.schedule.source = "tuned";
  return row;
}

TEST(Tune, NewRowsTakeTheirTokenCountsFromOthers) {
  Folder folder;
  const std::string path = folder.path + "/store/h100_sxm.json";
  const auto add = [&](std::vector<TunedRow> rows) {
    EXPECT_TRUE(addToTuned(path, rows));
  };
  const auto ranges = [&] {
    std::string text;
    const auto rows = parseTuned(*readFile(path), path);
    EXPECT_TRUE(rows) << rows.error().message;
    for (const TunedRow &row : *rows)
      text += std::to_string(row.first) + "-" + std::to_string(row.last) + " ";
    return text;
  };
  add({rowFor(1, 4, 1), rowFor(8, 20, 2)});
  add({rowFor(16, 32, 3)});
  EXPECT_EQ(ranges(), "1-4 8-15 16-32 ");
  // The one that was measured with 8 tokens goes.
  add({rowFor(6, 9, 3)});
  EXPECT_EQ(ranges(), "1-4 16-32 6-9 ");
  add({rowFor(30, 50, 4)});
  EXPECT_EQ(ranges(), "1-4 16-29 6-9 30-50 ");
  // A row that was measured with its last token count keeps the counts above
  // it.
  const std::string behind = folder.path + "/store/behind.json";
  TunedRow late = rowFor(60, 90, 5);
  late.tokens = 90;
  ASSERT_TRUE(addToTuned(behind, std::vector{late}));
  ASSERT_TRUE(addToTuned(behind, std::vector{rowFor(50, 60, 6)}));
  late.first = 61;
  EXPECT_EQ(*readFile(behind),
            printTuned(std::vector{late, rowFor(50, 60, 6)}));
  ASSERT_TRUE(addToTuned(behind, std::vector{rowFor(64, 70, 6)}));
  ASSERT_TRUE(addToTuned(behind, std::vector{rowFor(91, 95, 6)}));
  late.first = 71;
  EXPECT_EQ(*readFile(behind),
            printTuned(std::vector{late, rowFor(50, 60, 6), rowFor(64, 70, 6),
                                   rowFor(91, 95, 6)}));
  ASSERT_TRUE(addToTuned(behind, std::vector{rowFor(80, 90, 7)}));
  ASSERT_TRUE(addToTuned(behind, std::vector{rowFor(60, 62, 7)}));
  EXPECT_EQ(*readFile(behind),
            printTuned(std::vector{rowFor(50, 59, 6), rowFor(64, 70, 6),
                                   rowFor(91, 95, 6), rowFor(80, 90, 7),
                                   rowFor(60, 62, 7)}));
  // Rows that a measurement speaks against.
  const auto rows = parseTuned(*readFile(path), path);
  ASSERT_TRUE(takeFromTuned(path, *rows, 7, 20));
  EXPECT_EQ(ranges(), "1-4 6-6 30-50 ");
  ASSERT_TRUE(takeFromTuned(path, std::span(*rows).first(1), 1, 64));
  EXPECT_EQ(ranges(), "6-6 30-50 ");
  // A damaged file stays as it is.
  std::ofstream(path) << "{";
  EXPECT_FALSE(addToTuned(path, std::vector{rowFor(1, 4, 1)}));
  EXPECT_EQ(*readFile(path), "{");
}

/// Who adds rows reads the file and writes it: nobody else may do so meanwhile.
TEST(Tune, RowsAreAddedByOneAtATime) {
  Folder folder;
  const std::string path = folder.path + "/rows.json";
  ASSERT_TRUE(addToTuned(path, std::vector{rowFor(1, 4, 1)}));
  const int lock = ::open((path + ".lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(lock, LOCK_SH), 0);
  std::atomic<bool> isAdded = false;
  std::thread adder([&] {
    EXPECT_TRUE(addToTuned(path, std::vector{rowFor(5, 8, 6)}));
    isAdded = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(isAdded);
  ::close(lock);
  adder.join();
  EXPECT_TRUE(isAdded);
}

/// The store beside the kernel cache trusts whom that trusts.
TEST(Tune, RowsThatOthersMayWriteAreLeftOut) {
  Folder folder;
  const std::string store = folder.path + "/tuned", path = store + "/a.json";
  const mode_t before = ::umask(0);
  ASSERT_TRUE(addToTuned(path, std::vector{rowFor(1, 4, 1)}));
  ::umask(before);
  struct stat info;
  for (const std::string &made : {store, path, path + ".lock"}) {
    ASSERT_EQ(::stat(made.c_str(), &info), 0) << made;
    EXPECT_EQ(info.st_mode & 0022, 0u) << made;
  }
  std::string warnings;
  setLogSink([&](LogLevel, std::string_view text) { warnings += text; },
             LogLevel::Warning);
  const auto readable = [&] {
    warnings.clear();
    return readableStore(folder.path);
  };
  EXPECT_EQ(readable(), std::vector{path});
  EXPECT_EQ(warnings, "");
  for (const mode_t mode : {0664, 0646}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_TRUE(readable().empty());
    EXPECT_NE(warnings.find("a.json is left out: others may write it (mode 06"),
              std::string::npos)
        << warnings;
  }
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(readable(), std::vector{path});
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
    EXPECT_TRUE(readable().empty());
    EXPECT_NE(warnings.find("it belongs to user 12345"), std::string::npos);
  }
  setLogSink({}, LogLevel::Warning);
  // A lock that would make a file where its planter likes.
  const std::string planted = store + "/b.json", victim = store + "/victim";
  ASSERT_EQ(::symlink(victim.c_str(), (planted + ".lock").c_str()), 0);
  EXPECT_FALSE(addToTuned(planted, std::vector{rowFor(1, 4, 1)}));
  EXPECT_FALSE(fileExists(victim));
}

TEST(Tune, LayersShareRowsOfTheirSecondMatmul) {
  Folder folder;
  const std::string path = folder.path + "/rows.json";
  const TunedRow gated = rowFor(8, 20, 1);
  TunedRow plain = gated, down = gated;
  plain.gated = false, plain.n = gated.n / 2;
  down.gated = down.gather = false, down.n = gated.k, down.k = gated.n / 2;
  const auto has = [&](std::vector<TunedRow> wanted) {
    EXPECT_EQ(*readFile(path), printTuned(wanted));
  };
  ASSERT_TRUE(addToTuned(path, std::vector{gated, down}));
  ASSERT_TRUE(addToTuned(path, std::vector{plain, down}));
  has({gated, plain, down});
  ASSERT_TRUE(takeFromTuned(path, std::vector{gated, down}, 1, 64));
  has({plain, down});
  // Other tiles do not serve the other layer; the one range does with both.
  TunedRow large = gated, its = down;
  large.schedule.tileM = its.schedule.tileM = 64;
  ASSERT_TRUE(addToTuned(path, std::vector{large, its}));
  has({plain, down, large, its});
  ASSERT_TRUE(takeFromTuned(path, std::vector{plain, down}, 1, 64));
  has({large, its});
  // A pair that loses some token counts is still one.
  ASSERT_TRUE(addToTuned(path, std::vector{plain, down}));
  ASSERT_TRUE(takeFromTuned(path, std::vector{plain, down}, 16, 20));
  TunedRow rest = plain, itsRest = down;
  rest.last = itsRest.last = 15;
  has({large, its, rest, itsRest});
}

/// A second matmul's row serves each layer whose first one fits it.
TEST(Tune, ARowOfTheSecondMatmulStaysForItsOtherFirstOnes) {
  using Change = void (*)(TunedRow &, TunedRow &);
  const std::vector<std::pair<bool, Change>> cases = {
      {true, [](TunedRow &, TunedRow &) {}},
      {true, [](TunedRow &other, TunedRow &) { other.scheme = "bf16"; }},
      {true, [](TunedRow &, TunedRow &down) { down.scheme = "bf16"; }},
      {true, [](TunedRow &other,
                TunedRow &down) { other.scheme = down.scheme = "bf16"; }},
      {false,
       [](TunedRow &other, TunedRow &down) {
         other.scheme = "fp8_block";
         down.scheme = "bf16";
       }},
      {false, [](TunedRow &other, TunedRow &) { other.gpu = "h200_sxm"; }},
      {false, [](TunedRow &other, TunedRow &) { other.first = 7; }},
      {false, [](TunedRow &other, TunedRow &) { other.last = 21; }},
      {false, [](TunedRow &other, TunedRow &) { other.experts = 64; }},
      {false, [](TunedRow &other, TunedRow &) { other.pairs = 4; }},
      {false, [](TunedRow &other, TunedRow &) { other.n *= 2; }},
      {false, [](TunedRow &other, TunedRow &) { other.k *= 2; }},
      {false, [](TunedRow &other, TunedRow &) { other.schedule.tileM = 32; }},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    Folder folder;
    const std::string path = folder.path + "/rows.json";
    TunedRow gated = rowFor(8, 20, 1), down = gated, other = gated;
    down.gated = down.gather = false, down.n = gated.k, down.k = gated.n / 2;
    other.gated = false, other.n = gated.n / 2;
    cases[i].second(other, down);
    gated.scheme = down.scheme;
    ASSERT_TRUE(addToTuned(path, std::vector{other, gated, down}));
    ASSERT_TRUE(takeFromTuned(path, std::vector{gated, down}, 1, 64));
    std::vector<TunedRow> left = {other};
    if (cases[i].first)
      left.push_back(down);
    EXPECT_EQ(*readFile(path), printTuned(left)) << "case " << i;
  }
}

/// A schedule is not judged by an error that another try may not meet.
TEST(Tune, TransientErrors) {
  for (const ErrorCode code :
       {ErrorCode::FileSystem, ErrorCode::NoCompiler, ErrorCode::DriverFailed})
    EXPECT_TRUE(isTransient(Error(code, "x"))) << int(code);
  for (const ErrorCode code : {ErrorCode::CompileFailed, ErrorCode::Refused,
                               ErrorCode::InvalidArgument})
    EXPECT_FALSE(isTransient(Error(code, "x (signal 11, x)"))) << int(code);
  EXPECT_TRUE(isTransient(
      Error(ErrorCode::CompileFailed, "the worker ended (signal 9, Killed)")));
}

/// New rows take token counts only from rows of the same matmul and scheme.
TEST(Tune, RowsOfOtherProblemsStayBesideNewOnes) {
  using Change = void (*)(TunedRow &);
  for (const Change change : std::initializer_list<Change>{
           [](TunedRow &row) { row.scheme = "bf16"; },
           [](TunedRow &row) { row.gpu = "h200_sxm"; },
           [](TunedRow &row) { row.n *= 2; }, [](TunedRow &row) { row.k *= 2; },
           [](TunedRow &row) { row.experts = 64; },
           [](TunedRow &row) { row.pairs = 4; },
           [](TunedRow &row) { row.elementType = "f16"; },
           [](TunedRow &row) { row.gated = !row.gated; },
           [](TunedRow &row) { row.gather = !row.gather; }}) {
    Folder folder;
    const std::string path = folder.path + "/rows.json";
    const TunedRow any = rowFor(8, 20, 1);
    TunedRow other = any;
    change(other);
    ASSERT_TRUE(addToTuned(path, std::vector{any}));
    ASSERT_TRUE(addToTuned(path, std::vector{other}));
    EXPECT_EQ(*readFile(path), printTuned(std::vector{any, other}));
    ASSERT_TRUE(takeFromTuned(path, std::vector{other}, 1, 64));
    EXPECT_EQ(*readFile(path), printTuned(std::vector{any}));
  }
}

TEST(Tune, MeasuredRangesCutThoseOfTheRules) {
  using Ranges = std::vector<Planned>;
  const Planned few = {Planned::Few, 1, 4, 4},
                slices = {Planned::Slices, 6, 60, 64},
                tiles = {Planned::Tiles, 5, 128, 64},
                rest = {Planned::Tiles, 129, 4096, 192, 16};
  const Ranges rules = {few, slices, tiles, rest};
  EXPECT_EQ(cutRanges(rules, {}), rules);
  // In the midst of one, and over a border; slices stay in the range that holds
  // them.
  const Planned small = {Planned::Tuned, 2, 7, 16},
                wide = {Planned::Tuned, 23, 45, 64},
                large = {Planned::Tuned, 100, 200, 256};
  const Ranges measured = {small, wide, large};
  const Ranges wanted = {{Planned::Few, 1, 1, 4},
                         small,
                         {Planned::Slices, 8, 22, 64},
                         {Planned::Tiles, 8, 22, 64},
                         wide,
                         {Planned::Slices, 46, 60, 64},
                         {Planned::Tiles, 46, 99, 64},
                         large,
                         {Planned::Tiles, 201, 4096, 192, 16}};
  EXPECT_EQ(cutRanges(rules, measured), wanted);
  const Ranges split = {{Planned::Tuned, 100, 128, 256},
                        {Planned::Tuned, 129, 200, 256}};
  EXPECT_EQ(splitAt(128, Ranges{large}), split);
  EXPECT_EQ(splitAt(128, Ranges{wide}), Ranges{wide});
}
