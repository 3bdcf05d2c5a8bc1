//===- Engine.h - interface of matmul engines -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An engine is an instruction family that multiplies the tiles of a grouped
// matmul, such as wgmma. It defines which tile sizes serve a problem, which
// schedules are legal and which are good, what resources they need, what they
// cost, and which type its kernel's Config names. The engine of a row of
// dialect/catalog/Engines.h is implemented in the file of the same name, such
// as `wgmma.cpp`. Multistage.h and WarpSpecialized.h have what engines with the
// same use of warps share.
//
// Two files implement no engine in this sense: Gemv.h (the two few-token
// kernels, with their own schedule) and Slices.h (a kernel that fuses the
// second matmul with the combine).
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

/// Source of a rule: a file of bench/notes with the measurements, and their
/// date.
struct Measured {
  std::string_view source, date;
};

inline constexpr double kAnyRows = std::numeric_limits<double>::infinity();

/// The conditions of a rule. A condition with its default value always holds.
/// Sizes of weights are for one expert, in the element type of the MMA.
struct When {
  int64_t elementBytes = 0; ///< of an operand element
  int64_t tileRows = 0;
  int64_t codeBits = 0;
  /// True for the layer's first matmul.
  std::optional<bool> first = std::nullopt;
  std::optional<bool> groupScales = std::nullopt;
  std::optional<bool> addsFast = std::nullopt;
  std::optional<bool> quantizesGroups = std::nullopt;
  /// The rows of the first matmul are batched by expert, not gathered.
  std::optional<bool> rowsByExpert = std::nullopt;
  bool isWide = false; ///< the engine uses wide tiles for the problem
  int64_t leastN = 0, leastK = 0;
  int64_t wholeN = 0; ///< n must be a multiple of this
  /// Exclusive lower and inclusive upper bound on the bytes of the layer's
  /// first weight, and upper bound on the bytes of a weight row.
  int64_t firstAbove = 0, firstUpTo = 0, rowBytesUpTo = 0;
  /// Upper bound on the mean number of rows per expert at the variant's largest
  /// token count.
  double mostRows = kAnyRows;
  WordList weights = {}; ///< element types of weights in fragment order
  /// Upper bound on MatmulProblem::registers.
  Registers registers = Registers::Many;
};

/// A rule: the choice that measured best for problems that meet the conditions.
template <typename T> struct Rule {
  When when;
  T then;
  Measured measured = {};
};

/// A number of tile rows for problems of up to When::mostRows mean rows per
/// expert. Tile rows after an expert's last row are wasted, and an expert with
/// more rows than a tile reads its weights more than once. Row counts vary
/// between experts, so the rules switch to the next larger tile before the mean
/// fills the smaller one.
struct TileChoice {
  int64_t rows = 0;
  /// If not 0, an expert's rows are distributed evenly over its tiles, in
  /// multiples of `step`. If 0, all of an expert's tiles except the last are
  /// full.
  int64_t step = 0;
  bool isWide = false; ///< 256 weight rows; schedule rules of wide tiles apply
};
using TileRule = Rule<TileChoice>;

/// A schedule that measured well for several layers on GPUs with large shared
/// memory.
struct ScheduleChoice {
  int64_t tileN = 0;
  int64_t tileK = 0; ///< 0: the engine chooses it
  int64_t stages = 0;
  int64_t group = 1, ctasPerSm = 1;
  int64_t warpgroupRows = 64; ///< for warp roles, see rowsOfWarpgroup()
  WarpGrid warps = {};        ///< for engines without warp roles
  bool swap = true;
  /// Only used if no other engine has a legal schedule.
  bool behindOthers = false;
};
using ScheduleRule = Rule<ScheduleChoice>;

struct GoodSchedule {
  Schedule schedule;
  bool behindOthers = false;
};

/// The tiles that a kernel computes.
struct MatmulWork {
  ExpertRows::Tiles rowTiles;
  double columnTiles = 0; ///< column tiles of each row tile
  double tilesOfSm = 0;   ///< mean number of tiles per multiprocessor
  double resident = 1;    ///< CTAs per multiprocessor that have a tile
  double weights = 0;     ///< weight elements loaded, counted for each tile
};

struct EngineCost {
  double computeSeconds = 0;
  double convertSeconds = 0; ///< to convert weights to operands
  double fillSeconds = 0;    ///< startup and tail of the kernel or of its CTAs
};

class Engine {
public:
  explicit Engine(std::string_view name)
      : row(*catalog::find(catalog::kEngines, name)) {}
  virtual ~Engine() = default;
  const catalog::Engine &row;

  /// Returns the tile rules, ascending by When::mostRows. The last rule serves
  /// all remaining problems.
  virtual std::span<const TileRule> tileRules() const = 0;
  /// Returns the schedule rules, best first. Their schedules need not be legal.
  virtual std::span<const ScheduleRule>
  scheduleRules(const MatmulProblem &) const {
    return {};
  }
  /// Returns the legal tile sizes of a problem for messages, such as "multiples
  /// of 16 up to 256".
  virtual std::string possibleTileRows(const MatmulProblem &problem) const = 0;
  /// Returns true if all conditions hold, without regard to When::mostRows.
  bool serves(const When &when, const MatmulProblem &problem) const;
  bool holds(const When &when, const MatmulProblem &problem) const {
    return serves(when, problem) && problem.meanRows() <= when.mostRows;
  }
  /// Returns true if the first tile rule that holds uses wide tiles.
  bool isWide(const MatmulProblem &problem) const;
  /// Returns the schedules of all rules that hold.
  std::vector<GoodSchedule> goodSchedules(const MatmulProblem &problem,
                                          const Hardware &hardware) const;
  /// Returns legal schedules, with ctasPerSm set, for the cost model to rank.
  /// The result is not empty if the GPU is in the catalog and problem.tileRows
  /// is a tile size of the engine's rules.
  virtual std::vector<Schedule> candidates(const MatmulProblem &problem,
                                           const Hardware &hardware) const = 0;

  /// Returns why the schedule is illegal by the engine's own conditions, or
  /// nullopt. The free function whyIllegal() below also checks the conditions
  /// common to all engines.
  virtual std::optional<std::string>
  whyIllegal(const MatmulProblem &problem, const Schedule &schedule) const = 0;
  /// Returns why a separate launch must quantize a result by groups, or nullopt
  /// if the epilogue can. The epilogue can if a CTA's tile contains whole
  /// groups. If it can, the problem has candidates.
  virtual std::optional<std::string>
  whyGroupsApart(const MatmulProblem &problem) const = 0;
  /// Returns true if the CTAs of a cluster split K of a tile in runs with so
  /// few active experts that there are no more tiles than CTAs
  /// (templates/moe/matmul/roles/split.cuh).
  virtual bool maySplit(const MatmulProblem &, const Schedule &,
                        const Hardware &) const {
    return false;
  }
  /// mapsRows() returns true if TMA loads the contiguous rows of a second
  /// matmul. kBoxRows is the number of rows of a TMA box, as in the templates.
  static constexpr int64_t kBoxRows = 64;
  virtual bool mapsRows(const MatmulProblem &, const Schedule &) const {
    return false;
  }
  /// Returns true if kernels of slices (Slices.h) may be used with this engine.
  virtual bool hasSlices() const { return false; }
  /// Returns true if CTAs are persistent: each processes tiles until none is
  /// left, and TMA loads the weights.
  virtual bool isPersistent() const = 0;

  /// Returns the dynamic shared memory of a CTA in bytes. It must equal
  /// moe::sharedBytes of the templates; every emitted .cu file asserts this.
  virtual int64_t sharedBytes(const MatmulProblem &problem,
                              const Schedule &schedule) const = 0;
  /// Returns the columns of tensor memory that a CTA allocates. Returns 0 if
  /// accumulators are in registers.
  virtual int64_t tensorColumns(const MatmulProblem &, const Schedule &) const {
    return 0;
  }
  /// Returns the number of registers of a thread at launch.
  virtual int64_t registers(const MatmulProblem &problem,
                            const Schedule &schedule) const = 0;
  /// Returns the CTAs per multiprocessor for a measured schedule.
  virtual int64_t ctasPerSm(const MatmulProblem &problem,
                            const Schedule &schedule,
                            const Hardware &hardware) const = 0;
  /// Returns the granularity of the rows that the MMAs of a tile compute.
  virtual int64_t rowStep(const Schedule &schedule) const {
    return schedule.tileM;
  }
  virtual EngineCost cost(const MatmulProblem &problem,
                          const Schedule &schedule, const Hardware &hardware,
                          const MatmulWork &work) const = 0;
  /// Returns true if warps convert the weights of a pipeline stage before they
  /// multiply them, so that the conversion does not overlap with the MMAs.
  virtual bool convertsFirst() const { return false; }

  /// Returns the `Mma` type of a Config for the C++ element type of the
  /// operands. For `isNative`, see catalog::choosesNative.
  virtual std::string mma(const MatmulProblem &problem,
                          const Schedule &schedule, std::string_view type,
                          bool isNative) const = 0;

protected:
  /// Copies the warps and the CTAs per SM of a choice to a schedule.
  virtual void setWarps(Schedule &schedule, const ScheduleChoice &choice,
                        const MatmulProblem &problem,
                        const Hardware &hardware) const = 0;
};

/// Returns all engines, in the order of dialect/catalog/Engines.h.
std::span<const Engine *const> allEngines();
/// Returns the engine with this name, or null.
const Engine *findEngine(std::string_view name);
/// Returns the engine of a schedule.
const Engine &engineOf(const Schedule &schedule);

/// Returns a sentence that states why the schedule cannot serve the problem, or
/// nullopt.
std::optional<std::string> whyIllegal(const MatmulProblem &problem,
                                      const Schedule &schedule,
                                      const Hardware &hardware);

/// Returns the first good schedule that is legal (source "default") and whose
/// engine is in `engines`, or nullopt.
std::optional<Schedule> knownGood(const MatmulProblem &problem,
                                  const Engines &engines,
                                  const Hardware &hardware);

int64_t sharedBytes(const MatmulProblem &problem, const Schedule &schedule);
/// Returns the number of CTAs that fit on one SM by shared memory, registers
/// and threads.
int64_t occupancy(const MatmulProblem &problem, const Schedule &schedule,
                  const Hardware &hardware);

/// Returns a description for reports and messages, such as "mma_sync 16x64x64
/// stages 4 warps 1x4". With warp roles the end is "warps 4+8" (producers +
/// consumers), or "warps 4+8 of tokens" if tokens are the MMA's rows.
std::string describe(const Schedule &schedule);

/// Adds the nested struct `Schedule` with the members of a schedule to a
/// Config.
void addSchedule(const Schedule &schedule, ConfigPrinter &config);

/// The engine instances. Engines.inc lists their files.
namespace engines {
#define MOEC_ENGINE(name) const Engine &name();
#include "compiler/matmul/Engines.inc"
#undef MOEC_ENGINE
} // namespace engines

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_ENGINE_H
