//===- KernelText.h - what a package may hand to NVRTC ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// NVRTC runs inside the process that loads a package. Its options write files
// (--time, --create-pch), and an #include opens any file of the user. So the
// options are fixed, and a text may include nothing but headers of the package,
// which NVRTC gets from memory.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_PACKAGE_KERNELTEXT_H
#define MOEC_RUNTIME_PACKAGE_KERNELTEXT_H

#include "runtime/support/Result.h"

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// The options that every kernel is compiled with, in this order.
std::vector<std::string> kernelOptions(std::string_view arch);

/// The names that a source or header includes. A text that could make the
/// preprocessor open another file is an InvalidManifest error. The check does
/// not know comments and strings: what stands there has to pass, too, so that
/// nothing can hide in them.
Result<std::set<std::string>> includedNames(std::string_view text);

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_KERNELTEXT_H
