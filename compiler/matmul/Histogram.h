//===- Histogram.h - how tokens spread over experts -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_HISTOGRAM_H
#define MOEC_COMPILER_MATMUL_HISTOGRAM_H

#include "compiler/matmul/ExpertRows.h"
#include "runtime/support/RoutingPattern.h"

#include <string>
#include <string_view>
#include <vector>

namespace moec::compiler {

/// Odds of experts to be chosen by a token.
class Histogram {
public:
  /// All experts alike.
  Histogram() = default;

  /// Reads "uniform", "zipf:EXPONENT" (the odds of the expert of rank r are
  /// r^-EXPONENT), "hot:EXPERTS" (every token chooses those first),
  /// "used:FRACTION" (tokens choose from that part of the experts alone), or
  /// the path of a JSON file {"rows": [...]}: the rows that each expert got.
  /// Errors: another text, a file that cannot be read or says something else.
  static Result<Histogram> parse(std::string_view text);

  /// As parse() took it, for reports.
  const std::string &text() const { return said; }

  /// The probability of each of `experts` that it is among the `pairs` that a
  /// token chooses; experts with equal ones are a group. Their sum is `pairs`.
  /// Errors: a file of another number of experts; fewer experts that get rows
  /// than `pairs`; more hot experts than there are.
  Result<std::vector<ExpertGroup>> chances(int64_t experts,
                                           int64_t pairs) const;

private:
  RoutingPattern pattern;
  std::vector<double> counts; ///< of a file
  std::string said = "uniform";

  std::vector<double> oddsOf(int64_t experts) const;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_HISTOGRAM_H
