//===- Options.cpp - the command line of moec-run -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CLI11, and the environment's table below the options' help.
//
//===----------------------------------------------------------------------===//

#include "runtime/tools/run/Options.h"

#include "runtime/support/Env.h"
#include "test/reference/TestData.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <map>

using namespace moec;
using namespace moec::run;

static std::string environmentHelp() {
  std::string text = "Environment:\n";
  for (const EnvVariable &variable : kEnvVariables)
    text += fmt::format("  {:<22} {}\n", variable.name, variable.help);
  return text;
}

bool moec::run::parseOptions(int argc, char **argv, Options &options,
                             int &status) {
  constexpr int kUsage = 2;
  CLI::App app("Runs, checks, times and prebuilds a package.", "moec-run");
  app.footer(environmentHelp());
  std::string device, inputs = "logits";
  bool useIds = false;
  std::map<std::string, runtime::DeviceKind> devices = {
      {"host", runtime::DeviceKind::Host}, {"cuda", runtime::DeviceKind::Cuda}};
  app.add_option("package", options.package,
                 "Folder of the package; with --cases a line may name its own");
  app.add_option("--device", device, "Where to run: host or cuda")
      ->check(CLI::IsMember({"host", "cuda"}));
  app.add_option("--tokens", options.tokens, "Token counts, 1,7,64 say")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber);
  app.add_option("--variant", options.variant,
                 "Force this variant; its range must hold the tokens");
  app.add_option("--arch", options.arch,
                 "Take this target of the package (default: by the device)");
  app.add_option("--seed", options.seed, "Seed of weights and inputs");
  app.add_option("--weights", options.weights,
                 "Take weights out of this checkpoint: a folder of safetensors "
                 "files or one of them");
  app.add_option("--layer", options.layer,
                 "Of the checkpoint's layers (default: the first with experts)")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--quantize", options.quantize,
               "The checkpoint's weights are floats: quantize them as the "
               "layer's scheme says");
  app.add_flag("--no-shared-experts", options.noSharedExperts,
               "Leave the checkpoint's shared experts out: another computes "
               "them");
  app.add_option("--ignore-tensor", options.ignoredTensors,
                 "Leave tensors out that no value takes and that have this "
                 "word, input_scale say; several with commas")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_flag("--check", options.check,
               "Compare with the reference, and run twice");
  app.add_flag("--time", options.time, "Median time of one run");
  app.add_flag("--json", options.json, "One JSON object on stdout");
  app.add_option("--cases", options.cases,
                 "Each line of this file is a run with its options beside "
                 "these, all in one process; a JSON object a line on stdout");
  app.add_option("--at-once", options.atOnce,
                 "Lines of --cases at once (default 1): they share the cores; "
                 "a GPU is one's at a time. Lines of one package in a row "
                 "follow each other")
      ->check(CLI::PositiveNumber);
  app.add_option("--weights-at-once", options.weightsAtOnce,
                 "GiB of weights that lines at once may have together "
                 "(default 16; on the device up to four times that); a larger "
                 "layer runs alone")
      ->check(CLI::PositiveNumber);
  app.add_option("--device-limit", options.deviceLimit,
                 "Seconds after which a line of --cases that keeps the device "
                 "ends the process (default: none)")
      ->check(CLI::PositiveNumber);
  app.add_flag("--prebuild", options.prebuild,
               "Only fill the kernel cache; needs no GPU");
  app.add_flag("--strict", options.strict, "Never compile");
  app.add_option("--jobs", options.jobs, "Compilations at once")
      ->check(CLI::NonNegativeNumber);
  std::string patterns =
      fmt::format("{}", fmt::join(reference::routingPatterns(), ", "));
  app.add_option("--routing", options.routing,
                 "Patterns of the logits: " + patterns)
      ->delimiter(',');
  app.add_option("--inputs", inputs, "What to route by")
      ->check(CLI::IsMember({"logits", "ids32", "ids64"}));
  app.add_option("--token-ids", options.tokenIds,
                 "Type of the token ids that a table of experts is read by")
      ->check(CLI::IsMember({"i32", "i64"}));
  const auto floats = CLI::IsMember({"f32", "f16", "bf16"});
  app.add_option("--logits-dtype", options.logitsType,
                 "Type of the logits and of the gate of shared experts "
                 "(default: the layer's)")
      ->check(floats);
  app.add_option("--given-weights-dtype", options.weightsType,
                 "Type of the weights beside given ids (default: f32)")
      ->check(floats);
  app.add_flag("--use-ids", useIds, "Same as --inputs=ids32");
  app.add_option("--against", options.against,
                 "Another package of the same layer: compare every row");
  app.add_flag("--capture", options.capture,
               "Run through a captured CUDA graph");
  app.add_flag("--twice", options.twice,
               "Run again disturbed and demand the same bits (--check does)");
  app.add_flag("--chain", options.chain,
               "Pack and run behind each other without a wait, beside a kernel "
               "that holds half of the SMs, and demand the same bits");
  app.add_flag("--refresh", options.refresh,
               "Pack one expert again with other weights, in place; compare "
               "with the reference, then with its own again");
  bool noPoison = false;
  app.add_flag("--no-poison", noPoison,
               "Leave outputs and workspace as allocated, for initcheck; the "
               "canaries around them stay");
  app.add_option("--row-stride", options.rowStride,
                 "Elements between rows of x beyond the row")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--valid-tokens", options.validTokens,
                 "Tokens from here on route nowhere")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--sample", options.sample,
                 "Tokens that the reference takes on a GPU")
      ->check(CLI::PositiveNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    int code = app.exit(error);
    status = code == 0 ? 0 : kUsage;
    return false;
  }
  auto usage = [&](const std::string &text) {
    fmt::print(stderr, "moec-run: {}\n", text);
    status = kUsage;
    return false;
  };
  if (options.package.empty() && options.cases.empty())
    return usage("expected the folder of a package");
  if (options.cases.empty() &&
      (app.count("--at-once") || app.count("--weights-at-once") ||
       app.count("--device-limit")))
    return usage("--at-once, --weights-at-once and --device-limit are of "
                 "lines, which --cases holds");
  if (device.empty() && !options.prebuild)
    return usage("--device=host or --device=cuda is required");
  if (!device.empty())
    options.device = devices.at(device);
  const auto &known = reference::routingPatterns();
  for (const std::string &name : options.routing)
    if (std::find(known.begin(), known.end(), name) == known.end())
      return usage(fmt::format("--routing: expected one of {}, got '{}'",
                               patterns, name));
  options.inputs = inputs == "ids64"             ? RoutingInput::Ids64
                   : inputs == "ids32" || useIds ? RoutingInput::Ids32
                                                 : RoutingInput::Logits;
  options.poison = !noPoison;
  bool onHost = options.device == runtime::DeviceKind::Host;
  if (onHost && options.capture)
    return usage("--capture needs --device=cuda");
  if (options.prebuild && !options.cases.empty())
    return usage("--cases runs a package, --prebuild does not");
  if (options.layer >= 0 && options.weights.empty())
    return usage("--layer is one of a checkpoint's, which --weights names");
  if (options.quantize && options.weights.empty())
    return usage("--quantize takes a checkpoint, which --weights names");
  if (options.tokens.empty())
    return usage("--tokens: expected at least one token count");
  return true;
}
