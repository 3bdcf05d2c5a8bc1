//===- Runner.cpp - runs packages on one device ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/moec-run/Runner.h"

#include "runtime/support/Clock.h"
#include "runtime/support/CommandLine.h"
#include "runtime/support/Interrupt.h"
#include "tools/moec-run/RunCase.h"

#include <fmt/core.h>

#include <cstdio>

using namespace moec;
using namespace moec::run;

int moec::run::refuse(const Options &options, const Error &error,
                      RunReport &report, int status) {
  report.driverFailed = error.code == ErrorCode::DriverFailed;
  report.error =
      fmt::format("{} [{}]", error.message, errorCodeName(error.code));
  fmt::print(stderr, "{}: {}\n", options.program, report.error);
  return report.status = status;
}

/// Checks that a forced variant exists and supports the token counts. A
/// violation is a usage error, whose message comes from the package.
static Result<void> checkVariant(const Options &options,
                                 const LoadedLayer &layer) {
  if (options.variant.empty())
    return {};
  for (int64_t tokens : options.tokens)
    if (tokens > 0)
      TRY(layer.package().variantFor(tokens, options.variant));
  return {};
}

/// Returns true if the package loaded for options `a` can run with options `b`.
static bool shareLoad(const Options &a, const Options &b) {
  return a.package == b.package && a.device == b.device && a.arch == b.arch &&
         a.rank == b.rank && a.strict == b.strict && a.poison == b.poison &&
         a.seed == b.seed && a.weights == b.weights && a.layer == b.layer &&
         a.quantize == b.quantize && a.noSharedExperts == b.noSharedExperts &&
         a.ignoredTensors == b.ignoredTensors && a.inputFiles == b.inputFiles;
}

void Runner::drop() {
  layer.reset();
  weights = {};
  given = {};
  weightsSet = false;
  if (reserved > 0)
    hooks.releaseWeights(reserved);
  reserved = 0;
}

/// Loads the layer's weights from the checkpoint of --weights.
Result<void> Runner::loadCheckpoint(const Options &options) {
  auto checkpoint = TRY(weights::Checkpoint::open(options.weights));
  auto loader = TRY(
      weights::WeightLoader::create(checkpoint, layer->package().manifest(),
                                    {.layer = options.layer,
                                     .quantize = options.quantize,
                                     .noSharedExperts = options.noSharedExperts,
                                     .needsSharedExperts = true,
                                     .ignored = options.ignoredTensors}));
  weights = TRY(HostWeights::load(layer->package(), loader));
  checkpointLayer = loader.layer();
  digests.clear();
  if (options.json)
    digests = weights.digests();
  return {};
}

Result<void> Runner::load(const Options &options, RunReport &report) {
  if (!layer || !shareLoad(options, loadedFor)) {
    drop();
    layer = TRY(LoadedLayer::open(*device, options, options.package));
    loadedFor = options;
  }
  const runtime::Package &package = layer->package();
  report.name = package.manifest().name;
  report.device = package.deviceName();
  report.arch = package.target().arch;
  report.loads.push_back(package.report());
  report.loadArchs.push_back(report.arch);
  report.driverOpen = package.report().driverOpen;
  report.cuInit = package.report().cuInit;
  return {};
}

Result<void> Runner::makeWeights(const Options &options) {
  HostWork work(hooks);
  reserved = HostWeights::bytesOf(layer->layer());
  hooks.reserveWeights(reserved);
  auto start = Clock::now();
  if (options.weights.empty())
    weights = HostWeights::make(layer->layer(), options.seed);
  else
    TRY(loadCheckpoint(options));
  given = TRY(GivenTensors::read(options, *layer));
  TRY(given.replaceWeights(*layer, weights));
  weightsTime = millisecondsSince(start);
  return {};
}

Result<void> Runner::runCases(const Options &options, RunReport &report) {
  const bool fresh = !weightsSet;
  if (fresh) {
    TRY(makeWeights(options));
    TRY(layer->setWeights(weights));
    weightsSet = true;
  }
  report.weights = weightsTime;
  report.pack = layer->packMilliseconds();
  if (!options.weights.empty()) {
    report.checkpoint = options.weights;
    report.checkpointLayer = checkpointLayer;
    report.digests = digests;
  }
  TRY(hooks.prepare(weights, *layer, fresh, report));
  RunSetup setup{hooks, options, weights, given, *layer};
  auto counts =
      TRY(options.tokensGiven ? Result<std::vector<int64_t>>(options.tokens)
                              : given.tokensOf(*layer, options.tokens));
  for (int64_t tokens : counts)
    for (const std::string &pattern : options.routing) {
      auto result = runCase(setup, tokens, pattern);
      if (!result)
        return Error(result.error().code, "{} tokens: {}", tokens,
                     result.error().message);
      if (!result->passed)
        fmt::print(stderr, "{}: {} tokens, routing {}, variant {}: {}\n",
                   options.program, tokens, result->routing, result->variant,
                   result->text);
      report.cases.push_back(std::move(*result));
      // Patterns apply only to logits, not to given ids.
      if (options.inputs.routeBy != RoutingInput::Logits)
        break;
    }
  return {};
}

int Runner::run(const Options &options, RunReport &report) {
  report.package = options.package;
  if (!device) {
    auto opened = tools::Device::open(options.device, options.arch);
    if (!opened)
      return refuse(options, opened.error(), report);
    device.emplace(std::move(*opened));
  }
  report.context = device->contextMilliseconds();
  if (auto ok = load(options, report); !ok)
    return refuse(options, ok.error(), report);
  if (auto ok = checkVariant(options, *layer); !ok)
    return refuse(options, ok.error(), report, kUsageStatus);
  if (auto ok = checkNames(options, *layer); !ok)
    return refuse(options, ok.error(), report, kUsageStatus);
  if (auto ok = hooks.checkUsage(*layer); !ok)
    return refuse(options, ok.error(), report, kUsageStatus);
  auto done = runCases(options, report);
  hooks.finish();
  if (!done) {
    // Waits for work in flight, so that it cannot cause an error in the next
    // run.
    auto ended = device->synchronizeAll();
    drop();
    return refuse(options,
                  done.error().code == ErrorCode::DriverFailed || ended
                      ? done.error()
                      : ended.error(),
                  report);
  }
  return report.status = report.passed() ? 0 : 1;
}

/// Compiles the kernels of one share into the cache. A share is the part of a
/// layer that one set of ranks computes; all ranks of the set run the same
/// kernels.
static Result<void> prebuildShare(const PackageFiles &files,
                                  const Options &options, RunReport &report) {
  std::vector<std::string> archs;
  for (const Target &target : files.manifest.targets)
    if (options.arch.empty() || target.arch == options.arch)
      archs.push_back(target.arch);
  if (archs.empty())
    archs.push_back(options.arch); // load() reports the available archs
  for (const std::string &arch : archs) {
    runtime::LoadOptions load;
    load.prebuild = true;
    load.rank = options.rank.value_or(files.manifest.ranks.front().rank);
    load.arch = arch;
    load.jobs = options.jobs;
    load.strict = options.strict;
    const auto package = TRY(runtime::Package::load(files, load));
    report.arch += (report.arch.empty() ? "" : ",") + arch;
    report.loads.push_back(package->report());
    report.loadArchs.push_back(arch);
  }
  return {};
}

/// Compiles the kernels of options.rank, or of all ranks.
static Result<void> prebuildShares(const Options &options, RunReport &report) {
  const SignalsInterrupt signals;
  Shares shares;
  if (options.rank)
    shares.push_back(TRY(readShare(options.package, options.rank)));
  else
    shares = TRY(readShares(options.package));
  report.name = shares.front().manifest.name;
  report.device = "none (prebuild)";
  for (const PackageFiles &files : shares)
    TRY(prebuildShare(files, options, report));
  return {};
}

int moec::run::prebuild(const Options &options, RunReport &report) {
  const Result<void> done = prebuildShares(options, report);
  return done ? 0 : refuse(options, done.error(), report);
}
