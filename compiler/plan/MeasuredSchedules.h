//===- MeasuredSchedules.h - measured rows for a program --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_MEASUREDSCHEDULES_H
#define MOEC_COMPILER_PLAN_MEASUREDSCHEDULES_H

#include "compiler/plan/Tuned.h"
#include "dialect/Moe.h"

#include <optional>
#include <string>
#include <vector>

namespace moec::compiler {

/// The measured rows of some files and of those built in, as they serve the
/// matmuls of one program after the other.
class MeasuredSchedules {
public:
  explicit MeasuredSchedules(std::vector<std::string> files)
      : files(std::move(files)) {}

  /// Forgets the ranges of the program before.
  void beginProgram() { served.reset(); }

  /// The row that serves a matmul's kernel, or null. Notes at the kernel which
  /// one it is, or that rows of other token counts do not serve it
  /// (kMeasuredBy, kMeasuredBeside). An error at the kernel: a file that cannot
  /// be read.
  llvm::FailureOr<const TunedRow *> find(moe::KernelOp kernel,
                                         const MatmulProblem &problem,
                                         const Engines &engines,
                                         const Hardware &hardware);

private:
  mlir::LogicalResult read(moe::KernelOp kernel);
  llvm::ArrayRef<ServedRange> servedBy(moe::ProgramOp program,
                                       const Hardware &hardware);
  void note(moe::KernelOp kernel, const MatmulProblem &problem,
            const Hardware &hardware, const TunedRow *row) const;

  std::vector<std::string> files;
  std::optional<std::vector<TunedRow>> rows;
  std::optional<std::vector<ServedRange>> served;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_MEASUREDSCHEDULES_H
