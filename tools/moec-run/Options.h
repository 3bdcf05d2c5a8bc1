//===- Options.h - the command line of moec-run -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The options, checked as far as that needs no package.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECRUN_OPTIONS_H
#define MOEC_TOOLS_MOECRUN_OPTIONS_H

#include "runtime/api/Package.h"
#include "tools/moec-run/HostInputs.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
} // namespace CLI

namespace moec::run {

struct Options {
  std::string program = "moec-run"; ///< begins what goes to standard error
  std::string package;
  std::string deviceName; ///< as the command line says it; "": nothing said
  runtime::DeviceKind device = runtime::DeviceKind::Host;
  std::vector<int64_t> tokens = {1};
  std::string variant;
  std::string arch;
  std::optional<int64_t> rank; ///< of the package
  uint64_t seed = 1;
  bool check = false, time = false, json = false;
  bool prebuild = false, strict = false;
  int jobs = 0;
  std::vector<std::string> routing = {"uniform"};
  std::string weights;                     ///< a checkpoint; "": random ones
  bool quantize = false;                   ///< that checkpoint's floats
  bool noSharedExperts = false;            ///< its shared experts are another's
  std::vector<std::string> ignoredTensors; ///< words of what is left out of it
  int64_t layer = -1;       ///< its layer; -1: the first that has experts
  bool tokensGiven = false; ///< on the command line
  /// NAME=FILE of --input and --output, and .npy files by name.
  std::vector<std::string> inputWords, outputWords;
  std::map<std::string, std::string> inputFiles, outputFiles;

  // No option of moec-run sets these; test/check has some.
  InputOptions inputs;
  bool capture = false, twice = false;
  bool beside = true;   ///< other kernels run during a second run on a GPU
  int64_t sample = 256; ///< tokens that the reference takes on a GPU
  bool poison = true;   ///< outputs and workspace begin as 0xFF bytes
};

/// Declares the options of moec-run.
void addOptions(CLI::App &app, Options &options);

/// Parses and checks what addOptions declared. Returns true to go on; false to
/// end the program with `status`, after what was to be said has been printed.
bool parseOptions(CLI::App &app, int argc, char **argv, Options &options,
                  int &status);

/// Says on standard error why the command line makes no sense; returns false.
bool refuseUsage(const Options &options, const std::string &text, int &status);

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_OPTIONS_H
