//===- BenchFile.h - results of moec-bench ----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the result of `moec-bench --json`. A page shows only the measurements
// of packages whose layer is the page's layer.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_HTML_BENCHFILE_H
#define MOEC_COMPILER_HTML_BENCHFILE_H

#include "compiler/html/Report.h"

namespace moec::compiler::html {

/// The supported value of the field `moec_bench`, which is the version of the
/// file format.
inline constexpr int64_t kBenchFormat = 3;

/// The content of a file and its name as the user specified it.
struct NamedText {
  std::string name, text;
};

/// The measurement for one token count.
struct Measurement {
  int64_t tokens = 0;
  double microseconds = 0, floor = 0, bytes = 0, flops = 0;
  /// Minimum and maximum time of the passes, in microseconds.
  double least = 0, most = 0;
  std::string variant;
  std::vector<std::string> entries; ///< entry names of the kernels that ran
};

struct BenchPackage {
  std::string package, name, arch;
  std::vector<Measurement> cells; ///< ascending by tokens
};

struct Bench {
  std::string device; ///< name of the GPU as the driver reports it
  /// Name of the GPU in the catalog; "" if it is not in the catalog.
  std::string gpu;
  std::string routing;
  bool suspect = false; ///< the GPU did not reach its usual bandwidth
  std::vector<BenchPackage> packages;
};

/// Returns the packages with the same layer and arch as the report. Returns an
/// error if the file is not a result of moec-bench or has no such package.
Result<Bench> readBench(const NamedText &file, const Report &report);

/// Returns true if the kernels that were measured equal the kernels of the
/// target's variant with the same name.
bool ranKernelsOf(const Measurement &cell, const Target &target);

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_BENCHFILE_H
