//===- moec-bench.cpp - times packages ------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whole layers, router logits to reduced output, in a CUDA graph, on random
// data with cold weights, beside the floor that the GPU's rates set. README.md
// says how and why. A program without LLVM and CUDA libraries: copy it
// and the packages to the machine with the GPU.
//
//===----------------------------------------------------------------------===//

#include "bench/Bandwidth.h"
#include "bench/Workload.h"
#include "dialect/catalog/Gpus.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cmath>
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

/// What the GPU can do, by the catalog or as given.
struct Rates {
  double bandwidth = 0;  ///< GB/s, for the floor
  double matmulRate = 0; ///< TFLOP/s, for the floor
  std::string source;    ///< measured, maker's, given
};

constexpr double kTolerance = 0.05;

/// Whether a read was off what the card reaches when cool. Only where that is
/// known by measuring: the maker's numbers are not reached.
bool isOff(const Bandwidth &now, const Rates &rates) {
  return now.read && rates.source != "maker's" &&
         std::abs(now.gbs / rates.bandwidth - 1) > kTolerance;
}

std::string describe(const Bandwidth &now, const Rates &rates) {
  if (!now.read)
    return fmt::format("a copy (no read kernel: {}) reads and writes {:.0f} "
                       "GB/s, which says little",
                       now.why, now.gbs);
  return fmt::format(
      "a pure read reaches {:.0f} GB/s{}", now.gbs,
      isOff(now, rates) ? ", MORE THAN 5 % OFF: the times are suspect" : "");
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
  return rates;
}

double floorOf(const Measurement &cell, const Rates &rates) {
  if (rates.bandwidth <= 0)
    return 0;
  return std::max(cell.bytes / (rates.bandwidth * 1e3),
                  cell.flops / (rates.matmulRate * 1e6));
}

/// The variant's kernels with the schedules that the package reports.
ordered_json kernelsOf(const Workload &work, const std::string &variant) {
  ordered_json kernels = ordered_json::array();
  for (const auto &target :
       work.manifest().value("targets", nlohmann::json::array())) {
    if (target.value("arch", "") != work.arch())
      continue;
    nlohmann::json schedules =
        target.value("report", nlohmann::json::object())
            .value("schedules", nlohmann::json::object());
    for (const auto &row : target.value("variants", nlohmann::json::array())) {
      if (row.value("name", "") != variant)
        continue;
      for (const auto &launch : row.value("launches", nlohmann::json::array()))
        for (const auto &kernel :
             target.value("kernels", nlohmann::json::array())) {
          std::string name = kernel.value("name", "");
          if (name != launch.value("kernel", ""))
            continue;
          kernels.push_back(
              {{"name", name},
               {"entry", kernel.value("entry", "")},
               {"schedule", schedules.value(name, nlohmann::json::object())}});
        }
    }
  }
  return kernels;
}

/// "gate_up 16x64x128 4 stages": of the matmuls, in the order they run.
std::string schedulesInShort(const ordered_json &kernels,
                             const std::string &variant) {
  std::string text;
  for (const ordered_json &kernel : kernels) {
    const ordered_json &schedule = kernel["schedule"];
    if (!schedule.contains("tile"))
      continue;
    std::string name = kernel["name"].get<std::string>();
    if (name.starts_with(variant + "_"))
      name = name.substr(variant.size() + 1);
    const ordered_json &tile = schedule["tile"];
    text += fmt::format("{}{} {} {}x{}x{} s{}", text.empty() ? "" : ", ", name,
                        schedule.value("engine", ""), tile[0].get<int>(),
                        tile[1].get<int>(), tile[2].get<int>(),
                        schedule.value("stages", 1));
  }
  return text;
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
    fmt::print("{} ({})\n  {:>7} {:>9} {:>9} {:>6} {:>8} {:>6} {:>8} {:>3}  "
               "{:<14} {}\n",
               work.name(), work.arch(), "tokens", "us", "floor us", "ratio",
               "TFLOP/s", "% peak", "experts", "R", "variant", "schedules");
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
    double ofPeak =
        rates.matmulRate > 0 ? 100 * achieved / rates.matmulRate : 0;
    ordered_json kernels = kernelsOf(work, cell->variant);
    std::string schedules = schedulesInShort(kernels, cell->variant);
    report["cells"].push_back({{"tokens", tokens},
                               {"us", cell->microseconds},
                               {"floor_us", floor},
                               {"ratio", ratio},
                               {"tflops", achieved},
                               {"percent_of_peak", ofPeak},
                               {"bytes", cell->bytes},
                               {"flops", cell->flops},
                               {"touched_experts", cell->touchedExperts},
                               {"layers_per_graph", cell->repeats},
                               {"variant", cell->variant},
                               {"schedules", schedules},
                               {"kernels", std::move(kernels)}});
    if (!options.json)
      fmt::print(
          "  {:>7} {:>9.1f} {:>9.1f} {:>6.2f} {:>8.1f} {:>6.1f} {:>8.1f} "
          "{:>3}  {:<14} {}\n",
          tokens, cell->microseconds, floor, ratio, achieved, ofPeak,
          cell->touchedExperts, cell->repeats, cell->variant, schedules);
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
  Result<Bandwidth> before = measureBandwidth(*device);
  if (!before)
    return before.takeError();
  if (!options.json) {
    if (device->isHost())
      fmt::print("host device: these times say nothing about a GPU\n");
    else
      fmt::print("{}: floor by {} GB/s and {} TFLOP/s ({}); before: {}\n",
                 device->name(), rates->bandwidth, rates->matmulRate,
                 rates->source, describe(*before, *rates));
  }
  ordered_json report = {{"moec_bench", 2},
                         {"device", device->name()},
                         {"driver_version", device->driverVersion()},
                         {"bandwidth_gbs", rates->bandwidth},
                         {"matmul_tflops", rates->matmulRate},
                         {"rates_source", rates->source},
                         {"bandwidth_by", before->read ? "read" : "copy"},
                         {"before_gbs", before->gbs},
                         {"after_gbs", 0},
                         {"suspect", isOff(*before, *rates)},
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
    Result<Bandwidth> after = measureBandwidth(*device);
    if (!after)
      return after.takeError();
    report["after_gbs"] = after->gbs;
    report["suspect"] = isOff(*before, *rates) || isOff(*after, *rates);
    if (!options.json)
      fmt::print("after: {}\n", describe(*after, *rates));
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
