//===- Slabs.cpp - weights in MMA fragment order --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/Slabs.h"

#include <fmt/core.h>

using namespace moec;
using namespace moec::compiler;

int64_t compiler::groupsOf(const MatmulProblem &problem, int64_t columns) {
  return problem.groupK > 0 && problem.groupK < columns
             ? columns / problem.groupK
             : 1;
}

int64_t compiler::slabBytes(const MatmulProblem &problem,
                            const Schedule &schedule) {
  return schedule.tileN *
         (schedule.tileK * problem.codeBits / 8 +
          groupsOf(problem, schedule.tileK) * problem.numberBytes);
}

std::optional<std::string> compiler::whyNoSlabs(const MatmulProblem &problem) {
  if (problem.codeBits != 4 && problem.codeBits != 6 && problem.codeBits != 8)
    return fmt::format("weights of {} bits; 4, 6 and 8 are possible",
                       problem.codeBits);
  const int64_t columns = slabColumns(problem.elementBytes);
  if (problem.n % kSlabBlock || problem.k % columns)
    return fmt::format("weights of {} by {}; multiples of {} by {} are "
                       "possible",
                       problem.n, problem.k, kSlabBlock, columns);
  return std::nullopt;
}

double compiler::conversionSeconds(const MatmulProblem &problem,
                                   double elements,
                                   const ConversionClocks &clocks,
                                   const Hardware &hardware) {
  if (problem.codeBits == 0)
    return 0;
  constexpr double kScalarFlopsOfClock = 256;
  const double ofElement =
      clocks.code +
      (problem.groupK > 0 ? clocks.scale / double(problem.groupK) : 0);
  return elements * ofElement * kScalarFlopsOfClock / hardware.scalarFlops;
}
