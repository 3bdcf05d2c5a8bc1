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

#include "compiler/plan/Tuned.h"

#include "compiler/engine/Engine.h"
#include "compiler/plan/Embedded.h"
#include "runtime/support/JsonReader.h"

#include <fmt/format.h>

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
  row.pairs = problem.integer("pairs", 1, kMaxNumber);
  row.elementType = problem.text("element_type");
  row.gated = problem.boolean("gated");
  row.gather = problem.boolean("gather");
  problem.refuseUnknown();
}

static void readSchedule(JsonReader &schedule, Schedule &s) {
  s.engine = schedule.text("engine");
  const Engine *engine = findEngine(s.engine);
  if (!engine)
    return schedule.expected("engine", "an engine of grouped matmuls");
  std::vector<int64_t> tile = schedule.integers("tile", 3, 0, kMaxNumber);
  s.tileM = tile[0], s.tileN = tile[1], s.tileK = tile[2];
  s.stages = schedule.integer("stages", 0, kMaxNumber);
  s.groupM = schedule.integer("group", 0, kMaxNumber);
  engine->read(schedule, s);
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
  json root =
      TRY(parseJsonObject(text, errors.name, errors.code, {kMaxTunedBytes}));
  JsonReader file(root, "", errors);
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
    auto rows = TRY(parseTuned(file.text, file.name));
    all.insert(all.end(), rows.begin(), rows.end());
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
        row.experts != p.localExperts || row.pairs != p.pairs ||
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
  s.ctasPerSm = findEngine(engine)->ctasPerSm(p, s, hw);
  return s;
}
