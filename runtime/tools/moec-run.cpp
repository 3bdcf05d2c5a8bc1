//===- moec-run.cpp - runs, checks, times and prebuilds packages ----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The driver: options, one run and its report, or many runs with --cases. The
// parts lie in tools/run/. Exit status: 0, 1 (refused or a check failed, with
// the reason on stderr), 2 (usage); of several runs the greatest.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Guard.h"
#include "runtime/tools/run/Lines.h"
#include "runtime/tools/run/Runner.h"

using namespace moec;
using namespace moec::run;

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

static int runMain(int argc, char **argv) {
  RunReport report;
  report.processStart = millisecondsSinceExec();
  Options options;
  int status = 0;
  if (!parseOptions(argc, argv, options, status))
    return status;
  if (!options.cases.empty())
    return runLines(argc, argv, options);
  report.package = options.package;
  Turn turn;
  turn.take();
  Runner runner(turn, /*gate=*/nullptr);
  status = options.prebuild ? prebuild(options, report)
                            : runner.run(options, report);
  if (!report.error.empty())
    return status;
  if (options.json)
    printJson(report);
  else
    printTable(report, options);
  return status;
}

int main(int argc, char **argv) {
  return guarded("moec-run", [&] { return runMain(argc, argv); });
}
