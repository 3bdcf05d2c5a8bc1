//===- Measure.cpp - checks and times packages ----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The candidate and the baseline are timed in alternation, and only the ratio
// of the two times of a round is used. Slow changes, such as changes of the
// clock rate, therefore cancel out.
//
//===----------------------------------------------------------------------===//

#include "tools/moec-measure/Measure.h"

#include "runtime/support/JsonReader.h"
#include "tools/moec-run/RunCase.h"
#include "tools/moec-run/RunHooks.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

using namespace moec;
using namespace moec::measure;
using namespace moec::run;

/// Bytes of weights that a graph reads, more than any L2 cache holds.
static constexpr double kTouchedBytes = 400e6;
static constexpr int kMostLayers = 64;

Result<Job> Job::parse(const std::string &line) {
  JsonErrors errors{"a job", std::nullopt, ErrorCode::InvalidArgument};
  constexpr size_t kMostBytes = size_t(1) << 20;
  nlohmann::json root =
      TRY(parseJsonObject(line, errors.name, errors.code, {kMostBytes}));
  JsonReader reader(root, "", errors);
  Job job;
  job.package = reader.text("package");
  job.baseline = reader.text("baseline");
  job.tokens = reader.integer("tokens", 1, INT32_MAX);
  job.seed = uint64_t(reader.integer("seed", 0, INT64_MAX));
  job.sample = reader.integer("sample", 1, INT32_MAX);
  job.rounds = int(reader.integer("rounds", 1, 1000));
  job.worse = reader.number("worse").value_or(0);
  reader.refuseUnknown();
  if (errors.first)
    return *std::move(errors.first);
  return job;
}

std::string Answer::print() const {
  nlohmann::ordered_json made = {{"ok", ok}};
  if (ok)
    made.update({{"us", us},
                 {"baseline_us", baselineUs},
                 {"noise", noise},
                 {"rounds", rounds},
                 {"check", check}});
  else
    made.update({{"kind", kind}, {"text", text}});
  return made.dump(-1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

/// Returns a text that is equal for packages with equal packed weights: the
/// layer's description, and the name, element types and shape of each packed
/// weight.
static std::string packingOf(const runtime::Package &package) {
  std::string text = package.manifest().layer->dump();
  for (const Pack &pack : package.target().pack) {
    text += "\n" + pack.result + (pack.inPlace ? " in place" : "");
    const Value *value =
        findValue(package.manifest(), package.target(), pack.result);
    for (const std::string &type :
         value ? value->elementTypes : std::vector<std::string>())
      text.append(" ").append(type);
    for (const Expression &extent :
         value ? value->shape : std::vector<Expression>())
      text.append(" ").append(extent.text());
  }
  return text;
}

/// Shrinks the routing biases. A model's biases balance its experts, but the
/// test data's biases are as large as the differences of the scores, so few
/// experts would receive all tokens.
static void shrinkRoutingBias(HostWeights &weights) {
  constexpr float kShare = 0.05f;
  const auto found = weights.arrays.find("routing_bias");
  if (found == weights.arrays.end())
    return;
  auto *biases = reinterpret_cast<float *>(found->second.data.get());
  for (int64_t e = 0; e < found->second.bytes / int64_t(sizeof(float)); ++e)
    biases[e] *= kShare;
}

Result<std::unique_ptr<LoadedLayer>> Measurer::load(const std::string &folder) {
  auto layer = TRY(LoadedLayer::open(device, options, folder));
  if (owner && packingOf(owner->package()) == packingOf(layer->package())) {
    TRY(layer->shareWeights(*owner));
    return layer;
  }
  // The new package needs other weights, so the memory of the previous ones is
  // freed first.
  baseline.reset();
  baselineFolder.clear();
  inputs.clear();
  inputsTokens = 0;
  keptRows.clear();
  owner.reset();
  weights = {};
  owner = TRY(LoadedLayer::open(device, options, folder));
  weights = HostWeights::make(owner->layer(), options.seed);
  shrinkRoutingBias(weights);
  TRY(owner->setWeights(weights));
  TRY(layer->shareWeights(*owner));
  return layer;
}

Result<void> Measurer::check(const Job &job, LoadedLayer &layer,
                             Answer &answer) {
  Options asked = options;
  asked.check = true;
  asked.sample = job.sample;
  asked.seed = job.seed;
  RunHooks nothing;
  GivenTensors given;
  // The inputs of a job depend only on its tokens and seed.
  KeptRows &kept = keptRows[{job.tokens, job.seed}];
  RunSetup setup{nothing, asked, weights, given, layer, &kept};
  const CaseResult result = TRY(runCase(setup, job.tokens, "uniform"));
  answer.check = result.text;
  if (!result.passed) {
    answer.kind = "wrong";
    answer.text = result.text;
  }
  return {};
}

int moec::measure::numTimedLayers(const reference::Layer &layer,
                                  int64_t tokens) {
  const double share = double(layer.topK) / double(layer.routedExperts());
  const double touched = 1 - std::pow(1 - std::min(share, 1.0), double(tokens));
  const double bytes =
      std::max(touched, 1e-6) * double(HostWeights::bytesOf(layer));
  return int(
      std::clamp(std::ceil(kTouchedBytes / bytes), 1.0, double(kMostLayers)));
}

Result<void> Measurer::prepareInputs(int64_t tokens) {
  if (inputsTokens == tokens)
    return {};
  inputs.clear();
  inputsTokens = 0;
  const reference::Layer &layer = owner->layer();
  const int layers = device.onHost() ? 1 : numTimedLayers(layer, tokens);
  for (int i = 0; i < layers; ++i) {
    const HostInputs made = TRY(makeInputs(
        layer, options.seed + 1000 + uint64_t(i), {}, tokens, "uniform"));
    inputs.push_back(TRY(owner->upload(made, tokens)));
  }
  inputsTokens = tokens;
  return {};
}

Result<double> Measurer::once(Loaded &loaded) {
  const auto all = [&]() -> Result<void> {
    for (const DeviceInputs &given : inputs)
      TRY(loaded.layer->run(*loaded.buffers.context, 0, given,
                            loaded.buffers.outputs, loaded.tokens, ""));
    return {};
  };
  const double ms = TRY(device.median(
      all, {.warmups = 2, .least = device.onHost() ? 1 : 5, .budgetMs = 10}));
  return ms * 1000 / double(inputs.size());
}

Result<void> moec::measure::timeRounds(
    const Job &job, const std::function<Result<double>()> &timeBaseline,
    const std::function<Result<double>()> &timePackage, Answer &answer) {
  std::vector<double> others, ratios;
  for (int round = 0; round < job.rounds; ++round) {
    // The package that is timed first alternates between rounds.
    if (round % 2 == 0)
      others.push_back(TRY(timeBaseline()));
    const double us = TRY(timePackage());
    if (round % 2 != 0)
      others.push_back(TRY(timeBaseline()));
    ratios.push_back(us / others.back());
    if (job.worse > 0 && ratios.front() > job.worse)
      break;
  }
  answer.rounds = int(ratios.size());
  answer.baselineUs = tools::medianOf(others);
  const double ratio = tools::medianOf(ratios);
  answer.us = ratio * answer.baselineUs;
  std::vector<double> deviations;
  for (double one : ratios)
    deviations.push_back(std::abs(one / ratio - 1));
  answer.noise = tools::medianOf(deviations);
  return {};
}

std::string moec::measure::kindOf(const Error &error,
                                  const std::string &otherwise) {
  if (error.code == ErrorCode::FileSystem ||
      error.message.find("CUDA_ERROR_OUT_OF_MEMORY") != std::string::npos)
    return "transient";
  return error.code == ErrorCode::DriverFailed ? "fault" : otherwise;
}

Answer Measurer::measure(const Job &job) {
  Answer answer;
  const auto done = [&]() -> Result<void> {
    const auto prepare =
        [&](const std::string &folder) -> Result<std::unique_ptr<LoadedLayer>> {
      return load(folder);
    };
    if (baselineFolder != job.baseline || !baseline ||
        baseline->tokens != job.tokens) {
      answer.kind = "baseline";
      baseline.reset();
      auto layer = TRY(prepare(job.baseline));
      auto buffers = TRY(RunBuffers::create(*layer, job.tokens));
      baseline = Loaded{std::move(layer), std::move(buffers), job.tokens};
      baselineFolder = job.baseline;
    }
    answer.kind = "refused";
    auto layer = TRY(prepare(job.package));
    TRY(check(job, *layer, answer));
    if (answer.kind == "wrong")
      return {};
    TRY(prepareInputs(job.tokens));
    auto buffers = TRY(RunBuffers::create(*layer, job.tokens));
    Loaded candidate{std::move(layer), std::move(buffers), job.tokens};
    TRY(timeRounds(
        job, [&] { return once(*baseline); }, [&] { return once(candidate); },
        answer));
    answer.ok = true;
    return {};
  }();
  if (!done) {
    answer.ok = false;
    if (answer.kind != "baseline")
      answer.kind = kindOf(done.error(), answer.kind);
    answer.text = done.error().message;
  }
  return answer;
}
