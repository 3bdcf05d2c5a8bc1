//===- Multistage.h - engines with a grid of warps --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Base class of engines in which every warp of a CTA both copies and
// multiplies. Asynchronous copies fill several pipeline stages in shared memory
// ahead of the MMAs (templates/moe/matmul/loop/multistage.cuh).
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_MULTISTAGE_H
#define MOEC_COMPILER_MATMUL_MULTISTAGE_H

#include "compiler/matmul/Engine.h"

#include <utility>

namespace moec::compiler {

class Multistage : public Engine {
public:
  using Engine::Engine;

  std::span<const TileRule> tileRules() const override;
  std::string possibleTileRows(const MatmulProblem &) const override {
    return "tiles of 16, 32, 64 and 128 rows";
  }
  std::vector<Schedule> candidates(const MatmulProblem &problem,
                                   const Hardware &hardware) const override;
  std::optional<std::string>
  whyIllegal(const MatmulProblem &problem,
             const Schedule &schedule) const override;
  std::optional<std::string>
  whyGroupsApart(const MatmulProblem &problem) const override;
  bool isPersistent() const override { return false; }
  int64_t sharedBytes(const MatmulProblem &problem,
                      const Schedule &schedule) const override;
  int64_t registers(const MatmulProblem &problem,
                    const Schedule &schedule) const override;
  int64_t ctasPerSm(const MatmulProblem &problem, const Schedule &schedule,
                    const Hardware &hardware) const override;
  EngineCost cost(const MatmulProblem &problem, const Schedule &schedule,
                  const Hardware &hardware,
                  const MatmulWork &work) const override;
  std::string mma(const MatmulProblem &problem, const Schedule &schedule,
                  std::string_view type, bool isNative) const override;

protected:
  void setWarps(Schedule &schedule, const ScheduleChoice &choice,
                const MatmulProblem &problem,
                const Hardware &hardware) const override;
  /// The extents of a warp's tile must be multiples of these, which follow from
  /// the MMA fragments.
  struct Granularity {
    int64_t m, n, k;
  };
  /// The parameters that candidates() combines for a tile size. They are those
  /// that were fast on GPUs, not all legal ones.
  struct Choices {
    std::vector<int64_t> tileNs, tileKs;
    int64_t minStages, maxStages;
    std::vector<std::pair<int64_t, int64_t>> warps;
  };
  virtual Granularity granularity(const MatmulProblem &problem) const = 0;
  virtual Choices choices(const MatmulProblem &problem) const = 0;
  /// Returns the number of registers per thread that hold the operands of a k
  /// step.
  virtual int64_t fragments(const MatmulProblem &problem, int64_t warpM,
                            int64_t warpN) const = 0;
  /// Returns the maximum number of CTAs per SM for which ptxas does not spill
  /// registers.
  virtual int64_t mostCtas(const MatmulProblem &, const Schedule &,
                           const Hardware &) const {
    return 8;
  }
  /// Returns the operations per second of one SM with warp tiles of this size.
  virtual double rate(const MatmulProblem &problem, const Hardware &hardware,
                      double warpM, double warpN) const = 0;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_MULTISTAGE_H
