//===- Times.h - predicted and measured times -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The times of a target with their lower bounds, and texts for numbers, for all
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

/// A prediction with the bytes and FLOPs of the whole layer.
struct LayerPrediction {
  const Variant *variant = nullptr;
  const Prediction *prediction = nullptr;
  double bytes = 0, flops = 0;
};

/// A measured cell that the page compares with predictions.
struct Measured {
  const BenchPackage *package = nullptr;
  const Measurement *cell = nullptr;
  bool sameKernels = false;
};

struct Times {
  double bandwidth = 0, rate = 0; ///< GB/s, TFLOP/s; 0: unknown
  std::vector<LayerPrediction> predicted;
  std::vector<Measured> measured;

  double memoryFloor(double bytes) const {
    return bandwidth > 0 ? bytes / (bandwidth * 1e3) : 0;
  }
  double matmulFloor(double flops) const {
    return rate > 0 ? flops / (rate * 1e6) : 0;
  }
};

/// Returns true if the bench ran on the GPU that the target's schedules assume.
bool isOfThisGpu(const Bench &bench, const Target &target);

/// Returns the predictions of a target by tokens, and the cells of `bench` that
/// ran on its GPU. `bench` may be null. `layer` provides the operand types of
/// the matmuls.
Times timesOf(const nlohmann::json &layer, const Target &target,
              const Bench *bench);

/// Returns the larger of the lower bounds of memory and of matmuls [us]; 0 if
/// unknown.
double floorOf(const Times &times, const LayerPrediction &row);

/// Returns a ratio such as "1.12", or "" without a lower bound.
std::string ratioText(double microseconds, double floor);
/// Returns a token count for an axis.
std::string tokensText(double tokens);

Work workOfKernel(const Variant &variant, const std::string &name);

/// Returns the tooltip of a measurement's point.
std::string measuredTip(const Measured &one);

/// Returns the chart of times over tokens with the lower bounds of memory and
/// of matmuls.
std::string timeChart(const Target &target, const Times &times);

/// Returns the roofline chart: matmuls and measured layers over their FLOPs per
/// byte; "" if the GPU's rates are unknown.
std::string intensityChart(const Times &times);

/// Returns one bar per prediction with the shares of its kernels.
std::string shareBars(const Target &target, const Times &times);

/// Returns the timeline of the launches for the largest prediction of each
/// variant. If a launch starts before its predecessor ends, its bar starts a
/// fixed fraction earlier and is hatched there, because the length of the
/// overlap is not predicted.
std::string timeline(const Target &target, const Times &times);

/// Returns a figure with the rows per expert below the rows of their tiles, and
/// both as tables; "" if the predictions lack them.
std::string expertRows(const Times &times);

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_TIMES_H
