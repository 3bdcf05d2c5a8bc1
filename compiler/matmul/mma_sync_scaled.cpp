//===- mma_sync_scaled.cpp - engine mma_sync_scaled: block scales ---------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Uses mma.sync with block_scale on sm_120f. All sizes along k are in bytes: an
// MMA has rows of 32 bytes. A pipeline stage has rows of 128 bytes, so the
// scales of a row are whole 32-bit words. The constants are not measured,
// because no such GPU was available.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/Multistage.h"

#include <fmt/core.h>

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

static constexpr int64_t kStepBytes = 32;
static constexpr int64_t kStageBytes = 128;

/// Assumed to equal the constants of engine mma_sync. Each product reads half
/// as many bytes as with 16-bit operands.
static constexpr double kEfficiency = 0.65;
static constexpr double kBytesPerMultiplyAdd = 0.125;

/// Returns the number of bytes along k that share a scale.
static int64_t blockBytes(const MatmulProblem &problem) {
  return problem.powerGroups ? kStepBytes : problem.blockBytes;
}

namespace {
class MmaSyncScaled final : public Multistage {
public:
  MmaSyncScaled() : Multistage("mma_sync_scaled") {}

  std::optional<std::string> whyIllegal(const MatmulProblem &problem,
                                        const Schedule &s) const override {
    if (blockBytes(problem) == 0)
      return fmt::format("engine '{}' multiplies operands with the scales of "
                         "blocks of both",
                         row.name);
    if (s.tileK != kStageBytes)
      return fmt::format("tile k {}; engine '{}' takes {} bytes", s.tileK,
                         row.name, kStageBytes);
    // The scale registers of a warp, one per lane, cover two MMA fragments of
    // 16 lhs rows, or four fragments of 8 weight rows.
    const bool isGrid = !s.hasRoles() && s.grid().m > 0 && s.grid().n > 0;
    const int64_t warpM = isGrid ? s.tileM / s.grid().m : 0;
    const int64_t warpN = isGrid ? s.tileN / s.grid().n : 0;
    if ((warpM != 16 && warpM % 32) || (warpN != 16 && warpN % 32))
      return fmt::format("a warp's tile of {}x{}; with scales of blocks its "
                         "sides are 16 or multiples of 32",
                         warpM, warpN);
    // The tensor core applies the scales, so accumulators are not promoted.
    MatmulProblem scaled = problem;
    scaled.blockBytes = blockBytes(problem);
    return Multistage::whyIllegal(scaled, s);
  }

  int64_t sharedBytes(const MatmulProblem &problem,
                      const Schedule &s) const override {
    const int64_t ring = s.stages * (s.tileM + s.tileN) *
                         (s.tileK + s.tileK / blockBytes(problem));
    const int64_t columns = problem.gated ? s.tileN / 2 : s.tileN;
    return std::max(ring, s.tileM * (columns * problem.resultBytes + 16));
  }

  int64_t registers(const MatmulProblem &problem,
                    const Schedule &s) const override {
    const int64_t sums = s.tileM * s.tileN / std::max<int64_t>(s.threads(), 1);
    // Registers for addresses of operands and scales, loop counters and
    // predicates.
    const int64_t addresses = problem.gather ? 56 : 52;
    const int64_t estimate =
        sums + addresses +
        fragments(problem, s.tileM / s.grid().m, s.tileN / s.grid().n);
    return std::min<int64_t>((estimate + 7) / 8 * 8, 255);
  }

private:
  Granularity granularity(const MatmulProblem &) const override {
    return {16, 16, kStepBytes};
  }

  Choices choices(const MatmulProblem &problem) const override {
    if (problem.tileRows <= 16)
      return {{64, 128}, {kStageBytes}, 3, 6, {{1, 4}}};
    if (problem.tileRows <= 32)
      return {{64, 128}, {kStageBytes}, 3, 6, {{1, 4}, {2, 2}}};
    if (problem.tileRows <= 64)
      return {{64, 128}, {kStageBytes}, 2, 5, {{2, 2}, {1, 4}, {2, 4}}};
    return {{64, 128}, {kStageBytes}, 2, 4, {{2, 4}, {4, 2}, {2, 2}}};
  }

  int64_t fragments(const MatmulProblem &, int64_t warpM,
                    int64_t warpN) const override {
    // Registers for two k steps: four for 16 lhs rows, two for 8 weight rows,
    // and the scales.
    return 2 * (warpM / 4 + warpN / 4) / 2 + 2 * ((warpM + 31) / 32) +
           2 * ((warpN + 31) / 32);
  }

  double rate(const MatmulProblem &problem, const Hardware &hardware,
              double warpM, double warpN) const override {
    // `multiply` and `load` are the clocks per k byte of a warp's tile; see
    // mma_sync.cpp.
    const double multiply = warpM * warpN / (2 * 1024.0 * kEfficiency);
    const double load = (warpM + warpN) * kBytesPerMultiplyAdd / 16.0;
    return hardware.tensorFlopsOf(problem.elementBytes) * kEfficiency /
           double(hardware.sms) * (multiply / (multiply + 0.35 * load));
  }
};
} // namespace

const Engine &engines::mma_sync_scaled() {
  static const MmaSyncScaled engine;
  return engine;
}
