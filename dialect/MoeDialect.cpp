//===- MoeDialect.cpp - registration --------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Registers the attributes and operations of the dialect.
//
//===----------------------------------------------------------------------===//

#include "dialect/Moe.h"

using namespace mlir;
using namespace moec::moe;

#include "dialect/MoeDialect.cpp.inc"

void MoeDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "dialect/MoeOps.cpp.inc"
      >();
}
