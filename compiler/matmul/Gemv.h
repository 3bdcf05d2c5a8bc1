//===- Gemv.h - schedules of the few-token kernels --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two kernels compute a layer for a few tokens. Their time is the time to read
// the weights, so they keep as many bytes in flight as possible. If weights are
// not converted, the kernels compute dot products and keep the rows of x in
// shared memory. If weights are codes (quantized values) in MMA fragment order,
// the kernels convert the codes to operands of mma.sync, and load the rows of x
// together with the codes.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_GEMV_H
#define MOEC_COMPILER_MATMUL_GEMV_H

#include "compiler/matmul/CostModel.h"
#include "compiler/matmul/Engine.h"

#include <optional>
#include <string_view>

namespace moec::compiler {

/// Maximum number of (token, expert) pairs that a CTA stores
/// (templates/moe/routing/few.cuh).
inline constexpr int64_t kFewPairs = 64;
/// Number of rows of one expert that a kernel multiplies at a time, if it runs
/// for at least this many tokens (templates/moe/routing/few.cuh).
inline constexpr int64_t kFewTileRows = 4;

/// Maximum token count for which few-token kernels are used. With more tokens,
/// other engines are faster, because few-token kernels convert the weights
/// again for each row of x.
struct FewTokensRule {
  struct When {
    int64_t elementBytes; ///< bytes of an operand element
    /// Element types of weights that the kernel converts to operands. Empty if
    /// the weights are multiplied without conversion.
    WordList weights = {};
    int64_t groupK = 0; ///< columns that share a scale; 0: no condition
    /// Minimum number of elements in an expert's first weight.
    int64_t leastElements = 0;
  } when;
  struct Then {
    int64_t tokens;
  } then;
  Measured measured;
};

inline constexpr Measured kMeasuredFew = {"bench/notes/gemv-h100.md",
                                          "2026-11-21"};
inline constexpr Measured kMeasuredSlabs = {"bench/notes/weight-only-h100.md",
                                            "2026-11-24"};
inline constexpr Measured kMeasuredLarge = {"bench/notes/weight-only-h200.md",
                                            "2026-11-30"};

/// The first rule whose conditions hold applies.
// clang-format off
inline constexpr FewTokensRule kFewTokensRules[] = {
    {{.elementBytes = 1}, {.tokens = 1}, kMeasuredFew},
    {{.elementBytes = 2}, {.tokens = 4}, kMeasuredFew},
    {{.elementBytes = 4}, {.tokens = 4}, kMeasuredFew},
    {{.elementBytes = 2, .weights = "i4"}, {.tokens = 8}, kMeasuredSlabs},
    {{.elementBytes = 2, .weights = "f4E2M1FN", .leastElements = 64 << 20}, {.tokens = 8}, kMeasuredLarge},
    {{.elementBytes = 2, .weights = "f4E2M1FN", .groupK = 16}, {.tokens = 2}, kMeasuredSlabs},
    {{.elementBytes = 2, .weights = "f4E2M1FN f8E4M3FN f8E5M2 i8"}, {.tokens = 4}, kMeasuredSlabs},
};
// clang-format on

/// Returns the dynamic shared memory per CTA in bytes. It equals the kernel's
/// sharedBytes().
int64_t sharedBytes(const MatmulProblem &problem, const GemvSchedule &schedule);
/// Returns the dynamic shared memory in bytes that a launch requests, such that
/// at most `ctasPerSm` CTAs fit on an SM. With programmatic dependent launch,
/// CTAs start while the predecessor launch ends. Without this limit, the SMs
/// that the predecessor leaves first would receive more CTAs than the others.
int64_t launchBytes(int64_t sharedBytes, int64_t ctasPerSm,
                    const Hardware &hardware);

/// Returns the schedule of the first rule whose conditions hold and whose
/// schedule fits the GPU, or nullopt.
std::optional<GemvSchedule> gemvSchedule(const MatmulProblem &problem,
                                         const Hardware &hardware);

/// Estimates the time of a few-token kernel (`route_gate_up` or `down_combine`)
/// that reads the weights of `touchedExperts` experts.
Cost gemvCost(const MatmulProblem &problem, double touchedExperts,
              const Hardware &hardware);

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_GEMV_H
