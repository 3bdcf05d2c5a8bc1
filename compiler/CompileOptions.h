//===- CompileOptions.h - what a compilation is asked for -------*- C++ -*-===//
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

/// The stops of compiling, in order. The first four are IR, and what they
/// print may be given to the compiler again.
enum class Phase { Layer, Stages, Kernels, Scheduled, Cuda, Ptx, Package };

/// The options that the passes read.
struct PipelineOptions : Choices {
  /// Rows of the architecture table, or what resolveTargets() replaces by them.
  /// May be empty where the module already holds programs, which carry their
  /// targets.
  std::vector<std::string> archs;
  /// A row of the GPU table, or "" for the arch row's own; see
  /// resolveTargets().
  std::string gpu;
  int64_t maxTokens = 65536;
  std::vector<std::string> tunedFiles; ///< of measured schedules
  /// Token ranges to tune, each FIRST-LAST-ROWS-STEP. Ranges of tuned files are
  /// ignored if there are any.
  std::vector<std::string> tunedRanges;
  /// Compares the programs of the input with its layers.
  bool checkPrograms = false;
};

/// How a layer is compiled. A layer's own options are in its JSON.
struct CompileOptions : PipelineOptions {
  bool foundGpu = false;      ///< `gpu` was detected, not given
  bool asksMaxTokens = false; ///< the caller says maxTokens
  /// A JSON file of measured schedules, read before those built in; "" none.
  std::string tunedFile;
  /// Reads the user's store after tunedFile (plan/TunedStore.h).
  bool tunedStore = false;
  /// Print the IR after each pass, and the time of each pass, to standard
  /// error.
  bool printIrAfterAll = false, timePasses = false;
  /// A pass that fails or crashes leaves this file, with which moec-opt repeats
  /// it; "" leaves none.
  std::string crashReproducer;
  /// compile() also compiles each kernel and stores the cubins. Needs NVRTC,
  /// no GPU.
  bool cubins = true;
  /// The folder that caches compiled kernels; "" takes the runtime's default.
  std::string cacheFolder;
};

/// A report expects these runs.
struct ExplainOptions {
  std::vector<int64_t> tokens;       ///< empty: some from 1 to 8,192
  std::string histogram = "uniform"; ///< see Histogram::parse
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_COMPILEOPTIONS_H
