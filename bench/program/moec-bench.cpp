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

#include "bench/program/Bandwidth.h"
#include "bench/program/Floor.h"
#include "bench/program/Targets.h"
#include "bench/program/Workload.h"
#include "compiler/html/BenchFile.h"
#include "runtime/support/CommandLine.h"
#include "runtime/support/Files.h"
#include "runtime/support/Guard.h"
#include "runtime/support/Json.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>

using namespace moec;
using namespace moec::bench;
using nlohmann::ordered_json;
using tools::Device;

namespace {

struct Options {
  std::vector<std::string> packages, cells;
  std::vector<int64_t> tokens; ///< none: those of the shape
  std::string targets;
  std::string routing = "uniform";
  WorkloadOptions work;
  GivenRates rates;
  bool host = false, json = false;
};

/// The token counts of shapes that the targets do not know.
constexpr int64_t kTokens[] = {1, 8, 32, 128, 512, 2048, 8192};

bool isOff(const Bandwidth &now, const Rates &rates) {
  return now.read && bench::isOff(now.gbs, rates);
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
                             const std::vector<std::string> &variants) {
  std::string text;
  for (const ordered_json &kernel : kernels) {
    const ordered_json &schedule = kernel["schedule"];
    if (!schedule.contains("stages"))
      continue;
    // A kernel that several variants share is named after one of them.
    std::string name = kernel["name"].get<std::string>();
    for (const std::string &variant : variants)
      if (name.starts_with(variant + "_")) {
        name = name.substr(variant.size() + 1);
        break;
      }
    text += fmt::format("{}{} {} ", text.empty() ? "" : ", ", name,
                        schedule.value("engine", ""));
    // Dot products have no tile.
    if (schedule.contains("tile"))
      text += fmt::format("{}x{}x{} ", schedule["tile"][0].get<int>(),
                          schedule["tile"][1].get<int>(),
                          schedule["tile"][2].get<int>());
    text += fmt::format("s{}", schedule.value("stages", 1));
  }
  return text;
}

/// The manifest's layer, without loading the package.
Result<nlohmann::json> layerOf(const std::string &folder) {
  Result<std::string> text = readFile(folder + "/manifest.json");
  if (!text)
    return text.takeError();
  Result<nlohmann::json> manifest = parseJsonObject(
      *text, folder, ErrorCode::InvalidManifest, {text->size()});
  if (!manifest)
    return manifest.takeError();
  if (!manifest->contains("layer") || !(*manifest)["layer"].is_object())
    return Error{ErrorCode::InvalidManifest,
                 folder + ": the manifest has no layer"};
  return (*manifest)["layer"];
}

/// Everything that all packages are timed with.
struct Bench {
  const Device &device;
  const Options &options;
  Rates rates;
  std::optional<Targets> targets;
};

std::vector<std::string> variantsOf(const Workload &work) {
  std::vector<std::string> names;
  for (const auto &target :
       work.manifest().value("targets", nlohmann::json::array()))
    for (const auto &row : target.value("variants", nlohmann::json::array()))
      names.push_back(row.value("name", ""));
  return names;
}

Result<ordered_json> benchCell(const Bench &bench, Workload &work,
                               const ordered_json &package, int64_t tokens) {
  if (tokens < 1 || tokens > work.maxTokens())
    return Error{ErrorCode::TooManyTokens,
                 fmt::format("expected --tokens from 1 to {}, got {}",
                             work.maxTokens(), tokens)};
  Result<Measurement> cell = work.measure(tokens);
  if (!cell)
    return cell.takeError();
  Work done = {cell->bytes, cell->flops,
               multipliesFp8(work.manifest()["layer"])};
  double floor = floorOf(done, bench.rates);
  double rate = rateFor(done, bench.rates);
  double ratio = floor > 0 ? cell->microseconds / floor : 0;
  double achieved =
      cell->microseconds > 0 ? cell->flops / (cell->microseconds * 1e6) : 0;
  ordered_json kernels = kernelsOf(work, cell->variant);
  ordered_json row = {
      {"tokens", tokens},
      {"us", cell->microseconds},
      {"passes_us", cell->passes},
      {"floor_us", floor},
      {"ratio", ratio},
      {"tflops", achieved},
      {"percent_of_peak", rate > 0 ? 100 * achieved / rate : 0},
      {"bytes", cell->bytes},
      {"flops", cell->flops},
      {"touched_experts", cell->touchedExperts},
      {"local_pairs", cell->localPairs},
      {"layers_per_graph", cell->repeats},
      {"variant", cell->variant},
      {"regime", regimeOf(kernels)},
      {"schedules", schedulesInShort(kernels, variantsOf(work))}};
  const bench::Target *target =
      bench.targets ? bench.targets->find(bench.rates.gpu, package["shape"],
                                          package["scheme"], tokens)
                    : nullptr;
  if (target && ratio > 0)
    row["against"] = comparisonOf(*target, ratio);
  row["kernels"] = std::move(kernels);
  return row;
}

void printHead(const ordered_json &package) {
  fmt::print("{} ({}, {})\n  {:>6} {:>9} {:>9} {:>7} {:>6} {:>6} {:>6}  {:<14} "
             "{:>7} {:>6} {:>7} {:>2}  {:<7}  {}\n",
             package["name"].get<std::string>(),
             package["scheme"].get<std::string>(),
             package["arch"].get<std::string>(), "tokens", "us", "floor us",
             "ratio", "target", "theirs", "o/t", "peer", "TFLOP/s", "% peak",
             "experts", "R", "regime", "schedules");
}

void printCell(const ordered_json &row) {
  std::string against =
      fmt::format("{:>6} {:>6} {:>6}  {:<14}", "", "", "", "");
  if (row.contains("against")) {
    const ordered_json &peer = row["against"];
    std::string target = fmt::format("{:.2f}{}", peer["target"].get<double>(),
                                     peer["met"].get<bool>() ? " " : "!");
    against = peer.contains("peer")
                  ? fmt::format("{:>6} {:>6.2f} {:>6.2f}  {:<14}", target,
                                peer["ratio"].get<double>(),
                                peer["ours_over_theirs"].get<double>(),
                                peer["peer"].get<std::string>())
                  : fmt::format("{:>6} {:>6} {:>6}  {:<14}", target, "-", "-",
                                "none measured");
  }
  fmt::print(
      "  {:>6} {:>9.1f} {:>9.1f} {:>7.3f} {} {:>7.1f} {:>6.1f} {:>7.1f} "
      "{:>2}  {:<7}  {}\n",
      row["tokens"].get<int64_t>(), row["us"].get<double>(),
      row["floor_us"].get<double>(), row["ratio"].get<double>(), against,
      row["tflops"].get<double>(), row["percent_of_peak"].get<double>(),
      row["touched_experts"].get<double>(), row["layers_per_graph"].get<int>(),
      row["regime"].get<std::string>(), row["schedules"].get<std::string>());
  std::fflush(stdout);
}

/// A cell that fails is reported and the others are timed all the same; a
/// package that --cells does not name is null.
Result<ordered_json> benchPackage(const Bench &bench, const std::string &folder,
                                  bool &failed) {
  const Options &options = bench.options;
  Result<nlohmann::json> layer = layerOf(folder);
  if (!layer)
    return layer.takeError();
  std::string scheme =
      layer->value("quant", nlohmann::json::object()).value("name", "");
  const Shape *shape = bench.targets ? bench.targets->shapeOf(*layer) : nullptr;
  std::string shapeName = shape ? shape->name : layer->value("name", "");
  if (!options.cells.empty() &&
      std::none_of(options.cells.begin(), options.cells.end(),
                   [&](const std::string &word) {
                     return selects(word, shapeName, scheme);
                   }))
    return ordered_json();
  Result<std::unique_ptr<Workload>> loaded =
      Workload::load(bench.device, folder, options.work);
  if (!loaded)
    return loaded.takeError();
  Workload &work = **loaded;
  ordered_json report = {{"package", folder},
                         {"name", work.name()},
                         {"shape", shapeName},
                         {"scheme", scheme},
                         {"arch", work.arch()},
                         {"layer", work.manifest()["layer"]},
                         {"cells", ordered_json::array()}};
  if (!options.json)
    printHead(report);
  std::vector<int64_t> tokens = options.tokens;
  if (tokens.empty())
    tokens = shape
                 ? shape->tokens
                 : std::vector<int64_t>(std::begin(kTokens), std::end(kTokens));
  for (int64_t count : tokens) {
    Result<ordered_json> row = benchCell(bench, work, report, count);
    if (row) {
      report["cells"].push_back(*row);
      if (!options.json)
        printCell(*row);
      continue;
    }
    failed = true;
    report["errors"].push_back(
        {{"tokens", count}, {"error", row.error().message}});
    fmt::print(stderr, "moec-bench: {}, {} tokens: {}\n", folder, count,
               row.error().message);
  }
  return report;
}

Result<std::optional<Targets>> readTargets(const Options &options,
                                           const Rates &rates) {
  if (options.targets.empty())
    return std::optional<Targets>();
  Result<std::string> text = readFile(options.targets);
  if (!text)
    return text.takeError();
  Result<Targets> targets = Targets::parse(*text, options.targets);
  if (!targets)
    return targets.takeError();
  if (!options.host && !targets->has(rates.gpu))
    fmt::print(stderr,
               "moec-bench: {} is of GPUs {}, this one is {}: cells are not "
               "compared\n",
               options.targets, fmt::join(targets->gpus(), ", "),
               rates.gpu.empty() ? "none of the catalog" : rates.gpu);
  return std::optional<Targets>(std::move(*targets));
}

Result<bool> benchAll(const Options &options) {
  Result<Device> device = Device::open(
      options.host ? runtime::DeviceKind::Host : runtime::DeviceKind::Cuda);
  if (!device)
    return device.takeError();
  Rates rates;
  if (!device->onHost()) {
    Result<Rates> found = ratesOf(device->name(), options.rates);
    if (!found)
      return found.takeError();
    rates = *found;
  }
  Result<std::optional<Targets>> targets = readTargets(options, rates);
  if (!targets)
    return targets.takeError();
  Bench bench{*device, options, rates, std::move(*targets)};
  bool timed = options.work.passes > 0;
  Result<Bandwidth> before =
      timed ? measureBandwidth(*device) : Result<Bandwidth>(Bandwidth{});
  if (!before)
    return before.takeError();
  if (!options.json) {
    if (device->onHost())
      fmt::print("host device: these times say nothing about a GPU\n");
    else
      fmt::print("{}: floor by {} GB/s, {} TFLOP/s and, where both operands "
                 "have 8 bits, {} TFLOP/s ({}); before: {}\n",
                 device->name(), rates.bandwidth, rates.matmulRate,
                 rates.fp8Rate, rates.source, describe(*before, rates));
  }
  ordered_json report = {{"moec_bench", compiler::html::kBenchFormat},
                         {"device", device->name()},
                         {"driver_version", device->driverVersion()},
                         {"bandwidth_gbs", rates.bandwidth},
                         {"matmul_tflops", rates.matmulRate},
                         {"fp8_tflops", rates.fp8Rate},
                         {"rates_source", rates.source},
                         {"bandwidth_by", before->read ? "read" : "copy"},
                         {"before_gbs", before->gbs},
                         {"after_gbs", 0},
                         {"suspect", timed && isOff(*before, rates)},
                         {"seed", options.work.seed},
                         {"routing", options.routing},
                         {"dealt", options.work.routing.dealt},
                         {"packages", ordered_json::array()}};
  bool failed = false;
  for (const std::string &folder : options.packages) {
    Result<ordered_json> cells = benchPackage(bench, folder, failed);
    if (!cells)
      return cells.takeError();
    if (!cells->is_null())
      report["packages"].push_back(std::move(*cells));
  }
  if (report["packages"].empty())
    return Error{ErrorCode::InvalidArgument,
                 "expected --cells to name one of the packages (\"*\", shape, "
                 "scheme or shape/scheme), got none of them"};
  if (!device->onHost() && timed) {
    // Once more: a card that grew hot on the way shows here.
    Result<Bandwidth> after = measureBandwidth(*device);
    if (!after)
      return after.takeError();
    report["after_gbs"] = after->gbs;
    report["suspect"] = isOff(*before, rates) || isOff(*after, rates);
    if (!options.json)
      fmt::print("after: {}\n", describe(*after, rates));
  }
  if (options.json)
    fmt::print("{}\n", report.dump(2));
  return !failed;
}

} // namespace

static int runMain(int argc, char **argv) {
  CLI::App app("times packages of moec", "moec-bench");
  Options options;
  std::string device = "cuda";
  app.add_option("PACKAGE", options.packages, "folders that moec compile wrote")
      ->required();
  app.add_option("--cells", options.cells,
                 "only these packages: shape, scheme or shape/scheme")
      ->delimiter(',');
  app.add_option("--tokens", options.tokens,
                 "token counts; the shape's where --targets has it, else "
                 "1,8,32,128,512,2048,8192")
      ->delimiter(',');
  app.add_option("--targets", options.targets,
                 "bench/data/targets.json: what each cell is measured against");
  app.add_option("--device", device, "cuda or host")
      ->check(oneOf({"cuda", "host"}))
      ->capture_default_str();
  app.add_option("--rank", options.work.rank,
                 "the rank to run, of packages of several")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--variant", options.work.variant, "forces a variant");
  app.add_option("--seed", options.work.seed)
      ->capture_default_str()
      ->check(countFrom(0, INT64_MAX));
  app.add_option("--routing", options.routing,
                 "which experts tokens choose: uniform, zipf:EXPONENT, "
                 "hot:EXPERTS (every token's first ones) or used:FRACTION (of "
                 "the experts)")
      ->capture_default_str();
  app.add_flag("--dealt", options.work.routing.dealt,
               "the same experts, each with equally many tokens");
  app.add_option("--repeats", options.work.repeats,
                 "layers in a graph; 0: until 400 MB of weights are touched")
      ->capture_default_str();
  app.add_option("--passes", options.work.passes,
                 "medians of replays, of which the median counts; 0: nothing "
                 "is timed, each layer runs once and its experts are counted")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--idle", options.work.idleMs,
                 "milliseconds before cells over 400 us")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--bandwidth", options.rates.bandwidth, "GB/s of the floor");
  app.add_option("--tflops", options.rates.matmulRate,
                 "TFLOP/s of the floor, 16-bit operands");
  app.add_option("--fp8-tflops", options.rates.fp8Rate,
                 "TFLOP/s of the floor, 8-bit operands");
  app.add_flag("--json", options.json, "print JSON");
  if (const std::optional<int> ended = parseCommandLine(app, argc, argv))
    return *ended;
  options.host = device == "host";
  Result<RoutingPattern> routing = RoutingPattern::parse(options.routing);
  if (!routing) {
    fmt::print(stderr, "moec-bench: --routing: {}\n", routing.error().message);
    return 2;
  }
  options.work.routing.pattern = *routing;
  Result<bool> done = benchAll(options);
  if (!done)
    fmt::print(stderr, "moec-bench: {}\n", done.error().message);
  return done && *done ? 0 : 1;
}

int main(int argc, char **argv) {
  return guarded("moec-bench", [&] { return runMain(argc, argv); });
}
