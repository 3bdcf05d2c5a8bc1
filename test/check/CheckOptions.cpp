//===- CheckOptions.cpp - the command line of moec-check ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/check/CheckOptions.h"

#include "runtime/support/CommandLine.h"

#include <CLI/CLI.hpp>
#include <fmt/core.h>

using namespace moec;
using namespace moec::check;
using namespace moec::run;

static void addRunOptions(CLI::App &app, CheckOptions &options,
                          std::string &inputs, bool &useIds, bool &noPoison) {
  app.add_option("--inputs", inputs, "What to route by")
      ->check(oneOf({"logits", "ids32", "ids64"}));
  app.add_flag("--use-ids", useIds, "Same as --inputs=ids32");
  app.add_option("--token-ids", options.inputs.tokenIds,
                 "Type of the token ids that a table of experts is read by")
      ->check(oneOf({"i32", "i64"}));
  const auto floats = oneOf({"f32", "f16", "bf16"});
  app.add_option("--logits-dtype", options.inputs.logitsType,
                 "Type of the logits and of the gate of shared experts "
                 "(default: the layer's)")
      ->check(floats);
  app.add_option("--given-weights-dtype", options.inputs.weightsType,
                 "Type of the weights beside given ids (default: f32)")
      ->check(floats);
  app.add_option("--row-stride", options.inputs.rowStride,
                 "Elements between rows of x beyond the row")
      ->check(countFrom(0, std::numeric_limits<int64_t>::max()));
  app.add_option("--valid-tokens", options.inputs.validTokens,
                 "Tokens from here on route nowhere")
      ->check(countFrom(0));
  app.add_flag("--no-poison", noPoison,
               "Leave outputs and workspace as allocated, for initcheck; the "
               "canaries around them stay");
  app.add_flag("--capture", options.capture,
               "Run through a captured CUDA graph");
  app.add_option("--sample", options.sample,
                 "Tokens that the reference takes on a GPU")
      ->check(countFrom(1));
}

static void addCheckOptions(CLI::App &app, CheckOptions &options) {
  app.add_option("--against", options.against,
                 "Another package of the same layer: compare every row");
  app.add_flag("--twice", options.twice,
               "Run again disturbed and demand the same bits (--check does)");
  app.add_flag_callback(
      "--alone", [&options] { options.beside = false; },
      "Nothing runs beside the second run: an emulated GPU takes long");
  app.add_flag(
      "--chain", options.chain,
      "Pack and run back to back without synchronization, next to a kernel "
      "that holds half of the SMs, and demand the same bits");
  app.add_flag("--refresh", options.refresh,
               "Pack one expert again with other weights, in place; compare "
               "with the reference, then with its own again");
  app.add_option("--cases", options.cases,
                 "Each line of this file is a run with its options beside "
                 "these, all in one process; a JSON object a line on stdout");
  app.add_option("--at-once", options.atOnce,
                 "Lines of --cases at once (default 1): they share the cores; "
                 "a GPU is one's at a time. Lines of one package in a row "
                 "follow each other")
      ->check(countFrom(1));
  app.add_option("--weights-at-once", options.weightsAtOnce,
                 "GiB of weights that lines at once may have together "
                 "(default 16; on the device up to four times that); a larger "
                 "layer runs alone")
      ->check(checkPositive);
  app.add_option("--device-limit", options.deviceLimit,
                 "Seconds after which a line of --cases that keeps the device "
                 "ends the process (default: none)")
      ->check(checkPositive);
}

bool moec::check::parseOptions(int argc, char **argv, CheckOptions &options,
                               int &status) {
  CLI::App app("Runs packages as tests do: the options of moec-run, and more "
               "checks.",
               options.program);
  addOptions(app, options);
  std::string inputs = "logits";
  bool useIds = false, noPoison = false;
  addRunOptions(app, options, inputs, useIds, noPoison);
  addCheckOptions(app, options);
  if (!run::parseOptions(app, argc, argv, options, status))
    return false;
  options.inputs.routeBy = inputs == "ids64"             ? RoutingInput::Ids64
                           : inputs == "ids32" || useIds ? RoutingInput::Ids32
                                                         : RoutingInput::Logits;
  options.poison = !noPoison;
  if (options.package.empty() && options.cases.empty())
    return refuseUsage(options, "expected the folder of a package", status);
  if (options.cases.empty() &&
      (app.count("--at-once") || app.count("--weights-at-once") ||
       app.count("--device-limit")))
    return refuseUsage(options,
                       "--at-once, --weights-at-once and --device-limit are of "
                       "lines, which --cases holds",
                       status);
  if (options.prebuild && !options.cases.empty())
    return refuseUsage(options, "--cases runs a package, --prebuild does not",
                       status);
  if (options.device == runtime::DeviceKind::Host && options.capture)
    return refuseUsage(options, "--capture needs --device=cuda", status);
  return true;
}

/// A tensor that a run is not given has no type that could be chosen.
static Result<void> checkTypes(const InputOptions &options,
                               const LoadedLayer &loaded) {
  const reference::Layer &layer = loaded.layer();
  const bool given =
      options.routeBy != RoutingInput::Logits || layer.select == "given";
  auto refuse = [&](const char *option, const char *what) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("{}: expected none, since a run of layer '{}' is "
                             "given no {}",
                             option, layer.name, what)};
  };
  if (!options.logitsType.empty() &&
      (layer.batched || (given && !layer.sharedGate)))
    return refuse("--logits-dtype", "logits");
  if (!options.weightsType.empty() && (layer.batched || !given))
    return refuse("--given-weights-dtype", "weights beside ids; --inputs=ids32 "
                                           "and --inputs=ids64 give them");
  return {};
}

/// Rows that come by expert have no tokens to route.
Result<void> moec::check::checkInputs(const InputOptions &options,
                                      const LoadedLayer &loaded) {
  if (auto ok = checkTypes(options, loaded); !ok)
    return ok;
  if (!loaded.layer().batched ||
      (options.routeBy == RoutingInput::Logits && options.validTokens < 0))
    return {};
  return Error{ErrorCode::InvalidArgument,
               fmt::format("--inputs and --valid-tokens: expected neither, "
                           "since rows of layer '{}' come by expert; --routing "
                           "says how many",
                           loaded.layer().name)};
}
