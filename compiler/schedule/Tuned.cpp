//===- Tuned.cpp - measured schedules -------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// {"tuned": 1, "rows": [{"gpu", "problem": {...}, "schedule": {...},
// "microseconds", "date"}]}. bench/ writes such files.
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/Tuned.h"

#include "compiler/schedule/Candidates.h"
#include "compiler/schedule/Embedded.h"
#include "compiler/schedule/SharedMemory.h"
#include "dialect/catalog/Engines.h"
#include "runtime/support/JsonReader.h"

#include <fmt/format.h>

#include <algorithm>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

/// Sizes and counts of a row; products of a few of them fit 64 bits.
static constexpr int64_t kMaxNumber = INT32_MAX;
/// A file of measurements has some hundred bytes a row.
static constexpr size_t kMaxTunedBytes = size_t(64) << 20;

static void readProblem(JsonReader &problem, TunedRow &row) {
  row.tokens = problem.integer("tokens", 1, kMaxNumber);
  row.n = problem.integer("n", 1, kMaxNumber);
  row.k = problem.integer("k", 1, kMaxNumber);
  row.experts = problem.integer("experts", 1, kMaxNumber);
  row.topK = problem.integer("top_k", 1, kMaxNumber);
  row.elementType = problem.text("element_type");
  row.gated = problem.boolean("gated");
  row.gather = problem.boolean("gather");
  problem.refuseUnknown();
}

static void readSchedule(JsonReader &schedule, Schedule &s) {
  auto number = [&](const char *key) {
    return schedule.integer(key, 0, kMaxNumber);
  };
  auto numbers = [&](const char *key, size_t count) {
    return schedule.integers(key, count, 0, kMaxNumber);
  };
  s.engine = schedule.text("engine");
  std::vector<int64_t> tile = numbers("tile", 3);
  s.tileM = tile[0], s.tileN = tile[1], s.tileK = tile[2];
  s.stages = number("stages");
  const catalog::Engine *engine =
      catalog::find(catalog::kEngines, std::string_view(s.engine));
  if (engine && engine->warpSpecialized) {
    s.producerWarps = number("producer_warps");
    s.consumerWarps = number("consumer_warps");
    std::vector<int64_t> registers = numbers("registers", 2);
    s.producerRegisters = registers[0], s.consumerRegisters = registers[1];
    s.ctasPerSm = number("ctas_per_sm");
  } else {
    std::vector<int64_t> warps = numbers("warps", 2);
    s.warpsM = warps[0], s.warpsN = warps[1];
  }
  s.groupM = number("group");
  s.source = "tuned";
  schedule.refuseUnknown();
}

static TunedRow readRow(JsonReader &top) {
  TunedRow row;
  row.gpu = top.text("gpu");
  row.microseconds = top.number("microseconds").value_or(0);
  if (!(row.microseconds > 0))
    top.expected("microseconds", "a positive number");
  row.date = top.text("date");
  if (std::optional<JsonReader> problem = top.object("problem"))
    readProblem(*problem, row);
  else
    top.expected("problem", "an object");
  if (std::optional<JsonReader> schedule = top.object("schedule"))
    readSchedule(*schedule, row.schedule);
  else
    top.expected("schedule", "an object");
  top.refuseUnknown();
  return row;
}

Result<std::vector<TunedRow>> compiler::parseTuned(std::string_view text,
                                                   std::string_view name) {
  JsonErrors errors{fmt::format("measured schedules '{}'", name), std::nullopt,
                    ErrorCode::InvalidArgument};
  Result<json> root =
      parseJsonObject(text, errors.name, errors.code, {kMaxTunedBytes});
  if (!root)
    return root.takeError();
  JsonReader file(*root, "", errors);
  file.integer("tuned", 1, 1);
  std::vector<TunedRow> rows;
  const json *list = file.find("rows");
  if (!list || !list->is_array()) {
    file.expected("rows", "an array");
  } else {
    for (size_t i = 0; i < list->size() && !file.failed(); ++i) {
      std::string path = fmt::format("rows[{}]", i);
      if ((*list)[i].is_object()) {
        JsonReader entry((*list)[i], path, errors);
        rows.push_back(readRow(entry));
      } else {
        errors.add(path, fmt::format("expected an object, got {}",
                                     describeJson((*list)[i])));
      }
    }
  }
  file.refuseUnknown();
  if (errors.first)
    return *std::move(errors.first);
  return rows;
}

Result<std::vector<TunedRow>> compiler::builtinTuned() {
  std::vector<TunedRow> all;
  for (const EmbeddedFile &file : embeddedTuned()) {
    auto rows = parseTuned(file.text, file.name);
    if (!rows)
      return rows.takeError();
    all.insert(all.end(), rows->begin(), rows->end());
  }
  return all;
}

std::optional<Schedule> compiler::findTuned(const std::vector<TunedRow> &rows,
                                            const MatmulProblem &p,
                                            const std::string &engine,
                                            const Hardware &hw) {
  const TunedRow *chosen = nullptr;
  for (const TunedRow &row : rows) {
    if (row.gpu != hw.gpu || row.n != p.n || row.k != p.k ||
        row.experts != p.localExperts || row.topK != p.topK ||
        row.elementType != p.elementType || row.gated != p.gated ||
        row.gather != p.gather || row.schedule.engine != engine ||
        row.tokens < p.minTokens || row.tokens > p.maxTokens ||
        whyIllegal(p, row.schedule, hw))
      continue;
    if (!chosen || row.tokens > chosen->tokens ||
        (row.tokens == chosen->tokens &&
         row.microseconds < chosen->microseconds))
      chosen = &row;
  }
  if (!chosen)
    return std::nullopt;
  Schedule s = chosen->schedule;
  if (!s.hasRoles())
    s.ctasPerSm = std::min<int64_t>(occupancy(p, s, hw), 8);
  return s;
}
