//===- TuneFiles.h - files that a tuner writes ---------------- -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows and log are beside each other in the store, unless the caller names
// them.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_TUNE_TUNEFILES_H
#define MOEC_COMPILER_TUNE_TUNEFILES_H

#include "compiler/tune/TunedInput.h"

namespace moec::compiler {

struct TuneFiles {
  std::string rows, log;
};

/// The files that the options ask for. Refuses those that are one file, and a
/// file that takes no rows.
Result<TuneFiles> filesOf(const TuneOptions &options, const TunedInput &input);

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_TUNEFILES_H
