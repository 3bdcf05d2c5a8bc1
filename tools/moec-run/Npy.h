//===- Npy.h - arrays in NumPy's file format --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Versions 1.0 and 2.0, as numpy.save writes them: plain numbers, little-endian
// and in C order. All else is refused.
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

struct NpyArray {
  std::string dtype; ///< as the file spells it, "<f4" say
  std::vector<int64_t> shape;
  HostArray elements;
};

Result<NpyArray> readNpy(const std::string &path);

/// Writes version 1.0, by one rename.
Result<void> writeNpy(const std::string &path, std::string_view dtype,
                      const std::vector<int64_t> &shape,
                      const HostArray &elements);

/// "[7, 2048]".
std::string shapeText(const std::vector<int64_t> &shape);

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_NPY_H
