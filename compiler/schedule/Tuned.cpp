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

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

namespace {
/// Reads fields of one object and remembers the first complaint.
class Reader {
public:
  Reader(const json &object, std::string where) : object(object) {
    path = std::move(where);
    if (!object.is_object())
      fail(path, "an object");
  }

  void read(const char *field, std::string &into) {
    if (const json *v = find(field))
      v->is_string() ? void(into = v->get<std::string>())
                     : fail(path + "." + field, "a string");
  }
  void read(const char *field, int64_t &into) {
    if (const json *v = find(field))
      v->is_number_integer() ? void(into = v->get<int64_t>())
                             : fail(path + "." + field, "an integer");
  }
  void read(const char *field, double &into) {
    if (const json *v = find(field))
      v->is_number() ? void(into = v->get<double>())
                     : fail(path + "." + field, "a number");
  }
  void read(const char *field, bool &into) {
    if (const json *v = find(field))
      v->is_boolean() ? void(into = v->get<bool>())
                      : fail(path + "." + field, "a boolean");
  }
  void read(const char *field, std::vector<int64_t> &into, size_t length) {
    const json *v = find(field);
    if (!v)
      return;
    into.assign(length, 0);
    bool good = v->is_array() && v->size() == length;
    for (size_t i = 0; good && i < length; ++i) {
      good = (*v)[i].is_number_integer();
      if (good)
        into[i] = (*v)[i].get<int64_t>();
    }
    if (!good)
      fail(path + "." + field, fmt::format("{} integers", length));
  }
  const json &child(const char *field) {
    static const json empty = json::object();
    const json *v = find(field);
    return v ? *v : empty;
  }
  /// Complains about fields that nobody read.
  std::string finish() {
    if (complaint.empty() && object.is_object())
      for (const auto &item : object.items())
        if (!seen.count(item.key()))
          complaint = fmt::format("{}.{}: unknown field", path, item.key());
    return complaint;
  }

private:
  const json *find(const char *field) {
    seen.insert(field);
    if (!object.is_object())
      return nullptr;
    auto it = object.find(field);
    if (it == object.end()) {
      fail(path + "." + field, "a value");
      return nullptr;
    }
    return &*it;
  }
  void fail(const std::string &where, const std::string &wanted) {
    if (complaint.empty())
      complaint = fmt::format("{}: expected {}", where, wanted);
  }
  const json &object;
  std::string path, complaint;
  std::set<std::string> seen;
};
} // namespace

Result<std::vector<TunedRow>> compiler::parseTuned(std::string_view text,
                                                   std::string_view name) {
  auto fail = [&](const std::string &what) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("measured schedules '{}': {}", name, what)};
  };
  json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded())
    return fail("expected JSON");
  if (!root.is_object() || !root.contains("tuned") || root["tuned"] != 1)
    return fail("expected an object with \"tuned\": 1 and \"rows\"");
  for (const auto &item : root.items())
    if (item.key() != "tuned" && item.key() != "rows")
      return fail(fmt::format("{}: unknown field", item.key()));
  if (!root.contains("rows") || !root["rows"].is_array())
    return fail("rows: expected an array");

  std::vector<TunedRow> rows;
  size_t index = 0;
  for (const json &entry : root["rows"]) {
    std::string where = fmt::format("rows[{}]", index++);
    TunedRow row;
    Reader top(entry, where);
    top.read("gpu", row.gpu);
    top.read("microseconds", row.microseconds);
    top.read("date", row.date);
    Reader problem(top.child("problem"), where + ".problem");
    problem.read("tokens", row.tokens);
    problem.read("n", row.n);
    problem.read("k", row.k);
    problem.read("experts", row.experts);
    problem.read("top_k", row.topK);
    problem.read("element_type", row.elementType);
    problem.read("gated", row.gated);
    problem.read("gather", row.gather);
    Reader schedule(top.child("schedule"), where + ".schedule");
    Schedule &s = row.schedule;
    std::vector<int64_t> tile(3), warps(2), registers(2);
    schedule.read("engine", s.engine);
    schedule.read("tile", tile, 3);
    schedule.read("stages", s.stages);
    const catalog::Engine *engine =
        catalog::find(catalog::kEngines, std::string_view(s.engine));
    bool specialized = engine && engine->warpSpecialized;
    if (specialized) {
      schedule.read("producer_warps", s.producerWarps);
      schedule.read("consumer_warps", s.consumerWarps);
      schedule.read("registers", registers, 2);
      schedule.read("ctas_per_sm", s.ctasPerSm);
    } else {
      schedule.read("warps", warps, 2);
    }
    schedule.read("group", s.groupM);
    for (Reader *reader : {&top, &problem, &schedule})
      if (std::string complaint = reader->finish(); !complaint.empty())
        return fail(complaint);
    if (!(row.microseconds > 0))
      return fail(where + ".microseconds: expected a positive number");
    s.tileM = tile[0], s.tileN = tile[1], s.tileK = tile[2];
    s.warpsM = warps[0], s.warpsN = warps[1];
    s.producerRegisters = registers[0], s.consumerRegisters = registers[1];
    s.source = "tuned";
    rows.push_back(std::move(row));
  }
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
