//===- Report.h - what moec-run prints --------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A table for people, one JSON object for programs.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECRUN_REPORT_H
#define MOEC_TOOLS_MOECRUN_REPORT_H

#include "tools/moec-run/CompareWithReference.h"

#include <string>
#include <vector>

namespace moec::run {

struct RunReport {
  int64_t line = 0;              ///< in the file of --cases, from 1; 0: none
  double wall = 0, onDevice = 0; ///< milliseconds of such a line
  std::string package, name, device, arch;
  double processStart = 0; ///< milliseconds from exec to main(), to 10 ms
  double driverOpen = 0, cuInit = 0, context = 0;
  std::vector<runtime::LoadReport> loads; ///< more than one with prebuild
  std::vector<std::string> loadArchs;     ///< beside `loads`
  double weights = 0, pack = 0;           ///< milliseconds
  std::string checkpoint; ///< the weights' checkpoint, and its layer
  int64_t checkpointLayer = 0;
  std::map<std::string, std::string> digests; ///< SHA-256 of each
  std::vector<CaseResult> cases;
  int status = 0;            ///< the exit status
  std::string error;         ///< why the rest was not run
  bool driverFailed = false; ///< and the error is the driver's
  bool hung = false;         ///< or that it did not end
  bool passed() const;
};

/// One object; on one line where `indent` is negative.
void printJson(const RunReport &report, int indent = 1);
/// `checked`: the cases say whether they passed.
void printTable(const RunReport &report, bool timed, bool checked);

/// Milliseconds since this process was started, to the kernel's clock tick.
double millisecondsSinceExec();

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_REPORT_H
