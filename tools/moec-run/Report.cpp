//===- Report.cpp - the output of moec-run --------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The table and the JSON are printed from the same structure.
//
//===----------------------------------------------------------------------===//

#include "tools/moec-run/Report.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace moec;
using namespace moec::run;
using nlohmann::ordered_json;

bool RunReport::passed() const {
  return status == 0 &&
         std::ranges::all_of(
             cases, [](const CaseResult &result) { return result.passed; });
}

void moec::run::printJson(const RunReport &report, int indent) {
  ordered_json json = ordered_json::object();
  if (report.line > 0)
    json["line"] = report.line;
  json["package"] = report.package;
  json["name"] = report.name;
  json["device"] = report.device;
  json["arch"] = report.arch;
  ordered_json load = ordered_json::object();
  if (report.loads.size() == 1)
    load = ordered_json::parse(report.loads.front().json(), nullptr, false);
  load["process_start_ms"] = report.processStart;
  load["driver_open_ms"] = report.driverOpen;
  load["cuinit_ms"] = report.cuInit;
  load["context_ms"] = report.context;
  load["weights_ms"] = report.weights;
  load["pack_ms"] = report.pack;
  json["load"] = std::move(load);
  if (report.loads.size() > 1) {
    ordered_json prebuilt = ordered_json::object();
    for (size_t i = 0; i < report.loads.size(); ++i)
      prebuilt[report.loadArchs[i]] =
          ordered_json::parse(report.loads[i].json(), nullptr, false);
    json["prebuilt"] = std::move(prebuilt);
  }
  if (!report.checkpoint.empty())
    json["weights"] = {{"checkpoint", report.checkpoint},
                       {"layer", report.checkpointLayer},
                       {"sha256", report.digests}};
  auto runs = ordered_json::array();
  for (const CaseResult &result : report.cases) {
    ordered_json run = {
        {"tokens", result.tokens},      {"variant", result.variant},
        {"routing", result.routing},    {"inputs", result.inputs},
        {"passed", result.passed},      {"error", result.error},
        {"worst_row", result.worstRow}, {"worst_element", result.worstElement},
        {"bound", result.bound},        {"text", result.text},
    };
    if (result.roundings > 0) {
      run["roundings"] = result.roundings;
      run["roundings_taken"] = result.roundingsTaken;
    }
    if (!result.twice.empty())
      run["twice"] = result.twice;
    if (result.medianMicroseconds)
      run["median_us"] = *result.medianMicroseconds;
    runs.push_back(std::move(run));
  }
  json["runs"] = std::move(runs);
  if (report.line > 0) {
    json["wall_ms"] = report.wall;
    json["on_device_ms"] = report.onDevice;
  }
  json["passed"] = report.passed();
  json["status"] = report.status;
  if (!report.error.empty())
    json["error"] = report.error;
  // Each of these failures ends the process, and with it the other lines of
  // --cases that are in progress.
  if (report.driverFailed)
    json["driver_failed"] = true;
  if (report.hung)
    json["hung"] = true;
  fmt::print("{}\n", json.dump(indent, ' ', false,
                               ordered_json::error_handler_t::replace));
}

static void printLoad(const runtime::LoadReport &load,
                      const std::string &arch) {
  int counts[3] = {};
  for (const auto &kernel : load.kernels)
    ++counts[static_cast<int>(kernel.source)];
  fmt::print(
      "load {}: {:.1f} ms (read {:.1f}, kernels {:.1f}, modules {:.1f}); "
      "{} kernels: {} from the package, {} from the cache, {} compiled\n",
      arch, load.total, load.read, load.compile, load.moduleLoad,
      load.kernels.size(), counts[0], counts[1], counts[2]);
  for (const auto &kernel : load.kernels)
    if (kernel.resources.localBytes > 0)
      fmt::print("kernel {}: {} bytes of local memory a thread\n", kernel.name,
                 kernel.resources.localBytes);
  for (const auto &variant : load.unfit)
    fmt::print("variant {} is not taken: {}\n", variant.name, variant.reason);
  if (!load.jit.nvrtcPath.empty())
    fmt::print(
        "NVRTC: {} (found by {}), opened in {:.1f} ms, {} jobs, {} workers\n",
        load.jit.nvrtcPath, load.jit.nvrtcFoundBy,
        load.jit.nvrtcOpenMilliseconds, load.jit.jobs, load.jit.workers);
}

void moec::run::printTable(const RunReport &report, bool timed, bool checked) {
  fmt::print("{} for {} on {}\n", report.name, report.arch, report.device);
  if (report.cuInit > 0)
    fmt::print("driver {:.1f} ms, cuInit {:.1f} ms, context {:.1f} ms\n",
               report.driverOpen, report.cuInit, report.context);
  for (size_t i = 0; i < report.loads.size(); ++i)
    printLoad(report.loads[i], report.loadArchs[i]);
  if (report.cases.empty())
    return;
  if (report.checkpoint.empty())
    fmt::print("weights made in {:.0f} ms, packed in {:.1f} ms\n",
               report.weights, report.pack);
  else
    fmt::print("weights of layer {} of {}, loaded in {:.0f} ms, packed in "
               "{:.1f} ms\n",
               report.checkpointLayer, report.checkpoint, report.weights,
               report.pack);

  fmt::print("{:>8}  {:<20} {:<13}", "tokens", "variant", "routing");
  if (timed)
    fmt::print(" {:>12}", "median us");
  if (checked)
    fmt::print("  {:<7} {}", "check", "result");
  fmt::print("\n");
  for (const CaseResult &result : report.cases) {
    fmt::print("{:>8}  {:<20} {:<13}", result.tokens, result.variant,
               result.routing);
    if (timed)
      fmt::print(" {:>12}",
                 result.medianMicroseconds
                     ? fmt::format("{:.2f}", *result.medianMicroseconds)
                     : "-");
    if (checked)
      fmt::print("  {:<7} {}{}", result.passed ? "passed" : "FAILED",
                 result.text,
                 result.twice.empty() ? "" : "; twice: " + result.twice);
    fmt::print("\n");
  }
}

double moec::run::millisecondsSinceExec() {
  // Field 22 of /proc/self/stat is the start time in ticks since boot. The name
  // in field 2 may contain any character, but ends with the last ')'.
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  size_t end = text.rfind(')');
  if (end == std::string::npos)
    return 0;
  std::istringstream fields(text.substr(end + 1));
  std::string field;
  constexpr int kStart = 22, kAfterName = 3;
  for (int i = kAfterName; i <= kStart && fields >> field; ++i)
    ;
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  double uptime = static_cast<double>(now.tv_sec) * 1e3 +
                  static_cast<double>(now.tv_nsec) / 1e6;
  double started = std::strtod(field.c_str(), nullptr) * 1e3 /
                   static_cast<double>(sysconf(_SC_CLK_TCK));
  return std::max(0.0, uptime - started);
}
