//===- moec-check.cpp - runs packages as tests do -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// moec-run with the checks that tests need, and many runs in one process.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Guard.h"
#include "test/check/CheckHooks.h"
#include "test/check/CheckOptions.h"
#include "tools/moec-run/Runner.h"

using namespace moec;
using namespace moec::check;
using namespace moec::run;

static int runMain(int argc, char **argv) {
  RunReport report;
  report.processStart = millisecondsSinceExec();
  CheckOptions options;
  int status = 0;
  if (!check::parseOptions(argc, argv, options, status))
    return status;
  if (!options.cases.empty())
    return runCaseFile(argc, argv, options);
  report.package = options.package;
  DeviceTurn turn;
  turn.take();
  CheckHooks hooks(turn, /*budget=*/nullptr);
  hooks.begin(options);
  Runner runner(hooks);
  status = options.prebuild ? prebuild(options, report)
                            : runner.run(options, report);
  if (!report.error.empty())
    return status;
  if (options.json)
    printJson(report);
  else
    printTable(report, options.time,
               options.check || options.twice || !options.against.empty());
  return status;
}

int main(int argc, char **argv) {
  return guarded("moec-check", [&] { return runMain(argc, argv); });
}
