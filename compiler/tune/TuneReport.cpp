//===- TuneReport.cpp - the tuner's report as text ------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Formats a table of the results, followed by the quarantined schedules.
//
//===----------------------------------------------------------------------===//

#include "compiler/tune/Tune.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

using namespace moec;
using namespace moec::compiler;
using nlohmann::ordered_json;

std::string compiler::tuneText(const ordered_json &report) {
  const auto text = [](const ordered_json &object, const char *name) {
    return object.value(name, std::string());
  };
  std::string all = fmt::format(
      "{} for {} on {}: {} measured, {} known, {:.0f} s\n",
      text(report, "layer"), text(report, "arch"), text(report, "device"),
      report["measured"].get<int64_t>(), report["known"].get<int64_t>(),
      report["seconds"].get<double>());
  all += fmt::format("{:>8} {:>11} {:>11} {:>7} {:>7} {:>9}  {:<17} {}\n",
                     "tokens", "default us", "best us", "ratio", "noise",
                     "schedules", "chosen", "best");
  for (const ordered_json &row : report["results"]) {
    if (text(row, "chosen") == "failed") {
      all += fmt::format("{:>8} failed: {}\n", row["tokens"].get<int64_t>(),
                         text(row, "text"));
      continue;
    }
    const double us = row.value("us", 0.0), its = row.value("default_us", 0.0);
    all += fmt::format(
        "{:>8} {:>11.1f} {:>11.1f} {:>7.3f} {:>6.1f}% {:>9}  {:<17} {}\n",
        row["tokens"].get<int64_t>(), its, us, its > 0 ? us / its : 0.0,
        100 * row.value("noise", 0.0),
        fmt::format("{}/{}", row.value("schedules", int64_t(0)),
                    row.value("of", int64_t(0))),
        text(row, "chosen"), text(row, "best"));
    if (row.contains("range"))
      all += fmt::format("{:>8} used for {} to {} tokens\n", "",
                         row["range"][0].get<int64_t>(),
                         row["range"][1].get<int64_t>());
    if (row.contains("removed"))
      all += fmt::format("{:>8} {} older rows for these tokens are removed: "
                         "none is faster now\n",
                         "", row["removed"].get<int64_t>());
    if (row.contains("any_scheme"))
      all += fmt::format("{:>8} {} older rows without a scheme remain in use "
                         "for these tokens: other layers may need them\n",
                         "", row["any_scheme"].get<int64_t>());
    if (row.contains("kept"))
      all += fmt::format("{:>8} {} older rows for these tokens stay: they "
                         "could not be measured\n",
                         "", row["kept"].get<int64_t>());
  }
  const auto list = [&](const char *what, const ordered_json &lines) {
    for (const ordered_json &line : lines)
      all += fmt::format("{} for {} tokens ({}): first {}, second {}: {}\n",
                         what, line["tokens"].get<int64_t>(),
                         text(line, "kind"), line["first"].dump(),
                         line["second"].dump(), text(line, "text"));
  };
  list("not measured", report["not_measured"]);
  list("quarantined", report["quarantined"]);
  if (!report["quarantined"].empty())
    all += fmt::format("{} tells which were not taken; they are measured again "
                       "when compiler, templates or layer change\n",
                       text(report, "log"));
  all += report["rows"].get<int64_t>() > 0
             ? fmt::format("{}: {} rows\n", text(report, "output"),
                           report["rows"].get<int64_t>())
             : "no rows: the compiler's choice stays\n";
  return all;
}
