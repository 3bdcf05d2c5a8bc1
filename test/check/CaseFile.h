//===- CaseFile.h - many runs in one process --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A run for each line of the file that --cases names, with the line's options
// behind those of the command line. Processes on one GPU are serialized, and a
// context costs more than most runs: many lines want one process.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_CHECK_CASEFILE_H
#define MOEC_TEST_CHECK_CASEFILE_H

#include "test/check/CheckOptions.h"

namespace moec::check {

/// The exit status. Each line's report is one line of JSON, printed when the
/// line has ended. A driver's error ends the process, since what the context
/// still holds is unknown; so does a line that keeps the device too long. Its
/// report is the last then.
int runCaseFile(int argc, char **argv, const CheckOptions &common);

} // namespace moec::check

#endif // MOEC_TEST_CHECK_CASEFILE_H
