//===- Predictions.cpp - predicted times of a report ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/explain/Parts.h"

#include "compiler/matmul/Histogram.h"
#include "compiler/plan/Prediction.h"
#include "compiler/plan/ProgramValues.h"
#include "dialect/catalog/Gpus.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

using namespace moec;
using namespace moec::compiler;
using nlohmann::ordered_json;

static constexpr int64_t kTokens[] = {1, 8, 32, 128, 512, 2048, 8192};

/// Returns the distribution of rows over this rank's experts. If the layer does
/// not route, every slot of every expert has a row.
static Result<ExpertRows> expertRows(moe::ProgramOp program, int64_t tokens,
                                     const Histogram &histogram) {
  moe::LayerOp layer = program.getLayerOp();
  const double local = double(localExperts(program));
  if (isBatched(program) || !findIn<moe::PermuteOp>(program))
    return ExpertRows(tokens, {{local, 1.0}});
  const int64_t experts = layer.getNumExperts();
  std::vector<ExpertGroup> groups =
      TRY(histogram.chances(experts, layer.getTopK()));
  const auto shared = double(layer.getSharedRows());
  // `held`: this rank's routed physical experts per logical expert of the
  // layer. Every rank is assumed to have the same share of each group. Every
  // expert is assumed to have physical / experts replicas, which divide its
  // tokens equally.
  const double physical = double(layer.getPhysicalExperts());
  const double held = std::max(local - shared, 0.0) / double(experts);
  for (ExpertGroup &group : groups) {
    group.experts *= held;
    group.chance *= double(experts) / physical;
  }
  if (shared > 0)
    groups.push_back({std::min(shared, local), 1.0});
  return ExpertRows(tokens, std::move(groups));
}

static double rounded(double number) { return std::round(number * 100) / 100; }

static ordered_json hardwareJson(const Hardware &hardware) {
  constexpr double kGiga = 1e9, kTera = 1e12;
  ordered_json json = {
      {"gpu", hardware.gpu},
      {"sms", hardware.sms},
      {"bandwidth_gb_s", rounded(hardware.bandwidth / kGiga)},
      {"tensor_tflops",
       {{"16_bit", rounded(hardware.tensorFlopsOf(2) / kTera)},
        {"8_bit", rounded(hardware.tensorFlopsOf(1) / kTera)}}}};
  if (const auto *row = catalog::find(catalog::kGpus, hardware.gpu)) {
    catalog::FloorRates floor = catalog::floorRates(*row);
    json["floor"] = {{"bandwidth_gb_s", floor.bandwidth},
                     {"tensor_tflops",
                      {{"16_bit", floor.matmulRate}, {"8_bit", floor.fp8Rate}}},
                     {"measured", floor.measured}};
  }
  return json;
}

static ordered_json predictionJson(const Prediction &made) {
  constexpr double kMicro = 1e6;
  ordered_json json = {{"tokens", made.tokens},
                       {"microseconds", rounded(made.seconds * kMicro)},
                       {"touched_experts", rounded(made.touchedExperts)},
                       {"rows", rounded(made.rows)},
                       {"most_rows", rounded(made.mostRows)},
                       {"padding", rounded(made.padding)},
                       {"experts", ordered_json::array()},
                       {"kernels", ordered_json::array()}};
  for (const auto &[experts, rows, tileRows] : made.experts)
    json["experts"].push_back({{"experts", std::round(experts * 1e6) / 1e6},
                               {"rows", rounded(rows)},
                               {"tile_rows", rounded(tileRows)}});
  for (const auto &[name, cost] : made.kernels) {
    json["kernels"].push_back({{"kernel", name},
                               {"microseconds", rounded(cost.seconds * kMicro)},
                               {"bytes", std::round(cost.bytes)},
                               {"flops", std::round(cost.flops)},
                               {"bound", cost.bound()}});
    for (const auto &[part, seconds] : {std::pair("memory", cost.memorySeconds),
                                        {"l2", cost.l2Seconds},
                                        {"compute", cost.computeSeconds},
                                        {"convert", cost.convertSeconds},
                                        {"latency", cost.fillSeconds}})
      if (seconds > 0)
        json["kernels"].back()["parts"][part] = rounded(seconds * kMicro);
  }
  return json;
}

/// Returns the requested token counts or, if none are requested, the counts in
/// kTokens up to `maxTokens`.
static Result<std::vector<int64_t>> tokensOf(const ExplainOptions &options,
                                             int64_t maxTokens) {
  std::vector<int64_t> tokens = options.tokens;
  if (tokens.empty())
    std::ranges::copy_if(kTokens, std::back_inserter(tokens),
                         [&](int64_t count) { return count <= maxTokens; });
  for (int64_t count : tokens)
    if (count < 1 || count > maxTokens)
      return invalidArgument("tokens: expected counts from 1 to {}, the "
                             "maximum number of tokens of a run, got {}",
                             maxTokens, count);
  return tokens;
}

/// Returns the first variant that supports `tokens` tokens, as a run would
/// choose it.
static ordered_json *servingVariant(ordered_json &variants, int64_t tokens,
                                    int64_t sms) {
  for (ordered_json &variant : variants)
    if (tokens >= variant["tokens"][0].get<int64_t>() &&
        tokens <= variant["tokens"][1].get<int64_t>() &&
        variant.value("min_sms", int64_t(0)) <= sms)
      return &variant;
  return nullptr;
}

Result<void> compiler::addPredictions(ordered_json &target,
                                      moe::ProgramOp program, int64_t maxTokens,
                                      const ExplainOptions &options) {
  const Histogram histogram = TRY(Histogram::parse(options.histogram));
  const std::vector<int64_t> tokens = TRY(tokensOf(options, maxTokens));
  Hardware hardware;
  if (!program || program.getPart() ||
      !findHardware(program.getTarget().getArch().str(),
                    program.getTarget().getGpu().str(), hardware) ||
      hardware.gpu.empty())
    return {};
  target["hardware"] = hardwareJson(hardware);
  target["histogram"] = histogram.text();
  for (ordered_json &json : target["variants"])
    json["predictions"] = ordered_json::array();
  for (int64_t count : tokens) {
    ordered_json *json =
        servingVariant(target["variants"], count, hardware.sms);
    if (!json)
      continue;
    const auto variant = program.lookupSymbol<moe::VariantOp>(
        (*json)["name"].get<std::string>());
    const ExpertRows rows = TRY(expertRows(program, count, histogram));
    (*json)["predictions"].push_back(
        predictionJson(predict(variant, rows, hardware)));
  }
  return {};
}
