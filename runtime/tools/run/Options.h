//===- Options.h - the command line of moec-run -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the user asked for, checked as far as that needs no package.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_TOOLS_RUN_OPTIONS_H
#define MOEC_RUNTIME_TOOLS_RUN_OPTIONS_H

#include "runtime/Package.h"

#include <string>
#include <vector>

namespace moec::run {

/// What a run is given to route by.
enum class RoutingInput { Logits, Ids32, Ids64 };

struct Options {
  std::string package;
  runtime::DeviceKind device = runtime::DeviceKind::Host;
  std::vector<int64_t> tokens = {1};
  std::string variant;
  std::string arch;
  uint64_t seed = 1;
  bool check = false, time = false, json = false;
  bool prebuild = false, strict = false;
  int jobs = 0;
  std::vector<std::string> routing = {"uniform"};
  RoutingInput inputs = RoutingInput::Logits;
  std::string tokenIds = "i32"; ///< their type, where a table asks for them
  std::string logitsType;       ///< "": the layer's
  std::string weightsType;      ///< of given weights; "": f32
  std::string against;
  bool capture = false, twice = false, chain = false, refresh = false;
  int64_t rowStride = 0;        ///< elements of x beyond H
  int64_t validTokens = -1;     ///< -1: not given
  int64_t sample = 256;         ///< tokens that the reference takes on a GPU
  bool poison = true;           ///< outputs and workspace begin as 0xFF bytes
  std::string weights;          ///< a checkpoint; "": random ones
  bool quantize = false;        ///< that checkpoint's floats
  bool noSharedExperts = false; ///< its shared experts are another's
  std::vector<std::string> ignoredTensors; ///< words of what is left out of it
  int64_t layer = -1; ///< of it; -1: the first that has experts
  std::string cases;  ///< a file of further options; a line is a run of its own
  int atOnce = 1;     ///< of its lines
  double weightsAtOnce = 16; ///< GiB, of lines at once
  double deviceLimit = 0;    ///< seconds of a line; 0: none
};

/// True to go on; false to end the program with `status`, after
/// what was to be said has been printed (2 for wrong usage).
bool parseOptions(int argc, char **argv, Options &options, int &status);

} // namespace moec::run

#endif // MOEC_RUNTIME_TOOLS_RUN_OPTIONS_H
