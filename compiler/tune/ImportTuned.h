//===- ImportTuned.h - rows out of foreign files -------------- -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// moec import-tuned.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_TUNE_IMPORTTUNED_H
#define MOEC_COMPILER_TUNE_IMPORTTUNED_H

#include "compiler/CompileOptions.h"
#include "compiler/import/ImportOptions.h"
#include "runtime/support/Result.h"

#include <string>
#include <vector>

namespace moec::compiler {

struct ImportTunedOptions {
  std::string input; ///< the layer
  ImportOptions import;
  CompileOptions compile;
  std::vector<std::string> files;
  std::string output; ///< "": the user's store
};

/// Writes rows that choose the tiles of the files; the rest of a schedule is
/// the compiler's choice. What was done, a line for each file.
Result<std::string> importTuned(const ImportTunedOptions &options);

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_IMPORTTUNED_H
