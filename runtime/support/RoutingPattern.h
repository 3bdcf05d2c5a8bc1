//===- RoutingPattern.h - which experts tokens choose -----------*- C++ -*-===//
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

/// How tokens spread over experts, as benchmarks draw it and as reports expect
/// it.
struct RoutingPattern {
  enum class Kind {
    Uniform, ///< every set of experts is as likely as any other
    Zipf,    ///< the odds of the expert of rank r are r^-value
    Hot,     ///< every token chooses `value` experts first
    Used,    ///< the part `value` of the experts is chosen from, uniformly
  };
  Kind kind = Kind::Uniform;
  double value = 0;

  /// Reads "uniform", "zipf:EXPONENT", "hot:EXPERTS" or "used:FRACTION". Any
  /// other text is InvalidArgument with these; `others` are behind them.
  static Result<RoutingPattern> parse(std::string_view text,
                                      std::string_view others = "");
  /// Whether the text begins as a pattern does.
  static bool isPattern(std::string_view text);

  /// The experts of a fraction.
  double usedOf(int64_t experts) const;
  /// InvalidArgument for more hot experts than there are, and fewer used ones
  /// than a token chooses.
  Result<void> check(int64_t experts, int64_t topK) const;
};

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_ROUTINGPATTERN_H
