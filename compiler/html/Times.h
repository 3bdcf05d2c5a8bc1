//===- Times.h - predicted and measured times -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The times of a target with their lower bounds, and number formats, for all
// figures that show times.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_HTML_TIMES_H
#define MOEC_COMPILER_HTML_TIMES_H

#include "compiler/html/BenchFile.h"
#include "compiler/html/Report.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace moec::compiler::html {

/// A prediction, with the total bytes and FLOPs of the layer.
struct LayerPrediction {
  const Variant *variant = nullptr;
  const Prediction *prediction = nullptr;
  double bytes = 0, flops = 0;
};

/// A measurement that the page compares with predictions.
struct Measured {
  const BenchPackage *package = nullptr;
  const Measurement *cell = nullptr;
  bool sameKernels = false;
};

struct Times {
  double bandwidth = 0, rate = 0; ///< in GB/s and TFLOP/s; 0: unknown
  std::vector<LayerPrediction> predicted;
  std::vector<Measured> measured;

  double memoryFloor(double bytes) const {
    return bandwidth > 0 ? bytes / (bandwidth * 1e3) : 0;
  }
  double matmulFloor(double flops) const {
    return rate > 0 ? flops / (rate * 1e6) : 0;
  }
};

/// Returns true if the measurements ran on the GPU that the target's schedules
/// assume.
bool isOfThisGpu(const Bench &bench, const Target &target);

/// Returns the predictions of a target, ascending by tokens, and the
/// measurements in `bench` that ran on the target's GPU. `bench` may be null.
/// `layer` provides the operand types of the matmuls.
Times timesOf(const nlohmann::json &layer, const Target &target,
              const Bench *bench);

/// Returns the lower bound of the time in microseconds, which is the larger of
/// the bounds for memory and matmuls. Returns 0 if it is unknown.
double floorOf(const Times &times, const LayerPrediction &row);

/// Returns the ratio of a time to its lower bound, such as "1.12". Returns ""
/// if `floor` is 0.
std::string ratioText(double microseconds, double floor);
/// Returns a token count for an axis tick.
std::string tokensText(double tokens);

Work workOfKernel(const Variant &variant, const std::string &name);

/// Returns the tooltip for a measured point.
std::string measuredTip(const Measured &one);

/// Returns a chart of times over token counts, with the lower bounds for memory
/// and matmuls.
std::string timeChart(const Target &target, const Times &times);

/// Returns a roofline chart, which shows matmuls and measured layers over their
/// FLOPs per byte. Returns "" if the GPU's rates are unknown.
std::string intensityChart(const Times &times);

/// Returns a figure with one bar per prediction, which shows the share of each
/// kernel in the time.
std::string shareBars(const Target &target, const Times &times);

/// Returns a timeline of the launches for each variant's largest prediction. If
/// a launch may start before its predecessor ends, its bar starts a fixed
/// distance earlier, and this part is dashed. Its length has no meaning,
/// because the overlap is not predicted.
std::string timeline(const Target &target, const Times &times);

/// Returns a figure that shows the rows per expert and the rows of the expert's
/// tiles, and tables of the same values. Returns only a table by tokens if the
/// predictions have no experts.
std::string expertRows(const Times &times);

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_TIMES_H
