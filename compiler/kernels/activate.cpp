//===- activate.cpp - kernel of a separate activation ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/Emission.h"
#include "compiler/kernels/Kind.h"
#include "compiler/plan/ProgramValues.h"

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

static void emitActivate(Emission &emission) {
  auto activate = findStage<moe::ActivateOp>(emission.kernel);
  ConfigPrinter &config = emission.config();
  config.type("Result", cppType(activate.getResult()));
  addActivation(activate.getActivation(), emission.out.text);
  config.number(
      "kColumns",
      cast<RankedTensorType>(activate.getInput().getType()).getDimSize(1));
  config.number(
      "kExperts",
      expertsOfRows(emission.kernel, activate.getOffsets(), mlir::Value()));
  config.number("kInterleave", activate.getInterleave());
}

constexpr Kind compiler::kernels::activate = {.names = "activate",
                                              .emit = emitActivate};
