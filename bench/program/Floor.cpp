//===- Floor.cpp - the least time that a layer can take -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bench/program/Floor.h"

#include "dialect/catalog/Gpus.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <string_view>

using namespace moec;
using namespace moec::bench;

Result<Rates> moec::bench::ratesOf(const std::string &device,
                                   const GivenRates &given) {
  Rates rates;
  if (const catalog::Gpu *gpu = catalog::findGpuByDevice(device)) {
    catalog::FloorRates floor = catalog::floorRates(*gpu);
    rates = {floor.bandwidth, floor.matmulRate, floor.fp8Rate,
             floor.measured ? "measured" : "maker's", std::string(gpu->name)};
  }
  auto take = [&](double value, double &rate) {
    if (value <= 0)
      return;
    rate = value;
    rates.source = "given";
  };
  take(given.bandwidth, rates.bandwidth);
  take(given.matmulRate, rates.matmulRate);
  take(given.fp8Rate, rates.fp8Rate);
  if (rates.fp8Rate <= 0)
    rates.fp8Rate = 2 * rates.matmulRate;
  if (rates.bandwidth <= 0 || rates.matmulRate <= 0)
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("no rates for device '{}' in the catalog (moec "
                             "list gpus); pass --bandwidth=GB/s and "
                             "--tflops=TFLOP/s",
                             device)};
  return rates;
}

bool moec::bench::isOff(double gbs, const Rates &rates) {
  constexpr double kTolerance = 0.05;
  return rates.source != "maker's" &&
         std::abs(gbs / rates.bandwidth - 1) > kTolerance;
}

bool moec::bench::multipliesFp8(const nlohmann::json &layer) {
  nlohmann::json quant = layer.value("quant", nlohmann::json::object());
  for (const char *operand : {"a1", "w1"}) {
    std::string type = quant.value(operand, nlohmann::json::object())
                           .value("element_type", "");
    if (!type.starts_with("f8"))
      return false;
  }
  return true;
}

double moec::bench::rateFor(const Work &work, const Rates &rates) {
  return work.fp8 ? rates.fp8Rate : rates.matmulRate;
}

double moec::bench::floorOf(const Work &work, const Rates &rates) {
  if (rates.bandwidth <= 0)
    return 0;
  return std::max(work.bytes / (rates.bandwidth * 1e3),
                  work.flops / (rateFor(work, rates) * 1e6));
}

std::string moec::bench::regimeOf(const nlohmann::ordered_json &kernels) {
  if (kernels.size() <= 2)
    return "tiny";
  int least = 0;
  for (const nlohmann::ordered_json &kernel : kernels) {
    if (!kernel["schedule"].contains("tile"))
      continue;
    int rows = kernel["schedule"]["tile"][0].get<int>();
    least = least == 0 ? rows : std::min(least, rows);
  }
  return least >= 128 ? "prefill" : "decode";
}
