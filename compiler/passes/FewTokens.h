//===- FewTokens.h - up to how many tokens dot products serve ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Part of moe-make-variants. The two kernels of a few tokens (engine/Gemv.h)
// serve beside the program's engine.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PASSES_FEWTOKENS_H
#define MOEC_COMPILER_PASSES_FEWTOKENS_H

#include "dialect/Moe.h"

#include <cstdint>
#include <string>

namespace moec::compiler {

/// Up to how many tokens dot products serve, or why they serve none.
struct FewTokens {
  int64_t tokens = 0;
  std::string engine, realization;
  std::string code, reason; ///< no code: nobody needs to know
};

/// The tokens of stages without ranges. Behind a dispatch they are those of all
/// its ranks.
FewTokens fewTokensOf(moe::ProgramOp program, moe::VariantOp stages);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PASSES_FEWTOKENS_H
