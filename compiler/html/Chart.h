//===- Chart.h - charts with logarithmic axes -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The axes are logarithmic and span the range of the points.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_HTML_CHART_H
#define MOEC_COMPILER_HTML_CHART_H

#include <string>
#include <vector>

namespace moec::compiler::html {

struct ChartPoint {
  /// The point is omitted if a coordinate is not positive or not plausible.
  double x = 0, y = 0;
  std::string tooltip = "";
  bool hollow = false;
};

struct ChartSeries {
  enum class Mark { None, Dot, Diamond };
  std::string name;
  std::string cls; ///< class in page.css
  bool hasLine = true;
  Mark mark = Mark::None;
  std::vector<ChartPoint> points = {};
};

struct Chart {
  std::string title, description, xLabel, yLabel;
  /// If true, the ticks of the x axis are powers of two.
  bool powersOfTwo = false;
  std::string (*xText)(double) = nullptr;
  std::string (*yText)(double) = nullptr;
  std::vector<ChartSeries> series;
};

/// Returns a figure with a legend, or "" if no series has a point.
std::string drawChart(const Chart &chart);

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_CHART_H
