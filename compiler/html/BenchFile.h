//===- BenchFile.h - results of moec-bench ----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the result of `moec-bench --json`. A page shows only the packages of
// its layer.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_HTML_BENCHFILE_H
#define MOEC_COMPILER_HTML_BENCHFILE_H

#include "compiler/html/Report.h"

namespace moec::compiler::html {

/// The supported value of `moec_bench`, the version of the file format.
inline constexpr int64_t kBenchFormat = 3;

/// The name of a file as the user specified it, and its content.
struct NamedText {
  std::string name, text;
};

/// One cell of the results: the measurement for one token count.
struct Measurement {
  int64_t tokens = 0;
  double microseconds = 0, floor = 0, bytes = 0, flops = 0;
  double least = 0, most = 0; ///< minimum and maximum of the passes [us]
  std::string variant;
  std::vector<std::string> entries; ///< entry names of the kernels that ran
};

struct BenchPackage {
  std::string package, name, arch;
  std::vector<Measurement> cells; ///< sorted by tokens, ascending
};

struct Bench {
  std::string device; ///< the driver's name for the GPU
  std::string gpu;    ///< the device's row of the catalog; "" if there is none
  std::string routing;
  bool suspect = false; ///< the GPU did not reach its usual bandwidth
  std::vector<BenchPackage> packages;
};

/// Reads the packages of the report's layer for the report's archs. Errors: the
/// file is not a result of moec-bench, or it has no such package.
Result<Bench> readBench(const NamedText &file, const Report &report);

/// Returns true if the measured variant has the same kernels as the target's
/// variant.
bool ranKernelsOf(const Measurement &cell, const Target &target);

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_BENCHFILE_H
