//===- Pack.h - kernels that prepare weights --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// These kernels run once, when a layer is created.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_KERNELS_PACK_H
#define MOEC_COMPILER_KERNELS_PACK_H

#include "compiler/kernels/EmittedKernel.h"

#include <string>
#include <vector>

namespace moec::compiler {

/// An entry of the manifest's `pack` list.
struct EmittedPack {
  std::string name; ///< prefix of the kernels' names
  std::string result;
  std::vector<std::string> from;
  bool inPlace = false;
  int64_t scratchBytes = 0; ///< bytes per expert; 0: no scratch
  std::vector<EmittedKernel> kernels;
};

/// Emits the two kernels of a packing step. The first copies stored experts to
/// `scratch`; the second writes the packed weight from there.
EmittedPack emitPack(moe::PackOp pack, const std::string &scratch);

/// Emits the one kernel that sorts columns by their groups. It needs no
/// scratch.
EmittedPack emitPackOrder(moe::PackOrderOp order);

/// Emits the first kernel of a packing step, which copies to scratch, for a
/// weight whose elements are whole bytes.
EmittedKernel emitPackCopy(moe::ProgramOp program,
                           const std::string &elementType, int64_t rows,
                           int64_t columns, const std::string &source,
                           const std::string &scratch);

/// Emits the packing steps that quantize a weight, in the order in which they
/// run.
std::vector<EmittedPack> emitQuantizeWeights(moe::QuantizeWeightsOp op,
                                             const std::string &scratch);

} // namespace moec::compiler

#endif // MOEC_COMPILER_KERNELS_PACK_H
