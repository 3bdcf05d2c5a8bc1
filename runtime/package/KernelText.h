//===- KernelText.h - restrictions on texts for NVRTC -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// NVRTC runs inside the process that loads a package. Some of its options write
// files (--time, --create-pch), and an #include could open any file that the
// user can read. The options are therefore fixed. A text may only include
// headers of the package, which are passed to NVRTC in memory.
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

/// Returns the NVRTC options, in order. Every kernel is compiled with the same
/// options.
std::vector<std::string> kernelOptions(std::string_view arch);

/// Returns the names in the #include directives of a source or header. If the
/// text could make the preprocessor open any other file, returns
/// InvalidManifest. The check treats comments and strings like code, so that
/// nothing can be hidden in them.
Result<std::set<std::string>> includedNames(std::string_view text);

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_KERNELTEXT_H
