//===- Judge.h - one token count, run and judged ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A case is a token count and a routing pattern. It passes when the output is
// within the reference's rules (with the roundings of the intermediate that it
// took, where the engine's sums leave them open), ids, weights and counts are
// right, nothing was written outside of outputs and workspace, and a second,
// disturbed run gives the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_TOOLS_RUN_JUDGE_H
#define MOEC_RUNTIME_TOOLS_RUN_JUDGE_H

#include "runtime/tools/run/Session.h"
#include "runtime/tools/run/Turn.h"

#include <optional>
#include <string>

namespace moec::run {

struct CaseResult {
  int64_t tokens = 0;
  std::string variant, routing, inputs;
  bool passed = true;
  double bound = 0, error = 0, worstRow = 0, worstElement = 0;
  /// Roundings of the intermediate that may go either way, and those that went
  /// otherwise than the reference's; looked for only where a rule fails.
  int64_t roundings = 0, roundingsTaken = 0;
  std::string text;  ///< what the check says; "" without one
  std::string twice; ///< "identical", what differs, or "" if not run
  std::optional<double> medianMicroseconds;
};

/// What all cases share. `against` may be null.
struct Bench {
  Machine &machine;
  Turn &turn;
  const Options &options;
  const HostWeights &weights;
  Session &session;
  Session *against;
};

/// Errors are those of the package or the device; a failed check is a result.
Result<CaseResult> runCase(Bench &bench, int64_t tokens,
                           const std::string &pattern);

} // namespace moec::run

#endif // MOEC_RUNTIME_TOOLS_RUN_JUDGE_H
