//===- Times.cpp - predicted and measured times ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/html/Times.h"

#include "compiler/html/Numbers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

using namespace moec::compiler;
using namespace moec::compiler::html;

bool html::isOfThisGpu(const Bench &bench, const Target &target) {
  return !bench.gpu.empty() && bench.gpu == target.gpu;
}

Times html::timesOf(const nlohmann::json &layer, const Target &target,
                    const Bench *bench) {
  Times times;
  times.bandwidth = target.hardware ? target.hardware->bandwidth : 0;
  times.rate = matmulRate(layer, target);
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

double html::floorOf(const Times &times, const LayerPrediction &row) {
  return std::max(times.memoryFloor(row.bytes), times.matmulFloor(row.flops));
}

std::string html::ratioText(double microseconds, double floor) {
  return floor > 0 ? fmt::format("{:.2f}", microseconds / floor) : "";
}

std::string html::tokensText(double tokens) {
  return countText(std::llround(tokens));
}

Work html::workOfKernel(const Variant &variant, const std::string &name) {
  for (const Kernel &kernel : variant.kernels)
    if (kernel.name == name)
      return kernel.work;
  return Work::Other;
}

std::string html::measuredTip(const Measured &one) {
  return fmt::format("measured at {}: {}{}",
                     countedText(one.cell->tokens, "token", "tokens"),
                     timeText(one.cell->microseconds),
                     one.sameKernels ? "" : ", with other kernels");
}
