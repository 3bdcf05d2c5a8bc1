//===- Routing.h - which experts tokens choose ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Histograms of experts that the bench times, and logits that have them. The
// logits are exact for layers that take the top-k of all experts without a
// bias.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_BENCH_PROGRAM_ROUTING_H
#define MOEC_BENCH_PROGRAM_ROUTING_H

#include "runtime/support/RoutingPattern.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moec::bench {

struct Routing {
  RoutingPattern pattern;
  /// The experts that the pattern chooses get equally many tokens each, but for
  /// one.
  bool dealt = false;
};

/// The layer and the tokens that logits are for.
struct LogitsShape {
  int64_t tokens = 0, experts = 0, topK = 0;
};

/// Logits [tokens, experts], contiguous. Another seed gives hot experts and
/// ranks to others. Errors: a type that is no float; more hot experts than
/// there are, or fewer used ones than topK.
Result<std::vector<char>> routingLogits(const Routing &routing,
                                        const std::string &type,
                                        const LogitsShape &shape,
                                        uint64_t seed);

} // namespace moec::bench

#endif // MOEC_BENCH_PROGRAM_ROUTING_H
