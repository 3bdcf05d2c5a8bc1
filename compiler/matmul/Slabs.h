//===- Slabs.h - weights in MMA fragment order ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Slabs are weights that are pre-shuffled into MMA fragment order. This header
// has what the engines that read them share. The sizes must match
// templates/moe/matmul/feed/slab_stage.cuh.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_SLABS_H
#define MOEC_COMPILER_MATMUL_SLABS_H

#include "compiler/matmul/Problem.h"

#include <optional>
#include <string>

namespace moec::compiler {

/// kSlabBlock: rows of a block of codes (quantized values) and, for 16-bit
/// operands, its columns. kSlabRows: rows of a slab.
inline constexpr int64_t kSlabBlock = 64, kSlabRows = 16;

/// Returns the columns of a block of codes for the size of an operand element.
constexpr int64_t slabColumns(int64_t elementBytes) {
  return 2 * kSlabBlock / elementBytes;
}

/// Returns the number of scale groups in `columns` columns.
int64_t groupsOf(const MatmulProblem &problem, int64_t columns);

/// Returns the bytes of codes, scales and zero points in a pipeline stage.
int64_t slabBytes(const MatmulProblem &problem, const Schedule &schedule);

/// Returns a sentence that states why the weights cannot be stored as slabs, or
/// nullopt.
std::optional<std::string> whyNoSlabs(const MatmulProblem &problem);

/// Clock cycles of a multiprocessor to convert one code, and to apply one scale
/// to the codes of its group.
struct ConversionClocks {
  double code = 0, scale = 0;
};

/// Returns the time to convert `elements` codes on all multiprocessors. Returns
/// 0 if the stored weights are the operands.
double conversionSeconds(const MatmulProblem &problem, double elements,
                         const ConversionClocks &clocks,
                         const Hardware &hardware);

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_SLABS_H
