//===- moec-opt.cpp - one pass at a time ----------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parses a module, runs the passes that the command line names and prints it.
// For tests and for people who want to see what a single pass does.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"
#include "dialect/Moe.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  // func carries the examples of single stages in the documentation.
  registry.insert<moec::moe::MoeDialect, mlir::func::FuncDialect>();
  moec::compiler::registerPasses();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  return mlir::asMainReturnCode(mlir::MlirOptMain(
      argc, argv, "moec-opt: the passes of moec, one at a time\n", registry));
}
