//===- Times.h - predicted and measured times of a target -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times of a target with their floors, and texts of numbers, for all figures of
// times.
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

/// A prediction with what it says of the whole layer.
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

/// Returns true if the bench ran on the GPU that the target's schedules assume.
bool isOfThisGpu(const Bench &bench, const Target &target);

/// The predictions of a target by tokens, and the cells of `bench`, which may
/// be null, that ran on its GPU. `layer` says the operands of the matmuls.
Times timesOf(const nlohmann::json &layer, const Target &target,
              const Bench *bench);

/// The larger one of the floors of memory and matmuls [us]; 0 if not known.
double floorOf(const Times &times, const LayerPrediction &row);

/// "1.12", or "" without a floor.
std::string ratioText(double microseconds, double floor);
/// A count of tokens as an axis writes it.
std::string tokensText(double tokens);

Work workOfKernel(const Variant &variant, const std::string &name);

/// The text of a measurement's point.
std::string measuredTip(const Measured &one);

/// The times over tokens beside the floors of memory and of matmuls.
std::string timeChart(const Target &target, const Times &times);

/// Matmuls and measured layers over their FLOPs for each byte; "" without rates
/// of the GPU.
std::string intensityChart(const Times &times);

/// A bar for each prediction: the shares of kernels.
std::string shareBars(const Target &target, const Times &times);

/// Launches of the largest prediction of each variant along its time. A launch
/// that begins before the one in front of it ends overlaps it; by how much is
/// not predicted, so its bar begins a fixed part earlier and is hatched there.
std::string timeline(const Target &target, const Times &times);

/// The rows that experts get below the rows of their tiles, and both as tables;
/// "" of predictions that do not say them.
std::string expertRows(const Times &times);

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_TIMES_H
