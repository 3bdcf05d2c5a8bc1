//===- MoeProgram.cpp - programs, variants, kernels, launches -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Names and accessors of the ops that hold stages and launches.
//
//===----------------------------------------------------------------------===//

#include "dialect/Moe.h"
#include "dialect/catalog/Parts.h"

using namespace mlir;
using namespace moec;
using namespace moec::moe;

//===----------------------------------------------------------------------===//
// ProgramOp
//===----------------------------------------------------------------------===//

void ProgramOp::getAsmBlockArgumentNames(Region &region,
                                         OpAsmSetValueNameFn setName) {
  for (auto [argument, name] : llvm::zip(region.getArguments(), getInputs()))
    setName(argument, text(name));
}

BlockArgument ProgramOp::getInput(StringRef name) {
  for (auto [argument, input] :
       llvm::zip(getBody().getArguments(), getInputs()))
    if (text(input) == name)
      return argument;
  return {};
}

bool ProgramOp::hasMatmul() {
  return !getPart() || catalog::partHasMatmul(*getPart());
}

LayerOp ProgramOp::getLayerOp() {
  return mlir::SymbolTable::lookupNearestSymbolFrom<LayerOp>(
      (*this)->getParentOp(), getLayerAttr());
}

//===----------------------------------------------------------------------===//
// KernelOp
//===----------------------------------------------------------------------===//

void KernelOp::getAsmBlockArgumentNames(Region &region,
                                        OpAsmSetValueNameFn setName) {
  for (auto [argument, name] : llvm::zip(region.getArguments(), getFields()))
    setName(argument, text(name));
}

YieldOp KernelOp::getYield() {
  return cast<YieldOp>(getBody().front().getTerminator());
}

const moec::catalog::KernelKind &KernelOp::getRow() {
  return *moec::catalog::find(moec::catalog::kKernelKinds, getKind());
}

//===----------------------------------------------------------------------===//
// LaunchOp and CollectiveOp
//===----------------------------------------------------------------------===//

void CollectiveOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  for (auto [value, name] : llvm::zip(getValues(), getResultNames()))
    setName(value, text(name));
}

void LaunchOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  for (auto [value, name] : llvm::zip(getValues(), getResultNames()))
    setName(value, text(name));
}

KernelOp LaunchOp::getKernelOp() {
  return mlir::SymbolTable::lookupNearestSymbolFrom<KernelOp>(
      (*this)->getParentOfType<ProgramOp>(), getKernelAttr());
}
