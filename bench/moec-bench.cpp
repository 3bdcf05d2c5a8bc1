//===- moec-bench.cpp - times packages ------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whole layers, router logits to reduced output, in a CUDA graph, on random
// data with cold weights, beside the floor that the GPU's rates set. README.md
// says how and why. One file without LLVM and without CUDA libraries: copy it
// and the packages to the machine with the GPU.
//
//===----------------------------------------------------------------------===//

#include "bench/Workload.h"
#include "dialect/catalog/Gpus.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <iostream>

using namespace moec;
using namespace moec::bench;
using nlohmann::ordered_json;

namespace {

struct Options {
  std::vector<std::string> packages;
  std::vector<int64_t> tokens = {1, 8, 32, 128, 512, 2048, 8192};
  WorkloadOptions work;
  double bandwidth = 0, rate = 0;
  bool host = false, json = false;
};

/// What the GPU can do, and what it did in this run.
struct Rates {
  double bandwidth = 0;  ///< GB/s, for the floor
  double matmulRate = 0; ///< TFLOP/s, for the floor
  std::string source;    ///< measured, maker's, given
  double copied = 0;     ///< GB/s read + written by a copy, now
  double expectedCopy = 0;
};

/// A plain copy reaches 3029 of the 3150 GB/s that a pure read reaches
/// (H100 SXM, measured 2026-11-20): what to expect of the copy on a cool card.
constexpr double kCopyOfRead = 3029.0 / 3150.0;
constexpr double kTolerance = 0.05;

Result<double> measureCopy(const Device &device) {
  uint64_t bytes = uint64_t(1) << 30;
  Result<Buffer> from = device.allocate(bytes);
  if (!from)
    return from.takeError();
  Result<Buffer> to = device.allocate(bytes);
  if (!to)
    return to.takeError();
  Result<double> ms = device.median(
      [&] { return device.copy(to->data(), from->data(), bytes); }, 3, 10, 40);
  if (!ms)
    return ms.takeError();
  return 2.0 * double(bytes) / (*ms * 1e6);
}

Result<Rates> ratesOf(const Device &device, const Options &options) {
  Rates rates;
  if (device.isHost())
    return rates;
  if (const catalog::Gpu *gpu = catalog::findGpuByDevice(device.name())) {
    bool measured = gpu->measuredBandwidth > 0 && gpu->measuredMatmulRate > 0;
    rates.bandwidth = measured ? gpu->measuredBandwidth : gpu->bandwidth;
    rates.matmulRate = measured ? gpu->measuredMatmulRate : gpu->matmulRate;
    rates.source = measured ? "measured" : "maker's";
  }
  if (options.bandwidth > 0) {
    rates.bandwidth = options.bandwidth;
    rates.source = "given";
  }
  if (options.rate > 0) {
    rates.matmulRate = options.rate;
    rates.source = "given";
  }
  if (rates.bandwidth <= 0 || rates.matmulRate <= 0)
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("no rates for device '{}' in the catalog (moec "
                             "list gpus); pass --bandwidth=GB/s and "
                             "--tflops=TFLOP/s",
                             device.name())};
  rates.expectedCopy = rates.bandwidth * kCopyOfRead;
  Result<double> copied = measureCopy(device);
  if (!copied)
    return copied.takeError();
  rates.copied = *copied;
  return rates;
}

double floorOf(const Measurement &cell, const Rates &rates) {
  if (rates.bandwidth <= 0)
    return 0;
  return std::max(cell.bytes / (rates.bandwidth * 1e3),
                  cell.flops / (rates.matmulRate * 1e6));
}

/// The variant's kernels with their schedules, as far as names tell: the
/// entries carry kind, scheme, tile and hash.
ordered_json scheduleOf(const Workload &work, const std::string &variant) {
  ordered_json entries = ordered_json::array();
  for (const auto &target :
       work.manifest().value("targets", nlohmann::json::array())) {
    if (target.value("arch", "") != work.arch())
      continue;
    for (const auto &row : target.value("variants", nlohmann::json::array())) {
      if (row.value("name", "") != variant)
        continue;
      for (const auto &launch : row.value("launches", nlohmann::json::array()))
        for (const auto &kernel :
             target.value("kernels", nlohmann::json::array()))
          if (kernel.value("name", "") == launch.value("kernel", ""))
            entries.push_back(kernel.value("entry", ""));
    }
  }
  return entries;
}

Result<ordered_json> benchPackage(const Device &device,
                                  const std::string &folder,
                                  const Options &options, const Rates &rates) {
  Result<std::unique_ptr<Workload>> loaded =
      Workload::load(device, folder, options.work);
  if (!loaded)
    return loaded.takeError();
  Workload &work = **loaded;
  ordered_json report = {{"package", folder},
                         {"name", work.name()},
                         {"arch", work.arch()},
                         {"layer", work.manifest()["layer"]},
                         {"cells", ordered_json::array()}};
  if (!options.json)
    fmt::print("{} ({})\n  {:>7} {:>11} {:>11} {:>7} {:>9} {:>8} {:>3}  {}\n",
               work.name(), work.arch(), "tokens", "us", "floor us", "ratio",
               "TFLOP/s", "experts", "R", "variant");
  for (int64_t tokens : options.tokens) {
    if (tokens < 1 || tokens > work.maxTokens())
      return Error{ErrorCode::TooManyTokens,
                   fmt::format("{}: expected --tokens from 1 to {}, got {}",
                               folder, work.maxTokens(), tokens)};
    Result<Measurement> cell = work.measure(tokens);
    if (!cell)
      return cell.takeError();
    double floor = floorOf(*cell, rates);
    double ratio = floor > 0 ? cell->microseconds / floor : 0;
    double achieved = cell->flops / (cell->microseconds * 1e6);
    report["cells"].push_back({{"tokens", tokens},
                               {"us", cell->microseconds},
                               {"floor_us", floor},
                               {"ratio", ratio},
                               {"tflops", achieved},
                               {"bytes", cell->bytes},
                               {"flops", cell->flops},
                               {"touched_experts", cell->touchedExperts},
                               {"layers_per_graph", cell->repeats},
                               {"variant", cell->variant},
                               {"kernels", scheduleOf(work, cell->variant)}});
    if (!options.json) {
      fmt::print("  {:>7} {:>11.2f} {:>11.2f} {:>7.2f} {:>9.1f} {:>8.1f} {:>3}"
                 "  {}\n",
                 tokens, cell->microseconds, floor, ratio, achieved,
                 cell->touchedExperts, cell->repeats, cell->variant);
      for (const ordered_json &entry : report["cells"].back()["kernels"])
        fmt::print("          {}\n", entry.get<std::string>());
    }
  }
  return report;
}

Result<void> benchAll(const Options &options) {
  Result<Device> device = Device::open(options.host);
  if (!device)
    return device.takeError();
  Result<Rates> rates = ratesOf(*device, options);
  if (!rates)
    return rates.takeError();
  bool slow = rates->copied < rates->expectedCopy * (1 - kTolerance) ||
              rates->copied > rates->expectedCopy * (1 + kTolerance);
  if (!options.json) {
    if (device->isHost())
      fmt::print("host device: these times say nothing about a GPU\n");
    else
      fmt::print("{}: floor by {} GB/s and {} TFLOP/s ({}); a copy now reaches "
                 "{:.0f} GB/s of {:.0f}{}\n",
                 device->name(), rates->bandwidth, rates->matmulRate,
                 rates->source, rates->copied, rates->expectedCopy,
                 slow ? ": MORE THAN 5 % OFF, the times are suspect" : "");
  }
  ordered_json report = {{"moec_bench", 1},
                         {"device", device->name()},
                         {"bandwidth_gbs", rates->bandwidth},
                         {"matmul_tflops", rates->matmulRate},
                         {"rates_source", rates->source},
                         {"copy_gbs", rates->copied},
                         {"copy_expected_gbs", rates->expectedCopy},
                         {"suspect", !device->isHost() && slow},
                         {"seed", options.work.seed},
                         {"packages", ordered_json::array()}};
  for (const std::string &folder : options.packages) {
    Result<ordered_json> cells = benchPackage(*device, folder, options, *rates);
    if (!cells)
      return cells.takeError();
    report["packages"].push_back(std::move(*cells));
  }
  if (!device->isHost()) {
    // Once more: a card that grew hot on the way shows here.
    Result<double> after = measureCopy(*device);
    if (!after)
      return after.takeError();
    report["copy_after_gbs"] = *after;
    if (!options.json)
      fmt::print("a copy afterwards reaches {:.0f} GB/s\n", *after);
  }
  if (options.json)
    fmt::print("{}\n", report.dump(2));
  return {};
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("times packages of moec", "moec-bench");
  Options options;
  std::string device = "cuda";
  app.add_option("PACKAGE", options.packages, "folders that moec compile wrote")
      ->required();
  app.add_option("--tokens", options.tokens, "token counts")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--device", device, "cuda or host")
      ->check(CLI::IsMember({"cuda", "host"}))
      ->capture_default_str();
  app.add_option("--variant", options.work.variant, "forces a variant");
  app.add_option("--seed", options.work.seed)->capture_default_str();
  app.add_option("--repeats", options.work.repeats,
                 "layers in a graph; 0: until 400 MB of weights are touched")
      ->capture_default_str();
  app.add_option("--bandwidth", options.bandwidth, "GB/s of the floor");
  app.add_option("--tflops", options.rate, "TFLOP/s of the floor");
  app.add_flag("--json", options.json, "for programs");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? 0 : 2;
  }
  options.host = device == "host";
  Result<void> done = benchAll(options);
  if (!done)
    fmt::print(stderr, "moec-bench: {}\n", done.error().message);
  return done ? 0 : 1;
}
