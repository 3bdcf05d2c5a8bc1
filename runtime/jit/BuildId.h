//===- BuildId.h - an ELF file's identity without opening it ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The GNU build-id is a hash that the linker wrote into a library: it tells two
// builds of NVRTC apart whatever their paths, dates or version numbers say,
// and costs a few reads where dlopen of NVRTC costs 6 to 370 ms.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_JIT_BUILDID_H
#define MOEC_RUNTIME_JIT_BUILDID_H

#include "runtime/support/Result.h"

#include <string>

namespace moec::runtime {

/// The GNU build-id of a 64-bit little-endian ELF file as lower-case hex. A
/// file without one is identified by its SHA-256 ("sha256:..."). Errors:
/// FileSystem.
Result<std::string> readBuildId(const std::string &path);

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_BUILDID_H
