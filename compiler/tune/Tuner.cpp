//===- Tuner.cpp - measures schedules of a layer --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Measurements alternate between a schedule and the compiler's choice, and
// schedules are compared by the ratio of the two times. A drifting clock
// affects both times in the same way.
//
//===----------------------------------------------------------------------===//

#include "compiler/tune/Tune.h"

#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/TunedStore.h"
#include "compiler/tune/BuildAhead.h"
#include "compiler/tune/Measuring.h"
#include "compiler/tune/Search.h"
#include "compiler/tune/TuneLog.h"
#include "compiler/tune/TunedInput.h"
#include "dialect/catalog/Gpus.h"
#include "runtime/support/Clock.h"
#include "runtime/support/Env.h"
#include "runtime/support/Files.h"
#include "runtime/support/Log.h"
#include "runtime/support/Progress.h"
#include "runtime/support/Sha256.h"
#include "runtime/support/StagedFolder.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>

using namespace moec;
using namespace moec::compiler;
using nlohmann::ordered_json;

namespace {

class Tuning {
public:
  Tuning(const TuneOptions &options, TunedInput input, TuneLog log,
         StagedFolder work, std::string program, std::string output)
      : options(options), input(std::move(input)), log(std::move(log)),
        work(std::move(work)), output(std::move(output)),
        measuring(options, std::move(program), this->work.path()) {}

  Result<ordered_json> run();

private:
  Result<void> tuneTokens(const TokenRange &range, Clock::time_point until);
  Result<void> tryAll(const TokenRange &range, std::vector<Trial> &trials,
                      std::string_view what, int rounds,
                      Clock::time_point until);
  Result<void> measure(const ordered_json &about, const std::string &folder,
                       int64_t tokens, int rounds, double worse,
                       ordered_json &line);
  void buildDefaults(const std::vector<TokenRange> &ranges,
                     Clock::time_point until);
  Result<void> makeBaseline(int64_t tokens);
  bool isDecided(const TokenRange &range, const Trial &trial,
                 std::string_view what) const;
  bool isQuarantined(const TokenRange &range, const Trial &trial) const;
  Result<std::vector<Trial>> search(const TokenRange &range,
                                    const DefaultChoice &choice,
                                    std::vector<Trial> &earlier,
                                    Clock::time_point until);
  Result<void> confirm(const TokenRange &range, std::vector<Trial> &all,
                       const std::vector<Trial> &earlier,
                       Clock::time_point until);
  Result<void> judgeEarlier(const TokenRange &range, const EarlierRows &earlier,
                            ordered_json &result);
  Result<void> confirmRange(TokenRange &range, const Trial &winner,
                            Clock::time_point until);
  ordered_json describe(const TokenRange &range, const Trial &trial,
                        std::string_view what) const;
  std::string folderOf(const std::string &name) const {
    return joinPath(work.path(), name);
  }
  std::string defaultFolder(int64_t tokens) const {
    return folderOf(fmt::format("default-{}", tokens));
  }

  const TuneOptions &options;
  TunedInput input;
  TuneLog log;
  StagedFolder work;
  std::string output; ///< file of rows
  Measuring measuring;
  int64_t baselineTokens = 0;
  std::vector<TunedRow> rows;
  ordered_json results = ordered_json::array();
  ordered_json quarantined = ordered_json::array();
  ordered_json unmeasured = ordered_json::array();
  int64_t measured = 0, reused = 0;
};

} // namespace

static bool isOver(Clock::time_point until) { return Clock::now() >= until; }

ordered_json Tuning::describe(const TokenRange &range, const Trial &trial,
                              std::string_view what) const {
  const Hardware &hardware = input.hardware();
  ordered_json about = {
      {"what", what},
      {"layer", input.name()},
      {"digest", input.digest()},
      {"gpu", hardware.gpu},
      {"arch", input.arch()},
      {"device", options.device},
      {"tokens", range.tokens},
      {"range", {range.first, range.last}},
      {"first",
       {{"problem", problemJson(trial.layer.first)},
        {"schedule", tunedScheduleJson(trial.candidate.first)}}},
      {"second",
       {{"problem", problemJson(trial.layer.second)},
        {"schedule", tunedScheduleJson(trial.candidate.second)}}},
      {"predicted_us", trial.candidate.predicted * 1e6},
      {"commit", input.commit()}};
  ordered_json named = about;
  named.erase("predicted_us");
  constexpr size_t kDigits = 20;
  ordered_json keyed = {{"key", sha256(named.dump()).substr(0, kDigits)}};
  keyed.update(about);
  keyed["date"] = TunedInput::today();
  return keyed;
}

/// Returns the entry of an unmeasured schedule for the report.
static ordered_json verdict(const ordered_json &line) {
  return {{"key", line["key"]},
          {"tokens", line.value("tokens", int64_t(0))},
          {"kind", line.value("kind", "")},
          {"first", line.value("first", ordered_json::object())
                        .value("schedule", ordered_json::object())},
          {"second", line.value("second", ordered_json::object())
                         .value("schedule", ordered_json::object())},
          {"text", line.value("text", "")}};
}

/// Measures a package. If the outcome concerns the package, it is added to the
/// log as a line.
Result<void> Tuning::measure(const ordered_json &about,
                             const std::string &folder, int64_t tokens,
                             int rounds, double worse, ordered_json &line) {
  const JobOutcome done = TRY(measuring.measure(folder, tokens, rounds, worse));
  line = about;
  line["ok"] = done.ok;
  line.update(*done.answer);
  if (done.transient) {
    unmeasured.push_back(verdict(line));
    return {};
  }
  if (done.ok)
    ++measured;
  else
    quarantined.push_back(verdict(line));
  return log.add(line);
}

/// Builds the default packages of all token counts concurrently, because the
/// packages for different token counts share few kernels. A package that is
/// missing afterwards is built when it is needed.
void Tuning::buildDefaults(const std::vector<TokenRange> &ranges,
                           Clock::time_point until) {
  BuildAhead builds(ranges.size(), [&](size_t i) {
    return input.build(ranges[i].tokens, {}, defaultFolder(ranges[i].tokens));
  });
  for (size_t i = 0; i < ranges.size() && builds.await(i, until); ++i)
    ;
}

Result<void> Tuning::makeBaseline(int64_t tokens) {
  if (baselineTokens == tokens)
    return {};
  const std::string folder = defaultFolder(tokens);
  if (!fileExists(folder))
    TRY(input.build(tokens, {}, folder));
  measuring.setBaseline(folder);
  baselineTokens = tokens;
  return {};
}

/// Measures the trials that are not in the log, best first, until the time
/// budget is used up.
Result<void> Tuning::tryAll(const TokenRange &range, std::vector<Trial> &trials,
                            std::string_view what, int rounds,
                            Clock::time_point until) {
  std::vector<Trial *> open;
  std::vector<ordered_json> about;
  for (Trial &trial : trials) {
    ordered_json its = describe(range, trial, what);
    if (const ordered_json *known = log.find(its["key"].get<std::string>())) {
      ++reused;
      if (known->value("ok", false))
        takeLine(*known, trial);
      else
        quarantined.push_back(verdict(*known));
      continue;
    }
    open.push_back(&trial);
    about.push_back(std::move(its));
  }
  if (open.empty() || isOver(until))
    return {};
  const auto folder = [&](size_t i) {
    return folderOf(about[i]["key"].get<std::string>());
  };
  // If the first round of a schedule is slower by this ratio, its measurement
  // ends. An exhaustive search measures all rounds of all schedules, so that a
  // cost model can be fitted.
  const double worse = options.exhaustive ? 0 : 1.25;
  Progress progress(
      fmt::format("schedules for {} tokens measured", range.tokens),
      int64_t(open.size()));
  const auto build = [&](size_t i) {
    return input.build(range.tokens,
                       input.rowsFor(range, open[i]->layer, open[i]->candidate),
                       folder(i));
  };
  BuildAhead builds(open.size(), [&](size_t i) {
    Result<void> built = build(i);
    return built || !isTransient(built.error()) ? built : build(i);
  });
  for (size_t i = 0; i < open.size(); ++i) {
    if (!builds.await(i, until) || isOver(until))
      return {};
    ordered_json line = about[i];
    if (Result<void> built = builds.result(i); !built) {
      // A full disk affects all packages.
      if (built.error().code == ErrorCode::FileSystem)
        return built;
      line["ok"] = false, line["kind"] = "refused";
      line["text"] = built.error().message;
      if (isTransient(built.error())) {
        unmeasured.push_back(verdict(line));
      } else {
        TRY(log.add(line));
        quarantined.push_back(verdict(line));
      }
    } else {
      TRY(measure(about[i], folder(i), range.tokens, rounds, worse, line));
      if (line.value("ok", false))
        takeLine(line, *open[i]);
    }
    TRY(removeAll(folder(i)));
    TRY(removeAll(folder(i) + ".json"));
    progress.advance();
  }
  return {};
}

/// Returns true if the log has a result for the schedule.
bool Tuning::isDecided(const TokenRange &range, const Trial &trial,
                       std::string_view what) const {
  const ordered_json about = describe(range, trial, what);
  return log.find(about["key"].get<std::string>()) != nullptr;
}

bool Tuning::isQuarantined(const TokenRange &range, const Trial &trial) const {
  const ordered_json about = describe(range, trial, "schedule");
  const auto *line = log.find(about["key"].get<std::string>());
  return line && !line->value("ok", false);
}

/// Measures the winner at the ends of the range too. If it is slower there than
/// the compiler's choice, or no time is left, the range ends at `tokens` on
/// that side.
Result<void> Tuning::confirmRange(TokenRange &range, const Trial &winner,
                                  Clock::time_point until) {
  const TokenRange whole = range;
  for (int64_t end : {whole.first, whole.last}) {
    if (end == whole.tokens)
      continue;
    bool holds = false;
    TokenRange at = whole;
    at.tokens = end;
    const ordered_json about = describe(at, winner, "end");
    ordered_json line = ordered_json::object();
    if (const auto *known = log.find(about["key"].get<std::string>())) {
      line = *known;
      ++reused;
    } else if (!isOver(until)) {
      const std::string folder = folderOf(about["key"].get<std::string>());
      const Result<void> done = [&]() -> Result<void> {
        TRY(makeBaseline(end));
        TRY(input.build(
            end, input.rowsFor(whole, winner.layer, winner.candidate), folder));
        return measure(about, folder, end, 5, 0, line);
      }();
      TRY(removeAll(folder));
      // After any other error, the range ends at the measured token count on
      // this side.
      if (!done && done.error().code == ErrorCode::FileSystem)
        return done;
    }
    if (line.value("ok", false)) {
      Trial there;
      takeLine(line, there);
      holds = there.ratio <= 1 + there.noise;
    }
    if (!holds)
      (end < whole.tokens ? range.first : range.last) = whole.tokens;
  }
  return {};
}

/// Measures the fastest schedule again with more rounds, because the smallest
/// of many noisy measurements is partly chance. If the schedule is no longer
/// faster than the compiler's choice, continues with the next fastest one,
/// until a schedule is confirmed or none is left. If none is left, measures the
/// earlier rows in the same way.
Result<void> Tuning::confirm(const TokenRange &range, std::vector<Trial> &all,
                             const std::vector<Trial> &earlier,
                             Clock::time_point until) {
  constexpr int kFinalRounds = 9;
  const auto again = [&](Trial &trial) -> Result<void> {
    std::vector<Trial> once = {{trial.layer, trial.candidate}};
    TRY(tryAll(range, once, "final", kFinalRounds, until));
    trial.confirmed = isDecided(range, trial, "final");
    if (trial.confirmed)
      trial.ratio = 0;
    if (once.front().ratio > 0) {
      trial.ratio = once.front().ratio, trial.noise = once.front().noise;
      trial.microseconds = once.front().microseconds;
    }
    return {};
  };
  const Trial *best = fastest(all);
  while (best && !best->confirmed) {
    Trial &trial = all[size_t(best - all.data())];
    TRY(again(trial));
    if (!trial.confirmed)
      return {};
    best = fastest(all, options.minGain);
  }
  for (Trial &trial : all)
    if (!best && trial.ratio > 0 && !trial.confirmed &&
        std::ranges::any_of(earlier, [&](const Trial &other) {
          return other.candidate == trial.candidate;
        }))
      TRY(again(trial));
  return {};
}

/// Removes earlier rows that are not faster than the compiler's choice.
Result<void> Tuning::judgeEarlier(const TokenRange &range,
                                  const EarlierRows &earlier,
                                  ordered_json &result) {
  if (earlier.anyScheme > 0)
    result["any_scheme"] = earlier.anyScheme;
  if (earlier.rows.empty())
    return {};
  const bool decided =
      std::ranges::all_of(earlier.trials, [&](const Trial &trial) {
        return isDecided(range, trial, "final") || isQuarantined(range, trial);
      });
  result[decided ? "removed" : "kept"] = int64_t(earlier.rows.size());
  return decided ? takeFromTuned(output, earlier.rows, range.first, range.last)
                 : Result<void>();
}

Result<std::vector<Trial>> Tuning::search(const TokenRange &range,
                                          const DefaultChoice &choice,
                                          std::vector<Trial> &earlier,
                                          Clock::time_point until) {
  constexpr int kRounds = 5;
  const auto tryThem = [&](std::vector<Trial> &trials) {
    return tryAll(range, trials, "schedule", kRounds, until);
  };
  TRY(tryThem(earlier));
  std::vector<Trial> all = TRY(centersOf(input, range, choice));
  TRY(tryThem(all));
  std::vector<Trial> beside =
      besideOf(all, options, input.hardware(), range.tokens);
  TRY(tryThem(beside));
  all.insert(all.end(), beside.begin(), beside.end());
  std::vector<Trial> together = togetherOf(all, input.hardware(), range.tokens);
  TRY(tryThem(together));
  all.insert(all.end(), together.begin(), together.end());
  for (const Trial &trial : earlier)
    if (std::ranges::none_of(all, [&](const Trial &other) {
          return other.candidate == trial.candidate;
        }))
      all.push_back(trial);
  return all;
}

Result<void> Tuning::tuneTokens(const TokenRange &range,
                                Clock::time_point until) {
  const DefaultChoice choice = TRY(input.defaultFor(range.tokens));
  TRY(makeBaseline(range.tokens));
  EarlierRows earlier = TRY(earlierRows(output, input, range));
  // A quarter of the time is left to confirm the winner.
  const auto now = Clock::now();
  std::vector<Trial> all =
      TRY(search(range, choice, earlier.trials,
                 now + (std::max(until, now) - now) * 3 / 4));
  TRY(confirm(range, all, earlier.trials, until));
  ordered_json result = {
      {"tokens", range.tokens},
      {"default_variant", choice.variant},
      {"schedules",
       std::ranges::count_if(
           all, [](const Trial &trial) { return trial.ratio > 0; })},
      {"of", int64_t(all.size())}};
  // Each row splits a variant and thereby makes the package larger, so smaller
  // gains yield no rows.
  const Trial *winner = fastest(all, options.minGain);
  // An unconfirmed schedule must not replace earlier rows that may be faster.
  if (winner && !winner->confirmed && !earlier.rows.empty())
    winner = nullptr;
  const Trial *best = winner ? winner : fastest(all);
  if (!best) {
    result["chosen"] = "none measured";
    results.push_back(std::move(result));
    return {};
  }
  result["default_us"] = best->microseconds / best->ratio;
  result["us"] = best->microseconds;
  result["noise"] = best->noise;
  result["best"] = words(best->candidate);
  result["tile_rows"] = best->layer.first.tileRows;
  result["chosen"] = winner ? "measured" : "default";
  if (winner) {
    TokenRange served = range;
    TRY(confirmRange(served, *winner, until));
    result["range"] = {served.first, served.last};
    for (TunedRow row :
         input.rowsFor(served, winner->layer, winner->candidate)) {
      row.microseconds = winner->microseconds;
      row.noise = winner->noise;
      rows.push_back(std::move(row));
    }
  } else {
    TRY(judgeEarlier(range, earlier, result));
  }
  results.push_back(std::move(result));
  return {};
}

Result<ordered_json> Tuning::run() {
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration_cast<Clock::duration>(
                               std::chrono::duration<double>(options.budget));
  const std::vector<TokenRange> ranges =
      rangesAround(options.tokens, input.maxTokens(), kFusedRouting);
  TRY(measuring.start());
  if (options.device == "cuda") {
    const catalog::Gpu *gpu = catalog::findGpuByDevice(measuring.device());
    const std::string here = gpu ? std::string(gpu->name) : "";
    if (here != input.hardware().gpu)
      return refused("schedules for GPU '{}' are measured on it, and here is "
                     "'{}'; expected --gpu and --arch of this one",
                     input.hardware().gpu, measuring.device());
  }
  buildDefaults(ranges, end);
  std::optional<Error> failure;
  int64_t failed = 0;
  size_t left = ranges.size();
  for (const TokenRange &range : ranges) {
    const auto now = Clock::now();
    // Each token count gets an equal share of the remaining time. Time that
    // one token count does not use is left for later token counts.
    const auto share = (end - std::min(now, end)) / int64_t(left--);
    const size_t known = rows.size();
    if (now >= end && !fileExists(defaultFolder(range.tokens))) {
      results.push_back(
          {{"tokens", range.tokens}, {"chosen", "none measured"}});
      continue;
    }
    if (const Result<void> done = tuneTokens(range, now + share); !done) {
      // A full disk affects all packages.
      if (done.error().code == ErrorCode::FileSystem)
        return done.error();
      rows.resize(known);
      results.push_back({{"tokens", range.tokens},
                         {"chosen", "failed"},
                         {"text", done.error().message}});
      if (failed++ == 0)
        failure = done.error();
    }
    // If the process ends now, the rows of these tokens are already stored.
    if (rows.size() > known)
      TRY(addToTuned(output, std::span(rows).subspan(known)));
  }
  if (failed == int64_t(ranges.size()))
    return *std::move(failure);
  const double seconds =
      std::chrono::duration<double>(Clock::now() - begin).count();
  return ordered_json{{"layer", input.name()},
                      {"gpu", input.hardware().gpu},
                      {"arch", input.arch()},
                      {"device", measuring.device()},
                      {"seconds", seconds},
                      {"measured", measured},
                      {"known", reused},
                      {"results", results},
                      {"quarantined", quarantined},
                      {"not_measured", unmeasured},
                      {"failed", failed},
                      {"rows", int64_t(rows.size())},
                      {"output", rows.empty() ? "" : output},
                      {"log", log.path()}};
}

Result<ordered_json> compiler::tune(const TuneOptions &options) {
  // The host device runs no cubins.
  CompileOptions compile = options.compile;
  compile.cubins = options.device == "cuda";
  TunedInput input =
      TRY(TunedInput::open(options.source, options.import, compile));
  if (options.tokens.empty())
    return refused("expected token counts to measure with (tokens), got none");
  if (options.device != "cuda" && options.device != "host")
    return refused("expected device cuda or host, got '{}'", options.device);
  if (options.device == "host" &&
      (options.output.empty() || options.log.empty()))
    return refused("times of the host device say nothing of a GPU, so that "
                   "none is stored for later compilations; expected --out and "
                   "--log with --device=host");
  const Choices &choices = input.choices();
  if (options.output.empty() &&
      !(choices.backend.empty() && choices.engine.empty() &&
        choices.exclude.empty()))
    return refused("rows measured with a forced or excluded backend or engine "
                   "would also be used by compilations without these options; "
                   "expected --out with --backend, --engine and --exclude");
  for (int64_t tokens : options.tokens)
    if (tokens > input.maxTokens())
      return refused("expected --tokens up to --max-tokens {}, got {}",
                     input.maxTokens(), tokens);
  const auto [output, path] = TRY(filesOf(options, input));
  Result<TuneLog> opened = TuneLog::open(path);
  if (!opened)
    return Error(opened.error().code,
                 "{}; the log of measurements needs a path that can be written "
                 "(--log)",
                 opened.error().message);
  TuneLog log = *std::move(opened);
  if (log.damagedLines() > 0)
    moec::log(LogLevel::Warning,
              "'{}': {} lines are no measurements, and are passed over", path,
              log.damagedLines());
  StagedFolder work = TRY(StagedFolder::create(path + ".work"));
  std::string program = TRY(findMeasure());
  Tuning tuning(options, std::move(input), std::move(log), std::move(work),
                std::move(program), output);
  return tuning.run();
}
