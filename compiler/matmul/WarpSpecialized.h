//===- WarpSpecialized.h - engines whose warps have roles -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Some warps of a CTA copy and the others multiply, and CTAs stay until no tile
// is left (templates/moe/matmul/roles/produce_consume.cuh).
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_WARPSPECIALIZED_H
#define MOEC_COMPILER_MATMUL_WARPSPECIALIZED_H

#include "compiler/matmul/Engine.h"
#include "compiler/matmul/Slabs.h"

namespace moec::compiler {

class WarpSpecialized : public Engine {
public:
  using Engine::Engine;

  /// All widths, roles and numbers of CTAs, with the deepest rings that fit.
  std::vector<Schedule> candidates(const MatmulProblem &problem,
                                   const Hardware &hardware) const override;
  std::optional<std::string>
  whyIllegal(const MatmulProblem &problem,
             const Schedule &schedule) const override;
  std::optional<std::string>
  whyGroupsApart(const MatmulProblem &problem) const override;
  bool maySplit(const MatmulProblem &problem, const Schedule &schedule,
                const Hardware &hardware) const override;
  bool isPersistent() const override { return true; }
  int64_t sharedBytes(const MatmulProblem &problem,
                      const Schedule &schedule) const override;
  /// Registers at launch; warps hand registers to each other later.
  int64_t registers(const MatmulProblem &,
                    const Schedule &schedule) const override;
  int64_t ctasPerSm(const MatmulProblem &, const Schedule &schedule,
                    const Hardware &) const override {
    return schedule.ctasPerSm;
  }
  /// Tokens are columns of an instruction, or rows of a warpgroup's.
  int64_t rowStep(const Schedule &schedule) const override {
    return schedule.roles().swap ? 16 : 64;
  }
  EngineCost cost(const MatmulProblem &problem, const Schedule &schedule,
                  const Hardware &hardware,
                  const MatmulWork &work) const override;
  std::string mma(const MatmulProblem &problem, const Schedule &schedule,
                  std::string_view type, bool isNative) const override;

protected:
  void setWarps(Schedule &schedule, const ScheduleChoice &choice,
                const MatmulProblem &problem,
                const Hardware &hardware) const override;
  /// Why the instruction cannot multiply the tile.
  virtual std::optional<std::string>
  whyNoTile(const MatmulProblem &problem, const Schedule &schedule) const = 0;
  /// Registers of a consumer for sums and what stands beside them, and those
  /// for addresses and the epilogue.
  struct Sums {
    int64_t registers, others;
    std::string_view words; ///< "accumulators", for messages
  };
  virtual Sums sums(const MatmulProblem &problem,
                    const Schedule &schedule) const = 0;
  /// Sums are added to totals as they become long.
  virtual bool isPromoted(const MatmulProblem &problem) const {
    return problem.isPromoted();
  }
  /// The part of the dense rate that a kernel reaches where shared memory does
  /// not bound it.
  virtual double efficiency(const MatmulProblem &problem) const = 0;
  /// The clocks of weights that lie in registers when they are multiplied.
  virtual std::optional<ConversionClocks> conversion() const { return {}; }
  /// The most tokens of a tile of 128 weight rows a warpgroup.
  virtual int64_t mostTokens(const MatmulProblem &) const { return 128; }
  /// Bytes of a stage of the ring that weights take: rows of tileK elements.
  virtual int64_t weightBytes(const MatmulProblem &problem,
                              const Schedule &schedule) const;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_WARPSPECIALIZED_H
