//===- Tuned.cpp - measured schedules -------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The format is {"tuned": 2, "rows": [{"gpu", "tokens": [first, last],
// "problem": {...}, "schedule": {...}, "measured": {...}}]}. In version 1 the
// token count is a member of the problem, and time and date are members of the
// row.
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/Tuned.h"

#include "compiler/matmul/Engine.h"
#include "compiler/plan/Embedded.h"
#include "runtime/support/Files.h"
#include "runtime/support/JsonReader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <tuple>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

/// Maximum value of a size or count in a row. The product of two such values
/// fits in 64 bits.
static constexpr int64_t kMaxNumber = INT32_MAX;
/// The version that is written. Files of earlier versions can be read.
static constexpr int64_t kTunedVersion = 2;
/// Maximum size of a file in bytes. A row has a few hundred bytes.
static constexpr size_t kMaxTunedBytes = size_t(64) << 20;

static void readProblem(JsonReader &problem, int64_t version, TunedRow &row) {
  if (version == 1)
    row.tokens = problem.integer("tokens", 1, kMaxNumber);
  row.n = problem.integer("n", 1, kMaxNumber);
  row.k = problem.integer("k", 1, kMaxNumber);
  row.experts = problem.integer("experts", 1, kMaxNumber);
  row.pairs = problem.integer("pairs", 1, kMaxNumber);
  row.elementType = problem.text("element_type");
  row.gated = problem.boolean("gated");
  row.gather = problem.boolean("gather");
  if (version > 1)
    row.scheme = problem.textOr("scheme", "");
  problem.refuseUnknown();
}

namespace {
/// Reads the members of a schedule from the JSON of a row.
struct MemberReader {
  JsonReader &row;
  void integer(const char *name, int64_t &value, int64_t) {
    value = row.integer(name, 0, kMaxNumber);
  }
  void integers(const char *name, std::initializer_list<int64_t *> values) {
    const std::vector<int64_t> read =
        row.integers(name, values.size(), 0, kMaxNumber);
    for (size_t i = 0; i < values.size(); ++i)
      *values.begin()[i] = read[i];
  }
  /// Reads a flag. Rows omit flags that are true.
  void flag(const char *name, bool &value) {
    value = row.booleanOr(name, true);
  }
};
} // namespace

static void readSchedule(JsonReader &schedule, Schedule &s) {
  const Engine *engine = findEngine(schedule.text("engine"));
  if (!engine)
    return schedule.expected("engine", "an engine of grouped matmuls");
  s.engine = &engine->row;
  if (engine->row.warpSpecialized)
    s.warps = WarpRoles();
  MemberReader reader{schedule};
  chosenMembers(reader, s);
  s.source = "tuned";
  schedule.refuseUnknown();
}

static void readTime(JsonReader &from, TunedRow &row) {
  row.microseconds = from.number("microseconds").value_or(0);
  if (!(row.microseconds > 0))
    from.expected("microseconds", "a positive number");
  row.date = from.text("date");
}

static void readMeasured(JsonReader &measured, TunedRow &row) {
  row.tokens = measured.integer("tokens", 1, kMaxNumber);
  readTime(measured, row);
  row.noise = measured.number("noise").value_or(-1);
  if (!(row.noise >= 0))
    measured.expected("noise", "a number of at least 0");
  row.commit = measured.text("commit");
  measured.refuseUnknown();
  if (!measured.failed() && (row.tokens < row.first || row.tokens > row.last))
    measured.expected("tokens", "one of the row's {} to {} tokens", row.first,
                      row.last);
}

static TunedRow readRow(JsonReader &top, int64_t version) {
  TunedRow row;
  row.gpu = top.text("gpu");
  if (version == 1) {
    readTime(top, row);
  } else {
    const std::vector<int64_t> range = top.integers("tokens", 2, 1, kMaxNumber);
    row.first = range[0], row.last = range[1];
    if (!top.failed() && row.last < row.first)
      top.expected("tokens", "[first, last] with first <= last");
  }
  const auto part = [&](const char *name, auto read) {
    if (std::optional<JsonReader> object = top.object(name))
      read(*object);
    else
      top.expected(name, "an object");
  };
  part("problem",
       [&](JsonReader &object) { readProblem(object, version, row); });
  part("schedule",
       [&](JsonReader &object) { readSchedule(object, row.schedule); });
  if (version > 1)
    part("measured", [&](JsonReader &object) { readMeasured(object, row); });
  top.refuseUnknown();
  return row;
}

Result<std::vector<TunedRow>>
compiler::parseTuned(std::string_view text, std::string_view name, int order) {
  JsonErrors errors{fmt::format("measured schedules '{}'", name), std::nullopt,
                    ErrorCode::InvalidArgument};
  json root =
      TRY(parseJsonObject(text, errors.name, errors.code, {kMaxTunedBytes}));
  JsonReader file(root, "", errors);
  if (!file.has("tuned"))
    return invalidArgument("{}: expected a file that moec tune has written "
                           "(\"tuned\": {}), got one without \"tuned\"",
                           errors.name, kTunedVersion);
  const int64_t version = file.integer("tuned", 1, kTunedVersion);
  std::vector<TunedRow> rows;
  const json *list = file.find("rows");
  if (!list || !list->is_array()) {
    file.expected("rows", "an array");
  } else {
    for (size_t i = 0; i < list->size() && !file.failed(); ++i) {
      std::string path = fmt::format("rows[{}]", i);
      if ((*list)[i].is_object()) {
        JsonReader entry((*list)[i], path, errors);
        rows.push_back(readRow(entry, version));
        rows.back().origin = name, rows.back().order = order;
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

nlohmann::json compiler::memberJson(const Member &member) {
  return std::visit([](const auto &value) { return json(value); },
                    member.value);
}

nlohmann::ordered_json compiler::tunedScheduleJson(const Schedule &s) {
  nlohmann::ordered_json schedule = {{"engine", s.engineName()}};
  MemberList list;
  Schedule copy = s;
  chosenMembers(list, copy);
  for (const Member &member : list.all)
    if (const bool *flag = std::get_if<bool>(&member.value); !flag || !*flag)
      schedule[std::string(member.name)] = memberJson(member);
  return schedule;
}

static nlohmann::ordered_json jsonOf(const TunedRow &row) {
  nlohmann::ordered_json problem = {{"n", row.n},
                                    {"k", row.k},
                                    {"experts", row.experts},
                                    {"pairs", row.pairs},
                                    {"element_type", row.elementType},
                                    {"gated", row.gated},
                                    {"gather", row.gather}};
  if (!row.scheme.empty())
    problem["scheme"] = row.scheme;
  nlohmann::ordered_json measured = {{"tokens", row.tokens},
                                     {"microseconds", row.microseconds},
                                     {"noise", row.noise},
                                     {"date", row.date},
                                     {"commit", row.commit}};
  return {{"gpu", row.gpu},
          {"tokens", {row.first, row.last}},
          {"problem", std::move(problem)},
          {"schedule", tunedScheduleJson(row.schedule)},
          {"measured", std::move(measured)}};
}

std::string compiler::printTuned(std::span<const TunedRow> rows) {
  std::vector<std::string> lines;
  for (const TunedRow &row : rows)
    lines.push_back("  " + jsonOf(row).dump());
  return fmt::format("{{\"tuned\": {}, \"rows\": [\n{}\n]}}\n", kTunedVersion,
                     fmt::join(lines, ",\n"));
}

Result<std::vector<TunedRow>> compiler::builtinTuned(int order) {
  std::vector<TunedRow> all;
  for (const EmbeddedFile &file : embeddedTuned()) {
    auto rows = TRY(parseTuned(file.text, file.name, order));
    for (TunedRow &row : rows)
      row.origin = fmt::format("built-in {}", file.name);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

Result<std::vector<TunedRow>>
compiler::readTuned(std::span<const std::string> files) {
  std::vector<TunedRow> all;
  int order = 0;
  for (const std::string &file : files) {
    auto rows = TRY(parseTuned(TRY(readFile(file)), file, order++));
    all.insert(all.end(), rows.begin(), rows.end());
  }
  auto rows = TRY(builtinTuned(order));
  all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

bool compiler::isOfProblem(const TunedRow &row, const MatmulProblem &p,
                           const std::string &gpu) {
  return row.gpu == gpu && row.n == p.n && row.k == p.k &&
         row.experts == p.localExperts && row.pairs == p.pairs &&
         row.elementType == p.elementType && row.gated == p.gated &&
         row.gather == p.gather &&
         (row.scheme.empty() || row.scheme == p.scheme);
}

static bool isOneOf(const Engines &engines, const Schedule &schedule) {
  return std::ranges::find(engines, &engineOf(schedule)) != engines.end();
}

int64_t compiler::lastWithSchedule(const std::vector<TunedRow> &rows,
                                   const TunedRow &row, const MatmulProblem &p,
                                   const std::string &gpu) {
  int64_t last = row.last;
  for (bool found = true; found && last < p.maxTokens;) {
    found = false;
    for (const TunedRow &next : rows)
      if (next.hasRange() && next.first <= last + 1 && last < next.last &&
          next.schedule == row.schedule && isOfProblem(next, p, gpu))
        last = next.last, found = true;
  }
  return last;
}

/// Returns true if the row, together with the rows of the same schedule that
/// continue its range, covers all token counts of the problem. A row without a
/// range covers the problem if the row's token count is one of these.
static bool covers(const std::vector<TunedRow> &rows, const TunedRow &row,
                   const MatmulProblem &p, const std::string &gpu) {
  if (!row.hasRange())
    return row.tokens >= p.minTokens && row.tokens <= p.maxTokens;
  return row.first <= p.minTokens && p.minTokens <= row.last &&
         p.maxTokens <= lastWithSchedule(rows, row, p, gpu);
}

/// Returns the sort key of a row; the smallest key has precedence. The key
/// orders rows by file first. Within a file, precedence goes to rows with a
/// token range, then to rows with a scheme, a narrower range, a larger measured
/// token count, and a shorter time.
static auto rankOf(const TunedRow &row) {
  return std::tuple(row.order, !row.hasRange(), row.scheme.empty(),
                    row.last - row.first, -row.tokens, row.microseconds);
}

const TunedRow *compiler::findTuned(const std::vector<TunedRow> &rows,
                                    const MatmulProblem &p,
                                    const Engines &engines, const Hardware &hw,
                                    std::span<const ServedRange> served) {
  const auto rank = [&](const TunedRow &row) {
    const bool serves = std::ranges::any_of(served, [&](const auto &one) {
      return one.range.first <= p.minTokens && p.minTokens <= one.range.last &&
             (one.rows.first == &row || one.rows.second == &row);
    });
    return std::tuple(!serves, rankOf(row));
  };
  const TunedRow *chosen = nullptr;
  for (const TunedRow &row : rows) {
    const bool mayServe = row.hasRange()
                              ? isOneOf(engines, row.schedule)
                              : &engineOf(row.schedule) == engines.front();
    if (!mayServe || !isOfProblem(row, p, hw.gpu) ||
        !covers(rows, row, p, hw.gpu) || whyIllegal(p, row.schedule, hw))
      continue;
    if (!chosen || rank(row) < rank(*chosen))
      chosen = &row;
  }
  return chosen;
}

Schedule compiler::scheduleOfRow(const TunedRow &row, const MatmulProblem &p,
                                 const Hardware &hw) {
  Schedule s = row.schedule;
  s.ctasPerSm = engineOf(s).ctasPerSm(p, s, hw);
  return s;
}

std::string compiler::rangesBeside(const std::vector<TunedRow> &rows,
                                   const MatmulProblem &p, const Hardware &hw) {
  std::set<std::pair<int64_t, int64_t>> ranges;
  for (const TunedRow &row : rows)
    if (row.hasRange() && isOfProblem(row, p, hw.gpu))
      ranges.emplace(row.first, row.last);
  std::vector<std::string> words;
  for (const auto &[first, last] : ranges)
    words.push_back(first == last ? fmt::format("{}", first)
                                  : fmt::format("{} to {}", first, last));
  return words.empty()
             ? ""
             : fmt::format("rows for {} tokens", fmt::join(words, ", "));
}

/// Returns true if one of the ranges contains the token count.
static bool isIn(int64_t tokens, std::span<const TunedRange> ranges) {
  return std::ranges::any_of(ranges, [&](const TunedRange &range) {
    return range.first <= tokens && tokens <= range.last;
  });
}

/// Returns the parts of `range` that are in none of `others`.
static std::vector<TunedRange> leftOf(const TunedRange &range,
                                      std::vector<TunedRange> others) {
  std::ranges::sort(others, {}, &TunedRange::first);
  std::vector<TunedRange> left;
  TunedRange part = range;
  for (const TunedRange &other : others) {
    part.last = std::min(range.last, other.first - 1);
    if (part.first <= part.last)
      left.push_back(part);
    part.first = std::max(part.first, other.last + 1);
  }
  part.last = range.last;
  if (part.first <= part.last)
    left.push_back(part);
  return left;
}

std::vector<TunedRange> compiler::joined(std::span<const ServedRange> served) {
  std::vector<TunedRange> all;
  const ServedRange *before = nullptr;
  for (const ServedRange &one : served) {
    if (before && all.back().last + 1 == one.range.first &&
        before->rows.first->schedule == one.rows.first->schedule &&
        before->rows.second->schedule == one.rows.second->schedule)
      all.back().last = one.range.last;
    else
      all.push_back(one.range);
    before = &one;
  }
  return all;
}

std::vector<TunedPair> compiler::tunedPairs(const std::vector<TunedRow> &rows,
                                            const MatmulProblem &first,
                                            const Engines &engines,
                                            const MatmulProblem &second,
                                            const Engines &itsEngines,
                                            const Hardware &hardware) {
  const auto serves = [&](const TunedRow &row, MatmulProblem problem,
                          const Engines &may) {
    problem.tileRows = row.schedule.tileM;
    problem.minTokens = row.first, problem.maxTokens = row.last;
    // The problem does not include the quantization of the result, which only
    // SelectSchedule knows. If the row's schedule turns out to be illegal
    // there, the row is skipped, and the range gets another schedule with the
    // same tiles. So that such a schedule exists, require candidates here.
    return isOfProblem(row, problem, hardware.gpu) &&
           isOneOf(may, row.schedule) &&
           !engineOf(row.schedule).candidates(problem, hardware).empty();
  };
  std::vector<const TunedRow *> leading, following;
  for (const TunedRow &row : rows) {
    if (row.hasRange() && serves(row, first, engines))
      leading.push_back(&row);
    if (row.hasRange() && serves(row, second, itsEngines))
      following.push_back(&row);
  }
  const auto byRank = [](const TunedRow *row) { return rankOf(*row); };
  std::ranges::stable_sort(leading, {}, byRank);
  std::ranges::stable_sort(following, {}, byRank);
  std::vector<TunedPair> pairs;
  for (const TunedRow *row : leading) {
    const auto beside = std::ranges::find_if(following, [&](const auto *other) {
      return other->first == row->first && other->last == row->last &&
             other->order == row->order &&
             other->schedule.tileM == row->schedule.tileM;
    });
    if (beside != following.end())
      pairs.push_back({row, *beside});
  }
  return pairs;
}

std::vector<ServedRange>
compiler::servedRanges(const std::vector<TunedRow> &rows,
                       const MatmulProblem &first, const Engines &engines,
                       const MatmulProblem &second, const Engines &itsEngines,
                       const Hardware &hardware, int64_t maxTokens) {
  std::vector<ServedRange> served;
  std::vector<TunedRange> taken;
  for (const TunedPair &pair :
       tunedPairs(rows, first, engines, second, itsEngines, hardware)) {
    const TunedRow &row = *pair.first;
    if (isIn(row.tokens, taken))
      continue;
    const TunedRange whole = {row.first, std::min(row.last, maxTokens),
                              row.schedule.tileM};
    for (const TunedRange &part : leftOf(whole, taken)) {
      served.push_back({part, pair});
      taken.push_back(part);
    }
  }
  std::ranges::sort(served, {},
                    [](const ServedRange &one) { return one.range.first; });
  return served;
}
