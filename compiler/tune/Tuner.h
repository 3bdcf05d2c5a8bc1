//===- Tuner.h - measures schedules of a layer ---------------- -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For each token count: the compiler's own choice, then the best schedule for
// each size of tiles, then schedules beside the best ones, then what these
// gained together. Each is compared with the reference before it is timed, in
// turns with the compiler's choice. A schedule that is wrong, hangs or ends its
// process is quarantined: its line of the log keeps it from being measured
// again.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_TUNE_TUNER_H
#define MOEC_COMPILER_TUNE_TUNER_H

#include "compiler/tune/TuneOptions.h"
#include "runtime/support/Result.h"

#include <nlohmann/json.hpp>

#include <string>

namespace moec::compiler {

/// Measures and writes; the numbers, which tuneText() prints it for people.
Result<nlohmann::ordered_json> tune(const TuneOptions &options);

std::string tuneText(const nlohmann::ordered_json &report);

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_TUNER_H
