//===- WarpSpecialized.h - engines whose warps have roles -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Base class of warp-specialized engines: producer warps copy, consumer warps
// multiply, and CTAs are persistent
// (templates/moe/matmul/roles/produce_consume.cuh).
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

  /// Enumerates tile widths, warp roles and CTAs per SM. For each combination,
  /// the result has a schedule with as many pipeline stages as fit in shared
  /// memory, and one with two thirds as many.
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
  /// Returns the number of registers per thread at launch. The warp roles
  /// redistribute them later with setmaxnreg.
  int64_t registers(const MatmulProblem &,
                    const Schedule &schedule) const override;
  int64_t ctasPerSm(const MatmulProblem &, const Schedule &schedule,
                    const Hardware &) const override {
    return schedule.ctasPerSm;
  }
  /// Returns the granularity of the tokens that an MMA computes. Tokens are the
  /// MMA's columns (multiples of 16) or, if operands are not swapped, its 64
  /// rows.
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
  /// Returns the reason why the MMA instruction cannot multiply a tile of this
  /// size, or nullopt.
  virtual std::optional<std::string>
  whyNoTile(const MatmulProblem &problem, const Schedule &schedule) const = 0;
  /// Registers of a consumer thread. `registers` counts the accumulators and
  /// the values kept with them. `others` counts addresses and the epilogue.
  struct Sums {
    int64_t registers, others;
    /// The values in `registers`, in words for messages.
    std::string_view words;
  };
  virtual Sums sums(const MatmulProblem &problem,
                    const Schedule &schedule) const = 0;
  /// Returns true if partial sums are regularly added to f32 totals in
  /// registers.
  virtual bool isPromoted(const MatmulProblem &problem) const {
    return problem.isPromoted();
  }
  /// Returns the fraction of the dense tensor core rate that a kernel reaches
  /// when shared memory does not limit it.
  virtual double efficiency(const MatmulProblem &problem) const = 0;
  /// Returns the conversion cost if the engine converts weights in registers,
  /// or nullopt.
  virtual std::optional<ConversionClocks> conversion() const { return {}; }
  /// Returns the maximum tile rows (tokens) for warpgroups with 128 weight
  /// rows.
  virtual int64_t mostTokens(const MatmulProblem &) const { return 128; }
  /// Returns the bytes of weights in one pipeline stage, which holds tileK
  /// elements of each weight row.
  virtual int64_t weightBytes(const MatmulProblem &problem,
                              const Schedule &schedule) const;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_WARPSPECIALIZED_H
