//===- Pack.h - kernels that prepare weights --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// These run once, when a layer is made.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_KERNELS_PACK_H
#define MOEC_COMPILER_KERNELS_PACK_H

#include "compiler/kernels/EmittedKernel.h"

#include <string>
#include <vector>

namespace moec::compiler {

/// An entry of the manifest's `pack`.
struct EmittedPack {
  std::string name; ///< prefix of its kernels' names
  std::string result;
  std::vector<std::string> from;
  bool inPlace = false;
  int64_t scratchBytes = 0; ///< bytes per expert; 0 if none are needed
  std::vector<EmittedKernel> kernels;
};

/// The two kernels of a packing step: stored experts to `scratch`, and from
/// there interleaved to the packed weight.
EmittedPack emitPack(moe::PackOp pack, const std::string &scratch);

/// The one kernel that orders columns by their groups, without scratch.
EmittedPack emitPackOrder(moe::PackOrderOp order);

/// The first of those, of a weight of whole elements.
EmittedKernel emitPackCopy(moe::ProgramOp program,
                           const std::string &elementType, int64_t rows,
                           int64_t columns, const std::string &source,
                           const std::string &scratch);

/// The launches that quantize a weight, in their order.
std::vector<EmittedPack> emitQuantizeWeights(moe::QuantizeWeightsOp op,
                                             const std::string &scratch);

} // namespace moec::compiler

#endif // MOEC_COMPILER_KERNELS_PACK_H
