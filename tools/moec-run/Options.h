//===- Options.h - the command line of moec-run -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The command-line options, validated as far as possible without a package.
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

/// The options of moec-run, and some that only tests set.
struct Options {
  /// The program's name, the prefix of messages on standard error.
  std::string program = "moec-run";
  std::string package;
  std::string deviceName; ///< as the command line spells it; "": not given
  runtime::DeviceKind device = runtime::DeviceKind::Host;
  std::vector<int64_t> tokens = {1};
  std::string variant;
  std::string arch;
  std::optional<int64_t> rank; ///< rank of the package
  uint64_t seed = 1;
  bool check = false, time = false, json = false;
  bool prebuild = false, strict = false;
  int jobs = 0;
  std::vector<std::string> routing = {"uniform"};
  std::string weights;   ///< checkpoint path; "": random weights
  bool quantize = false; ///< quantize the checkpoint's float weights
  /// Another program computes the shared experts of the checkpoint.
  bool noSharedExperts = false;
  /// Unused tensors whose names contain one of these words are ignored.
  std::vector<std::string> ignoredTensors;
  /// Layer of the checkpoint; -1: the first one that has experts.
  int64_t layer = -1;
  bool tokensGiven = false; ///< --tokens is on the command line
  /// The NAME=FILE arguments of --input and --output, and their .npy files by
  /// name.
  std::vector<std::string> inputWords, outputWords;
  std::map<std::string, std::string> inputFiles, outputFiles;

  // moec-run has no options for the following members; test/check has some.
  InputOptions inputs;
  bool capture = false, twice = false;
  bool beside = true;   ///< on a GPU, other kernels run during the second run
  int64_t sample = 256; ///< tokens that the reference computes on a GPU
  bool poison = true;   ///< outputs and workspace are filled with 0xFF bytes
};

/// Declares the options of moec-run.
void addOptions(CLI::App &app, Options &options);

/// Parses and validates the options that addOptions() declared. Returns true to
/// continue. Returns false to end the program with `status`; all messages have
/// then been printed.
bool parseOptions(CLI::App &app, int argc, char **argv, Options &options,
                  int &status);

/// Prints a usage error to standard error; returns false.
bool refuseUsage(const Options &options, const std::string &text, int &status);

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_OPTIONS_H
