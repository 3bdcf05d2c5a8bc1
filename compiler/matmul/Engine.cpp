//===- Engine.cpp - checks and rules common to all engines ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Engines are sorted in catalog order, which is their priority.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/Engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

using namespace moec;
using namespace moec::compiler;

// Checks at compile time that each engine file has a catalog row, and that each
// row without a maximum token count (kTileEngines) has a file. A file without a
// row would cause a null pointer. A row without a file would cause layers that
// no engine supports.
#define MOEC_ENGINE(name)                                                      \
  static_assert(catalog::find(catalog::kEngines, #name) != nullptr,            \
                "compiler/matmul/" #name ".cpp has no row in Engines.h");
#include "compiler/matmul/Engines.inc"
#undef MOEC_ENGINE
#define MOEC_ENGINE(name) +1
static_assert(catalog::kTileEngines.size() == 0
#include "compiler/matmul/Engines.inc"
              ,
              "a row of Engines.h has no file in compiler/matmul");
#undef MOEC_ENGINE

std::span<const Engine *const> compiler::allEngines() {
  static const std::vector<const Engine *> all = [] {
    std::vector<const Engine *> made = {
#define MOEC_ENGINE(name) &engines::name(),
#include "compiler/matmul/Engines.inc"
#undef MOEC_ENGINE
    };
    std::ranges::sort(made, [](const Engine *a, const Engine *b) {
      return &a->row < &b->row;
    });
    return made;
  }();
  return all;
}

const Engine *compiler::findEngine(std::string_view name) {
  for (const Engine *engine : allEngines())
    if (engine->row.name == name)
      return engine;
  return nullptr;
}

const Engine &compiler::engineOf(const Schedule &schedule) {
  return *findEngine(schedule.engineName());
}

std::optional<std::string> compiler::whyIllegal(const MatmulProblem &problem,
                                                const Schedule &s,
                                                const Hardware &hardware) {
  // Kernels compute groupM times the number of column tiles in 32-bit integers.
  constexpr int64_t kMostOfGroup = 1024;
  const Engine &engine = engineOf(s);
  if (s.groupM > kMostOfGroup)
    return fmt::format("a group of {} m tiles; up to {} are possible", s.groupM,
                       kMostOfGroup);
  if (s.tileM < 1 || s.tileN < 1 || s.tileK < 1 || s.stages < 1 ||
      s.groupM < 1 || s.ctasPerSm < 1)
    return "tile, stages, group and CTAs must be positive";
  if (problem.codeBits > 0 && engine.row.weights.empty())
    return fmt::format("engine '{}' does not convert weights of {} bits",
                       engine.row.name, problem.codeBits);
  if (problem.codeBits > 0 &&
      !engine.row.orders.contains(problem.inFragments ? "fragment" : "rows"))
    return fmt::format("engine '{}' does not read weights in {}",
                       engine.row.name,
                       problem.inFragments ? "fragments" : "rows");
  if (s.tileM != problem.tileRows)
    return fmt::format("tile m {} differs from the variant's tile rows {}",
                       s.tileM, problem.tileRows);
  if (auto reason = engine.whyIllegal(problem, s))
    return reason;
  int64_t shared = engine.sharedBytes(problem, s);
  if (shared > hardware.sharedPerBlock)
    return fmt::format("{} bytes of shared memory; {} has {}", shared,
                       hardware.arch, hardware.sharedPerBlock);
  if (int64_t most = occupancy(problem, s, hardware); most < s.ctasPerSm)
    return fmt::format("{} CTAs per SM; {} fit", s.ctasPerSm, most);
  return std::nullopt;
}

static bool isSo(std::optional<bool> asked, bool is) {
  return !asked || *asked == is;
}

bool Engine::serves(const When &when, const MatmulProblem &p) const {
  const auto isOrAny = [](int64_t asked, int64_t is) {
    return asked == 0 || asked == is;
  };
  const auto isUpTo = [](int64_t is, int64_t most) {
    return most == 0 || is <= most;
  };
  return isOrAny(when.elementBytes, p.elementBytes) &&
         isOrAny(when.tileRows, p.tileRows) &&
         isOrAny(when.codeBits, p.codeBits) && isSo(when.first, p.first) &&
         isSo(when.groupScales, p.groupScales) &&
         isSo(when.addsFast, p.addsFast) &&
         isSo(when.quantizesGroups, p.quantizesGroups()) &&
         isSo(when.rowsByExpert, p.first && !p.gather) &&
         (!when.isWide || isWide(p)) && p.n >= when.leastN &&
         p.k >= when.leastK && (when.wholeN == 0 || p.n % when.wholeN == 0) &&
         (when.firstAbove == 0 || p.firstBytes() > when.firstAbove) &&
         isUpTo(p.firstBytes(), when.firstUpTo) &&
         isUpTo(p.k * p.elementBytes, when.rowBytesUpTo) &&
         (when.weights.empty() || when.weights.contains(p.weights)) &&
         p.registers <= when.registers;
}

bool Engine::isWide(const MatmulProblem &problem) const {
  for (const TileRule &rule : tileRules())
    if (holds(rule.when, problem))
      return rule.then.isWide;
  return false;
}

std::vector<GoodSchedule>
Engine::goodSchedules(const MatmulProblem &problem,
                      const Hardware &hardware) const {
  std::vector<GoodSchedule> good;
  for (const auto &[when, then, measured] : scheduleRules(problem)) {
    if (!holds(when, problem))
      continue;
    Schedule s;
    s.engine = &row;
    s.tileM = problem.tileRows, s.tileN = then.tileN;
    s.tileK = then.tileK;
    s.stages = then.stages, s.groupM = then.group;
    setWarps(s, then, problem, hardware);
    good.push_back({s, then.behindOthers});
  }
  return good;
}

std::optional<Schedule> compiler::knownGood(const MatmulProblem &problem,
                                            const Engines &engines,
                                            const Hardware &hardware) {
  for (bool behindOthers : {false, true})
    for (const Engine *engine : engines)
      for (const GoodSchedule &good : engine->goodSchedules(problem, hardware))
        if (good.behindOthers == behindOthers &&
            !whyIllegal(problem, good.schedule, hardware))
          return good.schedule;
  return std::nullopt;
}

int64_t compiler::sharedBytes(const MatmulProblem &problem,
                              const Schedule &schedule) {
  return engineOf(schedule).sharedBytes(problem, schedule);
}

int64_t compiler::occupancy(const MatmulProblem &problem,
                            const Schedule &schedule,
                            const Hardware &hardware) {
  const Engine &engine = engineOf(schedule);
  int64_t shared = engine.sharedBytes(problem, schedule);
  if (shared > hardware.sharedPerBlock)
    return 0;
  int64_t byShared = hardware.sharedPerSm / (shared + kReservedPerCta);
  int64_t byRegisters =
      hardware.registersPerSm /
      (engine.registers(problem, schedule) * schedule.threads());
  int64_t byThreads = hardware.threadsPerSm / schedule.threads();
  return std::min({byShared, byRegisters, byThreads, hardware.ctasPerSm});
}

std::string compiler::describe(const Schedule &s) {
  std::string warps;
  if (s.hasRoles())
    warps =
        fmt::format("{}+{}{}", s.roles().producerWarps, s.roles().consumerWarps,
                    s.roles().swap ? "" : " of tokens");
  else
    warps = fmt::format("{}x{}", s.grid().m, s.grid().n);
  return fmt::format("{} {}x{}x{} stages {} warps {}", s.engineName(), s.tileM,
                     s.tileN, s.tileK, s.stages, warps);
}

/// Returns the Config constants that hold the values of a schedule member, for
/// example "kStages" for "stages".
static std::vector<std::string> configNames(std::string_view member) {
  if (member == "tile")
    return {"kTileM", "kTileN", "kTileK"};
  if (member == "warps")
    return {"kWarpsM", "kWarpsN"};
  if (member == "registers")
    return {"kProducerRegisters", "kConsumerRegisters"};
  if (member == "group")
    return {"kGroupM"};
  std::string name = "k";
  bool begins = true;
  for (const char c : member) {
    if (c != '_')
      name += begins ? char(std::toupper(c)) : c;
    begins = c == '_';
  }
  return {name};
}

void compiler::addSchedule(const Schedule &schedule, ConfigPrinter &config) {
  config.open("Schedule");
  MemberList list;
  Schedule copy = schedule;
  chosenMembers(list, copy);
  for (const auto &[member, value, isAbsent] : list.all) {
    const std::vector<std::string> names = configNames(member);
    if (const auto *number = std::get_if<int64_t>(&value))
      config.number(names.front(), *number);
    else if (const auto *numbers = std::get_if<std::vector<int64_t>>(&value))
      for (size_t i = 0; i < names.size(); ++i)
        config.number(names[i], (*numbers)[i]);
  }
  config.close();
}
