//===- WarpSpecialized.h - engines whose warps have roles -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Base of warp-specialized engines: producer warps copy, consumer warps
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

  /// Enumerates tile widths, warp roles and CTAs per SM, each with as many
  /// pipeline stages as fit.
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
  /// Returns the registers of a thread at launch. The warp roles redistribute
  /// them later (setmaxnreg).
  int64_t registers(const MatmulProblem &,
                    const Schedule &schedule) const override;
  int64_t ctasPerSm(const MatmulProblem &, const Schedule &schedule,
                    const Hardware &) const override {
    return schedule.ctasPerSm;
  }
  /// Tokens are the columns of an MMA (multiples of 16) or, if not swapped, its
  /// 64 rows.
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
  /// Returns why the instruction cannot multiply a tile of this size, or
  /// nullopt.
  virtual std::optional<std::string>
  whyNoTile(const MatmulProblem &problem, const Schedule &schedule) const = 0;
  /// Registers of a consumer thread: `registers` for accumulators and the
  /// values kept with them, `others` for addresses and the epilogue.
  struct Sums {
    int64_t registers, others;
    std::string_view words; ///< name of `registers` in messages
  };
  virtual Sums sums(const MatmulProblem &problem,
                    const Schedule &schedule) const = 0;
  /// Returns true if partial sums are regularly added to f32 totals.
  virtual bool isPromoted(const MatmulProblem &problem) const {
    return problem.isPromoted();
  }
  /// Returns the fraction of the dense rate that a kernel reaches if shared
  /// memory does not limit it.
  virtual double efficiency(const MatmulProblem &problem) const = 0;
  /// Returns the conversion cost if weights are converted in registers, else
  /// nullopt.
  virtual std::optional<ConversionClocks> conversion() const { return {}; }
  /// Returns the maximum tile rows (tokens) if each warpgroup has 128 weight
  /// rows.
  virtual int64_t mostTokens(const MatmulProblem &) const { return 128; }
  /// Returns the bytes of weights in a pipeline stage, which has tileK elements
  /// of each row.
  virtual int64_t weightBytes(const MatmulProblem &problem,
                              const Schedule &schedule) const;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_WARPSPECIALIZED_H
