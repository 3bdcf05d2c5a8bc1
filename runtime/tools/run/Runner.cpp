//===- Runner.cpp - one package after the other on one machine ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Package, weights, cases, in this order.
//
//===----------------------------------------------------------------------===//

#include "runtime/tools/run/Runner.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

using namespace moec;
using namespace moec::run;

static constexpr int kUsage = 2;

int moec::run::refuse(const Error &error, RunReport &report, int status) {
  report.driverFailed = error.code == ErrorCode::DriverFailed;
  report.error =
      fmt::format("{} [{}]", error.message, errorCodeName(error.code));
  fmt::print(stderr, "moec-run: {}\n", report.error);
  return report.status = status;
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

/// What is not given to a run has no type that could be chosen.
static Result<void> checkTypes(const Options &options, const Session &session) {
  const reference::Layer &layer = session.layer();
  const bool given =
      options.inputs != RoutingInput::Logits || layer.select == "given";
  auto refuse = [&](const char *option, const char *what) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("{}: expected none, since a run of layer '{}' is "
                             "given no {}",
                             option, layer.name, what)};
  };
  if (!options.logitsType.empty() &&
      (layer.batched || (given && !layer.sharedGate)))
    return refuse("--logits-dtype", "logits");
  if (!options.weightsType.empty() && (layer.batched || !given))
    return refuse("--given-weights-dtype", "weights beside ids; --inputs=ids32 "
                                           "and --inputs=ids64 give them");
  return {};
}

/// Rows that come by expert have no tokens to route.
static Result<void> checkInputs(const Options &options,
                                const Session &session) {
  if (auto ok = checkTypes(options, session); !ok)
    return ok;
  if (!session.layer().batched ||
      (options.inputs == RoutingInput::Logits && options.validTokens < 0))
    return {};
  return Error{ErrorCode::InvalidArgument,
               fmt::format("--inputs and --valid-tokens: expected neither, "
                           "since rows of layer '{}' come by expert; --routing "
                           "says how many",
                           session.layer().name)};
}

/// Whether what is prepared for one serves the other.
static bool sharePreparation(const Options &a, const Options &b) {
  return a.package == b.package && a.device == b.device && a.arch == b.arch &&
         a.strict == b.strict && a.poison == b.poison && a.seed == b.seed &&
         a.weights == b.weights && a.layer == b.layer &&
         a.quantize == b.quantize && a.noSharedExperts == b.noSharedExperts &&
         a.ignoredTensors == b.ignoredTensors;
}

void Runner::drop() {
  session.reset();
  weights = {};
  weightsSet = false;
  if (gate && counted > 0)
    gate->leave(counted);
  counted = 0;
}

/// The layer's weights out of the checkpoint that --weights names.
Result<void> Runner::loadCheckpoint(const Options &options) {
  auto checkpoint = weights::Checkpoint::open(options.weights);
  if (!checkpoint)
    return checkpoint.takeError();
  auto loader = weights::WeightLoader::create(
      *checkpoint, session->package().manifest(),
      {options.layer, options.quantize, options.noSharedExperts,
       options.ignoredTensors});
  if (!loader)
    return loader.takeError();
  auto loaded = HostWeights::load(session->package(), *loader);
  if (!loaded)
    return loaded.takeError();
  weights = std::move(*loaded);
  checkpointLayer = loader->layer();
  digests.clear();
  if (options.json)
    digests = weights.digests();
  return {};
}

Result<void> Runner::prepare(const Options &options, RunReport &report) {
  if (!session || !sharePreparation(options, preparedFor)) {
    drop();
    auto opened = Session::open(*machine, options, options.package);
    if (!opened)
      return opened.takeError();
    session = std::move(*opened);
    preparedFor = options;
  }
  const runtime::Package &package = session->package();
  report.name = package.manifest().name;
  report.device = package.deviceName();
  report.arch = package.target().arch;
  report.loads.push_back(package.report());
  report.loadArchs.push_back(report.arch);
  report.driverOpen = package.report().driverOpen;
  report.cuInit = package.report().cuInit;
  return {};
}

Result<void> Runner::runCases(const Options &options, RunReport &report) {
  if (!weightsSet) {
    {
      HostWork work(turn);
      if (gate) {
        counted = HostWeights::bytesOf(session->layer());
        gate->enter(counted);
      }
      auto start = std::chrono::steady_clock::now();
      if (options.weights.empty())
        weights = HostWeights::make(session->layer(), options.seed);
      else if (auto ok = loadCheckpoint(options); !ok)
        return ok;
      weightsTime = std::chrono::duration<double, std::milli>(
                        std::chrono::steady_clock::now() - start)
                        .count();
    }
    if (auto ok = session->setWeights(weights); !ok)
      return ok;
    if (options.check) {
      auto differs = session->checkQuantized(weights);
      if (!differs)
        return differs.takeError();
      if (!differs->empty()) {
        CaseResult &result = report.cases.emplace_back();
        result.passed = false;
        result.text = std::move(*differs);
      }
    }
    weightsSet = true;
  }
  report.weights = weightsTime;
  report.pack = session->packMilliseconds();
  if (!options.weights.empty()) {
    report.checkpoint = options.weights;
    report.checkpointLayer = checkpointLayer;
    report.digests = digests;
  }
  std::unique_ptr<Session> against;
  if (!options.against.empty()) {
    Options other = options;
    other.arch.clear();
    auto opened = Session::open(*machine, other, options.against);
    if (!opened)
      return opened.takeError();
    against = std::move(*opened);
    if (auto ok = against->setWeights(weights); !ok)
      return ok;
  }
  Bench bench{*machine, turn, options, weights, *session, against.get()};
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

int Runner::run(const Options &options, RunReport &report) {
  report.package = options.package;
  if (!machine) {
    auto made = Machine::create(options.device);
    if (!made)
      return refuse(made.error(), report);
    machine = std::move(*made);
  }
  report.context = machine->contextMilliseconds();
  if (auto ok = prepare(options, report); !ok)
    return refuse(ok.error(), report);
  for (auto check : {checkVariant, checkInputs})
    if (auto ok = check(options, *session); !ok)
      return refuse(ok.error(), report, kUsage);
  auto done = runCases(options, report);
  if (!done) {
    // What of it may still be under way must not become another's error, and
    // is not what a next run begins with.
    auto ended = machine->synchronizeAll();
    drop();
    return refuse(done.error().code == ErrorCode::DriverFailed || ended
                      ? done.error()
                      : ended.error(),
                  report);
  }
  return report.status = report.passed() ? 0 : 1;
}
