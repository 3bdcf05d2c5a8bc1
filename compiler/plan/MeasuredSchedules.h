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

/// The measured schedules of the given files and of the compiler's built-in
/// files. The object is used for the matmuls of several programs, one program
/// at a time.
class MeasuredSchedules {
public:
  explicit MeasuredSchedules(std::vector<std::string> files)
      : files(std::move(files)) {}

  /// Discards the cached ranges, which depend on the program.
  void beginProgram() { served.reset(); }

  /// Returns the row that determines the schedule of a kernel's matmul, or
  /// null. Sets kMeasuredBy at the kernel if there is such a row, or
  /// kMeasuredBeside if rows exist only for other token counts. Emits an error
  /// at the kernel if a file cannot be read.
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
