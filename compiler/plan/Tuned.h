//===- Tuned.h - measured schedules -----------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads and writes files of measured schedules: one measurement a row, with
// GPU, problem, schedule and the token counts that it was measured for. A row
// serves a problem when GPU, sizes and element type are equal and it was
// measured for all token counts of the problem. Rows of both matmuls that agree
// on the tile's rows also make a range of their own (MakeVariants).
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
  /// Token counts that it was measured for, inclusive; 0: a row of version 1,
  /// which serves the range of token counts that holds `tokens`.
  int64_t first = 0, last = 0;
  int64_t tokens = 0; ///< with which it was timed
  int64_t n = 0, k = 0, experts = 0, pairs = 0;
  std::string elementType;
  std::string scheme; ///< of the layer; "": any
  bool gated = false, gather = false;
  Schedule schedule; ///< source is "tuned"
  double microseconds = 0;
  double noise = 0;   ///< relative deviation of the timings
  std::string date;   ///< yyyy-mm-dd
  std::string commit; ///< the compiler and templates that were measured
  std::string origin; ///< the file that holds it, for reports
  int order = 0;      ///< rows of lower order come first

  bool hasRange() const { return first > 0; }
};

/// Parses one file. Unknown, missing and mistyped fields are errors that name
/// the row and the field.
Result<std::vector<TunedRow>> parseTuned(std::string_view text,
                                         std::string_view name, int order = 0);

/// The text of a file of version 2, a row a line.
std::string printTuned(std::span<const TunedRow> rows);

/// The value of a schedule's member.
nlohmann::json memberJson(const Member &member);

/// A schedule as a row has it.
nlohmann::ordered_json tunedScheduleJson(const Schedule &schedule);

/// Rows of the files built into the compiler.
Result<std::vector<TunedRow>> builtinTuned(int order = 0);

/// The rows of these files, then those built in.
Result<std::vector<TunedRow>> readTuned(std::span<const std::string> files);

/// Returns true if both have the same matmul; tokens and schedules may differ.
bool isOfProblem(const TunedRow &row, const MatmulProblem &problem,
                 const std::string &gpu);

/// Token counts for which measured rows choose these tile rows.
struct TunedRange {
  int64_t first = 0, last = 0, tileRows = 0;
  bool operator==(const TunedRange &) const = default;
};

/// Rows of both matmuls that make a range.
struct TunedPair {
  const TunedRow *first = nullptr, *second = nullptr;
};

/// Token counts that a pair serves.
struct ServedRange {
  TunedRange range;
  TunedPair rows;
};

/// The row measured best for the problem on this GPU, with one of these
/// engines; null: none serves. Rows that serve a range of `served`, which holds
/// the problem's token counts, come before others. Rows that are not legal (any
/// more) are passed over. A row of version 1 does not choose between engines:
/// it serves with the first.
const TunedRow *findTuned(const std::vector<TunedRow> &rows,
                          const MatmulProblem &problem, const Engines &engines,
                          const Hardware &hardware,
                          std::span<const ServedRange> served = {});

/// The last token count up to which this row and others with its schedule
/// behind it were measured for the problem, without a gap.
int64_t lastWithSchedule(const std::vector<TunedRow> &rows, const TunedRow &row,
                         const MatmulProblem &problem, const std::string &gpu);

/// The row's schedule, with what follows from the problem.
Schedule scheduleOfRow(const TunedRow &row, const MatmulProblem &problem,
                       const Hardware &hardware);

/// "rows for 23 to 45 tokens": ranges of rows of this problem, none of which
/// serves it; "" where there are none.
std::string rangesBeside(const std::vector<TunedRow> &rows,
                         const MatmulProblem &problem,
                         const Hardware &hardware);

/// Pairs of rows of one file, with one range and tiles of one size, in which
/// some schedule is legal; best by rank first. A row of the first matmul is in
/// one pair at most.
std::vector<TunedPair>
tunedPairs(const std::vector<TunedRow> &rows, const MatmulProblem &first,
           const Engines &engines, const MatmulProblem &second,
           const Engines &itsEngines, const Hardware &hardware);

/// Ranges for which both matmuls have rows with tiles of one size, whose
/// schedules are legal; they ascend and do not overlap. Where rows overlap, the
/// first one by rank has its whole range. Another one has what is left, unless
/// the token count that it was measured with is not left.
std::vector<ServedRange>
servedRanges(const std::vector<TunedRow> &rows, const MatmulProblem &first,
             const Engines &engines, const MatmulProblem &second,
             const Engines &itsEngines, const Hardware &hardware,
             int64_t maxTokens);

/// The ranges alone; neighbours with equal schedules are one.
std::vector<TunedRange> joined(std::span<const ServedRange> served);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_TUNED_H
