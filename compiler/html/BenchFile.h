//===- BenchFile.h - times that moec-bench wrote ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The result of `moec-bench --json`, of which a page shows the packages that
// are of its layer.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_HTML_BENCHFILE_H
#define MOEC_COMPILER_HTML_BENCHFILE_H

#include "compiler/html/Report.h"

namespace moec::compiler::html {

/// The value of `moec_bench` in a file of the format that is read here.
inline constexpr int64_t kBenchFormat = 3;

/// A file as the user named it, and what it holds.
struct NamedText {
  std::string name, text;
};

/// A cell: one number of tokens.
struct Measurement {
  int64_t tokens = 0;
  double microseconds = 0, floor = 0, bytes = 0, flops = 0;
  double least = 0, most = 0; ///< of the passes, in microseconds
  std::string variant;
  std::vector<std::string> entries; ///< of the kernels that ran
};

struct BenchPackage {
  std::string package, name, arch;
  std::vector<Measurement> cells; ///< ascending in tokens
};

struct Bench {
  std::string device; ///< the driver's name
  std::string gpu;    ///< the catalog's row of it; "" where there is none
  std::string routing;
  bool suspect = false; ///< the GPU was off its bandwidth
  std::vector<BenchPackage> packages;
};

/// The packages of the report's layer and of one of its archs. Errors: no
/// result of moec-bench, or none of its packages is such a one.
Result<Bench> readBench(const NamedText &file, const Report &report);

/// The variant's kernels are those that were timed.
bool ranKernelsOf(const Measurement &cell, const Target &target);

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_BENCHFILE_H
