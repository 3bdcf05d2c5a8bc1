//===- Tuned.h - measured schedules -----------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads tuned/*.json: one measurement a row, with GPU, problem, schedule,
// microseconds and date. A row serves a problem when GPU, sizes and element
// type are equal and its token count lies in the problem's range; of several
// the fastest per token count and the largest token count wins.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_TUNED_H
#define MOEC_COMPILER_PLAN_TUNED_H

#include "compiler/engine/Problem.h"
#include "runtime/support/Result.h"

#include <optional>
#include <string_view>
#include <vector>

namespace moec::compiler {

struct TunedRow {
  std::string gpu;
  int64_t tokens = 0;
  int64_t n = 0, k = 0, experts = 0, pairs = 0;
  std::string elementType;
  bool gated = false, gather = false;
  Schedule schedule; ///< source is "tuned"
  double microseconds = 0;
  std::string date; ///< yyyy-mm-dd
};

/// Parses one file. Unknown, missing and mistyped fields are errors that name
/// the row and the field.
Result<std::vector<TunedRow>> parseTuned(std::string_view text,
                                         std::string_view name);

/// Rows of the files built into the compiler.
Result<std::vector<TunedRow>> builtinTuned();

/// The schedule measured best for the problem on this GPU. Rows that are not
/// legal (any more) are passed over.
std::optional<Schedule> findTuned(const std::vector<TunedRow> &rows,
                                  const MatmulProblem &problem,
                                  const std::string &engine,
                                  const Hardware &hardware);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_TUNED_H
