//===- ConfigOptions.h - options_json of moec_compile_config ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The command line's options as a JSON object, without IR.
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

/// "" gives the defaults, which compile no cubins. An error names the field,
/// what was expected and what came. What only a report takes is unknown where
/// there is none.
Result<ConfigOptions> readConfigOptions(std::string_view text, bool explains);

/// The same of moec_tune_config; the input is the caller's.
Result<TuneOptions> readTuneOptions(std::string_view text);

} // namespace moec::compiler

#endif // MOEC_COMPILER_CAPI_CONFIGOPTIONS_H
