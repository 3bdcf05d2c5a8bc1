//===- ExplainAllowed.cpp - what leave would gain -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/ExplainAllowed.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

using namespace moec;
using nlohmann::ordered_json;

bool compiler::waitsForLeave(const ordered_json &report) {
  for (const ordered_json &target : report["targets"])
    for (const ordered_json &row :
         target.value("realizations", ordered_json::array()))
      if (row.value("code", "") == "not_allowed")
        return true;
  return false;
}

/// Microseconds by tokens.
static std::map<int64_t, double> timesOf(const ordered_json &target) {
  std::map<int64_t, double> times;
  for (const ordered_json &variant :
       target.value("variants", ordered_json::array()))
    for (const ordered_json &made :
         variant.value("predictions", ordered_json::array()))
      times.emplace(made["tokens"].get<int64_t>(),
                    made["microseconds"].get<double>());
  return times;
}

void compiler::addAllowed(ordered_json &report, const ordered_json &allowed) {
  constexpr double kDigits = 100;
  for (ordered_json &target : report["targets"])
    for (const ordered_json &other : allowed["targets"]) {
      if (target["arch"] != other["arch"] ||
          target["realization"] == other["realization"])
        continue;
      ordered_json made = {{"realization", other["realization"]},
                           {"backend", other["backend"]},
                           {"engine", other["engine"]},
                           {"predicted", ordered_json::array()}};
      const std::map<int64_t, double> times = timesOf(target);
      for (const auto &[tokens, time] : timesOf(other))
        if (const auto now = times.find(tokens);
            now != times.end() && now->second > 0)
          made["predicted"].push_back(
              {{"tokens", tokens},
               {"factor", std::round(kDigits * time / now->second) / kDigits}});
      target["allowed"] = std::move(made);
    }
}

std::string compiler::allowedText(const ordered_json &target) {
  const auto allowed = target.find("allowed");
  if (allowed == target.end() || (*allowed)["predicted"].empty())
    return "";
  std::string factors;
  for (const ordered_json &row : (*allowed)["predicted"])
    factors += fmt::format("{}{} at {}", factors.empty() ? "" : ", ",
                           row["factor"].dump(), row["tokens"].dump());
  return fmt::format("  --allow={} would take, of these times by tokens: {}\n",
                     (*allowed)["realization"].get<std::string>(), factors);
}
