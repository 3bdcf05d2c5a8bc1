//===- QuantizeWeightsEmitter.h - quantization at load ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels that quantize weights which are stored as floats.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EMIT_QUANTIZEWEIGHTSEMITTER_H
#define MOEC_COMPILER_EMIT_QUANTIZEWEIGHTSEMITTER_H

#include "compiler/emit/PackEmitter.h"

namespace moec::compiler {

/// The launches that quantize a weight, in their order.
std::vector<EmittedPack> emitQuantizeWeights(moe::QuantizeWeightsOp op,
                                             const std::string &scratch);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EMIT_QUANTIZEWEIGHTSEMITTER_H
