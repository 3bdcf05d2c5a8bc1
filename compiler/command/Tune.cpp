//===- Tune.cpp - moec tune -----------------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/command/Commands.h"

#include "compiler/TargetNames.h"
#include "compiler/plan/TunedStore.h"
#include "compiler/tune/Tune.h"
#include "runtime/support/Files.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

using namespace moec;
using namespace moec::compiler;

Result<void> moec::compiler::runTune(const TuneOptions &asked) {
  TuneOptions options = asked;
  TRY(resolveTargets(options.compile));
  // Check that the report can be written before the measurements, which take
  // long.
  if (!options.report.empty())
    TRY(checkWritable(options.report));
  const nlohmann::ordered_json done = TRY(tune(options));
  if (!options.report.empty())
    TRY(writeFileAtomically(options.report, done.dump(2) + "\n"));
  TRY(writeStandardOutput(tuneText(done)));
  const auto failed = done["failed"].get<int64_t>();
  return failed == 0 ? Result<void>()
                     : Error(ErrorCode::DriverFailed,
                             "{} of {} token counts could not be measured",
                             failed, done["results"].size());
}
