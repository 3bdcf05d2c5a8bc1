//===- PermuteColumnsEmitter.cpp - rows as their weight -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The fields and members here are those that permute_columns.cuh lists.
//
//===----------------------------------------------------------------------===//

#include "compiler/backend/cuda/PermuteColumnsEmitter.h"

using namespace moec;
using namespace moec::compiler;

void compiler::emitPermuteColumns(
    moe::PermuteColumnsOp permute,
    llvm::function_ref<std::string(llvm::StringRef)> boundTo,
    EmittedKernel &out) {
  const std::string element = cppType(permute.getInput());
  ArgumentLayout &args = out.text.arguments;
  args.pointer("input", element, boundTo("input"));
  args.rowStride("input_row_stride", boundTo("input"));
  if (permute.getRows())
    args.pointer("rows", "int", boundTo("rows"));
  args.pointer("offsets", "int", boundTo("offsets"));
  args.pointer("order", "int", boundTo("order"));
  args.pointer("result", element, boundTo("result"), true);
  ConfigPrinter &config = out.text.config;
  config.type("Element", element);
  config.number("kColumns", permute.getColumns());
  config.number("kExperts", permute.getNumExperts());
  config.number("kTopK", permute.getTopK().value_or(1));
  out.grid.ctas[0] = Expression::symbol("rows");
}
