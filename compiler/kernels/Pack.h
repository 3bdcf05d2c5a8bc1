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

/// One packing step: an entry of the manifest's `pack` list.
struct EmittedPack {
  std::string name; ///< prefix of the kernels' names
  std::string result;
  std::vector<std::string> from;
  bool inPlace = false;
  int64_t scratchBytes = 0; ///< bytes per expert; 0: no scratch
  std::vector<EmittedKernel> kernels;
};

/// Emits the two kernels of a packing step. The first kernel copies experts
/// from the stored weight to `scratch`. The second kernel reads the experts
/// from `scratch` and writes the packed weight.
EmittedPack emitPack(moe::PackOp pack, const std::string &scratch);

/// Emits the kernel that sorts the columns by their group index (act-order).
/// The kernel needs no scratch.
EmittedPack emitPackOrder(moe::PackOrderOp order);

/// Emits the first kernel of a packing step, which copies experts to scratch.
/// Elements of the weight must be whole bytes.
EmittedKernel emitPackCopy(moe::ProgramOp program,
                           const std::string &elementType, int64_t rows,
                           int64_t columns, const std::string &source,
                           const std::string &scratch);

/// Emits the packing steps that quantize a weight, in execution order.
std::vector<EmittedPack> emitQuantizeWeights(moe::QuantizeWeightsOp op,
                                             const std::string &scratch);

} // namespace moec::compiler

#endif // MOEC_COMPILER_KERNELS_PACK_H
