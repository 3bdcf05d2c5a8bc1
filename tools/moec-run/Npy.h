//===- Npy.h - arrays in NumPy's file format --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Supports versions 1.0 and 2.0, as numpy.save writes them: plain numeric
// types, little-endian, in C order. Everything else is an error.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECRUN_NPY_H
#define MOEC_TOOLS_MOECRUN_NPY_H

#include "runtime/support/Result.h"
#include "tools/moec-run/HostArray.h"

#include <string>
#include <string_view>
#include <vector>

namespace moec::run {

/// An array of a .npy file.
struct NpyArray {
  std::string dtype; ///< the file's spelling, such as "<f4"
  std::vector<int64_t> shape;
  HostArray elements;
};

/// Reads a .npy file. The caller should treat it as untrusted; sizes are
/// checked before memory is allocated.
Result<NpyArray> readNpy(const std::string &path);

/// Writes version 1.0 atomically, by renaming a temporary file.
Result<void> writeNpy(const std::string &path, std::string_view dtype,
                      const std::vector<int64_t> &shape,
                      const HostArray &elements);

/// Formats a shape as "[7, 2048]".
std::string shapeText(const std::vector<int64_t> &shape);

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_NPY_H
