//===- ConfigOptions.h - options_json of moec_compile_config ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The options that the C ABI accepts as a JSON object. They correspond to those
// of the command line. This header does not depend on MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_CAPI_CONFIGOPTIONS_H
#define MOEC_COMPILER_CAPI_CONFIGOPTIONS_H

#include "compiler/CompileOptions.h"
#include "compiler/import/ImportOptions.h"
#include "compiler/tune/Tune.h"
#include "runtime/support/Result.h"

#include <string_view>

namespace moec::compiler {

struct ConfigOptions {
  ImportOptions import;
  CompileOptions compile;
  ExplainOptions explain;
};

/// Reads options from JSON text. If `text` is "", returns the defaults, which
/// compile no cubins. An error names the field, the expected value and the
/// actual value. Options that only a report uses are rejected unless
/// `explains`.
Result<ConfigOptions> readConfigOptions(std::string_view text, bool explains);

/// Reads the options of moec_tune_config(). The caller sets the input.
Result<TuneOptions> readTuneOptions(std::string_view text);

} // namespace moec::compiler

#endif // MOEC_COMPILER_CAPI_CONFIGOPTIONS_H
