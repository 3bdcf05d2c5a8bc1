//===- FuzzTuned.cpp - files of measured schedules ------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows are judged for the problem that they say they were measured on: a row
// that is not legal is passed over, whatever its numbers are.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/Engine.h"
#include "compiler/matmul/Problem.h"
#include "compiler/plan/Tuned.h"
#include "test/fuzz/Fuzz.h"

using namespace moec;
using namespace moec::compiler;

static const Hardware &gpu() {
  static const Hardware hardware = [] {
    Hardware found;
    fuzz::require(findHardware("sm_90a", "h100_sxm", found),
                  "the GPU is known");
    return found;
  }();
  return hardware;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto rows = parseTuned(fuzz::textOf(data, size), "in.json");
  if (!rows) {
    fuzz::requireRefusal(rows.error());
    return 0;
  }
  for (const TunedRow &row : *rows) {
    MatmulProblem problem;
    problem.minTokens = 1, problem.maxTokens = row.tokens;
    problem.n = row.n, problem.k = row.k;
    problem.experts = problem.localExperts = row.experts;
    problem.pairs = row.pairs;
    problem.elementType = row.elementType;
    problem.gated = row.gated, problem.gather = row.gather;
    problem.tileRows = row.schedule.tileM;
    if (row.hasRange())
      problem.minTokens = row.first, problem.maxTokens = row.last;
    const Engines engines = {&engineOf(row.schedule)};
    const TunedRow *found = findTuned(*rows, problem, engines, gpu());
    fuzz::require(!found || !whyIllegal(problem, found->schedule, gpu()),
                  "a schedule that is taken is legal");
    fuzz::require(!row.hasRange() ||
                      joined(servedRanges(*rows, problem, engines, problem,
                                          engines, gpu(), row.last))
                              .size() <= 2 * rows->size(),
                  "a row within another one leaves two parts of it");
  }
  return 0;
}
