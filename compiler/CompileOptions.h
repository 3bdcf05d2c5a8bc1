//===- CompileOptions.h - options of a compilation --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_COMPILEOPTIONS_H
#define MOEC_COMPILER_COMPILEOPTIONS_H

#include "compiler/plan/Choices.h"

#include <cstdint>
#include <string>
#include <vector>

namespace moec::compiler {

/// The phases of a compilation, in order. The first four produce IR that the
/// compiler can read again.
enum class Phase { Layer, Stages, Kernels, Scheduled, Cuda, Ptx, Package };

/// The options that passes read.
struct PipelineOptions : Choices {
  /// Rows of the architecture table, or names that resolveTargets() replaces by
  /// rows. May be empty if the module already holds programs, which store their
  /// targets.
  std::vector<std::string> archs;
  /// The name of a row in the GPU table. If it is "", the default GPU of the
  /// arch is assumed. See resolveTargets().
  std::string gpu;
  int64_t maxTokens = 65536;
  std::vector<std::string> tunedFiles; ///< files of measured schedules
  /// Token ranges that get a tuned variant, each as FIRST-LAST-ROWS-STEP: first
  /// and last token count, tile rows and row step. If there are any, the ranges
  /// of tuned files are ignored.
  std::vector<std::string> tunedRanges;
  /// Check that the input's programs match its layers (moe-check-program).
  bool checkPrograms = false;
};

/// The options of a compilation. The layer's own options are in its JSON.
struct CompileOptions : PipelineOptions {
  bool foundGpu = false;      ///< `gpu` is the detected local GPU
  bool asksMaxTokens = false; ///< the caller specified maxTokens
  /// A JSON file of measured schedules that takes precedence over built-in
  /// ones; "": none.
  std::string tunedFile;
  /// Also read the user's store of measured schedules, after tunedFile
  /// (compiler/plan/TunedStore.h).
  bool tunedStore = false;
  /// Print the IR after each pass, and the time of each pass, to standard
  /// error.
  bool printIrAfterAll = false, timePasses = false;
  /// The file that a failing or crashing pass writes, with which moec-opt
  /// reproduces the failure; "": none.
  std::string crashReproducer;
  /// compile() also compiles each kernel and stores the cubins. Needs NVRTC,
  /// but no GPU.
  bool cubins = true;
  /// The folder that caches compiled kernels; "" is the runtime's default.
  std::string cacheFolder;
};

/// Token counts and expert histogram for which `moec explain` predicts run
/// times.
struct ExplainOptions {
  std::vector<int64_t> tokens;       ///< empty: a built-in list from 1 to 8,192
  std::string histogram = "uniform"; ///< see Histogram::parse()
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_COMPILEOPTIONS_H
