//===- InferRouting.cpp - pass --------------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"

namespace moec::compiler {

#define GEN_PASS_DEF_INFERROUTINGPASS
#include "compiler/passes/Passes.h.inc"

namespace {
struct InferRoutingPass : impl::InferRoutingPassBase<InferRoutingPass> {
  using Base::Base;
  void runOnOperation() override {}
};
} // namespace

} // namespace moec::compiler
