//===- Report.h - the output of moec-run ------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A table for people and a JSON object for programs.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECRUN_REPORT_H
#define MOEC_TOOLS_MOECRUN_REPORT_H

#include "tools/moec-run/CompareWithReference.h"

#include <string>
#include <vector>

namespace moec::run {

/// The results of one run of the program.
struct RunReport {
  int64_t line = 0; ///< line number in the file of --cases, from 1; 0: none
  double wall = 0, onDevice = 0; ///< milliseconds of that line
  std::string package, name, device, arch;
  double processStart = 0; ///< milliseconds from exec to main(), with a
                           ///< resolution of 10 ms
  double driverOpen = 0, cuInit = 0, context = 0;
  std::vector<runtime::LoadReport> loads; ///< several with --prebuild
  std::vector<std::string> loadArchs;     ///< the arch of each of `loads`
  double weights = 0, pack = 0;           ///< milliseconds
  std::string checkpoint;                 ///< checkpoint of the weights
  int64_t checkpointLayer = 0;
  std::map<std::string, std::string> digests; ///< SHA-256 hash of each weight
  std::vector<CaseResult> cases;
  int status = 0;            ///< exit status
  std::string error;         ///< why the remaining cases were not run
  bool driverFailed = false; ///< `error` is a driver failure
  bool hung = false;         ///< the run did not end
  bool passed() const;
};

/// Prints one JSON object; on a single line if `indent` is negative.
void printJson(const RunReport &report, int indent = 1);
/// Prints the table. `checked`: includes whether the cases passed.
void printTable(const RunReport &report, bool timed, bool checked);

/// Returns the milliseconds since this process was started, with the resolution
/// of the kernel's clock tick.
double millisecondsSinceExec();

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_REPORT_H
