//===- Engine.h - what multiplies the tiles of a matmul ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An engine says which tiles serve a problem, which schedules are legal, which
// are good, what they need and cost, and how a kernel's Config names them. It
// is a file that is called as its row of Engines.h, `wgmma.cpp`; what engines
// with the same roles of warps share is in Multistage.h and WarpSpecialized.h.
//
// No engines in this sense are Gemv.h (two kernels of a few tokens, with sizes
// of their own) and Slices.h (one kernel of a matmul and its combine).
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_ENGINE_H
#define MOEC_COMPILER_MATMUL_ENGINE_H

#include "compiler/matmul/ConfigPrinter.h"
#include "compiler/matmul/ExpertRows.h"
#include "compiler/matmul/Problem.h"
#include "dialect/catalog/Engines.h"

#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace moec::compiler {

/// A file of bench/notes with the measurements behind a row, and their date.
struct Measured {
  std::string_view source, date;
};

inline constexpr double kAnyRows = std::numeric_limits<double>::infinity();

/// The conditions of a rule. A condition that is not given always holds. Weight
/// sizes count one expert, in the element type of the MMA.
struct When {
  int64_t elementBytes = 0; ///< of operands
  int64_t tileRows = 0;
  int64_t codeBits = 0;
  std::optional<bool> first = std::nullopt; ///< the layer's first matmul
  std::optional<bool> groupScales = std::nullopt;
  std::optional<bool> addsFast = std::nullopt;
  std::optional<bool> quantizesGroups = std::nullopt;
  /// The first matmul reads rows that come by expert.
  std::optional<bool> rowsByExpert = std::nullopt;
  bool isWide = false; ///< the engine has wide tiles for the problem
  int64_t leastN = 0, leastK = 0;
  int64_t wholeN = 0; ///< n is a multiple of it
  /// Bytes of the layer's first weight, and of a weight row.
  int64_t firstAbove = 0, firstUpTo = 0, rowBytesUpTo = 0;
  /// The mean number of rows of an expert at the variant's most tokens.
  double mostRows = kAnyRows;
  WordList weights = {}; ///< element types of weights in fragments
  Registers registers = Registers::Many; ///< that other things may take
};

/// A rule: the choice that measured best where the conditions hold.
template <typename T> struct Rule {
  When when;
  T then;
  Measured measured = {};
};

/// Tiles of `rows` rows, which serve problems of up to When::mostRows mean rows
/// per expert. Rows after an expert's end are computed for nothing, and an
/// expert of more rows than a tile has its weight read more than once. The
/// counts vary, so the rules leave a small tile before the mean fills it.
struct TileChoice {
  int64_t rows = 0;
  /// If not 0, an expert's rows are split evenly over its tiles, in multiples
  /// of `step`; if 0, all tiles but the last are full.
  int64_t step = 0;
  bool isWide = false; ///< 256 weight rows; schedule rules of wide tiles apply
};
using TileRule = Rule<TileChoice>;

/// A schedule that measured well over several layers on GPUs with large shared
/// memory.
struct ScheduleChoice {
  int64_t tileN = 0;
  int64_t tileK = 0; ///< 0: as the engine has it
  int64_t stages = 0;
  int64_t group = 1, ctasPerSm = 1;
  int64_t warpgroupRows = 64; ///< of roles: see rowsOfWarpgroup()
  WarpGrid warps = {};        ///< without roles
  bool swap = true;
  bool behindOthers = false; ///< the other engines' are tried first
};
using ScheduleRule = Rule<ScheduleChoice>;

struct GoodSchedule {
  Schedule schedule;
  bool behindOthers = false;
};

/// The tiles of a kernel.
struct MatmulWork {
  ExpertRows::Tiles rowTiles;
  double columnTiles = 0; ///< of each row tile
  double tilesOfSm = 0;   ///< for each multiprocessor, in the mean
  double resident = 1;    ///< CTAs of a multiprocessor that have a tile
  double weights = 0;     ///< elements that tiles load, each tile's again
};

struct EngineCost {
  double computeSeconds = 0;
  double convertSeconds = 0; ///< of weights that are stored otherwise
  double fillSeconds = 0;    ///< at the ends of the kernel or of CTAs
};

class Engine {
public:
  explicit Engine(std::string_view name)
      : row(*catalog::find(catalog::kEngines, name)) {}
  virtual ~Engine() = default;
  const catalog::Engine &row;

  /// They ascend; the last one serves all the rest.
  virtual std::span<const TileRule> tileRules() const = 0;
  /// Best first. Their schedules need not be legal.
  virtual std::span<const ScheduleRule>
  scheduleRules(const MatmulProblem &) const {
    return {};
  }
  /// "multiples of 16 up to 256", the tiles of a problem for messages.
  virtual std::string possibleTileRows(const MatmulProblem &problem) const = 0;
  /// Returns true if all conditions hold but the one on rows of an expert.
  bool serves(const When &when, const MatmulProblem &problem) const;
  bool holds(const When &when, const MatmulProblem &problem) const {
    return serves(when, problem) && problem.meanRows() <= when.mostRows;
  }
  /// Returns true if the first tile rule that holds has wide tiles.
  bool isWide(const MatmulProblem &problem) const;
  /// The schedules of the rules that hold.
  std::vector<GoodSchedule> goodSchedules(const MatmulProblem &problem,
                                          const Hardware &hardware) const;
  /// Legal schedules, for the cost model to rank, ctasPerSm filled in. Never
  /// empty for a problem with a tile row count that its rules have on a catalog
  /// GPU.
  virtual std::vector<Schedule> candidates(const MatmulProblem &problem,
                                           const Hardware &hardware) const = 0;

  /// Why not, besides what whyIllegal() below asks all engines.
  virtual std::optional<std::string>
  whyIllegal(const MatmulProblem &problem, const Schedule &schedule) const = 0;
  /// Returns why a separate launch quantizes a result by groups; nullopt where
  /// a CTA's tile has whole groups and its epilogue does it. Every such problem
  /// has candidates.
  virtual std::optional<std::string>
  whyGroupsApart(const MatmulProblem &problem) const = 0;
  /// Returns true if a cluster splits K of a tile in runs with so few active
  /// experts that there are no more tiles than CTAs (matmul/roles/split.cuh of
  /// the templates).
  virtual bool maySplit(const MatmulProblem &, const Schedule &,
                        const Hardware &) const {
    return false;
  }
  /// mapsRows() returns true if the rows of a second matmul, which are
  /// contiguous, are loaded with TMA: kBoxRows at a time, as in the templates.
  static constexpr int64_t kBoxRows = 64;
  virtual bool mapsRows(const MatmulProblem &, const Schedule &) const {
    return false;
  }
  /// Slices.h serves beside it.
  virtual bool hasSlices() const { return false; }
  /// Its CTAs take tiles until none is left, and weights by a tensor map.
  virtual bool isPersistent() const = 0;

  /// Dynamic shared memory. The host's copy of moe::sharedBytes of the
  /// templates: every emitted .cu asserts that both agree.
  virtual int64_t sharedBytes(const MatmulProblem &problem,
                              const Schedule &schedule) const = 0;
  /// Columns of tensor memory of a CTA; 0 if its sums are in registers.
  virtual int64_t tensorColumns(const MatmulProblem &, const Schedule &) const {
    return 0;
  }
  /// Registers of a thread when its CTA begins.
  virtual int64_t registers(const MatmulProblem &problem,
                            const Schedule &schedule) const = 0;
  /// CTAs of a measured schedule on a multiprocessor.
  virtual int64_t ctasPerSm(const MatmulProblem &problem,
                            const Schedule &schedule,
                            const Hardware &hardware) const = 0;
  /// Returns the number of which the rows of a tile's MMAs are a multiple.
  virtual int64_t rowStep(const Schedule &schedule) const {
    return schedule.tileM;
  }
  virtual EngineCost cost(const MatmulProblem &problem,
                          const Schedule &schedule, const Hardware &hardware,
                          const MatmulWork &work) const = 0;
  /// Warps convert a stage's weights before they multiply it.
  virtual bool convertsFirst() const { return false; }

  /// `Mma` of a Config, over the C++ type of operands. isNative: see
  /// catalog::choosesNative.
  virtual std::string mma(const MatmulProblem &problem,
                          const Schedule &schedule, std::string_view type,
                          bool isNative) const = 0;

protected:
  /// Copies the warps and the CTAs per SM of a choice into a schedule.
  virtual void setWarps(Schedule &schedule, const ScheduleChoice &choice,
                        const MatmulProblem &problem,
                        const Hardware &hardware) const = 0;
};

/// All, as Engines.h orders them.
std::span<const Engine *const> allEngines();
/// The engine of grouped matmuls that is called so, or null.
const Engine *findEngine(std::string_view name);
/// The engine of a schedule.
const Engine &engineOf(const Schedule &schedule);

/// A sentence saying why the schedule cannot serve the problem, or nullopt.
std::optional<std::string> whyIllegal(const MatmulProblem &problem,
                                      const Schedule &schedule,
                                      const Hardware &hardware);

/// The first good schedule that is legal (source "default"), with one of these
/// engines.
std::optional<Schedule> knownGood(const MatmulProblem &problem,
                                  const Engines &engines,
                                  const Hardware &hardware);

int64_t sharedBytes(const MatmulProblem &problem, const Schedule &schedule);
/// CTAs that fit one SM by shared memory, registers and threads; 0 if none.
int64_t occupancy(const MatmulProblem &problem, const Schedule &schedule,
                  const Hardware &hardware);

/// "mma_sync 16x64x64 stages 4 warps 1x4", for reports and messages; roles
/// are "warps 4+8", and "warps 4+8 of tokens" where operands are not swapped.
std::string describe(const Schedule &schedule);

/// Adds the nested struct of a Config.
void addSchedule(const Schedule &schedule, ConfigPrinter &config);

/// The engines themselves: Engines.inc lists the files.
namespace engines {
#define MOEC_ENGINE(name) const Engine &name();
#include "compiler/matmul/Engines.inc"
#undef MOEC_ENGINE
} // namespace engines

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_ENGINE_H
