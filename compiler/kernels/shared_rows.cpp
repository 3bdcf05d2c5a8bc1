//===- shared_rows.cpp - kernel that lists shared rows --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/Kind.h"
#include "compiler/kernels/Parts.h"
#include "compiler/plan/ProgramValues.h"

using namespace moec;
using namespace moec::compiler;

static void emitSharedRows(Emission &emission) {
  addRoutingFields(findStage<moe::SharedRowsOp>(emission.kernel), emission);
  emission.pointer("tiles", "int4", true);
  emission.pointer("tile_count", "int", true);
  emission.pointer("offsets", "int", true);
  emission.pointer("positions", "int", true);
  emission.pointer("topk_weights", "float", true);
}

constexpr Kind compiler::kernels::shared_rows = {.names = "shared_rows",
                                                 .emit = emitSharedRows};
