//===- Comparison.cpp - times of several targets in one chart -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/html/Page.h"
#include "compiler/html/Times.h"

#include "compiler/html/Chart.h"
#include "compiler/html/Markup.h"
#include "compiler/html/Numbers.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

using namespace moec::compiler;
using namespace moec::compiler::html;

namespace {

/// A target of this report, or of a report with which this report is compared.
struct Side {
  std::string name;
  const Target *target = nullptr;
  Times times;
};

std::string nameOf(const Target &target) {
  return target.gpu.empty() ? target.arch : target.arch + ", " + target.gpu;
}

/// Returns the sides that have predictions.
std::vector<Side> sidesOf(const Report &report) {
  std::vector<Side> sides;
  const auto add = [&](std::string name, const nlohmann::json &layer,
                       const Target &target) {
    Times times = timesOf(layer, target, nullptr);
    if (!times.predicted.empty())
      sides.push_back({std::move(name), &target, std::move(times)});
  };
  for (const Target &target : report.targets)
    add(nameOf(target), *report.layer, target);
  for (const Compared &other : report.compared)
    for (const Target &target : other.targets) {
      const std::string name = nameOf(target);
      const bool isNamed = name.find(other.name) != std::string::npos;
      add(isNamed ? name : fmt::format("{} ({})", other.name, name),
          *other.layer, target);
    }
  return sides;
}

const Prediction *predictionAt(const Side &side, int64_t tokens) {
  for (const LayerPrediction &row : side.times.predicted)
    if (row.prediction->tokens == tokens)
      return row.prediction;
  return nullptr;
}

std::string chartOf(const std::vector<Side> &sides) {
  constexpr std::string_view kClasses[] = {"w-route", "w-gate-up", "w-down",
                                           "w-quantize", "w-combine"};
  Chart chart{"Time of the layer on each target",
              "the table below has the numbers",
              "tokens",
              "predicted time over tokens, both axes logarithmic",
              true,
              tokensText,
              timeTick,
              {}};
  for (const Side &side : sides) {
    const size_t shown = chart.series.size() % std::size(kClasses);
    ChartSeries series{side.name, std::string(kClasses[shown]), true,
                       ChartSeries::Mark::Dot};
    for (const LayerPrediction &row : side.times.predicted) {
      const Prediction &made = *row.prediction;
      series.points.push_back(
          {double(made.tokens), made.microseconds,
           fmt::format("{} at {}: {}", side.name,
                       countedText(made.tokens, "token", "tokens"),
                       timeText(made.microseconds))});
    }
    chart.series.push_back(std::move(series));
  }
  return drawChart(chart);
}

std::string tableOfSides(const std::vector<Side> &sides) {
  std::vector<std::string> heads = {"tokens"};
  std::map<int64_t, std::vector<Cell>> rows;
  for (const Side &side : sides) {
    const bool isFirst = &side == &sides.front();
    const size_t before = heads.size();
    heads.insert(heads.end(), {side.name, "x floor"});
    if (!isFirst)
      heads.emplace_back("time over the first's");
    for (const LayerPrediction &row : side.times.predicted) {
      const Prediction &made = *row.prediction;
      std::vector<Cell> &line = rows[made.tokens];
      line.resize(before, Cell{"", "number"});
      line[0] = {countText(made.tokens), "number"};
      line.push_back({timeText(made.microseconds), "number"});
      line.push_back(
          {ratioText(made.microseconds, floorOf(side.times, row)), "number"});
      if (isFirst)
        continue;
      const Prediction *first = predictionAt(sides.front(), made.tokens);
      line.push_back(
          {first ? ratioText(made.microseconds, first->microseconds) : "",
           "number"});
    }
  }
  std::vector<std::vector<Cell>> cells;
  for (auto &[tokens, line] : rows) {
    line.resize(heads.size(), Cell{"", "number"});
    cells.push_back(std::move(line));
  }
  return table(heads, cells, "Times on each target");
}

/// Returns one sentence for each side after the first. It states the range of
/// ratios between the side's times and the first side's times.
std::string ratios(const std::vector<Side> &sides) {
  std::string out;
  for (const Side &side : sides) {
    double least = 0, most = 0;
    for (const LayerPrediction &row : side.times.predicted) {
      const Prediction *first =
          predictionAt(sides.front(), row.prediction->tokens);
      if (&side == &sides.front() || !first || first->microseconds <= 0)
        continue;
      const double ratio = row.prediction->microseconds / first->microseconds;
      least = least > 0 ? std::min(least, ratio) : ratio;
      most = std::max(most, ratio);
    }
    if (most <= 0)
      continue;
    const std::string low = ratioText(least, 1), high = ratioText(most, 1);
    out +=
        fmt::format("<p class=\"headline\">{}: {} x the time of {}.</p>\n",
                    escaped(side.name), low == high ? low : low + " to " + high,
                    escaped(sides.front().name));
  }
  return out;
}

std::string scheduleOf(const Target &target, const std::string &name) {
  for (const Variant &variant : target.variants)
    for (const Kernel &kernel : variant.kernels)
      if (kernel.name == name)
        return fmt::format("{}", fmt::join(scheduleWords(kernel), ", "));
  return "";
}

/// Returns a table of the kernels whose schedules on the first side and on
/// another side of the same arch differ.
std::string schedulesOf(const std::vector<Side> &sides) {
  std::vector<std::vector<Cell>> cells;
  const Side &first = sides.front();
  for (size_t i = 1; i < sides.size(); ++i)
    for (const LayerPrediction &row : sides[i].times.predicted) {
      const Prediction *other = predictionAt(first, row.prediction->tokens);
      if (!other || sides[i].target->arch != first.target->arch)
        continue;
      for (const KernelPrediction &kernel : row.prediction->kernels) {
        const std::string name = shortName(kernel.kernel, *sides[i].target);
        for (const KernelPrediction &same : other->kernels) {
          const std::string a = scheduleOf(*first.target, same.kernel),
                            b = scheduleOf(*sides[i].target, kernel.kernel);
          if (shortName(same.kernel, *first.target) != name || a == b)
            continue;
          cells.push_back({{countText(row.prediction->tokens), "number"},
                           {name, "code"},
                           {first.name},
                           {timeText(same.microseconds), "number"},
                           {a, "reason"}});
          cells.push_back({{""},
                           {""},
                           {sides[i].name},
                           {timeText(kernel.microseconds), "number"},
                           {b, "reason"}});
        }
      }
    }
  return cells.empty()
             ? ""
             : "<details><summary>Kernels with other schedules</summary>\n" +
                   table({"tokens", "kernel", "target", "time", "schedule"},
                         cells, "Kernels with other schedules") +
                   "</details>\n";
}

} // namespace

std::string html::comparison(const Report &report) {
  const std::vector<Side> sides = sidesOf(report);
  if (sides.size() < 2)
    return "";
  return "<section id=\"targets\"><h2>Targets</h2>\n"
         "<p>Predicted; nothing was run.</p>\n" +
         ratios(sides) + chartOf(sides) + tableOfSides(sides) +
         schedulesOf(sides) + "</section>\n";
}
