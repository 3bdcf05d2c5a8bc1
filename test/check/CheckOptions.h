//===- CheckOptions.h - the command line of moec-check ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The options of moec-run and those that tests alone use.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_CHECK_CHECKOPTIONS_H
#define MOEC_TEST_CHECK_CHECKOPTIONS_H

#include "tools/moec-run/LoadedLayer.h"

namespace moec::check {

struct CheckOptions : run::Options {
  CheckOptions() { program = "moec-check"; }
  std::string against; ///< another package; "": none
  bool chain = false, refresh = false;
  std::string cases; ///< a file of further options; a line is a run of its own
  int atOnce = 1;    ///< lines
  double weightsAtOnce = 16; ///< GiB, of lines at once
  double deviceLimit = 0;    ///< seconds of a line; 0: none
};

/// As run::parseOptions.
bool parseOptions(int argc, char **argv, CheckOptions &options, int &status);

/// Whether a run of the layer is given what the options speak about.
Result<void> checkInputs(const run::InputOptions &options,
                         const run::LoadedLayer &layer);

/// A run for each line of the file that --cases names, with the line's options
/// after those of the command line. Processes on one GPU are serialized, and a
/// context costs more than most runs: many lines want one process.
///
/// The exit status. Each line's report is one line of JSON, printed when the
/// line has ended. A driver's error ends the process, since what the context
/// still holds is unknown; so does a line that keeps the device too long. Its
/// report is the last then.
int runCaseFile(int argc, char **argv, const CheckOptions &common);

} // namespace moec::check

#endif // MOEC_TEST_CHECK_CHECKOPTIONS_H
