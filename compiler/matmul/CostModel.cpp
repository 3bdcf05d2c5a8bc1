//===- CostModel.cpp - ranks schedules by predicted time ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The constants in this file and the constants of engine wgmma were fitted
// together on an H100. For other GPUs they are scaled by the values in the
// GPU's catalog row.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/CostModel.h"

#include "compiler/matmul/Engine.h"

#include <algorithm>
#include <cmath>

using namespace moec;
using namespace moec::compiler;

/// Bytes in flight per SM at which a kernel reaches half of the bandwidth.
static constexpr double kHalfBandwidthBytes = 8 << 10;
/// Bandwidth with enough bytes in flight, relative to the bandwidth of a plain
/// read.
static constexpr double kFullBandwidth = 1.04;
/// Exponent p of the p-norm that combines the overlapping parts: time = (sum of
/// part^p)^(1/p). The longest part dominates.
static constexpr double kOverlap = 3.75;

std::string_view Cost::bound() const {
  const double longest =
      std::max({memorySeconds, l2Seconds, computeSeconds, convertSeconds});
  if (fillSeconds > longest)
    return "latency";
  return longest == memorySeconds    ? "memory"
         : longest == l2Seconds      ? "l2"
         : longest == convertSeconds ? "convert"
                                     : "compute";
}

void Cost::add() {
  const double before = convertsFirst ? convertSeconds : 0;
  double overlapped = 0;
  for (double part : {memorySeconds, l2Seconds, computeSeconds + before,
                      convertSeconds - before})
    overlapped += std::pow(part, kOverlap);
  seconds = std::pow(overlapped, 1 / kOverlap) + fillSeconds;
}

Cost compiler::estimate(const MatmulProblem &p, const Schedule &s,
                        const Hardware &hw, const ExpertRows &load) {
  const Engine &engine = engineOf(s);
  MatmulWork work;
  work.rowTiles = load.tiles(s.tileM, engine.rowStep(s), p.alikeTiles);
  work.columnTiles = std::ceil(double(p.n) / double(s.tileN));
  work.weights = work.rowTiles.count * double(p.n) * double(p.k);
  double tiles = work.rowTiles.count * work.columnTiles;
  // If there are few tiles, the CTAs of a cluster split the K dimension of each
  // tile.
  if (tiles <= double(mostTilesToSplit(hw)) && engine.maySplit(p, s, hw))
    tiles *= double(kSplit);
  const double sms = double(hw.sms);
  work.tilesOfSm = tiles / sms;
  work.resident =
      std::max(1.0, std::min(double(s.ctasPerSm), std::ceil(work.tilesOfSm)));

  Cost cost;
  const double eb = double(p.elementBytes), k = double(p.k);
  const double rows = load.rows();
  const double columns = double(p.gated ? p.n / 2 : p.n);
  const double lhsRows = p.gather ? double(load.tokens()) : rows;
  cost.bytes = load.touched() * p.weightBytes() + lhsRows * k * eb +
               rows * columns * double(p.resultBytes);
  cost.flops = 2 * rows * double(p.n) * k;
  if (tiles <= 0)
    return cost;

  const double ofElement = p.weightBytes() / (double(p.n) * k);
  const double inFlight =
      work.resident * double(s.stages - 1) * double(s.tileK) *
      (double(s.tileN) * ofElement + double(std::min(s.tileM, s.tileN)) * eb);
  const double reach = inFlight / (inFlight + kHalfBandwidthBytes);
  // One SM cannot use more than about twice the average bandwidth per SM.
  const double busy = std::min(1.0, 2.0 * std::min(tiles, sms) / sms);
  cost.memorySeconds =
      cost.bytes / (hw.bandwidth * kFullBandwidth * reach * busy);
  const double tileRows = work.rowTiles.rows / work.rowTiles.count;
  const double throughL2 =
      tiles * (tileRows * eb + double(s.tileN) * ofElement) * k;
  cost.l2Seconds = throughL2 / hw.l2Bandwidth;

  const EngineCost ofEngine = engine.cost(p, s, hw, work);
  cost.computeSeconds = ofEngine.computeSeconds;
  cost.fillSeconds = ofEngine.fillSeconds;
  cost.convertSeconds = ofEngine.convertSeconds;
  cost.convertsFirst = engine.convertsFirst();
  cost.add();
  return cost;
}

Cost compiler::estimate(const MatmulProblem &problem, const Schedule &schedule,
                        const Hardware &hardware, int64_t tokens) {
  return estimate(problem, schedule, hardware,
                  ExpertRows::uniform(tokens, problem.experts,
                                      problem.localExperts, problem.pairs));
}

Schedule compiler::best(const MatmulProblem &problem,
                        const std::vector<Schedule> &schedules,
                        const Hardware &hardware) {
  int64_t middle =
      std::max<int64_t>(1, int64_t(std::sqrt(double(problem.minTokens) *
                                             double(problem.maxTokens))));
  // The ranking does not change beyond a few thousand tokens.
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
