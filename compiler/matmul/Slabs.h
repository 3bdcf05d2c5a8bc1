//===- Slabs.h - weights in MMA fragment order ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A slab is the codes (quantized values) of 16 weight rows by four MMA steps of
// k, in MMA fragment order (templates/moe/math/slabs.cuh). This header is
// shared by the engines that read weights in slabs. The sizes must match
// templates/moe/matmul/feed/slab_stage.cuh.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_SLABS_H
#define MOEC_COMPILER_MATMUL_SLABS_H

#include "compiler/matmul/Problem.h"

#include <optional>
#include <string>

namespace moec::compiler {

/// kSlabBlock: rows of a block of four slabs, and its columns if MMA operands
/// have 16 bits. kSlabRows: rows of a slab.
inline constexpr int64_t kSlabBlock = 64, kSlabRows = 16;

/// Returns the number of columns in a block of codes, given the bytes of an MMA
/// operand element.
constexpr int64_t slabColumns(int64_t elementBytes) {
  return 2 * kSlabBlock / elementBytes;
}

/// Returns the number of scale groups that `columns` columns span.
int64_t groupsOf(const MatmulProblem &problem, int64_t columns);

/// Returns the bytes of codes, scales and zero points in one pipeline stage.
int64_t slabBytes(const MatmulProblem &problem, const Schedule &schedule);

/// Returns a sentence that states why the weights cannot be stored in slabs, or
/// nullopt.
std::optional<std::string> whyNoSlabs(const MatmulProblem &problem);

/// SM clock cycles to convert one code (`code`), and to apply one scale to all
/// codes in its group (`scale`).
struct ConversionClocks {
  double code = 0, scale = 0;
};

/// Returns the seconds to convert `elements` codes on all SMs. Returns 0 if the
/// weights are multiplied without conversion.
double conversionSeconds(const MatmulProblem &problem, double elements,
                         const ConversionClocks &clocks,
                         const Hardware &hardware);

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_SLABS_H
