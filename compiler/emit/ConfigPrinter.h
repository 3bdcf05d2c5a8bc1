//===- ConfigPrinter.h - prints a generated kernel --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All that a generated .cu holds: one include, struct Args, struct Config with
// named parts, the assertions and one entry. What the kernel does is written in
// templates/, never here.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EMIT_CONFIGPRINTER_H
#define MOEC_COMPILER_EMIT_CONFIGPRINTER_H

#include "compiler/emit/ArgumentBlock.h"
#include "compiler/engine/Config.h"

#include <string>
#include <string_view>

namespace moec::compiler {

/// One kernel before its name is known.
struct KernelText {
  std::string include;  ///< "moe/kernel/route.cuh"
  std::string function; ///< "moe::route"
  ArgumentLayout arguments;
  ConfigPrinter config;
  int64_t threads = 0;
  int64_t minCtasPerSm = 1;
  int64_t sharedBytes = 0;

  /// The whole source with the entry called `entry`.
  std::string source(std::string_view entry) const;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_EMIT_CONFIGPRINTER_H
