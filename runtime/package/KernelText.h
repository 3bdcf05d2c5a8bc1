//===- KernelText.h - restrictions on texts for NVRTC -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// NVRTC runs inside the process that loads a package. Some of its options write
// files (--time, --create-pch), and an #include could open any file of the
// user. The options are therefore fixed, and a text may only include headers of
// the package, which NVRTC receives in memory.
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

/// Returns the options with which every kernel is compiled, in this order.
std::vector<std::string> kernelOptions(std::string_view arch);

/// Returns the names that a source or header includes. A text that could make
/// the preprocessor open another file is an InvalidManifest error. The check
/// does not recognize comments and strings: their content must pass, too, so
/// that nothing can be hidden in them.
Result<std::set<std::string>> includedNames(std::string_view text);

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_KERNELTEXT_H
