//===- TimeSection.cpp - the section on times -----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/html/Page.h"
#include "compiler/html/Times.h"

#include "compiler/html/Markup.h"
#include "compiler/html/Numbers.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

using namespace moec::compiler;
using namespace moec::compiler::html;

namespace {

/// Returns the kernel with the longest predicted time and what limits it.
std::string longest(const Target &target, const Prediction &prediction) {
  const auto found = std::max_element(
      prediction.kernels.begin(), prediction.kernels.end(),
      [](const KernelPrediction &a, const KernelPrediction &b) {
        return a.microseconds < b.microseconds;
      });
  if (found == prediction.kernels.end())
    return "";
  return fmt::format("{}{}{}", shortName(found->kernel, target),
                     found->bound.empty() ? "" : ", ", found->bound);
}

std::string timeTable(const Target &target, const Times &times) {
  std::map<int64_t, std::pair<const LayerPrediction *, std::vector<Measured>>>
      rows;
  for (const LayerPrediction &row : times.predicted)
    rows[row.prediction->tokens].first = &row;
  for (const Measured &one : times.measured)
    rows[one.cell->tokens].second.push_back(one);
  const bool hasMeasured = !times.measured.empty();
  std::vector<std::string> heads = {"tokens", "predicted", "floor", "x floor"};
  if (hasMeasured)
    heads.insert(heads.end(), {"measured", "passes", "predicted / measured"});
  heads.insert(heads.end(), {"longest kernel", "note"});
  std::vector<std::vector<Cell>> cells;
  for (const auto &[tokens, row] : rows) {
    const auto &[predicted, measured] = row;
    const Prediction *prediction = predicted ? predicted->prediction : nullptr;
    for (size_t i = 0; i < std::max<size_t>(measured.size(), 1); ++i) {
      const Measured *one = i < measured.size() ? &measured[i] : nullptr;
      double floor = predicted ? floorOf(times, *predicted) : 0;
      if (floor <= 0 && one)
        floor = one->cell->floor;
      std::vector<Cell> line = {
          {countText(tokens), "number"},
          {prediction ? timeText(prediction->microseconds) : "", "number"},
          {floor > 0 ? timeText(floor) : "", "number"},
          {prediction ? ratioText(prediction->microseconds, floor) : "",
           "number"}};
      if (hasMeasured) {
        line.push_back(
            {one ? timeText(one->cell->microseconds) : "", "number"});
        line.push_back(
            {one && one->cell->most > 0
                 ? fmt::format("{} to {}", timeText(one->cell->least),
                               timeText(one->cell->most))
                 : "",
             "number"});
        line.push_back({one && prediction
                            ? percentText(prediction->microseconds /
                                          one->cell->microseconds)
                            : "",
                        "number"});
      }
      line.push_back({prediction ? longest(target, *prediction) : "", "code"});
      line.push_back({one && !one->sameKernels ? "other kernels ran" : ""});
      cells.push_back(std::move(line));
    }
  }
  return table(heads, cells, "Times by tokens");
}

std::string paragraph(std::string_view text) {
  return fmt::format("<p>{}</p>\n", escaped(text));
}

/// Returns text that states on which GPU the measurements ran, or why they are
/// not shown.
std::string benchText(const Target &target, const Bench &bench) {
  if (!isOfThisGpu(bench, target))
    return fmt::format(
        "<p class=\"note\">{}</p>\n",
        escaped(fmt::format(
            "Not shown: times of {}. These schedules and predictions are for "
            "{}.",
            bench.device, target.gpu.empty() ? "no GPU" : target.gpu)));
  std::string text = fmt::format("Measured on {}", bench.device);
  if (!bench.routing.empty())
    text += fmt::format(", routing {}", bench.routing);
  text += ".";
  if (bench.suspect)
    text += " The GPU was more than 5 % off its bandwidth, so that the times "
            "are suspect.";
  return paragraph(text);
}

std::string hardwareText(const Hardware &hardware) {
  std::string text = fmt::format("{}: {} GB/s, {} SMs", hardware.gpu,
                                 numberText(hardware.bandwidth), hardware.sms);
  // `operand` is a key such as "16_bit".
  for (const auto &[operand, rate] : hardware.rates) {
    std::string words = operand;
    std::ranges::replace(words, '_', '-');
    text += fmt::format(", {} TFLOP/s of {} operands", numberText(rate), words);
  }
  return paragraph(text + ".");
}

} // namespace

std::string html::timeSection(const Report &report, const Target &target,
                              const Bench *bench) {
  const Times times = timesOf(*report.layer, target, bench);
  std::string out = "<h3>Time</h3>\n";
  if (target.hardware)
    out += hardwareText(*target.hardware);
  if (bench)
    out += benchText(target, *bench);
  if (times.predicted.empty())
    out += paragraph("This report has no prediction of times.");
  if (times.predicted.empty() && times.measured.empty())
    return out;
  if (!times.predicted.empty())
    out += paragraph(fmt::format("Predicted for routing {}; nothing was run.",
                                 target.histogram.empty() ? "uniform"
                                                          : target.histogram)) +
           paragraph("A floor is the bytes of all kernels by the GPU's "
                     "bandwidth, or their FLOPs by its matmul rate.");
  const auto side = [](const std::string &left, const std::string &right) {
    return "<div class=\"figures\">\n<div>" + left + "</div>\n<div>" + right +
           "</div>\n</div>\n";
  };
  return out + side(timeChart(target, times), intensityChart(times)) +
         side(shareBars(target, times) + timeTable(target, times),
              timeline(target, times)) +
         expertRows(times);
}

std::string html::headline(const Report &report, const Target &target) {
  const Times times = timesOf(*report.layer, target, nullptr);
  if (times.predicted.empty())
    return "";
  // Show few tokens (8), a typical decoding batch (512), and the largest token
  // count.
  std::string text;
  for (const int64_t tokens : {int64_t(8), int64_t(512), int64_t(0)}) {
    const LayerPrediction *row = &times.predicted.back();
    for (const LayerPrediction &each : times.predicted)
      if (each.prediction->tokens == tokens)
        row = &each;
    if (tokens != 0 && row->prediction->tokens != tokens)
      continue;
    const double floor = floorOf(times, *row);
    text +=
        fmt::format("{}{} at {}", text.empty() ? "" : ", ",
                    timeText(row->prediction->microseconds),
                    countedText(row->prediction->tokens, "token", "tokens"));
    if (floor > 0)
      text += fmt::format(" ({} x the floor, bound by {})",
                          ratioText(row->prediction->microseconds, floor),
                          times.memoryFloor(row->bytes) >=
                                  times.matmulFloor(row->flops)
                              ? "memory"
                              : "matmuls");
    if (row == &times.predicted.back())
      break;
  }
  return fmt::format("<p class=\"headline\">Predicted{}: {}.</p>\n",
                     target.gpu.empty() ? "" : " for " + escaped(target.gpu),
                     escaped(text));
}
