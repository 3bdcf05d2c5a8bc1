//===- PackEmitter.h - the text of weight preparation -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels that run once, when a layer is made.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EMIT_PACKEMITTER_H
#define MOEC_COMPILER_EMIT_PACKEMITTER_H

#include "compiler/emit/EmittedKernel.h"

namespace moec::compiler {

/// An entry of the manifest's `pack`.
struct EmittedPack {
  std::string name; ///< with which those of its kernels begin
  std::string result;
  std::vector<std::string> from;
  bool inPlace = false;
  int64_t scratchBytes = 0; ///< of an expert; 0: none
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

} // namespace moec::compiler

#endif // MOEC_COMPILER_EMIT_PACKEMITTER_H
