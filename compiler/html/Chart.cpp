//===- Chart.cpp - charts with logarithmic axes ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/html/Chart.h"

#include "compiler/html/Markup.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace moec::compiler::html;

namespace {

constexpr double kHeight = 380;
constexpr double kRight = 18, kTop = 14, kBottom = 46;

/// An axis with its minimum and maximum.
struct Axis {
  double least = std::numeric_limits<double>::max(), most = 0;
  void take(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  void widen(double factor) {
    least /= factor;
    most *= factor;
  }
  /// Returns the position of a value on the axis, from 0 to 1.
  double at(double value) const {
    return std::log(value / least) / std::log(most / least);
  }
};

bool isShown(const ChartPoint &point) {
  constexpr double kLeast = 1e-12, kMost = 1e15;
  return point.x > kLeast && point.x < kMost && point.y > kLeast &&
         point.y < kMost;
}

/// Returns at most `most` ticks at powers of two.
std::vector<double> ticksOfTwo(const Axis &axis, int most) {
  const int first = static_cast<int>(std::ceil(std::log2(axis.least))),
            last = static_cast<int>(std::floor(std::log2(axis.most)));
  const int step = std::max(1, (last - first + most - 1) / most);
  std::vector<double> ticks;
  for (int power = first; power <= last; power += step)
    ticks.push_back(std::exp2(power));
  return ticks;
}

/// Returns ticks at powers of ten. Adds ticks at their multiples by two and
/// five if the axis spans less than three decades and `most` is at least ten.
std::vector<double> ticksOfTen(const Axis &axis, int most) {
  const double decades = std::log10(axis.most / axis.least);
  const int step = std::max(1, static_cast<int>(decades * 1.25 / most));
  std::vector<double> ticks;
  for (int power = static_cast<int>(std::floor(std::log10(axis.least)));
       power <= std::ceil(std::log10(axis.most)); power += step)
    for (const double factor : {1.0, 2.0, 5.0})
      if ((factor == 1 || (decades < 3 && most >= 10)) &&
          axis.least <= factor * std::pow(10, power) &&
          factor * std::pow(10, power) <= axis.most)
        ticks.push_back(factor * std::pow(10, power));
  return ticks;
}

void drawMark(Svg &svg, const ChartSeries &series, const ChartPoint &point,
              double x, double y) {
  if (series.mark == ChartSeries::Mark::None)
    return;
  svg.open(point.tooltip);
  const std::string_view cls = point.hollow ? "mark hollow" : "mark";
  if (series.mark == ChartSeries::Mark::Dot)
    svg.circle(x, y, 3.5, cls);
  else
    svg.polygon({{x, y - 6}, {x + 6, y}, {x, y + 6}, {x - 6, y}}, cls);
  svg.close();
}

/// Returns the legend, which shows a line and a mark before the name of each
/// series.
std::string legend(const Chart &chart) {
  std::string out = "<ul class=\"legend\">";
  for (const ChartSeries &series : chart.series) {
    if (std::none_of(series.points.begin(), series.points.end(), isShown))
      continue;
    out += fmt::format("<li><svg width=\"26\" height=\"12\" viewBox=\"0 0 26 "
                       "12\" aria-hidden=\"true\"><g class=\"{}\">",
                       series.cls);
    if (series.hasLine)
      out += "<line x1=\"1\" y1=\"6\" x2=\"25\" y2=\"6\" class=\"curve\"/>";
    if (series.mark == ChartSeries::Mark::Dot)
      out += "<circle cx=\"13\" cy=\"6\" r=\"3.5\" class=\"mark\"/>";
    if (series.mark == ChartSeries::Mark::Diamond)
      out += "<polygon points=\"13,1 18,6 13,11 8,6\" class=\"mark\"/>";
    out += fmt::format("</g></svg>{}</li>", escaped(series.name));
  }
  return out + "</ul>\n";
}

} // namespace

/// Returns the chart for a width in pixels.
static std::string drawPicture(const Chart &chart, Axis xAxis, Axis yAxis,
                               double width, double left) {
  const int most = width < kFigureWidth ? 5 : 10;
  const auto xOf = [&](double x) {
    return left + (width - left - kRight) * xAxis.at(x);
  };
  const auto yOf = [&](double y) {
    return kHeight - kBottom - (kHeight - kTop - kBottom) * yAxis.at(y);
  };
  Svg svg(width, kHeight, chart.title, chart.description);
  const double bottom = kHeight - kBottom;
  for (const double tick :
       chart.powersOfTwo ? ticksOfTwo(xAxis, most) : ticksOfTen(xAxis, most)) {
    svg.line(xOf(tick), kTop, xOf(tick), bottom, "grid");
    svg.text(xOf(tick), bottom + 17, chart.xText(tick), "label faint",
             "middle");
  }
  for (const double tick : ticksOfTen(yAxis, 10)) {
    svg.line(left, yOf(tick), width - kRight, yOf(tick), "grid");
    svg.text(left - 8, yOf(tick) + 4, chart.yText(tick), "label faint", "end");
  }
  svg.line(left, bottom, width - kRight, bottom, "axis");
  svg.line(left, kTop, left, bottom, "axis");
  svg.text((left + width - kRight) / 2, kHeight - 8, chart.xLabel, "label",
           "middle");
  for (const ChartSeries &series : chart.series) {
    svg.open(series.name, series.cls);
    std::vector<std::pair<double, double>> line;
    for (const ChartPoint &point : series.points)
      if (isShown(point))
        line.emplace_back(xOf(point.x), yOf(point.y));
    if (series.hasLine && line.size() > 1)
      svg.polyline(line, "curve");
    for (const ChartPoint &point : series.points)
      if (isShown(point))
        drawMark(svg, series, point, xOf(point.x), yOf(point.y));
    svg.close();
  }
  return svg.finish();
}

std::string moec::compiler::html::drawChart(const Chart &chart) {
  Axis xAxis, yAxis;
  bool isEmpty = true;
  for (const ChartSeries &series : chart.series)
    for (const ChartPoint &point : series.points)
      if (isShown(point)) {
        isEmpty = false;
        xAxis.take(point.x);
        yAxis.take(point.y);
      }
  if (isEmpty)
    return "";
  xAxis.widen(1.2);
  yAxis.widen(1.4);
  const std::string pictures = bothWidths([&](double width, double left) {
    return drawPicture(chart, xAxis, yAxis, width, left);
  });
  return figure(pictures, chart.title + ": " + chart.yLabel, "chart") +
         legend(chart);
}
