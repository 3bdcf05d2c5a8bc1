//===- RoutingPattern.h - distribution of tokens over experts ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_ROUTINGPATTERN_H
#define MOEC_RUNTIME_SUPPORT_ROUTINGPATTERN_H

#include "runtime/support/Result.h"

#include <cstdint>
#include <string_view>

namespace moec {

/// The distribution of tokens over experts that benchmarks generate and reports
/// assume.
struct RoutingPattern {
  enum class Kind {
    Uniform, ///< every set of experts is equally likely
    Zipf,    ///< the odds of the r-th expert are r^-value
    Hot,     ///< every token chooses `value` fixed experts first
    Used,    ///< only the fraction `value` of experts is used, uniformly
  };
  Kind kind = Kind::Uniform;
  double value = 0;

  /// Parses "uniform", "zipf:EXPONENT", "hot:EXPERTS" or "used:FRACTION". Any
  /// other text is InvalidArgument; the message lists these forms and then
  /// `others`.
  static Result<RoutingPattern> parse(std::string_view text,
                                      std::string_view others = "");
  /// Returns true if the text begins like a pattern.
  static bool isPattern(std::string_view text);

  /// Returns the number of experts of a `Used` pattern.
  double usedOf(int64_t experts) const;
  /// Returns InvalidArgument if there are more hot experts than experts, or
  /// fewer used experts than a token chooses.
  Result<void> check(int64_t experts, int64_t topK) const;
};

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_ROUTINGPATTERN_H
