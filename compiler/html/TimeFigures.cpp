//===- TimeFigures.cpp - predicted and measured times ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/html/Page.h"

#include "compiler/html/Chart.h"
#include "compiler/html/Markup.h"
#include "compiler/html/Numbers.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace moec::compiler;
using namespace moec::compiler::html;

namespace {

/// A prediction with what it says of the whole layer.
struct LayerPrediction {
  const Variant *variant = nullptr;
  const Prediction *prediction = nullptr;
  double bytes = 0, flops = 0;
};

/// A cell of the bench that may stand beside predictions.
struct Measured {
  const BenchPackage *package = nullptr;
  const Measurement *cell = nullptr;
  bool sameKernels = false;
};

struct Times {
  double bandwidth = 0, rate = 0; ///< GB/s, TFLOP/s; 0: not known
  std::vector<LayerPrediction> predicted;
  std::vector<Measured> measured;

  double memoryFloor(double bytes) const {
    return bandwidth > 0 ? bytes / (bandwidth * 1e3) : 0;
  }
  double matmulFloor(double flops) const {
    return rate > 0 ? flops / (rate * 1e6) : 0;
  }
};

bool isOfThisGpu(const Bench &bench, const Target &target) {
  return !bench.gpu.empty() && bench.gpu == target.gpu;
}

Times timesOf(const Report &report, const Target &target, const Bench *bench) {
  Times times;
  times.bandwidth = target.hardware ? target.hardware->bandwidth : 0;
  times.rate = matmulRate(report, target);
  for (const Variant &variant : target.variants)
    for (const Prediction &prediction : variant.predictions) {
      LayerPrediction row{&variant, &prediction};
      for (const KernelPrediction &kernel : prediction.kernels) {
        row.bytes += kernel.bytes;
        row.flops += kernel.flops;
      }
      times.predicted.push_back(row);
    }
  std::stable_sort(times.predicted.begin(), times.predicted.end(),
                   [](const LayerPrediction &a, const LayerPrediction &b) {
                     return a.prediction->tokens < b.prediction->tokens;
                   });
  if (bench && isOfThisGpu(*bench, target))
    for (const BenchPackage &package : bench->packages)
      for (const Measurement &cell : package.cells)
        if (package.arch == target.arch && cell.microseconds > 0)
          times.measured.push_back(
              {&package, &cell, ranKernelsOf(cell, target)});
  return times;
}

/// Letters that fit into a width. Numbers of another file may be any, and their
/// shares no number.
size_t lettersIn(double width) {
  return width > 0 && width < kFigureWidth ? size_t(width / kLetterWidth) : 0;
}

double floorOf(const Times &times, const LayerPrediction &row) {
  return std::max(times.memoryFloor(row.bytes), times.matmulFloor(row.flops));
}

/// "1.12", or "" without a floor.
std::string ratioText(double microseconds, double floor) {
  return floor > 0 ? fmt::format("{:.2f}", microseconds / floor) : "";
}

std::string tokensText(double tokens) {
  return countText(std::llround(tokens));
}

Work workOfKernel(const Variant &variant, const std::string &name) {
  for (const Kernel &kernel : variant.kernels)
    if (kernel.name == name)
      return kernel.work;
  return Work::Other;
}

/// Returns true if a launch begins before the one in front of it ends.
bool startsEarly(const Variant &variant, const std::string &name) {
  for (const Kernel &kernel : variant.kernels)
    if (kernel.name == name)
      return kernel.early;
  return false;
}

std::string measuredTip(const Measured &one) {
  return fmt::format("measured at {}: {}{}",
                     countedText(one.cell->tokens, "token", "tokens"),
                     timeText(one.cell->microseconds),
                     one.sameKernels ? "" : ", with other kernels");
}

/// Kernels by the part of their name that variants share, in the order in
/// which they first appear.
std::vector<ChartSeries> kernelSeries(const Target &target,
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

std::string timeChart(const Target &target, const Times &times) {
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
    // One point makes no line.
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

/// Matmuls and measured layers over their FLOPs for each byte.
std::string intensityChart(const Times &times) {
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

/// A bar for each prediction: the shares of kernels.
std::string shareBars(const Target &target, const Times &times) {
  if (times.predicted.empty())
    return "";
  constexpr double kLeft = 74, kRight = 76, kRow = 26;
  const double inside = kFigureWidth - kLeft - kRight;
  Svg svg(kFigureWidth, kRow * double(times.predicted.size()) + 6,
          "Shares of kernels in the predicted time",
          "one bar for each number of tokens");
  double y = 3;
  for (const LayerPrediction &row : times.predicted) {
    double sum = 0;
    for (const KernelPrediction &kernel : row.prediction->kernels)
      sum += kernel.microseconds;
    svg.text(kLeft - 8, y + 15, countText(row.prediction->tokens),
             "label faint", "end");
    double x = kLeft;
    for (const KernelPrediction &kernel : row.prediction->kernels) {
      if (sum <= 0 || kernel.microseconds <= 0)
        continue;
      const double width = inside * kernel.microseconds / sum;
      const std::string name = shortName(kernel.kernel, target);
      svg.open(fmt::format("{}: {}{}{}", name, timeText(kernel.microseconds),
                           kernel.bound.empty() ? "" : ", bound by ",
                           kernel.bound),
               classOf(workOfKernel(*row.variant, kernel.kernel)));
      svg.rect(x, y, std::max(width - 1.5, 0.5), kRow - 5, "region", 3);
      if (const size_t letters = lettersIn(width - 14);
          letters >= std::min<size_t>(name.size(), 5))
        svg.text(x + 7, y + 14, shortened(name, std::max<size_t>(letters, 2)),
                 "mono");
      svg.close();
      x += width;
    }
    svg.text(kFigureWidth - kRight + 8, y + 15,
             timeText(row.prediction->microseconds), "label");
    y += kRow;
  }
  return figure(svg.finish(),
                "Share of each kernel in the predicted time, by tokens",
                "bars");
}

/// Launches of the largest prediction of each variant along its time. A launch
/// that begins before the one in front of it ends overlaps it; by how much is
/// not predicted, so its bar begins a fixed part earlier and is hatched there.
std::string timeline(const Target &target, const Times &times) {
  constexpr double kLeft = 74, kRight = 76, kRow = 26, kEarly = 14;
  std::vector<const LayerPrediction *> rows;
  for (const Variant &variant : target.variants)
    if (!variant.predictions.empty())
      for (const LayerPrediction &row : times.predicted)
        if (row.prediction == &variant.predictions.back())
          rows.push_back(&row);
  if (rows.empty())
    return "";
  size_t lines = 0;
  for (const LayerPrediction *row : rows)
    lines += row->prediction->kernels.size();
  Svg svg(kFigureWidth, kRow * double(lines + rows.size()) + 8,
          "Launches over time", "a bar for each launch, in order");
  double y = 3;
  for (const LayerPrediction *row : rows) {
    double sum = 0;
    for (const KernelPrediction &kernel : row->prediction->kernels)
      sum += kernel.microseconds;
    svg.text(kLeft, y + 17,
             countedText(row->prediction->tokens, "token", "tokens") + ", " +
                 timeText(row->prediction->microseconds),
             "label strong");
    y += kRow;
    double begin = 0;
    for (const KernelPrediction &kernel : row->prediction->kernels) {
      const double inside = kFigureWidth - kLeft - kRight;
      const double x = kLeft + (sum > 0 ? inside * begin / sum : 0);
      const double width =
          sum > 0 ? std::max(inside * kernel.microseconds / sum, 1.0) : 1;
      const bool isEarly = startsEarly(*row->variant, kernel.kernel);
      const std::string name = shortName(kernel.kernel, target);
      svg.open(fmt::format("{}: {}{}", name, timeText(kernel.microseconds),
                           isEarly ? ", begins before the launch in front ends"
                                   : ""),
               classOf(workOfKernel(*row->variant, kernel.kernel)));
      if (isEarly && x - kEarly >= kLeft)
        svg.rect(x - kEarly, y + 4, kEarly, kRow - 13, "region early", 2);
      svg.rect(x, y, width, kRow - 5, "region", 3);
      svg.close();
      // The text stands on the side of the bar that has more room.
      if (x + width / 2 < kLeft + inside / 2)
        svg.text(
            x + width + 6, y + 15,
            shortened(name, std::max<size_t>(
                                lettersIn(kFigureWidth - x - width - 12), 2)),
            "mono");
      else
        svg.text(
            x - kEarly - 6, y + 15,
            shortened(name, std::max<size_t>(lettersIn(x - kEarly - 12), 2)),
            "mono", "end");
      begin += kernel.microseconds;
      y += kRow;
    }
  }
  return figure(svg.finish(),
                "Launches over time, at the most predicted tokens of each "
                "variant; a dashed part begins before the launch in front ends",
                "timeline");
}

/// The kernel that takes longest, and what bounds it.
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

/// The rows that experts get, by tokens.
std::string rowsTable(const Times &times) {
  std::vector<std::vector<Cell>> cells;
  for (const LayerPrediction &row : times.predicted) {
    const Prediction &made = *row.prediction;
    if (made.touchedExperts > 0)
      cells.push_back({{countText(made.tokens), "number"},
                       {numberText(made.touchedExperts), "number"},
                       {numberText(made.mostRows), "number"},
                       {percentText(made.padding), "number"}});
  }
  return cells.empty() ? ""
                       : table({"tokens", "experts used", "most rows of one",
                                "padding of tiles"},
                               cells, "Rows of experts by tokens");
}

std::string paragraph(std::string_view text) {
  return fmt::format("<p>{}</p>\n", escaped(text));
}

/// The origin of the measurements, or why they are not shown.
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
  // "16_bit", say.
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
  const Times times = timesOf(report, target, bench);
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
  return out + "<div class=\"figures\">\n<div>" + timeChart(target, times) +
         "</div>\n<div>" + intensityChart(times) + "</div>\n</div>\n" +
         shareBars(target, times) + timeline(target, times) +
         timeTable(target, times) + rowsTable(times);
}

std::string html::headline(const Report &report, const Target &target) {
  const Times times = timesOf(report, target, nullptr);
  if (times.predicted.empty())
    return "";
  // Few tokens, a usual batch of decoding, and most.
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

std::string html::comparison(const Report &report) {
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
  std::map<int64_t, std::vector<Cell>> rows;
  std::vector<std::string> heads = {"tokens"};
  size_t shown = 0;
  for (const Target &target : report.targets) {
    const Times times = timesOf(report, target, nullptr);
    if (times.predicted.empty())
      continue;
    const std::string name =
        target.gpu.empty() ? target.arch : target.arch + ", " + target.gpu;
    ChartSeries series{name, std::string(kClasses[shown % std::size(kClasses)]),
                       true, ChartSeries::Mark::Dot};
    heads.push_back(name);
    heads.emplace_back("x floor");
    for (const LayerPrediction &row : times.predicted) {
      const Prediction &made = *row.prediction;
      series.points.push_back(
          {double(made.tokens), made.microseconds,
           fmt::format("{} at {}: {}", name,
                       countedText(made.tokens, "token", "tokens"),
                       timeText(made.microseconds))});
      std::vector<Cell> &line = rows[made.tokens];
      line.resize(1 + 2 * shown, Cell{"", "number"});
      line[0] = {countText(made.tokens), "number"};
      line.push_back({timeText(made.microseconds), "number"});
      line.push_back(
          {ratioText(made.microseconds, floorOf(times, row)), "number"});
    }
    chart.series.push_back(std::move(series));
    ++shown;
  }
  if (shown < 2)
    return "";
  std::vector<std::vector<Cell>> cells;
  for (auto &[tokens, line] : rows) {
    line.resize(heads.size(), Cell{"", "number"});
    cells.push_back(std::move(line));
  }
  return "<section id=\"targets\"><h2>Targets</h2>\n" +
         paragraph("Predicted; nothing was run.") + drawChart(chart) +
         table(heads, cells, "Times on each target") + "</section>\n";
}

std::string html::tokenStrip(const Report &report, const Target &target) {
  constexpr double kLeft = 8, kRight = 8, kTop = 22, kRow = 44;
  int64_t most = std::max<int64_t>(report.maxTokens, 1);
  for (const Variant &variant : target.variants)
    most = std::max(most, variant.lastTokens);
  const auto xOf = [&](double tokens) {
    return kLeft + (kFigureWidth - kLeft - kRight) *
                       std::log2(std::max(tokens, 1.0)) /
                       std::log2(double(most) + 1);
  };
  // A variant that some GPUs pass by has the tokens of another.
  std::vector<int64_t> ends;
  std::vector<size_t> lines;
  for (const Variant &variant : target.variants) {
    size_t line = 0;
    while (line < ends.size() && ends[line] >= variant.firstTokens)
      ++line;
    if (line == ends.size())
      ends.push_back(0);
    ends[line] = variant.lastTokens;
    lines.push_back(line);
  }
  Svg svg(kFigureWidth, kTop + kRow * double(ends.size()) + 2,
          "Variants by number of tokens",
          fmt::format("{} from 1 to {} tokens",
                      countedText(int64_t(target.variants.size()), "variant",
                                  "variants"),
                      countText(most)));
  constexpr double kLastLabel = 110; // "65,536 tokens" at the right
  double lastLabel = -100;
  for (size_t i = 0; i < target.variants.size(); ++i) {
    const Variant &variant = target.variants[i];
    const double x = xOf(double(variant.firstTokens)),
                 width = xOf(double(variant.lastTokens) + 1) - x - 3,
                 y = kTop + kRow * double(lines[i]);
    std::string engines;
    Work work = Work::Other;
    for (const Kernel &kernel : variant.kernels)
      if (kernel.work == Work::GateUp || kernel.work == Work::Down) {
        work = kernel.work;
        if (engines.find(kernel.engine) == std::string::npos)
          engines += (engines.empty() ? "" : " and ") + kernel.engine;
      }
    const std::string launches =
        countedText(int64_t(variant.kernels.size()), "launch", "launches");
    svg.open(fmt::format("{}: {} to {} tokens, {}{}{}", variant.name,
                         countText(variant.firstTokens),
                         countText(variant.lastTokens), launches,
                         engines.empty() ? "" : ", ", engines),
             classOf(work));
    svg.rect(x, y, std::max(width, 1.0), kRow - 4, "region", 4);
    const auto letters = size_t(std::max(width - 16, 0.0) / 6.7);
    if (letters >= 4) {
      svg.text(x + 8, y + 17, shortened(engines, letters), "mono strong");
      svg.text(x + 8, y + 32, shortened(launches, letters), "mono");
    }
    svg.close();
    if (lines[i] == 0 && x - lastLabel > 40 &&
        x < kFigureWidth - kRight - kLastLabel) {
      svg.text(x, 14, countText(variant.firstTokens), "label faint");
      lastLabel = x;
    }
  }
  svg.text(kFigureWidth - kRight, 14, countText(most) + " tokens",
           "label faint", "end");
  return svg.finish();
}
