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

/// A distribution of tokens over experts. Benchmarks generate ids and weights
/// from a pattern, and the times in reports assume a pattern.
struct RoutingPattern {
  enum class Kind {
    Uniform, ///< every set of experts is equally likely
    Zipf,    ///< the probability of the r-th expert is proportional to r^-value
    Hot,     ///< `value` fixed experts are always among a token's experts
    Used,    ///< only the fraction `value` of the experts is used, uniformly
  };
  Kind kind = Kind::Uniform;
  double value = 0;

  /// Parses "uniform", "zipf:EXPONENT", "hot:EXPERTS" or "used:FRACTION".
  /// Returns InvalidArgument for any other text; the message lists these forms,
  /// followed by `others`.
  static Result<RoutingPattern> parse(std::string_view text,
                                      std::string_view others = "");
  /// Returns true if the text starts with the name of a pattern.
  static bool isPattern(std::string_view text);

  /// Returns the number of experts that a `Used` pattern uses.
  double usedOf(int64_t experts) const;
  /// Returns InvalidArgument if there are more hot experts than experts, or
  /// fewer used experts than `topK`.
  Result<void> check(int64_t experts, int64_t topK) const;
};

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_ROUTINGPATTERN_H
