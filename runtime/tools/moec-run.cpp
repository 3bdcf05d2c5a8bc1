//===- moec-run.cpp - runs, checks, times and prebuilds packages ----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The driver: options, one machine, one session, the cases, the report. The
// parts lie in tools/run/. Exit status: 0, 1 (refused or a check failed, with
// the reason on stderr), 2 (usage).
//
//===----------------------------------------------------------------------===//

#include "runtime/tools/run/Judge.h"
#include "runtime/tools/run/Report.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

using namespace moec;
using namespace moec::run;

static constexpr int kUsage = 2;

static int refuse(const Error &error) {
  fmt::print(stderr, "moec-run: {} [{}]\n", error.message,
             errorCodeName(error.code));
  return 1;
}

/// Compiles into the cache: the target asked for, or all of them.
static int prebuild(const Options &options, RunReport &report) {
  auto files = readPackage(options.package);
  if (!files)
    return refuse(files.error());
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
      return refuse(package.error());
    report.arch += (report.arch.empty() ? "" : ",") + arch;
    report.loads.push_back((*package)->report());
    report.loadArchs.push_back(arch);
  }
  return 0;
}

static Result<void> runCases(const Options &options, Machine &machine,
                             Session &session, RunReport &report) {
  auto start = std::chrono::steady_clock::now();
  HostWeights weights = HostWeights::make(session.layer(), options.seed);
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
    auto opened = Session::open(machine, other, options.against);
    if (!opened)
      return opened.takeError();
    against = std::move(*opened);
    if (auto ok = against->setWeights(weights); !ok)
      return ok;
  }
  Bench bench{machine, options, weights, session, against.get()};
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

int main(int argc, char **argv) {
  RunReport report;
  report.processStart = millisecondsSinceExec();
  Options options;
  int status = 0;
  if (!parseOptions(argc, argv, options, status))
    return status;
  report.package = options.package;
  if (options.prebuild) {
    if (int code = prebuild(options, report); code != 0)
      return code;
  } else {
    auto machine = Machine::create(options.device);
    if (!machine)
      return refuse(machine.error());
    report.context = (*machine)->contextMilliseconds();
    auto session = Session::open(**machine, options, options.package);
    if (!session)
      return refuse(session.error());
    const runtime::Package &package = (*session)->package();
    report.name = package.manifest().name;
    report.device = package.deviceName();
    report.arch = package.target().arch;
    report.loads.push_back(package.report());
    report.loadArchs.push_back(report.arch);
    report.driverOpen = package.report().driverOpen;
    report.cuInit = package.report().cuInit;
    if (auto ok = checkVariant(options, **session); !ok) {
      refuse(ok.error());
      return kUsage;
    }
    if (auto ok = runCases(options, **machine, **session, report); !ok)
      return refuse(ok.error());
  }
  if (options.json)
    printJson(report);
  else
    printTable(report, options);
  return report.passed() ? 0 : 1;
}
