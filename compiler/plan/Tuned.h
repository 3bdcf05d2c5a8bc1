//===- Tuned.h - measured schedules -----------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads and writes files of measured schedules. Each row is one measurement: a
// GPU, a problem, a schedule and the range of token counts that it was measured
// for. A row serves a problem if GPU, sizes and element type are equal and the
// row's range contains all token counts of the problem. A pair of rows, one for
// each matmul, with the same tile rows also defines a token range of its own
// (compiler/passes/MakeVariants.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_TUNED_H
#define MOEC_COMPILER_PLAN_TUNED_H

#include "compiler/matmul/Problem.h"
#include "runtime/support/Result.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace moec::compiler {

struct TunedRow {
  std::string gpu;
  /// Range of token counts that the row was measured for, inclusive. 0 in a row
  /// of version 1, which serves the range that contains `tokens`.
  int64_t first = 0, last = 0;
  int64_t tokens = 0; ///< token count of the timed runs
  int64_t n = 0, k = 0, experts = 0, pairs = 0;
  std::string elementType;
  std::string scheme; ///< scheme of the layer; "" matches any
  bool gated = false, gather = false;
  Schedule schedule; ///< source is "tuned"
  double microseconds = 0;
  double noise = 0;   ///< relative deviation of the timings
  std::string date;   ///< yyyy-mm-dd
  std::string commit; ///< commit of the measured compiler and templates
  std::string origin; ///< file that contains the row, for reports
  int order = 0;      ///< rows of lower order have precedence

  bool hasRange() const { return first > 0; }
};

/// Parses one file. Unknown, missing and mistyped fields are errors whose
/// message names the row and the field.
Result<std::vector<TunedRow>> parseTuned(std::string_view text,
                                         std::string_view name, int order = 0);

/// Returns the text of a file of version 2, one row a line.
std::string printTuned(std::span<const TunedRow> rows);

/// Returns the value of a schedule's member as JSON.
nlohmann::json memberJson(const Member &member);

/// Returns a schedule in the form that a row stores.
nlohmann::ordered_json tunedScheduleJson(const Schedule &schedule);

/// Returns the rows of the files built into the compiler.
Result<std::vector<TunedRow>> builtinTuned(int order = 0);

/// Returns the rows of `files`, followed by the built-in rows.
Result<std::vector<TunedRow>> readTuned(std::span<const std::string> files);

/// Returns true if the row was measured on this GPU for the same matmul. Token
/// counts and schedules may differ.
bool isOfProblem(const TunedRow &row, const MatmulProblem &problem,
                 const std::string &gpu);

/// A range of token counts for which measured rows choose `tileRows`.
struct TunedRange {
  int64_t first = 0, last = 0, tileRows = 0;
  bool operator==(const TunedRange &) const = default;
};

/// Rows of the first and the second matmul that together define a range.
struct TunedPair {
  const TunedRow *first = nullptr, *second = nullptr;
};

/// A range of token counts and the pair that serves it.
struct ServedRange {
  TunedRange range;
  TunedPair rows;
};

/// Returns the best row for the problem on this GPU whose engine is one of
/// `engines`, or null. Rows of the range in `served` that contains the
/// problem's token counts have precedence. Rows whose schedule is not legal
/// (any more) are skipped. A row of version 1 does not choose between engines:
/// it only serves if its engine is the first of `engines`.
const TunedRow *findTuned(const std::vector<TunedRow> &rows,
                          const MatmulProblem &problem, const Engines &engines,
                          const Hardware &hardware,
                          std::span<const ServedRange> served = {});

/// Returns the last token count that this row, continued without a gap by rows
/// with the same schedule, was measured for.
int64_t lastWithSchedule(const std::vector<TunedRow> &rows, const TunedRow &row,
                         const MatmulProblem &problem, const std::string &gpu);

/// Returns the row's schedule, completed with members that follow from the
/// problem.
Schedule scheduleOfRow(const TunedRow &row, const MatmulProblem &problem,
                       const Hardware &hardware);

/// Returns, for example, "rows for 23 to 45 tokens": the ranges of the rows of
/// this problem, for reports when no row serves it. Returns "" if there are no
/// such rows.
std::string rangesBeside(const std::vector<TunedRow> &rows,
                         const MatmulProblem &problem,
                         const Hardware &hardware);

/// Returns pairs of rows from one file that have the same range and tile rows
/// and for which some schedule is legal, best first. Each row of the first
/// matmul is in at most one pair.
std::vector<TunedPair>
tunedPairs(const std::vector<TunedRow> &rows, const MatmulProblem &first,
           const Engines &engines, const MatmulProblem &second,
           const Engines &itsEngines, const Hardware &hardware);

/// Returns the ranges for which both matmuls have rows with the same tile size
/// and legal schedules. The ranges ascend and do not overlap. If pairs overlap,
/// the best-ranked pair keeps its whole range. Each other pair keeps what
/// remains of its range, unless the token count of its measurement is no longer
/// in it.
std::vector<ServedRange>
servedRanges(const std::vector<TunedRow> &rows, const MatmulProblem &first,
             const Engines &engines, const MatmulProblem &second,
             const Engines &itsEngines, const Hardware &hardware,
             int64_t maxTokens);

/// Returns the ranges without their rows. Adjacent ranges with equal schedules
/// are merged.
std::vector<TunedRange> joined(std::span<const ServedRange> served);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_TUNED_H
