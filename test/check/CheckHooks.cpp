//===- CheckHooks.cpp - what moec-check adds to a run ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/check/CheckHooks.h"

#include "test/check/FurtherRuns.h"
#include "test/check/PackedWeights.h"
#include "tools/moec-run/Report.h"

#include <fmt/core.h>

#include <algorithm>

using namespace moec;
using namespace moec::check;
using namespace moec::run;

/// Among the rows that differ from another package's, so many are looked at
/// for roundings that went otherwise.
static constexpr size_t kSuspects = 256;

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
static Result<void> checkAgainst(const FinishedCase &finished,
                                 LoadedLayer &other, const std::string &folder,
                                 CaseResult &result) {
  const RunSetup &setup = finished.setup;
  const int64_t tokens = finished.tokens;
  const Precision &precision = finished.precision;
  const reference::Inputs &given = finished.inputs.described;
  auto device = other.upload(finished.inputs, tokens);
  if (!device)
    return device.takeError();
  auto trusted = runOnce(other, *device, tokens, "");
  if (!trusted)
    return trusted.takeError();
  HostWork work(setup.hooks);
  const reference::Layer &layer = setup.layer.layer();
  finishDeferred(other.layer(), tokens, *trusted);
  settleRows(other.layer(), given, setup.options.poison, *trusted, result);
  auto bound = reference::boundFor(layer, precision.roundsPartials);
  if (!bound)
    return bound.takeError();
  auto compare = [&] {
    return reference::compareDevices(
        find<std::byte>(*trusted, "out"),
        find<std::byte>(finished.settled, "out"), *layer.outputType,
        layer.rowsOf(tokens), layer.hidden, *bound, layer.valuesPerRow());
  };
  auto report = compare();
  if (!report.passed && precision.errorOfSums > 0) {
    reference::Inputs described = given;
    setup.weights.describe(layer, described);
    auto adopted = adoptIn(layer, described, finished.settled, report.suspects,
                           precision.errorOfSums, *bound, *trusted);
    if (!adopted)
      return adopted.takeError();
    report = compare();
    noteRoundings(*adopted, report, result);
  }
  if (!report.passed)
    result.fail(fmt::format("against {}: {}", folder, report.text));
  else
    result.text +=
        fmt::format("{}against {}: {}", result.text.empty() ? "" : "; ", folder,
                    report.text);
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

/// As the case is compared.
static Result<void> compare(const FinishedCase &finished,
                            const reference::Inputs &described,
                            const HostOutputs &outputs, CaseResult &result) {
  const RunSetup &setup = finished.setup;
  HostWork work(setup.hooks);
  return compareWithReference(setup.layer, described, outputs,
                              finished.precision, setup.options, nullptr,
                              result);
}

/// One expert gets other weights, at the same addresses, and afterwards its own
/// again.
static Result<void> checkRefresh(const FinishedCase &finished,
                                 CaseResult &result) {
  const RunSetup &setup = finished.setup;
  const int64_t tokens = finished.tokens;
  const reference::Layer &layer = setup.layer.layer();
  const int64_t expert =
      busiestExpert(layer, finished.inputs, finished.outputs);
  const HostWeights other = [&] {
    HostWork work(setup.hooks);
    return setup.weights.withExpert(layer, setup.options.seed + 1, expert);
  }();
  for (const HostWeights *weights : {&other, &setup.weights}) {
    if (auto ok = replaceExpert(setup.layer, *weights, expert); !ok)
      return ok;
    auto outputs =
        runOnce(setup.layer, finished.device, tokens, setup.options.variant);
    if (!outputs)
      return outputs.takeError();
    finishDeferred(layer, tokens, *outputs);
    if (weights == &setup.weights) {
      if (std::string text = differing(finished.outputs, *outputs);
          !text.empty())
        result.fail(fmt::format("with expert {} as it was: {}", expert, text));
      continue;
    }
    CaseResult replaced;
    settleRows(layer, finished.inputs.described, setup.options.poison, *outputs,
               replaced);
    reference::Inputs described = finished.inputs.described;
    other.describe(layer, described);
    if (auto ok = compare(finished, described, *outputs, replaced); !ok)
      return ok;
    if (!replaced.passed)
      result.fail(fmt::format("with other weights of expert {}: {}", expert,
                              replaced.text));
  }
  if (result.passed)
    result.text += fmt::format("; expert {} replaced: right", expert);
  return {};
}

bool CheckHooks::releaseDevice() {
  const bool had = turn.has();
  if (had)
    turn.give();
  return had;
}

void CheckHooks::reserveWeights(int64_t bytes) {
  if (budget)
    budget->enter(bytes);
}

void CheckHooks::releaseWeights(int64_t bytes) {
  if (budget)
    budget->leave(bytes);
}

Result<void> CheckHooks::prepare(const HostWeights &weights, LoadedLayer &layer,
                                 bool fresh, RunReport &report) {
  if (fresh && options->check)
    for (auto *check : {checkQuantized, checkUnpacked}) {
      auto differs = check(layer, weights);
      if (!differs)
        return differs.takeError();
      if (!differs->empty())
        report.cases.emplace_back().fail(*differs);
    }
  occupy.emplace(layer.device());
  if (options->against.empty())
    return {};
  Options other = *options;
  other.arch.clear();
  auto opened = LoadedLayer::open(layer.device(), other, options->against);
  if (!opened)
    return opened.takeError();
  against = std::move(*opened);
  return against->setWeights(weights);
}

bool CheckHooks::checksCases() const {
  return options->check || options->chain || options->refresh ||
         !options->against.empty();
}

Result<void> CheckHooks::check(const FinishedCase &finished,
                               CaseResult &result) {
  if (against)
    if (auto ok = checkAgainst(finished, *against, options->against, result);
        !ok)
      return ok;
  if (options->check) {
    if (auto ok = checkInvariance(finished, result); !ok)
      return ok;
    if (auto ok = checkInPlace(finished, result); !ok)
      return ok;
  }
  if (options->refresh)
    if (auto ok = checkRefresh(finished, result); !ok)
      return ok;
  if (options->chain)
    return runChain(finished, *occupy, result);
  return {};
}

void CheckHooks::finish() {
  against.reset();
  occupy.reset();
}
