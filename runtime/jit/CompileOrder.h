//===- CompileOrder.h - which kernels compile first -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel that takes long and begins late is compiled alone while other cores
// idle. No time is known before the compile, but a manifest tells who is slow.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_JIT_COMPILEORDER_H
#define MOEC_RUNTIME_JIT_COMPILEORDER_H

#include "runtime/package/Manifest.h"

#include <vector>

namespace moec::runtime {

/// Puts indices of kernels, in the order of the manifest, into the order in
/// which they begin: kernels of many headers take longest; of equals those for
/// many tokens, which a manifest has last.
void orderByTime(std::vector<size_t> &kernels, const Target &target);

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_COMPILEORDER_H
