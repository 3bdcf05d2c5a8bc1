//===- Judge.cpp - one token count, run and judged ------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Run, download, compare; run again under disturbance; time.
//
//===----------------------------------------------------------------------===//

#include "runtime/tools/run/Chain.h"
#include "runtime/tools/run/Promises.h"

#include "test/reference/Check.h"
#include "test/reference/Rounding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

using namespace moec;
using namespace moec::run;
using namespace moec::runtime;

/// Row tiles of the schedules: their first and last rows are always sampled.
static constexpr int64_t kTileRows[] = {16, 32, 64, 128};
/// On the host device every token up to here is compared.
static constexpr int64_t kHostSample = 4096;
/// Of the rows that differ from another package's, so many are looked at for
/// roundings that went otherwise.
static constexpr size_t kSuspects = 256;

Result<Place> Place::create(Session &session, int64_t tokens) {
  Place place;
  auto outputs = session.makeOutputs(tokens);
  if (!outputs)
    return outputs.takeError();
  place.outputs = std::move(*outputs);
  auto workspace = session.makeWorkspace(tokens);
  if (!workspace)
    return workspace.takeError();
  place.workspace = std::move(*workspace);
  auto context = session.makeContext(place.workspace);
  if (!context)
    return context.takeError();
  place.context = std::move(*context);
  return place;
}

namespace {
/// What a variant's kernels do to the sums; see Session.
struct Precision {
  bool roundsPartials = false;
  double errorOfSums = 0;
};
} // namespace

Result<HostOutputs> moec::run::download(const DeviceOutputs &outputs) {
  HostOutputs result;
  for (const auto &[name, buffer] : outputs.buffers) {
    auto array = buffer.download();
    if (!array)
      return array.takeError();
    result.emplace(name, std::move(*array));
  }
  return result;
}

Result<HostOutputs> moec::run::runIn(Bench &bench, const Place &place,
                                     const DeviceInputs &inputs,
                                     int64_t tokens) {
  if (auto ok = bench.session.run(*place.context, 0, inputs, place.outputs,
                                  tokens, bench.options.variant);
      !ok)
    return ok.takeError();
  if (auto ok = bench.machine.synchronizeAll(); !ok)
    return ok.takeError();
  return download(place.outputs);
}

Result<HostOutputs> moec::run::runOnce(Bench &bench, const DeviceInputs &inputs,
                                       int64_t tokens) {
  auto place = Place::create(bench.session, tokens);
  if (!place)
    return place.takeError();
  return runIn(bench, *place, inputs, tokens);
}

std::string moec::run::differing(const HostOutputs &first,
                                 const HostOutputs &second) {
  for (const auto &[name, array] : second) {
    const HostArray &before = first.at(name);
    auto begin = array.data.get();
    auto differs = std::mismatch(begin, begin + array.bytes, before.data.get());
    if (differs.first != begin + array.bytes)
      return fmt::format("output {} differs from byte {} of {}", name,
                         differs.first - begin, array.bytes);
  }
  return "";
}

template <typename T>
static const T *find(const HostOutputs &outputs, const char *name) {
  auto it = outputs.find(name);
  return it == outputs.end()
             ? nullptr
             : reinterpret_cast<const T *>(it->second.data.get());
}

void moec::run::failWith(CaseResult &result, const std::string &text) {
  result.passed = false;
  result.text += (result.text.empty() ? "" : "; ") + text;
}

/// Says in a report what adoptRoundings did before it.
static void noteRoundings(const reference::Adopted &adopted,
                          reference::Report &report, CaseResult &result) {
  result.roundings += adopted.candidates;
  result.roundingsTaken += adopted.taken;
  report.text += fmt::format(
      "; {} of {} roundings beside a boundary are the output's, not the "
      "reference's",
      adopted.taken, adopted.candidates);
}

/// tokens = 0: every output is as it was.
static void checkUntouched(const HostOutputs &outputs, CaseResult &result) {
  for (const auto &[name, array] : outputs)
    for (int64_t i = 0; i < array.bytes; ++i)
      if (array.data[static_cast<size_t>(i)] != std::byte(0xFF))
        return failWith(
            result, fmt::format("output {} was written with 0 tokens", name));
  result.text = "0 tokens: nothing was written";
}

/// Where weights multiply x, what comes next is rounded: the reference goes on
/// with the device's weights, which are as right as its own, since their last
/// bit decides every tie between two quantized values.
static void adoptWeights(const reference::Layer &layer,
                         const HostOutputs &outputs,
                         reference::Routing &routing) {
  if (const auto *weights = find<float>(outputs, "weights");
      weights && layer.weightOnInput)
    std::copy_n(weights, routing.weights.size(), routing.weights.begin());
}

/// Of rows that come by expert, those that are none must be as they were; in
/// what is judged from here on they are zeros.
static void settleRows(const Session &session, const reference::Inputs &inputs,
                       bool poison, HostOutputs &outputs, CaseResult &result) {
  const reference::Layer &layer = session.layer();
  if (!layer.batched)
    return;
  HostArray &out = outputs.at("out");
  const int64_t rowBytes = layer.hidden * layer.outputType->bytes;
  const int64_t slots = inputs.tokens / layer.localExperts;
  for (int64_t row = 0; row < inputs.tokens; ++row) {
    if (reference::isRow(layer, inputs, row))
      continue;
    std::byte *bytes = out.data.get() + row * rowBytes;
    const bool untouched =
        std::all_of(bytes, bytes + rowBytes,
                    [](std::byte b) { return b == std::byte(0xFF); });
    if (poison && !untouched && result.passed)
      failWith(result, fmt::format("slot {} of expert {} was written, of which "
                                   "{} are taken",
                                   row % slots, row / slots,
                                   inputs.expertCounts[row / slots]));
    std::memset(bytes, 0, static_cast<size_t>(rowBytes));
  }
}

/// Compares with the reference. `inputs` holds the weights too.
static Result<void> checkOutputs(Bench &bench, const reference::Inputs &inputs,
                                 const HostOutputs &outputs,
                                 const Precision &precision,
                                 CaseResult &result) {
  HostWork work(bench.turn);
  const reference::Layer &layer = bench.session.layer();
  const auto *ids = find<int32_t>(outputs, "ids");
  auto routing =
      reference::route(layer, inputs, inputs.logits.data ? ids : nullptr);
  if (!routing)
    return routing.takeError();
  if (std::string text = reference::compareRouting(
          *routing, ids, find<float>(outputs, "weights"),
          find<int32_t>(outputs, "counts"));
      !text.empty())
    failWith(result, text);
  adoptWeights(layer, outputs, *routing);

  auto bound = reference::boundFor(layer, precision.roundsPartials);
  if (!bound)
    return bound.takeError();
  int64_t limit = bench.machine.onHost() ? kHostSample : bench.options.sample;
  auto list = reference::sampleTokens(
      layer, *routing, {std::begin(kTileRows), std::end(kTileRows)}, limit,
      bench.options.seed);
  auto rows = reference::compute(layer, inputs, *routing, list);
  if (!rows)
    return rows.takeError();
  const auto *out = find<std::byte>(outputs, "out");
  auto compare = [&] {
    return reference::compareRows(*rows, list, layer.hidden, out,
                                  *layer.outputType, layer.hidden, *bound,
                                  layer.valuesPerRow());
  };
  auto report = compare();
  if (!report.passed && precision.errorOfSums > 0) {
    auto adopted = reference::adoptRoundings(
        layer, inputs, *routing, list, precision.errorOfSums, *bound, out,
        *layer.outputType, layer.hidden, *rows);
    if (!adopted)
      return adopted.takeError();
    report = compare();
    noteRoundings(*adopted, report, result);
  }
  result.bound = report.bound;
  result.error = report.whole;
  result.worstRow = report.worstRow;
  result.worstElement = report.worstElement;
  if (!report.passed)
    failWith(result, report.text);
  else if (result.text.empty())
    result.text = report.text;
  return {};
}

/// Changes the rows of `tokens`, of the first kSuspects, in what another
/// package put out.
static Result<reference::Adopted>
adoptIn(const reference::Layer &layer, const reference::Inputs &inputs,
        const HostOutputs &outputs, std::vector<int64_t> tokens, double error,
        double bound, HostOutputs &trusted) {
  tokens.resize(std::min(tokens.size(), kSuspects));
  auto routing = reference::route(
      layer, inputs,
      inputs.logits.data ? find<int32_t>(outputs, "ids") : nullptr);
  if (!routing)
    return routing.takeError();
  adoptWeights(layer, outputs, *routing);
  std::byte *known = trusted.at("out").data.get();
  std::vector<double> rows(tokens.size() * size_t(layer.hidden));
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = reference::load(*layer.outputType, known,
                              tokens[i / layer.hidden] * layer.hidden +
                                  int64_t(i) % layer.hidden);
  auto adopted = reference::adoptRoundings(
      layer, inputs, *routing, tokens, error, bound,
      find<std::byte>(outputs, "out"), *layer.outputType, layer.hidden, rows);
  if (!adopted)
    return adopted.takeError();
  for (size_t i = 0; i < rows.size(); ++i)
    reference::store(*layer.outputType, known,
                     tokens[i / layer.hidden] * layer.hidden +
                         int64_t(i) % layer.hidden,
                     rows[i]);
  return adopted;
}

/// Every row against the other package's output.
static Result<void> checkAgainst(Bench &bench, const HostInputs &inputs,
                                 const HostOutputs &outputs, int64_t tokens,
                                 const Precision &precision,
                                 CaseResult &result) {
  Session &other = *bench.against;
  auto place = Place::create(other, tokens);
  if (!place)
    return place.takeError();
  auto device = other.upload(inputs);
  if (!device)
    return device.takeError();
  if (auto ok =
          other.run(*place->context, 0, *device, place->outputs, tokens, "");
      !ok)
    return ok;
  if (auto ok = bench.machine.synchronizeAll(); !ok)
    return ok;
  auto trusted = download(place->outputs);
  if (!trusted)
    return trusted.takeError();
  HostWork work(bench.turn);
  const reference::Layer &layer = bench.session.layer();
  finishDeferred(other.layer(), tokens, *trusted);
  settleRows(other, inputs.described, bench.options.poison, *trusted, result);
  auto bound = reference::boundFor(layer, precision.roundsPartials);
  if (!bound)
    return bound.takeError();
  auto compare = [&] {
    return reference::compareDevices(
        find<std::byte>(*trusted, "out"), find<std::byte>(outputs, "out"),
        *layer.outputType, layer.rowsOf(tokens), layer.hidden, *bound,
        layer.valuesPerRow());
  };
  auto report = compare();
  if (!report.passed && precision.errorOfSums > 0) {
    reference::Inputs described = inputs.described;
    bench.weights.describe(layer, described);
    auto adopted = adoptIn(layer, described, outputs, report.suspects,
                           precision.errorOfSums, *bound, *trusted);
    if (!adopted)
      return adopted.takeError();
    report = compare();
    noteRoundings(*adopted, report, result);
  }
  if (!report.passed)
    failWith(result,
             fmt::format("against {}: {}", bench.options.against, report.text));
  else
    result.text +=
        fmt::format("{}against {}: {}", result.text.empty() ? "" : "; ",
                    bench.options.against, report.text);
  return {};
}

/// Another stream, another workspace with other content, and on a GPU other
/// kernels beside it; the bits must be the same.
static Result<void> runTwice(Bench &bench, const DeviceInputs &inputs,
                             const HostOutputs &first, int64_t tokens,
                             CaseResult &result) {
  Session &session = bench.session;
  auto place = Place::create(session, tokens);
  if (!place)
    return place.takeError();
  constexpr int kOtherContent = 0x5A;
  if (bench.options.poison)
    if (auto ok = place->workspace.refill(kOtherContent); !ok)
      return ok;
  std::optional<Place> beside;
  constexpr int64_t kBesideTokens = 512;
  int64_t besideTokens = std::min(tokens, kBesideTokens);
  if (!bench.machine.onHost()) {
    auto made = Place::create(session, besideTokens);
    if (!made)
      return made.takeError();
    beside = std::move(*made);
  }
  auto disturb = [&]() -> Result<void> {
    constexpr int kRuns = 3;
    for (int i = 0; beside && i < kRuns; ++i)
      if (auto ok = session.run(*beside->context, 0, inputs, beside->outputs,
                                besideTokens, "");
          !ok)
        return ok;
    return {};
  };
  if (auto ok = disturb(); !ok)
    return ok;
  if (auto ok = session.run(*place->context, 1, inputs, place->outputs, tokens,
                            bench.options.variant);
      !ok)
    return ok;
  if (auto ok = disturb(); !ok)
    return ok;
  if (auto ok = bench.machine.synchronizeAll(); !ok)
    return ok;
  auto second = download(place->outputs);
  if (!second)
    return second.takeError();
  result.twice = differing(first, *second);
  if (!result.twice.empty())
    failWith(result,
             "the second, disturbed run is not identical: " + result.twice);
  else
    result.twice = "identical";
  for (auto damage : {place->workspace.damage(), place->outputs.damage()}) {
    if (!damage)
      return damage.takeError();
    if (!damage->empty())
      failWith(result, "the second run: " + *damage);
  }
  return {};
}

/// The local expert that has the most rows.
static int64_t busiestExpert(const reference::Layer &layer,
                             const HostInputs &inputs,
                             const HostOutputs &outputs) {
  const int32_t *counts = layer.batched ? inputs.described.expertCounts.data()
                                        : find<int32_t>(outputs, "counts");
  return std::max_element(counts, counts + layer.localExperts) - counts;
}

/// One expert gets other weights, at the same addresses, and afterwards its own
/// again.
static Result<void> checkRefresh(Bench &bench, const HostInputs &inputs,
                                 const DeviceInputs &device,
                                 const HostOutputs &first, int64_t tokens,
                                 const Precision &precision,
                                 CaseResult &result) {
  Session &session = bench.session;
  const reference::Layer &layer = session.layer();
  const int64_t expert = busiestExpert(layer, inputs, first);
  const HostWeights other = [&] {
    HostWork work(bench.turn);
    return bench.weights.withExpert(layer, bench.options.seed + 1, expert);
  }();
  for (const HostWeights *weights : {&other, &bench.weights}) {
    if (auto ok = session.replaceExpert(*weights, expert); !ok)
      return ok;
    auto outputs = runOnce(bench, device, tokens);
    if (!outputs)
      return outputs.takeError();
    finishDeferred(layer, tokens, *outputs);
    if (weights == &bench.weights) {
      if (std::string text = differing(first, *outputs); !text.empty())
        failWith(result,
                 fmt::format("with expert {} as it was: {}", expert, text));
      continue;
    }
    CaseResult replaced;
    settleRows(session, inputs.described, bench.options.poison, *outputs,
               replaced);
    reference::Inputs described = inputs.described;
    other.describe(layer, described);
    if (auto ok = checkOutputs(bench, described, *outputs, precision, replaced);
        !ok)
      return ok;
    if (!replaced.passed)
      failWith(result, fmt::format("with other weights of expert {}: {}",
                                   expert, replaced.text));
  }
  if (result.passed)
    result.text += fmt::format("; expert {} replaced: right", expert);
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

static Result<void> judge(Bench &bench, const HostInputs &inputs,
                          const DeviceInputs &device, const Place &place,
                          int64_t tokens, const Precision &precision,
                          CaseResult &result) {
  auto outputs = download(place.outputs);
  if (!outputs)
    return outputs.takeError();
  auto damaged = place.workspace.damage();
  if (!damaged)
    return damaged.takeError();
  if (!damaged->empty())
    failWith(result, "workspace: " + *damaged);
  damaged = place.outputs.damage();
  if (!damaged)
    return damaged.takeError();
  if (!damaged->empty())
    failWith(result, *damaged);
  if (tokens == 0) {
    // Without poison there is nothing to recognize.
    if (bench.options.poison)
      checkUntouched(*outputs, result);
    else
      result.text = "0 tokens: not checked without poison";
    return {};
  }
  finishDeferred(bench.session.layer(), tokens, *outputs);
  const Options &options = bench.options;
  const reference::Layer &layer = bench.session.layer();
  // The bytes themselves are compared with those of other runs.
  HostOutputs settled;
  if (layer.batched) {
    HostArray out(outputs->at("out").bytes);
    std::memcpy(out.data.get(), outputs->at("out").data.get(),
                static_cast<size_t>(out.bytes));
    settled.emplace("out", std::move(out));
    settleRows(bench.session, inputs.described, options.poison, settled,
               result);
  }
  const HostOutputs &judged = layer.batched ? settled : *outputs;
  if (options.check) {
    reference::Inputs described = inputs.described;
    bench.weights.describe(layer, described);
    if (auto ok = checkOutputs(bench, described, judged, precision, result);
        !ok)
      return ok;
  }
  if (bench.against)
    if (auto ok =
            checkAgainst(bench, inputs, judged, tokens, precision, result);
        !ok)
      return ok;
  if (options.check || options.twice)
    if (auto ok = runTwice(bench, device, *outputs, tokens, result); !ok)
      return ok;
  if (options.check)
    if (auto ok = checkInvariance(bench, device, *outputs, tokens, result); !ok)
      return ok;
  if (options.check)
    if (auto ok = checkInPlace(bench, device, *outputs, tokens, result); !ok)
      return ok;
  if (options.refresh)
    if (auto ok = checkRefresh(bench, inputs, device, *outputs, tokens,
                               precision, result);
        !ok)
      return ok;
  if (options.chain)
    return runChain(bench, device, *outputs, tokens, result);
  return {};
}

Result<CaseResult> moec::run::runCase(Bench &bench, int64_t tokens,
                                      const std::string &pattern) {
  const Options &options = bench.options;
  Session &session = bench.session;
  CaseResult result;
  result.tokens = tokens;
  result.inputs = inputsName(options.inputs);
  result.routing = options.inputs == RoutingInput::Logits ? pattern : "given";
  Precision precision;
  if (tokens > 0) {
    auto index = session.package().variantFor(tokens, options.variant);
    if (!index)
      return index.takeError();
    const Variant &variant = session.package().target().variants[*index];
    result.variant = variant.name;
    precision = {session.roundsPartials(variant), session.errorOfSums(variant)};
  }
  auto inputs = [&] {
    HostWork work(bench.turn);
    return makeInputs(session.layer(), options, tokens, pattern);
  }();
  if (!inputs)
    return inputs.takeError();
  auto device = session.upload(*inputs);
  if (!device)
    return device.takeError();
  auto place = Place::create(session, tokens);
  if (!place)
    return place.takeError();

  auto once = [&] {
    return session.run(*place->context, 0, *device, place->outputs, tokens,
                       options.variant);
  };
  // A run of no tokens launches nothing, so there is nothing to capture.
  bool captured = options.capture && tokens > 0;
  if (auto ok = captured ? bench.machine.runCaptured(once) : once(); !ok)
    return ok.takeError();
  if (auto ok = bench.machine.synchronizeAll(); !ok)
    return ok.takeError();
  if (options.check || options.twice || options.chain || options.refresh ||
      bench.against)
    if (auto ok =
            judge(bench, *inputs, *device, *place, tokens, precision, result);
        !ok)
      return ok.takeError();
  if (options.time && tokens > 0) {
    auto time = bench.machine.medianTime(once);
    if (!time)
      return time.takeError();
    result.medianMicroseconds = *time;
  }
  return result;
}
