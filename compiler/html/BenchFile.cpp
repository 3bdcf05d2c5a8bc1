//===- BenchFile.cpp - results of moec-bench ------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/html/BenchFile.h"

#include "compiler/html/Numbers.h"
#include "dialect/catalog/Gpus.h"
#include "runtime/support/JsonReader.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace moec;
using namespace moec::compiler;
using namespace moec::compiler::html;

namespace {

/// Returns the layer without its name and origin, for comparison.
nlohmann::json bare(nlohmann::json layer) {
  layer.erase("name");
  layer.erase("origin");
  return layer;
}

/// Returns text about the first three fields that differ, such as "hidden_size
/// 4096 where the report has 2048". Returns "" if the layers are equal.
std::string differences(const nlohmann::json &theirs,
                        const nlohmann::json &ours) {
  std::vector<std::string> names;
  for (const auto &field : ours.items())
    if (!theirs.contains(field.key()) ||
        theirs.at(field.key()) != field.value())
      names.push_back(field.key());
  for (const auto &field : theirs.items())
    if (!ours.contains(field.key()))
      names.push_back(field.key());
  const auto valueOf = [](const nlohmann::json &layer, const std::string &key) {
    return layer.contains(key) ? shortJson(layer.at(key)) : "nothing";
  };
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(names.size(), 3); ++i)
    text +=
        fmt::format("{}{} {} where the report has {}", i ? ", " : "", names[i],
                    valueOf(theirs, names[i]), valueOf(ours, names[i]));
  return text;
}

/// Returns the objects in an array. Reports an error if the value is not an
/// array of objects.
std::vector<const nlohmann::json *> objectsOf(JsonReader &reader,
                                              std::string_view key) {
  std::vector<const nlohmann::json *> objects;
  const nlohmann::json *array = reader.find(key);
  const bool isList =
      array && array->is_array() &&
      std::all_of(array->begin(), array->end(),
                  [](const nlohmann::json &one) { return one.is_object(); });
  if (!isList)
    reader.expected(key, "an array of objects");
  else
    for (const nlohmann::json &one : *array)
      objects.push_back(&one);
  return objects;
}

/// Reads the minimum and the maximum time of the passes.
void addPasses(JsonReader &reader, Measurement &cell) {
  const nlohmann::json *passes = reader.find("passes_us");
  if (!passes)
    return;
  if (!passes->is_array() ||
      !std::all_of(passes->begin(), passes->end(),
                   [](const nlohmann::json &one) { return one.is_number(); }))
    return reader.expected("passes_us", "an array of numbers");
  for (const nlohmann::json &one : *passes) {
    const double time = one.get<double>();
    cell.least = cell.least > 0 ? std::min(cell.least, time) : time;
    cell.most = std::max(cell.most, time);
  }
}

Measurement cellOf(JsonReader &reader) {
  Measurement cell;
  cell.tokens = reader.integer("tokens", 1, kMaxCount);
  cell.microseconds = readNonNegative(reader, "us");
  cell.floor = readNonNegative(reader, "floor_us");
  cell.bytes = readNonNegative(reader, "bytes");
  cell.flops = readNonNegative(reader, "flops");
  cell.variant = reader.textOr("variant", "");
  addPasses(reader, cell);
  if (reader.has("kernels"))
    for (const nlohmann::json *kernel : objectsOf(reader, "kernels")) {
      JsonReader row(*kernel, reader.pathOf("kernels"), reader.errors());
      cell.entries.push_back(row.textOr("entry", ""));
    }
  return cell;
}

BenchPackage packageOf(JsonReader &reader) {
  BenchPackage package;
  package.package = reader.textOr("package", "");
  package.name = reader.text("name");
  package.arch = reader.text("arch");
  const std::vector<const nlohmann::json *> cells = objectsOf(reader, "cells");
  for (size_t i = 0; i < cells.size(); ++i) {
    JsonReader cell(*cells[i], fmt::format("{}[{}]", reader.pathOf("cells"), i),
                    reader.errors());
    package.cells.push_back(cellOf(cell));
  }
  std::stable_sort(package.cells.begin(), package.cells.end(),
                   [](const Measurement &a, const Measurement &b) {
                     return a.tokens < b.tokens;
                   });
  return package;
}

bool hasArch(const Report &report, std::string_view arch) {
  return std::any_of(report.targets.begin(), report.targets.end(),
                     [&](const Target &target) { return target.arch == arch; });
}

} // namespace

Result<Bench> html::readBench(const NamedText &file, const Report &report) {
  const nlohmann::json document = TRY(parseJsonObject(
      file.text, file.name, ErrorCode::InvalidArgument, {kMaxInputBytes}));
  if (!document.contains("moec_bench") ||
      document.at("moec_bench") != nlohmann::json(kBenchFormat))
    return invalidArgument(
        "{}: expected a result of moec-bench --json (moec_bench: {}), got {}",
        file.name, kBenchFormat,
        document.contains("moec_bench")
            ? "moec_bench: " + shortJson(document.at("moec_bench"))
            : std::string("a file without moec_bench"));
  JsonErrors errors{file.name, std::nullopt, ErrorCode::InvalidArgument};
  JsonReader reader(document, "", errors);
  Bench bench;
  bench.device = reader.text("device");
  bench.routing = reader.textOr("routing", "");
  bench.suspect = reader.booleanOr("suspect", false);
  if (const catalog::Gpu *gpu = catalog::findGpuByDevice(bench.device))
    bench.gpu = gpu->name;
  std::string others;
  const nlohmann::json ours = bare(*report.layer);
  const std::vector<const nlohmann::json *> rows =
      objectsOf(reader, "packages");
  for (size_t i = 0; i < rows.size(); ++i) {
    JsonReader row(*rows[i], fmt::format("packages[{}]", i), errors);
    BenchPackage package = packageOf(row);
    std::optional<JsonReader> layer = row.object("layer");
    if (!layer) {
      row.expected("layer", "the manifest's layer");
      continue;
    }
    std::string other = differences(bare(layer->value()), ours);
    if (other.empty() && !hasArch(report, package.arch))
      other = fmt::format("arch {} where the report has {}", package.arch,
                          report.targets.empty() ? "none"
                                                 : report.targets.front().arch);
    if (other.empty())
      bench.packages.push_back(std::move(package));
    else
      others += fmt::format("{}{} ({})", others.empty() ? "" : "; ",
                            shortText(package.name), other);
  }
  if (errors.first)
    return *errors.first;
  if (bench.packages.empty())
    return invalidArgument("{}: expected times of layer {}, got {}", file.name,
                           shortText(report.name),
                           others.empty() ? "no package" : others);
  return bench;
}

bool html::ranKernelsOf(const Measurement &cell, const Target &target) {
  for (const Variant &variant : target.variants) {
    if (variant.name != cell.variant ||
        variant.kernels.size() != cell.entries.size())
      continue;
    return std::equal(variant.kernels.begin(), variant.kernels.end(),
                      cell.entries.begin(),
                      [](const Kernel &kernel, const std::string &entry) {
                        return kernel.entry == entry;
                      });
  }
  return false;
}
