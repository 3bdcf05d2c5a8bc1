//===- Gemv.h - schedules of the two kernels of few tokens ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A layer of a few tokens is two kernels whose time is that of reading weights:
// as many bytes as fit are on their way. Dot products have the rows that they
// multiply by in shared memory. Codes in the order of fragments become operands
// of mma.sync, and bring those rows with them.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_GEMV_H
#define MOEC_COMPILER_MATMUL_GEMV_H

#include "compiler/matmul/CostModel.h"
#include "compiler/matmul/Engine.h"

#include <optional>
#include <string_view>

namespace moec::compiler {

/// The number of pairs of a token and an expert that a CTA keeps
/// (routing/few.cuh).
inline constexpr int64_t kFewPairs = 64;
/// The number of rows of an expert that a kernel for at least as many tokens
/// multiplies at a time (routing/few.cuh).
inline constexpr int64_t kFewTileRows = 4;

/// The most tokens that these kernels serve. Above them other engines are
/// faster: these kernels convert weights anew for each row of x.
struct FewTokensRule {
  struct When {
    int64_t elementBytes; ///< Bytes of an operand's element.
    /// Types of stored weights that are converted to operands. Empty if stored
    /// weights are operands.
    WordList weights = {};
    int64_t groupK = 0; ///< Columns that share a scale; 0 takes any number.
    /// The minimum number of elements of an expert's first weight.
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

/// The first rule that holds is taken.
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

/// Dynamic shared memory; what the kernel's sharedBytes() says.
int64_t sharedBytes(const MatmulProblem &problem, const GemvSchedule &schedule);
/// Dynamic shared memory that a launch asks for: so much that a multiprocessor
/// holds no more CTAs than the schedule says. CTAs start while the launch in
/// front ends, and more of them would gather where that one ends first.
int64_t launchBytes(int64_t sharedBytes, int64_t ctasPerSm,
                    const Hardware &hardware);

/// The schedule of the first rule that holds and fits the GPU, if one does.
std::optional<GemvSchedule> gemvSchedule(const MatmulProblem &problem,
                                         const Hardware &hardware);

/// The time of one of the two kernels, which reads the weights of
/// `touchedExperts`.
Cost gemvCost(const MatmulProblem &problem, double touchedExperts,
              const Hardware &hardware);

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_GEMV_H
