//===- Slabs.h - weights in the order of fragments --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Engines that read such weights share these. The sizes mirror
// templates/moe/matmul/feed/slab_stage.cuh.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_SLABS_H
#define MOEC_COMPILER_MATMUL_SLABS_H

#include "compiler/matmul/Problem.h"

#include <optional>
#include <string>

namespace moec::compiler {

/// Rows of a block of codes and, for operands of 16 bits, its columns; rows of
/// a slab.
inline constexpr int64_t kSlabBlock = 64, kSlabRows = 16;

/// Columns of a block of codes, by the size of the operands.
constexpr int64_t slabColumns(int64_t elementBytes) {
  return 2 * kSlabBlock / elementBytes;
}

/// The number of scale groups in `columns` columns.
int64_t groupsOf(const MatmulProblem &problem, int64_t columns);

/// Codes, scales and zero points of a stage.
int64_t slabBytes(const MatmulProblem &problem, const Schedule &schedule);

/// A sentence saying why the weights have no such order, or nullopt.
std::optional<std::string> whyNoSlabs(const MatmulProblem &problem);

/// Clocks of a multiprocessor for a code, and for a scale that a group shares.
struct ConversionClocks {
  double code = 0, scale = 0;
};

/// The time to convert `elements` codes on all multiprocessors; 0 if weights
/// are stored as they are multiplied.
double conversionSeconds(const MatmulProblem &problem, double elements,
                         const ConversionClocks &clocks,
                         const Hardware &hardware);

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_SLABS_H
