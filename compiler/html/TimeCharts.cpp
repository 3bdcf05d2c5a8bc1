//===- TimeCharts.cpp - times over tokens, and a roofline -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/html/Times.h"

#include "compiler/html/Chart.h"
#include "compiler/html/Markup.h"
#include "compiler/html/Numbers.h"

#include <fmt/core.h>

#include <algorithm>

using namespace moec::compiler;
using namespace moec::compiler::html;

/// Returns one series per kernel, in order of first appearance. Kernels of
/// different variants belong to the same series if their short names are equal.
static std::vector<ChartSeries> kernelSeries(const Target &target,
                                             const Times &times) {
  std::vector<ChartSeries> all;
  for (const LayerPrediction &row : times.predicted)
    for (const KernelPrediction &kernel : row.prediction->kernels) {
      const std::string name = shortName(kernel.kernel, target);
      auto found =
          std::find_if(all.begin(), all.end(), [&](const ChartSeries &series) {
            return series.name == name;
          });
      if (found == all.end())
        found = all.insert(
            all.end(),
            {name,
             fmt::format("thin {}",
                         classOf(workOfKernel(*row.variant, kernel.kernel))),
             true, ChartSeries::Mark::None});
      found->points.push_back(
          {double(row.prediction->tokens), kernel.microseconds});
    }
  return all;
}

std::string html::timeChart(const Target &target, const Times &times) {
  Chart chart{"Time of the layer",
              "",
              "tokens",
              "time over tokens, both axes logarithmic",
              true,
              tokensText,
              timeTick,
              {}};
  ChartSeries memory{"floor of memory", "s-memory"},
      matmul{"floor of matmuls", "s-matmul"},
      layer{"predicted layer", "s-predicted", true, ChartSeries::Mark::Dot},
      measured{"measured layer", "s-measured", false,
               ChartSeries::Mark::Diamond},
      floor{"floor of the bench", "s-memory"};
  for (const LayerPrediction &row : times.predicted) {
    const auto tokens = double(row.prediction->tokens);
    memory.points.push_back({tokens, times.memoryFloor(row.bytes)});
    matmul.points.push_back({tokens, times.matmulFloor(row.flops)});
    layer.points.push_back(
        {tokens, row.prediction->microseconds,
         fmt::format("predicted at {}: {}",
                     countedText(row.prediction->tokens, "token", "tokens"),
                     timeText(row.prediction->microseconds))});
  }
  for (const Measured &one : times.measured) {
    const auto tokens = double(one.cell->tokens);
    measured.points.push_back(
        {tokens, one.cell->microseconds, measuredTip(one), !one.sameKernels});
    if (times.predicted.empty())
      floor.points.push_back({tokens, one.cell->floor});
  }
  chart.series = {memory, matmul, floor};
  for (ChartSeries &series : kernelSeries(target, times)) {
    // A series with a single point has no line, so it needs a mark.
    if (series.points.size() == 1)
      series.mark = ChartSeries::Mark::Dot;
    chart.series.push_back(std::move(series));
  }
  chart.series.push_back(std::move(layer));
  chart.series.push_back(std::move(measured));
  chart.description =
      fmt::format("{} predictions and {} measurements; the table below has "
                  "their numbers",
                  times.predicted.size(), times.measured.size());
  return drawChart(chart);
}

std::string html::intensityChart(const Times &times) {
  if (times.bandwidth <= 0 || times.rate <= 0)
    return "";
  Chart chart{"Roofline",
              "matmul rate over intensity; the numbers stand in the table",
              "FLOPs for each byte",
              "TFLOP/s over FLOPs for each byte, both axes logarithmic",
              false,
              numberTick,
              numberTick,
              {}};
  double least = 1, most = 1e3 * times.rate / times.bandwidth * 4;
  ChartSeries roof{"roof of the GPU", "s-memory"};
  ChartSeries kernels{"predicted matmul", "s-predicted", false,
                      ChartSeries::Mark::Dot},
      layers{"measured layer", "s-measured", false, ChartSeries::Mark::Diamond};
  const auto add = [&](ChartSeries &series, double flops, double bytes,
                       double microseconds, const std::string &tip,
                       bool hollow) {
    if (flops <= 0 || bytes <= 0 || microseconds <= 0)
      return;
    least = std::min(least, flops / bytes);
    most = std::max(most, flops / bytes);
    series.points.push_back(
        {flops / bytes, flops / (microseconds * 1e6), tip, hollow});
  };
  for (const LayerPrediction &row : times.predicted)
    for (const KernelPrediction &kernel : row.prediction->kernels)
      add(kernels, kernel.flops, kernel.bytes, kernel.microseconds,
          fmt::format(
              "{} at {}: {} TFLOP/s", kernel.kernel,
              countedText(row.prediction->tokens, "token", "tokens"),
              numberText(kernel.microseconds > 0
                             ? kernel.flops / (kernel.microseconds * 1e6)
                             : 0)),
          false);
  for (const Measured &one : times.measured)
    add(layers, one.cell->flops, one.cell->bytes, one.cell->microseconds,
        measuredTip(one), !one.sameKernels);
  if (kernels.points.empty() && layers.points.empty())
    return "";
  const double ridge = 1e3 * times.rate / times.bandwidth;
  for (const double x : {least, ridge, most})
    roof.points.push_back({x, std::min(times.rate, x * times.bandwidth / 1e3)});
  chart.series = {roof, kernels, layers};
  return drawChart(chart);
}
