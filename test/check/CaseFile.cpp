//===- CaseFile.cpp - many runs in one process ----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Workers take the lines in the file's order. Those of one package in a row are
// one worker's, which has the package loaded and its weights packed.
//
//===----------------------------------------------------------------------===//

#include "test/check/CheckOptions.h"

#include "runtime/support/Clock.h"
#include "runtime/support/CommandLine.h"
#include "runtime/support/Files.h"
#include "runtime/support/Guard.h"
#include "test/check/CheckHooks.h"
#include "tools/moec-run/Runner.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <sstream>
#include <thread>

using namespace moec;
using namespace moec::check;
using namespace moec::run;

namespace {
struct Line {
  int64_t number = 0; ///< in the file, from 1
  CheckOptions options;
};

/// Lines of one package.
using Job = std::vector<Line>;

/// One worker's, seen by the one who watches.
struct Worker {
  explicit Worker(std::mutex *device) : turn(device) {}
  DeviceTurn turn;
  std::atomic<const Line *> line = nullptr;
};

class CaseFile {
public:
  CaseFile(const CheckOptions &common, std::vector<Job> jobs)
      : common(common), jobs(std::move(jobs)),
        budget(static_cast<int64_t>(common.weightsAtOnce * kGiB)) {}
  int run();

private:
  static constexpr double kGiB = 1 << 30;
  void work(Worker &worker);
  void watch();
  /// Prints a line's report; one that ends the process does so here.
  void tell(const RunReport &report);

  const CheckOptions &common;
  const std::vector<Job> jobs;
  std::atomic<size_t> nextJob = 0;
  std::mutex device;
  WeightBudget budget;
  std::deque<Worker> workers;
  std::mutex output;
  int status = 0; ///< under `output`
  std::mutex watching;
  std::condition_variable ended;
  bool allEnded = false; ///< under `watching`
};
} // namespace

void CaseFile::tell(const RunReport &report) {
  std::lock_guard<std::mutex> lock(output);
  status = std::max(status, report.status);
  printJson(report, -1);
  std::fflush(stdout);
  // Without destructors: other workers are in the middle of something.
  if (report.driverFailed || report.hung)
    std::_Exit(status);
}

void CaseFile::work(Worker &worker) {
  DeviceTurn &turn = worker.turn;
  turn.take();
  {
    CheckHooks hooks(turn, &budget);
    Runner runner(hooks);
    for (size_t job; (job = nextJob++) < jobs.size(); runner.drop())
      for (const Line &line : jobs[job]) {
        turn.pass();
        worker.line = &line;
        auto start = Clock::now();
        const double before = turn.secondsOfAll();
        RunReport report;
        report.line = line.number;
        // A thread ends the process by what leaves it.
        hooks.begin(line.options);
        if (guarded("moec-check", [&] {
              runner.run(line.options, report);
              return 0;
            }) != 0) {
          report.status = 1;
          report.error = "ended by an exception, see standard error";
          hooks.finish();
        }
        constexpr double kMilliseconds = 1e3;
        report.wall = millisecondsSince(start);
        report.onDevice =
            (turn.secondsOfAll() + turn.seconds() - before) * kMilliseconds;
        tell(report);
        worker.line = nullptr;
      }
  }
  turn.give();
}

/// Ends the process where a line keeps the device: its kernel does not end.
void CaseFile::watch() {
  // A line that keeps it for two limits is seen.
  constexpr double kLongest = 0.05; // seconds
  const std::chrono::duration<double> interval(
      std::min(kLongest, common.deviceLimit));
  std::unique_lock<std::mutex> lock(watching);
  while (!ended.wait_for(lock, interval, [&] { return allEnded; }))
    for (const Worker &worker : workers) {
      const Line *line = worker.line;
      if (!line || worker.turn.seconds() < common.deviceLimit)
        continue;
      RunReport report;
      report.line = line->number;
      report.package = line->options.package;
      report.hung = true;
      report.error =
          fmt::format("no end after {} s on the device", common.deviceLimit);
      report.status = 1;
      fmt::print(stderr, "moec-check: line {}: {}\n", report.line,
                 report.error);
      tell(report);
    }
}

int CaseFile::run() {
  const size_t count =
      std::min(static_cast<size_t>(common.atOnce), jobs.size());
  // On the host device lines are in nobody's way.
  const bool shared = common.device == runtime::DeviceKind::Cuda;
  for (size_t i = 0; i < count; ++i)
    workers.emplace_back(shared ? &device : nullptr);
  std::thread watcher;
  if (common.deviceLimit > 0)
    watcher = std::thread([this] { watch(); });
  std::vector<std::thread> threads;
  for (Worker &worker : workers)
    threads.emplace_back([this, &worker] { work(worker); });
  for (std::thread &thread : threads)
    thread.join();
  if (watcher.joinable()) {
    {
      std::lock_guard<std::mutex> lock(watching);
      allEnded = true;
    }
    ended.notify_all();
    watcher.join();
  }
  return status;
}

int moec::check::runCaseFile(int argc, char **argv,
                             const CheckOptions &common) {
  Result<std::string> cases = readFile(common.cases);
  if (!cases) {
    fmt::print(stderr, "moec-check: --cases: {}\n", cases.error().message);
    return kUsageStatus;
  }
  std::istringstream file(*cases);
  // All are read before the first runs: what is wrong in one is said at once.
  std::vector<Job> jobs;
  int64_t number = 0;
  for (std::string text; std::getline(file, text);) {
    std::istringstream stream(text);
    std::vector<std::string> words(argv, argv + argc);
    for (std::string word; stream >> word;)
      words.push_back(word);
    std::vector<char *> arguments;
    for (std::string &word : words)
      arguments.push_back(word.data());
    Line line{++number, {}};
    int ignored = 0;
    bool parsed = check::parseOptions(static_cast<int>(arguments.size()),
                                      arguments.data(), line.options, ignored);
    if (parsed && line.options.package.empty()) {
      fmt::print(stderr, "moec-check: expected the folder of a package\n");
      parsed = false;
    }
    if (!parsed) {
      fmt::print(stderr, "moec-check: --cases: line {} of '{}'\n", number,
                 common.cases);
      return kUsageStatus;
    }
    if (jobs.empty() ||
        jobs.back().back().options.package != line.options.package)
      jobs.emplace_back();
    jobs.back().push_back(std::move(line));
  }
  return CaseFile(common, std::move(jobs)).run();
}
