//===- Tuned.h - measured schedules -----------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads and writes files of measured schedules. Each row is one measurement: a
// GPU, a problem, a schedule, and the range of token counts for which the
// schedule was measured. A row applies to a problem if the GPU, the sizes and
// the element type are equal, and if the row's range contains all token counts
// of the problem. Two rows with the same tile rows, one per matmul, also define
// a variant's token range (compiler/passes/MakeVariants.cpp).
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
  /// Range of token counts for which the row was measured, inclusive. 0 in a
  /// row of version 1, which applies to the variant whose range contains
  /// `tokens`.
  int64_t first = 0, last = 0;
  int64_t tokens = 0; ///< token count of the timed runs
  int64_t n = 0, k = 0, experts = 0, pairs = 0;
  std::string elementType;
  std::string scheme; ///< scheme of the layer; "" matches any scheme
  bool gated = false, gather = false;
  Schedule schedule; ///< its `source` is "tuned"
  double microseconds = 0;
  double noise = 0;   ///< relative deviation of the measured times
  std::string date;   ///< yyyy-mm-dd
  std::string commit; ///< commit of the measured compiler and templates
  std::string origin; ///< file that contains the row, for reports
  /// Position of the file; rows with a smaller value have precedence.
  int order = 0;

  bool hasRange() const { return first > 0; }
};

/// Parses a file. Unknown, missing and mistyped fields are errors, whose
/// message names the row and the field.
Result<std::vector<TunedRow>> parseTuned(std::string_view text,
                                         std::string_view name, int order = 0);

/// Returns the text of a version 2 file, with one row per line.
std::string printTuned(std::span<const TunedRow> rows);

/// Returns the value of a schedule member as JSON.
nlohmann::json memberJson(const Member &member);

/// Returns a schedule as JSON in the form that rows store.
nlohmann::ordered_json tunedScheduleJson(const Schedule &schedule);

/// Returns the rows of the files that are built into the compiler.
Result<std::vector<TunedRow>> builtinTuned(int order = 0);

/// Returns the rows of `files`, followed by the built-in rows.
Result<std::vector<TunedRow>> readTuned(std::span<const std::string> files);

/// Returns true if the row was measured on this GPU for the same matmul. Token
/// counts and schedules may differ.
bool isOfProblem(const TunedRow &row, const MatmulProblem &problem,
                 const std::string &gpu);

/// A range of token counts for which measured rows determine `tileRows`.
struct TunedRange {
  int64_t first = 0, last = 0, tileRows = 0;
  bool operator==(const TunedRange &) const = default;
};

/// A row of the first matmul and a row of the second matmul that together
/// define a range.
struct TunedPair {
  const TunedRow *first = nullptr, *second = nullptr;
};

/// A range of token counts and the pair of rows that determines its schedules.
struct ServedRange {
  TunedRange range;
  TunedPair rows;
};

/// Returns the best row for the problem on this GPU whose engine is in
/// `engines`, or null. Rows in `served` whose range contains the problem's
/// first token count have precedence. Rows with an illegal schedule are
/// skipped, for example after a change of the templates. A row of version 1
/// does not choose the engine: it applies only if its engine is the first of
/// `engines`.
const TunedRow *findTuned(const std::vector<TunedRow> &rows,
                          const MatmulProblem &problem, const Engines &engines,
                          const Hardware &hardware,
                          std::span<const ServedRange> served = {});

/// Returns the last token count for which the schedule of `row` was measured.
/// Rows with the same schedule that continue the range of `row` without a gap
/// are included.
int64_t lastWithSchedule(const std::vector<TunedRow> &rows, const TunedRow &row,
                         const MatmulProblem &problem, const std::string &gpu);

/// Returns the schedule of `row`, with the members set that follow from the
/// problem.
Schedule scheduleOfRow(const TunedRow &row, const MatmulProblem &problem,
                       const Hardware &hardware);

/// Describes the token ranges of the rows for this problem, such as "rows for
/// 23 to 45 tokens". Reports show the text if none of these rows applies.
/// Returns "" if there are no such rows.
std::string rangesBeside(const std::vector<TunedRow> &rows,
                         const MatmulProblem &problem,
                         const Hardware &hardware);

/// Returns the pairs of rows that have the same file, range and tile rows and
/// for which some schedule is legal, best first. Each row of the first matmul
/// is in at most one pair.
std::vector<TunedPair>
tunedPairs(const std::vector<TunedRow> &rows, const MatmulProblem &first,
           const Engines &engines, const MatmulProblem &second,
           const Engines &itsEngines, const Hardware &hardware);

/// Returns the ranges for which both matmuls have rows with the same tile rows
/// and legal schedules. The ranges ascend and do not overlap. If the ranges of
/// pairs overlap, the best-ranked pair keeps its whole range. Each of the other
/// pairs keeps the rest of its range, or nothing if its measured token count is
/// not in the rest.
std::vector<ServedRange>
servedRanges(const std::vector<TunedRow> &rows, const MatmulProblem &first,
             const Engines &engines, const MatmulProblem &second,
             const Engines &itsEngines, const Hardware &hardware,
             int64_t maxTokens);

/// Returns the ranges of `served` without the tuned rows. Adjacent ranges with
/// equal schedules are merged.
std::vector<TunedRange> joined(std::span<const ServedRange> served);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_TUNED_H
