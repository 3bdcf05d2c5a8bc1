//===- CompareWithReference.cpp - outputs against the reference -----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/moec-run/CompareWithReference.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>

using namespace moec;
using namespace moec::run;

/// Heights of the schedules' row tiles, in rows. The sample of tokens contains
/// the first and last rows of tiles of each height, as far as its limit allows.
static constexpr int64_t kTileRows[] = {16, 32, 64, 128};
/// On the host device, all tokens are compared, up to this number.
static constexpr int64_t kHostSample = 4096;

void CaseResult::fail(const std::string &why) {
  passed = false;
  text += (text.empty() ? "" : "; ") + why;
}

static bool roundsPartials(const LoadedLayer &layer, const Variant &variant) {
  const reference::Layer &described = layer.layer();
  const runtime::Package &package = layer.package();
  if (described.deferFinalize)
    return described.outputType->bytes < 4;
  for (const Launch &launch : variant.launches) {
    const Kernel *kernel = findKernel(package.target(), launch.kernel);
    for (const Stage &stage : kernel ? kernel->stages : std::vector<Stage>()) {
      auto operand = stage.operands.find("partials");
      if (!stage.op.starts_with("combine") || operand == stage.operands.end())
        continue;
      // A value within a kernel ("%name") is rounded if it passes through
      // memory.
      std::string name = operand->second;
      if (name.starts_with('%'))
        name.erase(0, 1);
      for (const ArgumentField &field : kernel->arguments.fields) {
        if (field.name != name)
          continue;
        const Value *value =
            findValue(package.manifest(), package.target(), field.value);
        if (value && value->elementTypes.front() != "f32")
          return true;
      }
    }
  }
  return false;
}

static double errorOfSums(const LoadedLayer &layer, const Variant &variant) {
  const reference::Layer &described = layer.layer();
  const Target &target = layer.package().target();
  // Only wgmma and wgmma_rs multiply e4m3 natively, and only on sm_90. Other
  // engines in the same variant have exact products and f32 accumulators. Fast
  // accumulation has its own bound.
  if (described.accumulatesFast)
    return 0;
  const nlohmann::json &report = *target.report;
  if (layer.device().onHost() || !described.a1Scaling.given ||
      report.value("realization", "") != "native")
    return reference::kFloatError;
  for (const Launch &launch : variant.launches) {
    const Kernel *kernel = findKernel(target, launch.kernel);
    for (const Stage &stage : kernel ? kernel->stages : std::vector<Stage>()) {
      if (stage.op != "grouped_matmul")
        continue;
      // Only the first matmul counts, because its results are quantized again.
      const nlohmann::json::json_pointer path("/schedules/" + kernel->name +
                                              "/engine");
      const std::string engine = report.value(path, "");
      return engine == "wgmma" || engine == "wgmma_rs"
                 ? reference::kNativeE4m3Error
                 : reference::kFloatError;
    }
  }
  return reference::kFloatError;
}

Precision Precision::of(const LoadedLayer &layer, const Variant &variant) {
  return {::roundsPartials(layer, variant), ::errorOfSums(layer, variant)};
}

void moec::run::noteRoundings(const reference::Adopted &adopted,
                              reference::Report &report, CaseResult &result) {
  result.roundings += adopted.candidates;
  result.roundingsTaken += adopted.taken;
  report.text += fmt::format(
      "; {} of {} roundings beside a boundary are the output's, not the "
      "reference's",
      adopted.taken, adopted.candidates);
}

void moec::run::checkUntouched(const HostOutputs &outputs, CaseResult &result) {
  for (const auto &[name, array] : outputs)
    for (int64_t i = 0; i < array.bytes; ++i)
      if (array.data[static_cast<size_t>(i)] != std::byte(0xFF))
        return result.fail(
            fmt::format("output {} was written with 0 tokens", name));
  result.text = "0 tokens: nothing was written";
}

void moec::run::adoptWeights(const reference::Layer &layer,
                             const HostOutputs &outputs,
                             reference::Routing &routing) {
  if (const auto *weights = find<float>(outputs, "weights");
      weights && layer.weightOnInput)
    std::copy_n(weights, routing.weights.size(), routing.weights.begin());
}

void moec::run::settleRows(const reference::Layer &layer,
                           const reference::Inputs &inputs, bool poison,
                           HostOutputs &outputs, CaseResult &result) {
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
      result.fail(fmt::format("slot {} of expert {} was written, of which "
                              "{} are taken",
                              row % slots, row / slots,
                              inputs.expertCounts[row / slots]));
    std::memset(bytes, 0, static_cast<size_t>(rowBytes));
  }
}

/// Checks that codes (quantized values) and scales of x are bitwise equal to
/// the reference.
static void compareQuantized(const reference::Layer &layer,
                             const reference::QuantizedX &expected,
                             const HostOutputs &outputs, CaseResult &result) {
  const auto *codes = find<std::byte>(outputs, "x_q");
  const auto *scales = find<float>(outputs, "x_scale");
  if (outputs.at("x_scale").bytes !=
      static_cast<int64_t>(expected.scales.size() * sizeof(float)))
    return result.fail(fmt::format("x_scale has {} bytes, expected {} scales",
                                   outputs.at("x_scale").bytes,
                                   expected.scales.size()));
  for (size_t i = 0; i < expected.scales.size(); ++i)
    if (double(scales[i]) != expected.scales[i])
      return result.fail(fmt::format("x_scale[{}] is {:.9g}, expected {:.9g}",
                                     i, scales[i], expected.scales[i]));
  for (size_t i = 0; i < expected.codes.size(); ++i)
    if (const double code = reference::load(*layer.a1, codes, int64_t(i));
        code != expected.codes[i])
      return result.fail(fmt::format("x_q of row {} column {} is {}, expected "
                                     "{}",
                                     i / size_t(layer.hidden),
                                     i % size_t(layer.hidden), code,
                                     expected.codes[i]));
  result.text = fmt::format("passed: {} codes and {} scales are equal",
                            expected.codes.size(), expected.scales.size());
}

/// Stores a report of compared rows in `result`. A failure appends its text; a
/// success sets the text only if it is empty.
static void addReport(const reference::Report &report, CaseResult &result) {
  result.bound = report.bound;
  result.error = report.whole;
  result.worstRow = report.worstRow;
  result.worstElement = report.worstElement;
  if (!report.passed)
    result.fail(report.text);
  else if (result.text.empty())
    result.text = report.text;
}

/// Checks the outputs of a package that computes one part of a layer. The
/// routing outputs have already been compared.
static Result<void> comparePart(const LoadedLayer &loaded,
                                const reference::Inputs &inputs,
                                const reference::Routing &routing,
                                const HostOutputs &outputs,
                                const Precision &precision,
                                const Options &options, CaseResult &result) {
  const reference::Layer &layer = loaded.layer();
  if (layer.part == "quantize") {
    compareQuantized(layer, TRY(reference::quantizeX(layer, inputs, routing)),
                     outputs, result);
    return {};
  }
  if (layer.part == "route") {
    result.text =
        fmt::format("passed: ids and weights of {} tokens", routing.tokens);
    return {};
  }
  const auto list = reference::sampleTokens(
      layer, routing, {},
      loaded.device().onHost() ? kHostSample : options.sample, options.seed);
  const auto bound = TRY(reference::boundFor(
      layer, layer.part == "down" && precision.roundsPartials));
  if (layer.part == "gate_up") {
    // The rows of a token's pairs follow each other.
    const auto rows =
        TRY(reference::intermediate(layer, inputs, routing, list));
    const int64_t columns = routing.pairs * layer.intermediate;
    addReport(reference::compareRows(
                  rows, list, columns, find<std::byte>(outputs, "intermediate"),
                  *layer.inputType, columns, bound, layer.valuesPerRow()),
              result);
    return {};
  }
  const auto rows = TRY(
      layer.part == "down" ? reference::compute(layer, inputs, routing, list)
                           : reference::finalize(layer, inputs, routing, list));
  const auto report = reference::compareRows(
      rows, list, layer.hidden, find<std::byte>(outputs, "out"),
      *layer.outputType, layer.hidden, bound, layer.valuesPerRow());
  addReport(report, result);
  return {};
}

/// Returns why the reference of the listed tokens cannot test a kernel, or "".
/// Reasons are a row that is NaN although x is finite, and rows that are all 0
/// although x is not.
static std::string problemOfReference(const reference::Layer &layer,
                                      const reference::Inputs &inputs,
                                      const reference::Routing &routing,
                                      const std::vector<int64_t> &list,
                                      const std::vector<double> &rows,
                                      bool isDrawn) {
  // With a randomly drawn static scale, which may be too large, all values of a
  // few tokens may be quantized to 0.
  const int64_t fewTokens = isDrawn ? 8 : 1;
  // Fewer intermediate values than this may all be 0 by chance.
  constexpr int64_t kFewValues = 64;
  // A pair with a small weight that multiplies x may have only values below the
  // resolution of a drawn scale, so it does not count.
  const float leastWeight = isDrawn ? 1.0f / 64 : 0.0f;
  const int64_t hidden = layer.hidden;
  const int64_t stride = inputs.x.rowStride ? inputs.x.rowStride : hidden;
  int64_t values = 0, tokens = 0;
  bool isZero = true;
  for (size_t i = 0; i < list.size(); ++i) {
    const int64_t token = list[i];
    bool isFinite = true, hasX = false, hasPair = false;
    for (int64_t c = 0; c < hidden; ++c) {
      const double x =
          reference::load(*inputs.x.element, inputs.x.data, token * stride + c);
      isFinite &= std::isfinite(x);
      hasX |= x != 0;
    }
    const auto row = rows.begin() + ptrdiff_t(i) * hidden;
    if (isFinite &&
        std::any_of(row, row + hidden, [](double y) { return std::isnan(y); }))
      return fmt::format("the reference of token {} is NaN, and its x is "
                         "finite: a weight, scale or bias is not",
                         token);
    for (int64_t k = 0; k < routing.pairs; ++k) {
      const size_t pair = size_t(token * routing.pairs + k);
      if (routing.locals[pair] < 0 ||
          std::fabs(routing.weights[pair]) <= leastWeight)
        continue;
      hasPair = true;
      values += layer.intermediate;
    }
    tokens += hasPair && hasX;
    isZero &= std::all_of(row, row + hidden, [](double y) { return y == 0; });
  }
  if (!isZero || tokens < fewTokens || values < kFewValues)
    return {};
  return fmt::format("the reference of all {} tokens with experts here is 0, "
                     "and their x is not: weights or scales are 0, or scales "
                     "of activations far too large",
                     tokens);
}

static Result<std::vector<double>>
computeOrTake(const reference::Layer &layer, const reference::Inputs &inputs,
              const reference::Routing &routing,
              const std::vector<int64_t> &list, KeptRows *kept) {
  if (kept && kept->ids == routing.ids && kept->weights == routing.weights &&
      kept->list == list)
    return kept->rows;
  auto rows = TRY(reference::compute(layer, inputs, routing, list));
  if (kept)
    *kept = {routing.ids, routing.weights, list, rows};
  return rows;
}

Result<void> moec::run::compareWithReference(
    const LoadedLayer &loaded, const reference::Inputs &inputs,
    const HostOutputs &outputs, const Precision &precision,
    const Options &options, KeptRows *kept, CaseResult &result) {
  const reference::Layer &layer = loaded.layer();
  const auto *ids = find<int32_t>(outputs, "ids");
  auto routing =
      TRY(reference::route(layer, inputs, inputs.logits.data ? ids : nullptr));
  if (std::string text = reference::compareRouting(
          routing, ids, find<float>(outputs, "weights"),
          find<int32_t>(outputs, "counts"), find<int32_t>(outputs, "places"));
      !text.empty())
    result.fail(text);
  if (!layer.part.empty())
    return result.passed ? comparePart(loaded, inputs, routing, outputs,
                                       precision, options, result)
                         : Result<void>();
  adoptWeights(layer, outputs, routing);

  auto bound = TRY(reference::boundFor(layer, precision.roundsPartials));
  int64_t limit = loaded.device().onHost() ? kHostSample : options.sample;
  auto list = reference::sampleTokens(
      layer, routing, {std::begin(kTileRows), std::end(kTileRows)}, limit,
      options.seed);
  auto rows = TRY(computeOrTake(layer, inputs, routing, list, kept));
  const auto *out = find<std::byte>(outputs, "out");
  auto compare = [&] {
    return reference::compareRows(rows, list, layer.hidden, out,
                                  *layer.outputType, layer.hidden, bound,
                                  layer.valuesPerRow());
  };
  auto report = compare();
  if (!report.passed && precision.errorOfSums > 0) {
    auto adopted = TRY(reference::adoptRoundings(
        layer, inputs, routing, list, precision.errorOfSums, bound, out,
        *layer.outputType, layer.hidden, rows));
    report = compare();
    noteRoundings(adopted, report, result);
  }
  if (const std::string problem = problemOfReference(
          layer, inputs, routing, list, rows, options.weights.empty());
      !problem.empty())
    result.fail(problem);
  addReport(report, result);
  return {};
}
