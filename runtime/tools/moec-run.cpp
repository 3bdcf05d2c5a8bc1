//===- moec-run.cpp - runs, checks, times and prebuilds packages ----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The driver: options, one machine, one session, the cases, the report; with
// --cases one session after the other. The parts lie in tools/run/. Exit
// status: 0, 1 (refused or a check failed, with the reason on stderr), 2
// (usage); of several runs the greatest.
//
//===----------------------------------------------------------------------===//

#include "runtime/tools/run/Judge.h"
#include "runtime/tools/run/Report.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>

using namespace moec;
using namespace moec::run;

static constexpr int kUsage = 2;

static int refuse(const Error &error, RunReport &report, int status = 1) {
  report.driverFailed = error.code == ErrorCode::DriverFailed;
  report.error =
      fmt::format("{} [{}]", error.message, errorCodeName(error.code));
  fmt::print(stderr, "moec-run: {}\n", report.error);
  return report.status = status;
}

/// Compiles into the cache: the target asked for, or all of them.
static int prebuild(const Options &options, RunReport &report) {
  auto files = readPackage(options.package);
  if (!files)
    return refuse(files.error(), report);
  report.name = files->manifest.name;
  report.device = "none (prebuild)";
  std::vector<std::string> archs;
  for (const Target &target : files->manifest.targets)
    if (options.arch.empty() || target.arch == options.arch)
      archs.push_back(target.arch);
  if (archs.empty())
    archs.push_back(options.arch); // load() says what there is
  for (const std::string &arch : archs) {
    runtime::LoadOptions load;
    load.prebuild = true;
    load.arch = arch;
    load.jobs = options.jobs;
    load.strict = options.strict;
    auto package = runtime::Package::load(*files, load);
    if (!package)
      return refuse(package.error(), report);
    report.arch += (report.arch.empty() ? "" : ",") + arch;
    report.loads.push_back((*package)->report());
    report.loadArchs.push_back(arch);
  }
  return 0;
}

/// What the runs of one process share.
struct Shared {
  std::unique_ptr<Machine> machine;
  std::optional<uint64_t> seed; ///< of the weights, if they are random
  HostWeights weights;
};

/// The layer's weights out of the checkpoint that --weights names.
static Result<void> loadCheckpoint(const Options &options, Shared &shared,
                                   const Session &session, RunReport &report) {
  auto checkpoint = weights::Checkpoint::open(options.weights);
  if (!checkpoint)
    return checkpoint.takeError();
  auto loader = weights::WeightLoader::create(
      *checkpoint, session.package().manifest().layer, options.layer,
      options.quantize);
  if (!loader)
    return loader.takeError();
  auto loaded = HostWeights::load(session.package(), *loader);
  if (!loaded)
    return loaded.takeError();
  shared.weights = std::move(*loaded);
  report.checkpoint = options.weights;
  report.checkpointLayer = loader->layer();
  if (options.json)
    report.digests = shared.weights.digests();
  return {};
}

static Result<void> runCases(const Options &options, Shared &shared,
                             Session &session, RunReport &report) {
  auto start = std::chrono::steady_clock::now();
  if (!options.weights.empty()) {
    shared.seed.reset();
    if (auto ok = loadCheckpoint(options, shared, session, report); !ok)
      return ok;
  } else if (shared.seed != options.seed) {
    shared.weights = HostWeights::make(session.layer(), options.seed);
    shared.seed = options.seed;
  }
  const HostWeights &weights = shared.weights;
  report.weights = std::chrono::duration<double, std::milli>(
                       std::chrono::steady_clock::now() - start)
                       .count();
  if (auto ok = session.setWeights(weights); !ok)
    return ok;
  report.pack = session.packMilliseconds();
  std::unique_ptr<Session> against;
  if (!options.against.empty()) {
    Options other = options;
    other.arch.clear();
    auto opened = Session::open(*shared.machine, other, options.against);
    if (!opened)
      return opened.takeError();
    against = std::move(*opened);
    if (auto ok = against->setWeights(weights); !ok)
      return ok;
  }
  Bench bench{*shared.machine, options, weights, session, against.get()};
  for (int64_t tokens : options.tokens)
    for (const std::string &pattern : options.routing) {
      auto result = runCase(bench, tokens, pattern);
      if (!result)
        return Error{result.error().code, fmt::format("{} tokens: {}", tokens,
                                                      result.error().message)};
      if (!result->passed)
        fmt::print(stderr, "moec-run: {} tokens, routing {}, variant {}: {}\n",
                   tokens, result->routing, result->variant, result->text);
      report.cases.push_back(std::move(*result));
      // Given ids know no patterns.
      if (options.inputs != RoutingInput::Logits)
        break;
    }
  return {};
}

/// A forced variant that does not exist, or not for these tokens, is wrong
/// usage; the package says which.
static Result<void> checkVariant(const Options &options,
                                 const Session &session) {
  if (options.variant.empty())
    return {};
  for (int64_t tokens : options.tokens)
    if (tokens > 0)
      if (auto variant = session.package().variantFor(tokens, options.variant);
          !variant)
        return variant.takeError();
  return {};
}

/// Rows that come by expert have no tokens to route.
static Result<void> checkInputs(const Options &options,
                                const Session &session) {
  if (!session.layer().batched ||
      (options.inputs == RoutingInput::Logits && options.validTokens < 0))
    return {};
  return Error{ErrorCode::InvalidArgument,
               fmt::format("--inputs and --valid-tokens: expected neither, "
                           "since rows of layer '{}' come by expert; --routing "
                           "says how many",
                           session.layer().name)};
}

static int runPackage(const Options &options, Shared &shared,
                      RunReport &report) {
  if (!shared.machine) {
    auto machine = Machine::create(options.device);
    if (!machine)
      return refuse(machine.error(), report);
    shared.machine = std::move(*machine);
  }
  report.context = shared.machine->contextMilliseconds();
  auto session = Session::open(*shared.machine, options, options.package);
  if (!session)
    return refuse(session.error(), report);
  const runtime::Package &package = (*session)->package();
  report.name = package.manifest().name;
  report.device = package.deviceName();
  report.arch = package.target().arch;
  report.loads.push_back(package.report());
  report.loadArchs.push_back(report.arch);
  report.driverOpen = package.report().driverOpen;
  report.cuInit = package.report().cuInit;
  for (auto check : {checkVariant, checkInputs})
    if (auto ok = check(options, **session); !ok)
      return refuse(ok.error(), report, kUsage);
  if (auto ok = runCases(options, shared, **session, report); !ok)
    return refuse(ok.error(), report);
  return report.status = report.passed() ? 0 : 1;
}

/// A run for each line of the file, with the line's options behind those of the
/// command line. A driver's error ends them: what the context still holds is
/// unknown.
static int runLines(int argc, char **argv, const Options &common) {
  std::ifstream file(common.cases);
  if (!file) {
    fmt::print(stderr, "moec-run: --cases: cannot read '{}'\n", common.cases);
    return kUsage;
  }
  Shared shared;
  int status = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream stream(line);
    std::vector<std::string> words(argv, argv + argc);
    for (std::string word; stream >> word;)
      words.push_back(word);
    std::vector<char *> arguments;
    for (std::string &word : words)
      arguments.push_back(word.data());
    RunReport report;
    Options options;
    if (!parseOptions(static_cast<int>(arguments.size()), arguments.data(),
                      options, report.status))
      return kUsage;
    report.package = options.package;
    status = std::max(status, runPackage(options, shared, report));
    printJson(report, -1);
    std::fflush(stdout);
    if (report.driverFailed)
      break;
  }
  return status;
}

int main(int argc, char **argv) {
  RunReport report;
  report.processStart = millisecondsSinceExec();
  Options options;
  int status = 0;
  if (!parseOptions(argc, argv, options, status))
    return status;
  if (!options.cases.empty())
    return runLines(argc, argv, options);
  report.package = options.package;
  Shared shared;
  status = options.prebuild ? prebuild(options, report)
                            : runPackage(options, shared, report);
  if (!report.error.empty())
    return status;
  if (options.json)
    printJson(report);
  else
    printTable(report, options);
  return status;
}
