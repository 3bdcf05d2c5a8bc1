//===- OwnBinary.h - the file that holds this code --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Files beside the library are found by the library's own path: no path is
// compiled in (docs/decisions.md, 028).
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_JIT_OWNBINARY_H
#define MOEC_RUNTIME_JIT_OWNBINARY_H

#include <string>

namespace moec::runtime {

/// The path of the shared library or program that holds this function, without
/// links; "" where the loader does not say it.
std::string pathOfOwnBinary();

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_OWNBINARY_H
