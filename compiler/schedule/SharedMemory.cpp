//===- SharedMemory.cpp - bytes a schedule needs --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Mirrors templates/moe/kernel/grouped_matmul.cuh; emitted code asserts it.
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/SharedMemory.h"

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

/// Of the warp-specialized skeleton: behind the ring a staging tile for each
/// consuming warpgroup, or one of 8 tokens for each warp whose rows are tokens,
/// two slots for tiles, the scales of the tokens of each stage, and the
/// barriers.
static int64_t specializedBytes(const MatmulProblem &problem,
                                const Schedule &schedule) {
  constexpr int64_t kSlot = 16, kBarrier = 8;
  int64_t rows = schedule.rowsOfWarpgroup();
  int64_t ring = schedule.stages * (schedule.tileM + schedule.tileN) *
                 schedule.tileK * problem.elementBytes;
  int64_t columns = problem.gated ? rows / 2 : rows;
  int64_t tokens = std::min<int64_t>(
      schedule.tileM, problem.resultBytes == 4 || columns > 64 ? 32 : 64);
  int64_t staging = tokens * (columns * problem.resultBytes + 16);
  staging *= schedule.tileN / rows;
  if (!schedule.swap)
    staging = schedule.consumerWarps * 8 *
              (schedule.tileN / (problem.gated ? 2 : 1) + 8) *
              problem.resultBytes;
  // One of f32 for all warpgroups.
  if (problem.quantizesGroups())
    staging = schedule.tileM * kScaledColumns * 4;
  int64_t scales =
      problem.groupScales ? schedule.stages * schedule.tileM * 4 : 0;
  return ring + staging + 2 * kSlot + scales +
         (2 * schedule.stages + 4) * kBarrier;
}

int64_t compiler::sharedBytes(const MatmulProblem &problem,
                              const Schedule &schedule) {
  if (schedule.hasRoles())
    return specializedBytes(problem, schedule);
  // A ring of stages, each with a tile of lhs and a tile of weights; after it
  // the same bytes hold the result, 16 bytes of padding a row.
  int64_t rowBytes = schedule.tileK * problem.elementBytes;
  int64_t ring = schedule.stages * (schedule.tileM + schedule.tileN) * rowBytes;
  // Codes lie in words of 4 or 8 bytes for 8 of them, and behind the ring there
  // are two tiles of what they become.
  if (problem.codeBits > 0)
    ring = schedule.stages * (schedule.tileM * rowBytes +
                              schedule.tileN * (schedule.tileK / 8) *
                                  (problem.codeBits == 4 ? 4 : 8)) +
           2 * schedule.tileN * rowBytes;
  int64_t columns = problem.gated ? schedule.tileN / 2 : schedule.tileN;
  int64_t staging = schedule.tileM * (columns * problem.resultBytes + 16);
  return std::max(ring, staging);
}

int64_t compiler::estimateRegisters(const MatmulProblem &problem,
                                    const Schedule &schedule) {
  // What the launch allots; warps hand registers to each other later.
  if (schedule.hasRoles())
    return schedule.registersOfCta() / schedule.threads();
  int64_t accumulators = schedule.tileM * schedule.tileN /
                         std::max<int64_t>(schedule.threads(), 1);
  int64_t warpM = schedule.tileM / schedule.warpsM;
  int64_t warpN = schedule.tileN / schedule.warpsN;
  // One step of 16 in k: four registers for 16 rows of lhs, two for 8 rows of
  // weights. Addresses, loop and predicates take the rest.
  int64_t fragments =
      schedule.engine == "simt" ? (warpM + warpN) / 8 : warpM / 4 + warpN / 4;
  int64_t addresses = problem.gather ? 44 : 40;
  // Totals beside the sums, operands of 16 bits beside those of 8 where the
  // arch has no multiply of 8, and the scales.
  if (problem.elementBytes == 1) {
    accumulators *= 2;
    fragments *= schedule.engine == "simt" ? 1 : 2;
    addresses += 40;
  }
  // Scales, zero points and their places.
  if (problem.codeBits > 0)
    addresses += 64;
  int64_t estimate = accumulators + fragments + addresses;
  return std::min<int64_t>((estimate + 7) / 8 * 8, 255);
}

int64_t compiler::occupancy(const MatmulProblem &problem,
                            const Schedule &schedule,
                            const Hardware &hardware) {
  int64_t shared = sharedBytes(problem, schedule);
  if (shared > hardware.sharedPerBlock)
    return 0;
  // The driver keeps 1 KiB of each block for itself.
  int64_t byShared = hardware.sharedPerSm / (shared + 1024);
  int64_t byRegisters =
      hardware.registersPerSm /
      (estimateRegisters(problem, schedule) * schedule.threads());
  int64_t byThreads = hardware.threadsPerSm / schedule.threads();
  return std::min({byShared, byRegisters, byThreads, hardware.ctasPerSm});
}
