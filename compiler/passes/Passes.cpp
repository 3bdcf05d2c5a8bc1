//===- Passes.cpp - registration of the passes ----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For moec-opt, which names passes in text.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"

namespace moec::compiler {

#define GEN_PASS_REGISTRATION
#include "compiler/passes/Passes.h.inc"

void registerPasses() { registerMoePasses(); }

} // namespace moec::compiler
