//===- Report.cpp - the report that a page shows --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/html/Report.h"

#include "compiler/html/Numbers.h"
#include "runtime/support/JsonReader.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>

using namespace moec;
using namespace moec::compiler;
using namespace moec::compiler::html;

namespace {

constexpr int64_t kFormat = 1;

int64_t count(JsonReader &reader, std::string_view key) {
  return reader.integerOr(key, 0, 0, kMaxCount);
}

std::string textOf(JsonReader &reader, std::string_view key) {
  return reader.textOr(key, "");
}

std::optional<int64_t> bytesOf(JsonReader &reader, std::string_view key) {
  if (!reader.has(key))
    return std::nullopt;
  return count(reader, key);
}

/// Calls `take` for each object in the array `key`. A missing array counts as
/// empty.
void forEach(JsonReader &reader, std::string_view key,
             const std::function<void(JsonReader &)> &take) {
  const nlohmann::json *array = reader.find(key);
  if (!array)
    return;
  if (!array->is_array())
    return reader.expected(key, "an array of objects");
  for (size_t i = 0; i < array->size(); ++i) {
    const std::string path = fmt::format("{}[{}]", reader.pathOf(key), i);
    if (!(*array)[i].is_object()) {
      reader.errors().add(path, fmt::format("expected an object, got {}",
                                            describeJson((*array)[i])));
      continue;
    }
    JsonReader element((*array)[i], path, reader.errors());
    take(element);
  }
}

std::vector<std::string> words(JsonReader &reader, std::string_view key) {
  std::vector<std::string> found;
  const nlohmann::json *array = reader.find(key);
  if (!array)
    return found;
  if (!array->is_array() ||
      !std::all_of(array->begin(), array->end(),
                   [](const nlohmann::json &word) { return word.is_string(); }))
    reader.expected(key, "an array of strings");
  else
    for (const nlohmann::json &word : *array)
      found.push_back(word.get<std::string>());
  return found;
}

std::vector<int64_t> numbers(JsonReader &reader, std::string_view key) {
  std::vector<int64_t> found;
  const nlohmann::json *array = reader.find(key);
  if (!array)
    return found;
  if (!array->is_array() ||
      !std::all_of(array->begin(), array->end(), [](const auto &number) {
        return number.is_number_integer() && number >= 0;
      }))
    reader.expected(key, "an array of integers from 0");
  else
    for (const nlohmann::json &number : *array)
      found.push_back(number.get<int64_t>());
  return found;
}

std::pair<int64_t, int64_t> twoOf(JsonReader &reader, std::string_view key) {
  const std::vector<int64_t> both = reader.integers(key, 2, 0, kMaxCount);
  if (both.size() != 2)
    return {0, 0};
  if (both[0] > both[1])
    reader.expected(key, "two ascending integers");
  return {both[0], std::max(both[0], both[1])};
}

Work workOf(const Kernel &kernel) {
  const auto has = [&](std::string_view stage) {
    return std::find(kernel.stages.begin(), kernel.stages.end(), stage) !=
           kernel.stages.end();
  };
  if (has("grouped_matmul"))
    return has("activate") ? Work::GateUp : Work::Down;
  if (has("combine") || has("combine_normed") || has("combine_constants"))
    return Work::Combine;
  if (has("route") || has("permute") || has("batch") || has("pair_rows") ||
      has("shared_rows"))
    return Work::Route;
  if (has("quantize") || has("dequantize") || has("amax"))
    return Work::Quantize;
  return Work::Other;
}

Kernel kernelOf(JsonReader &reader) {
  Kernel kernel;
  kernel.name = reader.text("name");
  kernel.entry = textOf(reader, "entry");
  kernel.kind = textOf(reader, "kind");
  kernel.engine = textOf(reader, "engine");
  kernel.source = textOf(reader, "schedule_source");
  kernel.grid = textOf(reader, "grid");
  kernel.apart = textOf(reader, "apart");
  kernel.measuredBy = textOf(reader, "measured_by");
  kernel.measuredBeside = textOf(reader, "measured_beside");
  kernel.stages = words(reader, "stages");
  kernel.reads = words(reader, "reads");
  kernel.writes = words(reader, "writes");
  kernel.tile = reader.integersOr("tile", {}, 0, kMaxCount);
  kernel.cluster = reader.integersOr("cluster", {}, 0, kMaxCount);
  kernel.columns = count(reader, "columns");
  kernel.pipelineStages = count(reader, "pipeline_stages");
  kernel.blockTokens = count(reader, "block_tokens");
  kernel.threads = count(reader, "threads");
  kernel.ctasPerSm = count(reader, "ctas_per_sm");
  kernel.sharedBytes = count(reader, "shared_bytes");
  kernel.awaits = count(reader, "awaits");
  kernel.splitTiles = count(reader, "split_tiles");
  if (const auto warps = reader.integersOr("warps", {}, 0, kMaxCount);
      warps.size() == 2)
    kernel.warps = fmt::format("{}x{}", warps[0], warps[1]);
  if (reader.has("consumer_warps"))
    kernel.warps = fmt::format("{}+{}", count(reader, "producer_warps"),
                               count(reader, "consumer_warps"));
  kernel.swap = reader.booleanOr("swap", false);
  kernel.persistent = reader.booleanOr("persistent", false);
  kernel.early = reader.booleanOr("early", false);
  kernel.counts = reader.booleanOr("counts", false);
  kernel.work = workOf(kernel);
  return kernel;
}

Prediction predictionOf(JsonReader &reader) {
  Prediction prediction;
  prediction.tokens = reader.integer("tokens", 1, kMaxCount);
  prediction.microseconds = readNonNegative(reader, "microseconds");
  prediction.touchedExperts = readNonNegative(reader, "touched_experts");
  prediction.mostRows = readNonNegative(reader, "most_rows");
  prediction.padding = readNonNegative(reader, "padding");
  forEach(reader, "experts", [&](JsonReader &row) {
    prediction.experts.push_back({readNonNegative(row, "experts"),
                                  readNonNegative(row, "rows"),
                                  readNonNegative(row, "tile_rows")});
  });
  std::stable_sort(prediction.experts.begin(), prediction.experts.end(),
                   [](const html::ExpertGroup &a, const html::ExpertGroup &b) {
                     return a.rows > b.rows;
                   });
  forEach(reader, "kernels", [&](JsonReader &row) {
    prediction.kernels.push_back({row.text("kernel"), textOf(row, "bound"),
                                  readNonNegative(row, "microseconds"),
                                  readNonNegative(row, "bytes"),
                                  readNonNegative(row, "flops")});
  });
  return prediction;
}

Variant variantOf(JsonReader &reader) {
  Variant variant;
  variant.name = reader.text("name");
  std::tie(variant.firstTokens, variant.lastTokens) = twoOf(reader, "tokens");
  variant.minSms = count(reader, "min_sms");
  variant.workspace = textOf(reader, "workspace");
  variant.workspaceBytes = bytesOf(reader, "workspace_bytes");
  forEach(reader, "kernels", [&](JsonReader &kernel) {
    variant.kernels.push_back(kernelOf(kernel));
  });
  const auto launches = static_cast<int64_t>(variant.kernels.size());
  forEach(reader, "buffers", [&](JsonReader &row) {
    Buffer buffer;
    buffer.name = row.text("name");
    buffer.offset = count(row, "offset");
    buffer.bytes = count(row, "bytes");
    std::tie(buffer.first, buffer.last) = twoOf(row, "launches");
    if (buffer.last >= launches)
      row.expected("launches", "launches of the variant's {} kernels",
                   launches);
    else
      variant.buffers.push_back(std::move(buffer));
  });
  forEach(reader, "predictions", [&](JsonReader &row) {
    variant.predictions.push_back(predictionOf(row));
  });
  std::stable_sort(variant.predictions.begin(), variant.predictions.end(),
                   [](const Prediction &a, const Prediction &b) {
                     return a.tokens < b.tokens;
                   });
  return variant;
}

void readRates(JsonReader &reader, Hardware &hardware) {
  hardware.bandwidth = readNonNegative(reader, "bandwidth_gb_s");
  if (std::optional<JsonReader> rates = reader.object("tensor_tflops"))
    for (const auto &rate : rates->value().items())
      hardware.rates[rate.key()] = readNonNegative(*rates, rate.key());
}

Hardware hardwareOf(JsonReader &reader) {
  Hardware hardware;
  hardware.gpu = textOf(reader, "gpu");
  hardware.sms = count(reader, "sms");
  readRates(reader, hardware);
  // The page shows lower bounds, so the rates in `floor`, if the report has
  // them, replace the rates that schedules assume.
  if (std::optional<JsonReader> floor = reader.object("floor"))
    readRates(*floor, hardware);
  return hardware;
}

Target targetOf(JsonReader &reader) {
  Target target;
  target.arch = reader.text("arch");
  target.gpu = textOf(reader, "gpu");
  target.backend = textOf(reader, "backend");
  target.engine = textOf(reader, "engine");
  target.degraded = textOf(reader, "degraded");
  target.realization = textOf(reader, "realization");
  target.part = textOf(reader, "part");
  target.since = textOf(reader, "emulated_since");
  target.evidence = textOf(reader, "evidence");
  target.histogram = textOf(reader, "histogram");
  if (std::optional<JsonReader> hardware = reader.object("hardware"))
    target.hardware = hardwareOf(*hardware);
  forEach(reader, "refused", [&](JsonReader &row) {
    target.refused.push_back({textOf(row, "backend"), textOf(row, "engine"),
                              textOf(row, "code"), textOf(row, "reason")});
  });
  forEach(reader, "realizations", [&](JsonReader &row) {
    target.realizations.push_back(
        {textOf(row, "realization"), textOf(row, "computed"),
         textOf(row, "backend"), textOf(row, "engine"), textOf(row, "state"),
         textOf(row, "code"), textOf(row, "reason")});
  });
  if (std::optional<JsonReader> choices = reader.object("choices"))
    for (const auto &choice : choices->value().items())
      if (std::optional<JsonReader> row = choices->object(choice.key()))
        target.choices.push_back(
            {choice.key(), textOf(*row, "value"), textOf(*row, "by")});
  forEach(reader, "weights", [&](JsonReader &row) {
    target.weights.push_back({row.text("name"), textOf(row, "role"),
                              textOf(row, "may_alias"), bytesOf(row, "bytes")});
  });
  forEach(reader, "variants", [&](JsonReader &variant) {
    target.variants.push_back(variantOf(variant));
  });
  if (std::optional<JsonReader> summary = reader.object("summary")) {
    target.scheme = textOf(*summary, "scheme");
    target.weightBytes = count(*summary, "weight_bytes");
    forEach(*summary, "at", [&](JsonReader &row) {
      if (row.has("workspace_bytes"))
        target.workspaces.emplace_back(count(row, "tokens"),
                                       count(row, "workspace_bytes"));
    });
  }
  return target;
}

/// Returns the element types of the first matmul's operands.
std::pair<std::string, std::string> operandsOf(const nlohmann::json &layer) {
  JsonErrors ignored;
  JsonReader reader(layer, "", ignored);
  std::pair<std::string, std::string> types;
  if (std::optional<JsonReader> quant = reader.object("quant")) {
    if (std::optional<JsonReader> a1 = quant->object("a1"))
      types.first = a1->textOr("element_type", "");
    if (std::optional<JsonReader> w1 = quant->object("w1"))
      types.second = w1->textOr("element_type", "");
  }
  return types;
}

} // namespace

std::string_view html::classOf(Work work) {
  switch (work) {
  case Work::Route:
    return "w-route";
  case Work::Quantize:
    return "w-quantize";
  case Work::GateUp:
    return "w-gate-up";
  case Work::Down:
    return "w-down";
  case Work::Combine:
    return "w-combine";
  case Work::Other:
    break;
  }
  return "w-other";
}

Result<Report> html::readReport(std::string_view text) {
  const nlohmann::json document = TRY(parseJsonObject(
      text, "the report", ErrorCode::InvalidArgument, {kMaxInputBytes}));
  JsonErrors errors{"the report", std::nullopt, ErrorCode::InvalidArgument};
  JsonReader reader(document, "", errors);
  Report report;
  if (reader.integer("moec_explain", 0, kMaxCount) != kFormat)
    reader.expected("moec_explain", "{}, the format of moec explain --json",
                    kFormat);
  report.served = reader.boolean("served");
  report.message = textOf(reader, "message");
  report.name = textOf(reader, "name");
  report.scheme = textOf(reader, "scheme");
  report.maxTokens = count(reader, "max_tokens");
  report.ranks = numbers(reader, "ranks");
  if (std::optional<JsonReader> layer = reader.object("layer"))
    *report.layer = layer->value();
  forEach(reader, "targets", [&](JsonReader &target) {
    report.targets.push_back(targetOf(target));
  });
  forEach(reader, "compared", [&](JsonReader &row) {
    Compared other;
    other.name = row.text("name");
    if (std::optional<JsonReader> of = row.object("report")) {
      if (std::optional<JsonReader> layer = of->object("layer"))
        *other.layer = layer->value();
      forEach(*of, "targets", [&](JsonReader &target) {
        other.targets.push_back(targetOf(target));
      });
    }
    report.compared.push_back(std::move(other));
  });
  if (errors.first)
    return *errors.first;
  return report;
}

std::string html::shortName(std::string_view kernel, const Target &target) {
  std::string_view best = kernel;
  for (const Variant &variant : target.variants)
    if (kernel.size() > variant.name.size() + 1 &&
        kernel.starts_with(variant.name) &&
        kernel[variant.name.size()] == '_' &&
        kernel.size() - variant.name.size() - 1 < best.size())
      best = kernel.substr(variant.name.size() + 1);
  return std::string(best);
}

double html::matmulRate(const nlohmann::json &layer, const Target &target) {
  if (!target.hardware)
    return 0;
  const auto rateOf = [&](const char *operand) {
    const auto found = target.hardware->rates.find(operand);
    return found == target.hardware->rates.end() ? 0.0 : found->second;
  };
  const auto [activation, weight] = operandsOf(layer);
  double rate = 0;
  // Converted and emulated operands are multiplied as 16-bit values.
  if (target.realization.empty() || target.realization == "native") {
    const auto isByte = [](const std::string &type) {
      return type.starts_with("f8") || type == "i8";
    };
    if (isByte(activation) && isByte(weight))
      rate = rateOf("8_bit");
  }
  return rate > 0 ? rate : rateOf("16_bit");
}
