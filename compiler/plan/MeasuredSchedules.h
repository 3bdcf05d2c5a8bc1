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

/// The measured schedules of some files and of the compiler's built-in files.
/// The object serves the matmuls of several programs, one program at a time.
class MeasuredSchedules {
public:
  explicit MeasuredSchedules(std::vector<std::string> files)
      : files(std::move(files)) {}

  /// Discards the cached ranges of the previous program.
  void beginProgram() { served.reset(); }

  /// Returns the row that provides the schedule of a kernel's matmul, or null.
  /// Records at the kernel which row it is, or that rows exist only for other
  /// token counts (kMeasuredBy, kMeasuredBeside). Emits an error at the kernel
  /// if a file cannot be read.
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
