//===- RunCase.cpp - runs and checks one case -----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs a case, downloads its outputs and compares them with the reference. Runs
// the case again under disturbance, and measures its time.
//
//===----------------------------------------------------------------------===//

#include "tools/moec-run/RunCase.h"

#include <algorithm>
#include <cstring>

using namespace moec;
using namespace moec::run;
using namespace moec::runtime;

/// Runs again on another stream, in a workspace with other contents, and on a
/// GPU while other kernels run. The outputs must be bitwise identical.
static Result<void> runTwice(RunSetup &setup, const DeviceInputs &inputs,
                             const HostOutputs &first, int64_t tokens,
                             CaseResult &result) {
  LoadedLayer &layer = setup.layer;
  auto buffers = TRY(RunBuffers::create(layer, tokens));
  constexpr int kOtherContent = 0x5A;
  if (setup.options.poison)
    TRY(buffers.workspace.refill(kOtherContent));
  std::optional<RunBuffers> beside;
  constexpr int64_t kBesideTokens = 512;
  int64_t besideTokens = std::min(tokens, kBesideTokens);
  if (!layer.device().onHost() && setup.options.beside) {
    beside = TRY(RunBuffers::create(layer, besideTokens));
  }
  auto disturb = [&]() -> Result<void> {
    constexpr int kRuns = 3;
    for (int i = 0; beside && i < kRuns; ++i)
      TRY(layer.run(*beside->context, 0, inputs, beside->outputs, besideTokens,
                    ""));
    return {};
  };
  TRY(disturb());
  TRY(layer.run(*buffers.context, 1, inputs, buffers.outputs, tokens,
                setup.options.variant));
  TRY(disturb());
  TRY(layer.device().synchronizeAll());
  auto second = TRY(download(buffers.outputs));
  result.twice = differing(first, second);
  if (!result.twice.empty())
    result.fail("the second, disturbed run is not identical: " + result.twice);
  else
    result.twice = "identical";
  for (auto damage : {buffers.workspace.damage(), buffers.outputs.damage()}) {
    if (!damage)
      return damage.takeError();
    if (!damage->empty())
      result.fail("the second run: " + *damage);
  }
  return {};
}

static std::string inputsName(RoutingInput inputs) {
  switch (inputs) {
  case RoutingInput::Logits:
    return "logits";
  case RoutingInput::Ids32:
    return "ids32";
  case RoutingInput::Ids64:
    return "ids64";
  }
  return "";
}

/// Checks the downloaded outputs of a run as the options request: compares them
/// with the reference and with a second run, and calls the hooks.
static Result<void> checkCase(RunSetup &setup, int64_t tokens,
                              const Precision &precision,
                              const HostInputs &inputs,
                              const DeviceInputs &device, HostOutputs &outputs,
                              CaseResult &result) {
  const Options &options = setup.options;
  const reference::Layer &layer = setup.layer.layer();
  finishDeferred(layer, tokens, outputs);
  // The unmodified outputs are compared with the outputs of other runs, so
  // settleRows() changes a copy.
  HostOutputs settled;
  if (layer.batched) {
    HostArray out(outputs.at("out").bytes);
    std::memcpy(out.data.get(), outputs.at("out").data.get(),
                static_cast<size_t>(out.bytes));
    settled.emplace("out", std::move(out));
    settleRows(layer, inputs.described, options.poison, settled, result);
  }
  const HostOutputs &judged = layer.batched ? settled : outputs;
  if (options.check) {
    HostWork work(setup.hooks);
    reference::Inputs described = inputs.described;
    setup.weights.describe(layer, described);
    TRY(compareWithReference(setup.layer, described, judged, precision, options,
                             setup.kept, result));
  }
  if (options.check || options.twice)
    TRY(runTwice(setup, device, outputs, tokens, result));
  if (!setup.hooks.checksCases())
    return {};
  return setup.hooks.check(
      {setup, tokens, precision, inputs, device, outputs, judged}, result);
}

/// Checks that nothing was written outside of outputs and workspace.
static Result<void> checkDamage(const RunBuffers &buffers, CaseResult &result) {
  auto damaged = buffers.workspace.damage();
  if (!damaged)
    return damaged.takeError();
  if (!damaged->empty())
    result.fail("workspace: " + *damaged);
  damaged = buffers.outputs.damage();
  if (!damaged)
    return damaged.takeError();
  if (!damaged->empty())
    result.fail(*damaged);
  return {};
}

Result<CaseResult> moec::run::runCase(RunSetup &setup, int64_t tokens,
                                      const std::string &pattern) {
  const Options &options = setup.options;
  LoadedLayer &layer = setup.layer;
  const tools::Device &machine = layer.device();
  const RoutingInput routeBy = options.inputs.routeBy;
  CaseResult result;
  result.tokens = tokens;
  result.inputs = inputsName(routeBy);
  const bool isGiven =
      routeBy != RoutingInput::Logits || setup.given.has("logits");
  result.routing = isGiven ? "given" : pattern;
  Precision precision;
  if (tokens > 0) {
    auto index = TRY(layer.package().variantFor(tokens, options.variant));
    const Variant &variant = layer.package().target().variants[index];
    result.variant = variant.name;
    precision = Precision::of(layer, variant);
  }
  auto inputs = [&] {
    HostWork work(setup.hooks);
    return makeInputs(layer.layer(), options.seed, options.inputs, tokens,
                      pattern);
  }();
  if (!inputs)
    return inputs.takeError();
  TRY(setup.given.replaceInputs(layer, tokens, *inputs));
  auto device = TRY(layer.upload(*inputs, tokens));
  auto buffers = TRY(RunBuffers::create(layer, tokens));

  auto once = [&] {
    return layer.run(*buffers.context, 0, device, buffers.outputs, tokens,
                     options.variant);
  };
  // A run of 0 tokens has no launches that could be captured.
  const bool captured = options.capture && tokens > 0;
  TRY(captured ? machine.runCaptured(once) : once());
  TRY(machine.synchronizeAll());
  if (!options.outputFiles.empty()) {
    auto outputs = TRY(download(buffers.outputs));
    TRY(writeOutputs(options, layer, tokens, outputs));
  }
  if (options.check || options.twice || setup.hooks.checksCases()) {
    auto outputs = TRY(download(buffers.outputs));
    TRY(checkDamage(buffers, result));
    if (tokens > 0) {
      TRY(checkCase(setup, tokens, precision, *inputs, device, outputs,
                    result));
    } else if (options.poison) {
      checkUntouched(outputs, result);
    } else {
      // Without poison, an unwanted write cannot be detected.
      result.text = "0 tokens: not checked without poison";
    }
  }
  if (options.time && tokens > 0) {
    constexpr int kOnHost = 3, kOnGpu = 15;
    const int timings = machine.onHost() ? kOnHost : kOnGpu;
    auto milliseconds = TRY(machine.median(
        once, {.least = timings, .most = timings, .budgetMs = 0, .eachMs = 2}));
    result.medianMicroseconds = milliseconds * 1e3;
  }
  return result;
}
