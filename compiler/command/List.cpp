//===- List.cpp - moec list: the catalog ----------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/command/Commands.h"

#include "compiler/import/Families.h"
#include "dialect/catalog/Activations.h"
#include "dialect/catalog/Architectures.h"
#include "dialect/catalog/Backends.h"
#include "dialect/catalog/Engines.h"
#include "dialect/catalog/Gpus.h"
#include "dialect/catalog/Realizations.h"
#include "dialect/catalog/RoutingMethods.h"
#include "dialect/catalog/Schemes.h"
#include "runtime/support/NvrtcVersions.h"
#include "runtime/support/Terminal.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

using namespace moec;
using namespace moec::compiler;

namespace {

using Row = std::vector<std::string>;

/// A table as `moec list` prints it: a heading and rows.
struct Listing {
  std::string_view name;
  Row head;
  std::vector<Row> rows;
};

/// Returns a row with the text of each cell, or "-" for an empty cell.
template <typename... Cells> Row cells(const Cells &...cell) {
  Row row = {fmt::format("{}", cell)...};
  for (std::string &text : row)
    if (text.empty())
      text.push_back('-');
  return row;
}

std::string operandText(const catalog::SchemeDescriptor &operand) {
  std::string text(operand.element);
  if (!operand.scale.empty())
    text +=
        fmt::format(" {}x{} {}{}", operand.group.rows, operand.group.columns,
                    operand.scale, operand.dynamic ? " dynamic" : "");
  if (!operand.secondScale.empty())
    text += fmt::format(" of {}{}", operand.secondScale,
                        operand.secondPerRow ? " per token" : "");
  if (!operand.zeroPoint.empty())
    text += fmt::format(" zero {}", operand.zeroPoint);
  return text;
}

std::vector<Listing> listings() {
  Listing schemes{"schemes", {"scheme", "a1", "a2", "w1", "w2"}, {}};
  for (const auto &row : catalog::kSchemes)
    schemes.rows.push_back(cells(
        row.name, operandText(row.activations), operandText(row.activations),
        operandText(row.weights), operandText(row.weights)));

  Listing routing{"routing", {"routing", "score", "select", "normalize"}, {}};
  for (const auto &row : catalog::kRoutingMethods)
    routing.rows.push_back(
        cells(row.name, row.score, row.select, row.normalize));

  Listing activations{
      "activations", {"activation", "function", "gated", "parameters"}, {}};
  for (const auto &row : catalog::kActivations)
    activations.rows.push_back(cells(row.name, row.function,
                                     row.gated ? "yes" : "no",
                                     row.parameters.text()));

  Listing engines{"engines", {"engine", "multiplies", "needs"}, {}};
  for (const auto &row : catalog::kEngines)
    engines.rows.push_back(
        cells(row.name, row.elements.text(), row.features.text()));

  Listing archs{"archs",
                {"arch", "serves", "NVRTC", "shared memory", "gpu", "features"},
                {}};
  for (const auto &row : catalog::kArchitectures)
    archs.rows.push_back(cells(row.name, row.compatibility, nvrtcText(row.name),
                               fmt::format("{} KiB", row.sharedPerBlock / 1024),
                               row.gpu, row.features.text()));

  Listing gpus{"gpus", {"gpu", "arch", "SMs", "GB/s", "TFLOP/s", "source"}, {}};
  for (const auto &row : catalog::kGpus)
    gpus.rows.push_back(cells(row.name, row.arch, row.sms, row.bandwidth,
                              row.matmulRate, row.source));

  Listing backends{"backends",
                   {"backend", "engines", "few tokens", "format", "what it is"},
                   {}};
  for (const auto &row : catalog::kBackends)
    backends.rows.push_back(cells(row.name, row.engines.text(), row.fewTokens,
                                  row.format, row.summary));

  Listing realizations{"realizations",
                       {"realization", "must be allowed", "what is multiplied"},
                       {}};
  for (const auto &row : catalog::kRealizations)
    realizations.rows.push_back(
        cells(row.name, row.isAnotherLayer ? "yes" : "no", row.summary));

  Listing families{"families", {"model types", "architectures"}, {}};
  for (const ModelFamily &family : modelFamilies())
    families.rows.push_back(
        cells(family.modelTypes.text(), family.architectures.text()));
  return {schemes, routing,  activations,  engines, archs,
          gpus,    backends, realizations, families};
}

std::string textOf(const Listing &listing) {
  std::vector<size_t> widths(listing.head.size(), 0);
  std::vector<Row> rows = listing.rows;
  rows.insert(rows.begin(), listing.head);
  for (const Row &row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row &row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += i + 1 == row.size() ? row[i]
                                  : fmt::format("{:<{}}  ", row[i], widths[i]);
    text += (&row == rows.data() ? colored(line, Color::Bold) : line) + "\n";
  }
  return text;
}

} // namespace

std::vector<std::string> moec::compiler::listTables() {
  std::vector<std::string> names;
  for (const Listing &listing : listings())
    names.emplace_back(listing.name);
  return names;
}

Result<void> moec::compiler::runList(const std::string &table, bool json) {
  if (json) {
    nlohmann::ordered_json all = catalogJson();
    all["families"] = familiesJson();
    return writeStandardOutput((table.empty() ? all : all.at(table)).dump(2) +
                               "\n");
  }
  std::string text;
  for (const Listing &listing : listings())
    if (table.empty() || table == listing.name)
      text += (text.empty() ? "" : "\n") + textOf(listing);
  return writeStandardOutput(text);
}
