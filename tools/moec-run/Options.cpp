//===- Options.cpp - the command line of moec-run -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declares the command-line options of moec-run with CLI11. --help prints the
// table of environment variables below the options.
//
//===----------------------------------------------------------------------===//

#include "tools/moec-run/Options.h"

#include "runtime/support/CommandLine.h"
#include "runtime/support/Env.h"
#include "test/reference/TestData.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

using namespace moec;
using namespace moec::run;

static std::string environmentHelp() {
  std::string text = "Environment:\n";
  for (const EnvVariable &variable : kEnvVariables)
    text += fmt::format("  {:<22} {}\n", variable.name, variable.help);
  return text;
}

static std::string patternNames() {
  return fmt::format("{}", fmt::join(reference::routingPatterns(), ", "));
}

void moec::run::addOptions(CLI::App &app, Options &options) {
  app.footer(environmentHelp());
  app.set_version_flag("--version",
                       fmt::format("{} {}", options.program, MOEC_VERSION));
  app.add_option("package", options.package, "Folder of the package");
  app.add_option("--device", options.deviceName,
                 "Where to run: host, cuda, or emulated, which interprets and "
                 "checks the PTX of the kernels and is slow")
      ->check(oneOf({"host", "cuda", "emulated"}));
  app.add_option("--tokens", options.tokens, "Token counts, such as 1,7,64")
      ->delimiter(',')
      ->check(countFrom(0));
  app.add_option("--variant", options.variant,
                 "Force this variant; its range must hold the tokens");
  app.add_option("--arch", options.arch,
                 "Target of the package to run, such as sm_90a (default: the "
                 "one for this device); the arch of an emulated GPU");
  app.add_option("--rank", options.rank,
                 "The rank to run, of a package of several (default: the only "
                 "one)")
      ->check(countFrom(0));
  app.add_option("--seed", options.seed, "Seed of weights and inputs")
      ->check(countFrom(0, INT64_MAX));
  app.add_option("--weights", options.weights,
                 "Read weights from this checkpoint: a folder of safetensors "
                 "files or one of them");
  app.add_option(
         "--layer", options.layer,
         "Index of the checkpoint's layer (default: the first MoE layer)")
      ->check(countFrom(0));
  app.add_flag("--quantize", options.quantize,
               "Quantize the float weights of the checkpoint to the layer's "
               "scheme");
  app.add_flag("--no-shared-experts", options.noSharedExperts,
               "Leave out the checkpoint's shared experts, which the caller "
               "computes");
  app.add_option("--ignore-tensor", options.ignoredTensors,
                 "Ignore unused tensors of the checkpoint whose name contains "
                 "this word, such as input_scale; several with commas")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--input", options.inputWords,
                 "NAME=FILE: read this input or stored weight of the package "
                 "from a .npy file; all others are random. bf16 and 8-bit "
                 "floats are raw uint16 and uint8. The file gives the number "
                 "of tokens")
      ->allow_extra_args(false);
  app.add_option("--output", options.outputWords,
                 "NAME=FILE: write this output to a .npy file")
      ->allow_extra_args(false);
  app.add_flag("--check", options.check,
               "Compare with the reference, and run twice");
  app.add_flag("--time", options.time, "Print the median time of one run");
  app.add_flag("--json", options.json, "Print one JSON object");
  app.add_flag("--prebuild", options.prebuild,
               "Only fill the kernel cache; needs no GPU");
  app.add_flag("--strict", options.strict,
               "Refuse kernels that would have to be compiled");
  app.add_option("--jobs", options.jobs, "Compilations at once")
      ->check(countFrom(0));
  app.add_option("--routing", options.routing,
                 "Patterns of the logits: " + patternNames())
      ->delimiter(',');
}

bool moec::run::refuseUsage(const Options &options, const std::string &text,
                            int &status) {
  fmt::print(stderr, "{}: {}\n", options.program, text);
  status = kUsageStatus;
  return false;
}

/// Parses NAME=FILE arguments. Returns an error text, or "".
static std::string readFiles(const char *option,
                             const std::vector<std::string> &words,
                             std::map<std::string, std::string> &files) {
  for (const std::string &word : words) {
    const size_t equals = word.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == word.size())
      return fmt::format("{}: expected NAME=FILE, got '{}'", option, word);
    const std::string name = word.substr(0, equals);
    if (!files.emplace(name, word.substr(equals + 1)).second)
      return fmt::format("{}: expected one file for '{}', got two", option,
                         name);
  }
  return "";
}

/// Fills inputFiles and outputFiles. Returns an error text, or "".
static std::string checkFiles(const CLI::App &app, Options &options) {
  for (const std::string &text :
       {readFiles("--input", options.inputWords, options.inputFiles),
        readFiles("--output", options.outputWords, options.outputFiles)})
    if (!text.empty())
      return text;
  if (!options.outputFiles.empty() &&
      (options.tokens.size() > 1 || options.routing.size() > 1))
    return "--output writes one run: expected one token count and one routing "
           "pattern";
  const auto &files = options.inputFiles;
  if (app.count("--routing") &&
      (files.contains("logits") || files.contains("given_ids")))
    return "--routing specifies how logits are drawn: expected none with "
           "logits or given_ids of --input";
  return "";
}

/// Returns an error about an option that would have no effect, or "".
static std::string findUnused(const CLI::App &app, const Options &options) {
  if (options.prebuild)
    for (const char *name :
         {"--device", "--tokens", "--variant", "--seed", "--weights", "--input",
          "--output", "--check", "--time", "--routing"})
      if (app.count(name))
        return fmt::format("--prebuild runs nothing: expected no {} with it",
                           name);
  if (options.weights.empty())
    for (const char *name :
         {"--layer", "--quantize", "--no-shared-experts", "--ignore-tensor"})
      if (app.count(name))
        return fmt::format("{} applies to a checkpoint: expected "
                           "--weights=FOLDER with it, got none",
                           name);
  return "";
}

bool moec::run::parseOptions(CLI::App &app, int argc, char **argv,
                             Options &options, int &status) {
  if (const std::optional<int> ended = parseCommandLine(app, argc, argv)) {
    status = *ended;
    return false;
  }
  if (options.deviceName.empty() && !options.prebuild)
    return refuseUsage(options,
                       "--device=host, --device=cuda or --device=emulated is "
                       "required",
                       status);
  if (options.deviceName == "cuda")
    options.device = runtime::DeviceKind::Cuda;
  if (options.deviceName == "emulated")
    options.device = runtime::DeviceKind::Emulated;
  if (options.deviceName == "emulated" && options.time)
    return refuseUsage(options,
                       "--time: expected --device=cuda or --device=host, got "
                       "an emulated GPU, which has no time",
                       status);
  const auto &known = reference::routingPatterns();
  for (const std::string &name : options.routing)
    if (std::ranges::find(known, name) == known.end())
      return refuseUsage(options,
                         fmt::format("--routing: expected one of {}, got '{}'",
                                     patternNames(), name),
                         status);
  if (const std::string text = findUnused(app, options); !text.empty())
    return refuseUsage(options, text, status);
  if (const std::string text = checkFiles(app, options); !text.empty())
    return refuseUsage(options, text, status);
  options.tokensGiven = app.count("--tokens") > 0;
  if (options.inputFiles.contains("given_ids") ||
      options.inputFiles.contains("given_weights"))
    options.inputs.routeBy = RoutingInput::Ids32;
  if (options.tokens.empty())
    return refuseUsage(options, "--tokens: expected at least one token count",
                       status);
  return true;
}
