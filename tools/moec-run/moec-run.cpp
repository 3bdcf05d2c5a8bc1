//===- moec-run.cpp - runs, checks, times and prebuilds packages ----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parses the options, performs one run and prints its report. Exit status: 0; 1
// if the package is rejected or a check fails, with the reason on stderr; 2 for
// a usage error.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Guard.h"
#include "runtime/support/ProgressDisplay.h"
#include "tools/moec-run/Runner.h"

#include <CLI/CLI.hpp>

using namespace moec;
using namespace moec::run;

/// Returns "moec run" or "moec check" if moec started this program.
static std::string programName(int argc, char **argv) {
  const std::string name = argc > 0 ? argv[0] : "";
  return name.starts_with("moec ") ? name : "moec-run";
}

static int runMain(int argc, char **argv) {
  RunReport report;
  report.processStart = millisecondsSinceExec();
  Options options;
  options.program = programName(argc, argv);
  CLI::App app("Runs, checks, times and prebuilds a package.", options.program);
  addOptions(app, options);
  int status = 0;
  if (!parseOptions(app, argc, argv, options, status))
    return status;
  if (options.package.empty()) {
    refuseUsage(options, "expected the folder of a package", status);
    return status;
  }
  report.package = options.package;
  const ProgressDisplay progress;
  RunHooks nothing;
  Runner runner(nothing);
  status = options.prebuild ? prebuild(options, report)
                            : runner.run(options, report);
  if (!report.error.empty())
    return status;
  if (options.json)
    printJson(report);
  else
    printTable(report, options.time, options.check);
  return status;
}

int main(int argc, char **argv) {
  return guarded(programName(argc, argv).c_str(),
                 [&] { return runMain(argc, argv); });
}
