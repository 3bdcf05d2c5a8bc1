//===- CostModel.cpp - ranks schedules ------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The constants were fitted to an H100 (cold reads of 1 to 1024 MB by one
// kernel; dense matmul by mma.sync) and scale with the GPU row's numbers.
//
//===----------------------------------------------------------------------===//

#include "compiler/engine/CostModel.h"

#include "compiler/engine/Engine.h"

#include <algorithm>
#include <cmath>

using namespace moec;
using namespace moec::compiler;

/// A kernel that reads 1 MB takes this above bytes / bandwidth.
static constexpr double kRampSeconds = 1.6e-6;
/// Bytes in flight on an SM at which half of the bandwidth is reached.
static constexpr double kHalfBandwidthBytes = 8 << 10;
/// The L2 (and the L1 hits of CTAs that share a tile) delivers against memory:
/// 128x128 tiles reach 500 TFLOP/s on an H100, which is 8.5 TB/s.
static constexpr double kL2OverMemory = 3.5;

double compiler::touchedExperts(const MatmulProblem &p, int64_t tokens) {
  double share = double(p.pairs) / double(p.experts);
  return double(p.localExperts) *
         (1.0 - std::pow(1.0 - std::min(share, 1.0), double(tokens)));
}

double compiler::expectedTiles(const MatmulProblem &p, int64_t tokens) {
  double touched = touchedExperts(p, tokens);
  double rows = double(tokens) * double(p.pairs) * double(p.localExperts) /
                double(p.experts);
  if (touched <= 0)
    return 0;
  // Half a tile of every touched expert is empty on average, and each expert
  // has one at least.
  return std::max(
      touched, rows / double(p.tileRows) +
                   touched * (rows / touched > double(p.tileRows) ? 0.5 : 0.0));
}

Cost compiler::estimate(const MatmulProblem &p, const Schedule &s,
                        const Hardware &hw, int64_t tokens) {
  double eb = double(p.elementBytes);
  double touched = touchedExperts(p, tokens);
  double mTiles = expectedTiles(p, tokens);
  double nTiles = std::ceil(double(p.n) / double(s.tileN));
  double tiles = mTiles * nTiles;
  double rows = double(tokens) * double(p.pairs) * double(p.localExperts) /
                double(p.experts);
  double sms = double(hw.sms);
  double tilesPerSm = std::ceil(tiles / sms);
  double resident = std::max(1.0, std::min(double(s.ctasPerSm), tilesPerSm));

  Cost cost;
  double columns = double(p.gated ? p.n / 2 : p.n);
  double lhsRows = p.gather ? double(tokens) : rows;
  double bytes = touched * double(p.n) * double(p.k) * eb +
                 lhsRows * double(p.k) * eb +
                 rows * columns * double(p.resultBytes);
  double inFlight = resident * double(s.stages - 1) * double(s.tileK) * eb *
                    double(s.tileN + std::min(s.tileM, s.tileN));
  double reach = inFlight / (inFlight + kHalfBandwidthBytes);
  // An SM alone cannot draw more than about twice its share.
  double busy = std::min(1.0, 2.0 * std::min(tiles, sms) / sms);
  double throughL2 = tiles * double(s.tileM + s.tileN) * double(p.k) * eb;
  cost.memorySeconds = std::max(bytes / (hw.bandwidth * reach * busy),
                                throughL2 / (hw.bandwidth * kL2OverMemory));

  EngineCost ofEngine =
      findEngine(s.engine)->cost(p, s, hw, tilesPerSm, resident);
  cost.computeSeconds = ofEngine.computeSeconds;
  double longer = std::max(cost.memorySeconds, cost.computeSeconds);
  double shorter = std::min(cost.memorySeconds, cost.computeSeconds);
  cost.seconds = longer + 0.1 * shorter + ofEngine.fillSeconds + kRampSeconds;
  return cost;
}

Schedule compiler::best(const MatmulProblem &problem,
                        const std::vector<Schedule> &schedules,
                        const Hardware &hardware) {
  int64_t middle =
      std::max<int64_t>(1, int64_t(std::sqrt(double(problem.minTokens) *
                                             double(problem.maxTokens))));
  // Beyond a few thousand tokens nothing changes any more.
  int64_t last = std::min<int64_t>(problem.maxTokens,
                                   std::max<int64_t>(problem.minTokens, 8192));
  const Schedule *winner = &schedules.front();
  double least = 0;
  for (const Schedule &s : schedules) {
    double cost = 0;
    for (int64_t tokens : {problem.minTokens, middle, last})
      cost += std::log(estimate(problem, s, hardware, tokens).seconds);
    if (&s == &schedules.front() || cost < least - 1e-9) {
      winner = &s;
      least = cost;
    }
  }
  return *winner;
}
