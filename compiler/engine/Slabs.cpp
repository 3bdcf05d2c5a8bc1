//===- Slabs.cpp - weights in the order of fragments ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/engine/Slabs.h"

#include <fmt/format.h>

using namespace moec;
using namespace moec::compiler;

int64_t compiler::groupsOfStage(const MatmulProblem &problem) {
  return problem.groupK > 0 && problem.groupK < kSlabBlock
             ? kSlabBlock / problem.groupK
             : 1;
}

int64_t compiler::slabBytes(const MatmulProblem &problem, int64_t tileN) {
  return tileN * (kSlabBlock * problem.codeBits / 8 +
                  groupsOfStage(problem) * problem.numberBytes);
}

std::optional<std::string> compiler::whyNoSlabs(const MatmulProblem &problem) {
  if (problem.codeBits != 4 && problem.codeBits != 8)
    return fmt::format("weights of {} bits; 4 and 8 are possible",
                       problem.codeBits);
  if (problem.n % kSlabBlock || problem.k % kSlabBlock)
    return fmt::format("weights of {} by {}; multiples of {} are possible",
                       problem.n, problem.k, kSlabBlock);
  return std::nullopt;
}
