//===- Targets.cpp - what each cell is measured against -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bench/program/Targets.h"

#include "runtime/support/Json.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>

using namespace moec;
using namespace moec::bench;
using nlohmann::json;

Result<Targets> Targets::parse(const std::string &text,
                               const std::string &name) {
  auto wrong = [&](const std::string &what) {
    return Error{
        ErrorCode::InvalidArgument,
        fmt::format("{}: expected {}, as bench/run/targets.py writes it", name,
                    what)};
  };
  constexpr size_t kMaxBytes = size_t(16) << 20;
  Result<json> read =
      parseJsonObject(text, name, ErrorCode::InvalidArgument, {kMaxBytes});
  if (!read)
    return read.takeError();
  const json &file = *read;
  if (!file.contains("moec_targets") || file["moec_targets"] != 2)
    return wrong("a JSON object with \"moec_targets\": 2");
  Targets targets;
  try {
    targets.gpuNames = file.at("gpus").get<std::vector<std::string>>();
    for (const json &row : file.at("shapes"))
      targets.shapes.push_back(
          {row.at("shape").get<std::string>(),
           row.at("num_experts").get<int64_t>(), row.at("top_k").get<int64_t>(),
           row.at("hidden_size").get<int64_t>(),
           row.at("intermediate_size_per_partition").get<int64_t>(),
           row.at("local_experts").get<int64_t>(),
           row.at("tokens").get<std::vector<int64_t>>()});
    for (const json &row : file.at("cells")) {
      Target cell = {.tokens = row.at("tokens").get<int64_t>(),
                     .gpu = row.at("gpu").get<std::string>(),
                     .shape = row.at("shape").get<std::string>(),
                     .scheme = row.at("scheme").get<std::string>(),
                     .best = std::nullopt,
                     .target = row.at("target").get<double>(),
                     .limit = row.at("limit").get<double>()};
      if (row.contains("baseline")) {
        const json &best = row["baseline"];
        cell.best = Peer{.name = best.at("peer").get<std::string>(),
                         .version = best.at("version").get<std::string>(),
                         .us = best.at("us").get<double>(),
                         .ratio = best.at("ratio").get<double>()};
      }
      targets.cells.push_back(std::move(cell));
    }
  } catch (const json::exception &error) {
    return wrong(fmt::format("its fields ({})", error.what()));
  }
  return targets;
}

const Shape *Targets::shapeOf(const json &layer) const {
  auto number = [&](const char *key) { return layer.value(key, int64_t(0)); };
  int64_t local =
      layer.value("local_experts", json::object()).value("count", int64_t(0));
  for (const Shape &shape : shapes)
    if (shape.experts == number("num_experts") &&
        shape.topK == number("top_k") &&
        shape.hidden == number("hidden_size") &&
        shape.intermediate == number("intermediate_size_per_partition") &&
        shape.local == local)
      return &shape;
  return nullptr;
}

bool Targets::has(const std::string &gpu) const {
  return std::ranges::find(gpuNames, gpu) != gpuNames.end();
}

const Target *Targets::find(const std::string &gpu, const std::string &shape,
                            const std::string &scheme, int64_t tokens) const {
  for (const Target &cell : cells)
    if (cell.gpu == gpu && cell.shape == shape && cell.scheme == scheme &&
        cell.tokens == tokens)
      return &cell;
  return nullptr;
}

nlohmann::ordered_json moec::bench::comparisonOf(const Target &target,
                                                 double ratio) {
  nlohmann::ordered_json row;
  if (target.best)
    row = {{"peer", target.best->name},
           {"version", target.best->version},
           {"us", target.best->us},
           {"ratio", target.best->ratio},
           {"ours_over_theirs", ratio / target.best->ratio}};
  row["target"] = target.target;
  row["limit"] = target.limit;
  row["met"] = ratio <= target.limit;
  return row;
}

bool moec::bench::selects(const std::string &word, const std::string &shape,
                          const std::string &scheme) {
  return word == "*" || word == shape || word == scheme ||
         word == shape + "/" + scheme;
}
