//===- ScheduleTesting.h - problems and schedules for tests -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_COMPILER_UNIT_SCHEDULETESTING_H
#define MOEC_TEST_COMPILER_UNIT_SCHEDULETESTING_H

#include "compiler/matmul/Problem.h"

namespace moec::test {

using compiler::Hardware;
using compiler::MatmulProblem;
using compiler::setRoles;

inline Hardware h100() {
  Hardware hw;
  hw.gpu = "h100_sxm";
  hw.arch = "sm_90a";
  hw.sharedPerBlock = 232448;
  hw.sharedPerSm = 233472;
  hw.threadsPerSm = 2048;
  hw.ctasPerSm = 32;
  hw.sms = 132;
  hw.bandwidth = 3.35e12;
  hw.l2Bytes = 50 << 20;
  hw.l2Bandwidth = 10.8e12;
  hw.tensorFlops = 989e12;
  hw.scalarFlops = 67e12;
  return hw;
}

/// Gate and up of Qwen3-30B-A3B.
inline MatmulProblem gateUp(int64_t minTokens, int64_t maxTokens,
                            int64_t tileRows) {
  MatmulProblem p;
  p.minTokens = minTokens, p.maxTokens = maxTokens;
  p.n = 1536, p.k = 2048;
  p.experts = p.localExperts = 128, p.pairs = 8;
  p.elementType = "bf16";
  p.gated = p.gather = p.first = true;
  p.tileRows = tileRows;
  return p;
}

/// The table's roles for wgmma tiles of `tileRows` rows.
inline Schedule roles(int64_t tileRows, int64_t elementBytes = 2) {
  Schedule s;
  s.engine = catalog::find(catalog::kEngines, "wgmma");
  s.tileM = tileRows, s.tileN = 128, s.tileK = 128 / elementBytes;
  s.stages = 4;
  setRoles(s);
  return s;
}

/// The same with operands of 8 bits, scaled by groups of 128.
inline MatmulProblem ofBytes(MatmulProblem p) {
  p.elementType = "f8E4M3FN";
  p.elementBytes = 1;
  p.resultBytes = 4;
  p.groupScales = true;
  return p;
}

} // namespace moec::test

#endif // MOEC_TEST_COMPILER_UNIT_SCHEDULETESTING_H
