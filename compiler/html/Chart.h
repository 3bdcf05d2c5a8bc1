//===- Chart.h - charts with logarithmic axes -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Both axes are logarithmic, and their range is that of the points.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_HTML_CHART_H
#define MOEC_COMPILER_HTML_CHART_H

#include <string>
#include <vector>

namespace moec::compiler::html {

struct ChartPoint {
  double x = 0, y = 0; ///< omitted if not positive or not plausible
  std::string tooltip = "";
  bool hollow = false;
};

struct ChartSeries {
  enum class Mark { None, Dot, Diamond };
  std::string name;
  std::string cls; ///< a class of page.css
  bool hasLine = true;
  Mark mark = Mark::None;
  std::vector<ChartPoint> points = {};
};

struct Chart {
  std::string title, description, xLabel, yLabel;
  bool powersOfTwo = false; ///< ticks of x are powers of two
  std::string (*xText)(double) = nullptr;
  std::string (*yText)(double) = nullptr;
  std::vector<ChartSeries> series;
};

/// Returns a figure with a legend; "" if no series has a point.
std::string drawChart(const Chart &chart);

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_CHART_H
