//===- Histogram.h - distribution of tokens over experts --------*- C++ -*-===//
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

/// The relative frequencies with which tokens choose experts.
class Histogram {
public:
  /// Constructs the uniform distribution.
  Histogram() = default;

  /// Parses the description of a distribution:
  /// - "uniform"
  /// - "zipf:EXPONENT": the r-th most frequent expert has relative frequency
  ///   r^-EXPONENT
  /// - "hot:EXPERTS": tokens choose other experts only after the first EXPERTS
  ///   experts
  /// - "used:FRACTION": tokens choose only from this fraction of the experts
  /// - the path of a JSON file {"rows": [...]} with the number of rows per
  ///   expert
  /// Returns an error for any other text, or if the file cannot be read or
  /// parsed.
  static Result<Histogram> parse(std::string_view text);

  /// Returns the text that parse() accepted, for reports.
  const std::string &text() const { return said; }

  /// Returns, for each of `experts` experts, the probability that a token's
  /// `pairs` choices include the expert. Experts with equal probability form a
  /// group. The probabilities sum to `pairs`. Returns an error if the file has
  /// a different number of experts, if fewer than `pairs` experts have rows, or
  /// if there are more hot experts than experts.
  Result<std::vector<ExpertGroup>> chances(int64_t experts,
                                           int64_t pairs) const;

private:
  RoutingPattern pattern;
  std::vector<double> counts; ///< rows per expert, from a file
  std::string said = "uniform";

  std::vector<double> oddsOf(int64_t experts) const;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_HISTOGRAM_H
