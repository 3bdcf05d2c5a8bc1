//===- moec.cpp - the command moec ----------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The command is part of the compiler: libmoec.so exports it as moec_main.
//
//===----------------------------------------------------------------------===//

#include "compiler/command/Commands.h"

int main(int argc, char **argv) {
  return moec::compiler::runCommand(argc, argv);
}
