//===- simt.cpp - engine simt: FMAs on the CUDA cores ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Supports every arch. It is the only engine for element types without tensor
// core MMAs, such as f32.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/Multistage.h"

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

namespace {
class Simt final : public Multistage {
public:
  Simt() : Multistage("simt") {}

private:
  // One k step is a 16-byte load per row.
  Granularity granularity(const MatmulProblem &problem) const override {
    return {4, 16, 16 / problem.elementBytes};
  }

  Choices choices(const MatmulProblem &problem) const override {
    Choices c = {{64},
                 {64 / problem.elementBytes},
                 2,
                 3,
                 {problem.tileRows <= 32 ? std::pair<int64_t, int64_t>{1, 4}
                  : problem.tileRows <= 64
                      ? std::pair<int64_t, int64_t>{2, 4}
                      : std::pair<int64_t, int64_t>{4, 2}}};
    // f32 totals and the larger number of elements per 16-byte load leave
    // registers for fewer columns.
    if (problem.elementBytes == 1 && problem.tileRows > 64)
      c.tileNs = {32};
    return c;
  }

  int64_t fragments(const MatmulProblem &, int64_t warpM,
                    int64_t warpN) const override {
    return (warpM + warpN) / 8;
  }

  int64_t mostCtas(const MatmulProblem &problem, const Schedule &s,
                   const Hardware &hardware) const override {
    // Registers of a lane: two sets of 16 bytes for each of its lhs rows and
    // weight rows. Elements narrower than f32 are converted to f32, for all
    // weight rows and one lhs row at a time.
    int64_t rowsOfLhs = s.tileM / s.grid().m / 4;
    int64_t rowsOfWeights = s.tileN / s.grid().n / 8;
    int64_t operands = 2 * 4 * (rowsOfLhs + rowsOfWeights);
    if (problem.elementBytes < 4)
      operands += 16 / problem.elementBytes * (rowsOfWeights + 1);
    constexpr int64_t kAddresses = 48;
    // 8-bit operands need f32 totals in addition to the accumulators, and
    // scales.
    int64_t sums = rowsOfLhs * rowsOfWeights;
    if (problem.elementBytes == 1)
      sums = 2 * sums + 2 * rowsOfLhs;
    if (problem.codeBits > 0)
      sums += 24; // scales, zero points and their addresses
    int64_t registers = operands + sums + kAddresses;
    return std::max<int64_t>(
        hardware.registersPerSm / (registers * s.threads()), 1);
  }

  double rate(const MatmulProblem &, const Hardware &hardware, double,
              double) const override {
    return hardware.scalarFlops / double(hardware.sms) * 0.5;
  }
};
} // namespace

const Engine &engines::simt() {
  static const Simt engine;
  return engine;
}
