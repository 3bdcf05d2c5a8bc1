//===- Engine.h - interface of matmul engines -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An engine is an instruction family that multiplies the tiles of a grouped
// matmul, such as wgmma. For a problem, it defines
//
// * the supported tile sizes and the legal schedules,
// * the known good schedules,
// * the resources and the time that a schedule needs,
// * the MMA type that the kernel's Config names.
//
// Each row of catalog::kTileEngines (dialect/catalog/Engines.h) is implemented
// in the file of the same name, such as wgmma.cpp. Two base classes hold what
// several engines share: Multistage.h (each warp copies and multiplies) and
// WarpSpecialized.h (producer and consumer warps).
//
// Gemv.h (the row `gemv`, two few-token kernels) and Slices.h (a kernel that
// fuses the second matmul with the combine) define schedules without an Engine.
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

/// Source of a rule: the file in bench/notes with the measurements, and their
/// date.
struct Measured {
  std::string_view source, date;
};

inline constexpr double kAnyRows = std::numeric_limits<double>::infinity();

/// The conditions of a rule. A condition with its default value always holds.
/// Weight sizes are per expert, in the MMA's element type.
struct When {
  int64_t elementBytes = 0; ///< bytes of an operand element
  int64_t tileRows = 0;
  /// Bits of a weight code (quantized value); see MatmulProblem.
  int64_t codeBits = 0;
  /// True: only the layer's first matmul. False: only the second.
  std::optional<bool> first = std::nullopt;
  /// Conditions on the MatmulProblem members of the same names.
  std::optional<bool> groupScales = std::nullopt;
  std::optional<bool> addsFast = std::nullopt;
  std::optional<bool> quantizesGroups = std::nullopt;
  /// True: only a first matmul whose rows are batched by expert instead of
  /// gathered.
  std::optional<bool> rowsByExpert = std::nullopt;
  /// True: only problems for which the engine uses wide tiles.
  bool isWide = false;
  int64_t leastN = 0, leastK = 0;
  int64_t wholeN = 0; ///< n must be a multiple of this
  /// Bounds on the bytes of the layer's first weight (`firstAbove` exclusive,
  /// `firstUpTo` inclusive), and upper bound on the bytes of a weight row. 0:
  /// no bound.
  int64_t firstAbove = 0, firstUpTo = 0, rowBytesUpTo = 0;
  /// Upper bound on the mean number of rows per expert at the variant's largest
  /// token count.
  double mostRows = kAnyRows;
  WordList weights = {}; ///< element types of weights in MMA fragment order
  /// Upper bound on MatmulProblem::registers.
  Registers registers = Registers::Many;
};

/// A rule: the choice that was fastest for problems that meet the conditions.
template <typename T> struct Rule {
  When when;
  T then;
  Measured measured = {};
};

/// The tile rows for problems with at most When::mostRows mean rows per expert.
/// Too many tile rows waste work on padding after an expert's last row. With
/// too few tile rows, an expert has several tiles, and every tile reads the
/// weights again. Row counts vary between experts, so the rules switch to the
/// next larger tile before the mean number of rows fills the smaller tile.
struct TileChoice {
  int64_t rows = 0;
  /// If not 0, an expert's rows are distributed evenly over its tiles, in
  /// multiples of `step` rows. If 0, all of an expert's tiles except the last
  /// are full.
  int64_t step = 0;
  /// Tiles have 256 weight rows; schedule rules with When::isWide apply.
  bool isWide = false;
};
using TileRule = Rule<TileChoice>;

/// A schedule that was fast for several layers on GPUs with large shared
/// memory.
struct ScheduleChoice {
  int64_t tileN = 0;
  int64_t tileK = 0; ///< 0: the engine chooses it
  int64_t stages = 0;
  int64_t group = 1, ctasPerSm = 1;
  /// For warp-specialized engines, see rowsOfWarpgroup().
  int64_t warpgroupRows = 64;
  WarpGrid warps = {}; ///< for engines without warp roles
  bool swap = true;
  /// The schedule is used only if the other engines have no legal good
  /// schedule.
  bool behindOthers = false;
};
using ScheduleRule = Rule<ScheduleChoice>;

struct GoodSchedule {
  Schedule schedule;
  bool behindOthers = false;
};

/// The work of a kernel: the tiles that it computes.
struct MatmulWork {
  ExpertRows::Tiles rowTiles;
  double columnTiles = 0; ///< number of column tiles per row tile
  double tilesOfSm = 0;   ///< mean number of tiles per SM
  double resident = 1;    ///< number of CTAs per SM that have a tile
  double weights = 0;     ///< weight elements loaded; each tile loads its own
};

struct EngineCost {
  double computeSeconds = 0;
  double convertSeconds = 0; ///< time to convert weights to MMA operands
  double fillSeconds = 0;    ///< startup and tail of the kernel, or of its CTAs
};

class Engine {
public:
  explicit Engine(std::string_view name)
      : row(*catalog::find(catalog::kEngines, name)) {}
  virtual ~Engine() = default;
  const catalog::Engine &row;

  /// Returns the tile rules, ascending by When::mostRows. The last rule applies
  /// to all remaining problems.
  virtual std::span<const TileRule> tileRules() const = 0;
  /// Returns the schedule rules, best first. The schedules need not be legal.
  virtual std::span<const ScheduleRule>
  scheduleRules(const MatmulProblem &) const {
    return {};
  }
  /// Describes the legal tile rows for a problem in messages, such as
  /// "multiples of 16 up to 256".
  virtual std::string possibleTileRows(const MatmulProblem &problem) const = 0;
  /// Returns true if all conditions except When::mostRows hold.
  bool serves(const When &when, const MatmulProblem &problem) const;
  bool holds(const When &when, const MatmulProblem &problem) const {
    return serves(when, problem) && problem.meanRows() <= when.mostRows;
  }
  /// Returns true if the first tile rule whose conditions hold uses wide tiles.
  bool isWide(const MatmulProblem &problem) const;
  /// Returns the schedules of all rules whose conditions hold.
  std::vector<GoodSchedule> goodSchedules(const MatmulProblem &problem,
                                          const Hardware &hardware) const;
  /// Returns legal schedules, with ctasPerSm set, for the cost model to rank.
  /// The result is not empty if the GPU is in the catalog and problem.tileRows
  /// is one of the engine's tile sizes.
  virtual std::vector<Schedule> candidates(const MatmulProblem &problem,
                                           const Hardware &hardware) const = 0;

  /// Returns the reason why the schedule violates a condition of this engine,
  /// or nullopt. The free function whyIllegal() below also checks the
  /// conditions that are common to all engines.
  virtual std::optional<std::string>
  whyIllegal(const MatmulProblem &problem, const Schedule &schedule) const = 0;
  /// Returns the reason why the epilogue cannot quantize the result by groups,
  /// so that a separate launch must quantize it. Returns nullopt if the
  /// epilogue can: each CTA then computes whole groups, and candidates() is not
  /// empty.
  virtual std::optional<std::string>
  whyGroupsApart(const MatmulProblem &problem) const = 0;
  /// Returns true if two CTAs of a cluster may split the K dimension of a tile.
  /// Tiles are split in those runs of the layer in which so few experts have
  /// rows that at most half of the CTAs would have a tile
  /// (templates/moe/matmul/roles/split.cuh).
  virtual bool maySplit(const MatmulProblem &, const Schedule &,
                        const Hardware &) const {
    return false;
  }
  /// kBoxRows: rows of a TMA box, as in the templates. mapsRows() returns true
  /// if TMA loads the lhs rows of a second matmul, which are contiguous.
  static constexpr int64_t kBoxRows = 64;
  virtual bool mapsRows(const MatmulProblem &, const Schedule &) const {
    return false;
  }
  /// Returns true if the engine supports kernels that multiply in slices
  /// (Slices.h).
  virtual bool hasSlices() const { return false; }
  /// Returns true if CTAs are persistent: each CTA computes tiles until none is
  /// left, and TMA loads the weights.
  virtual bool isPersistent() const = 0;

  /// Returns the dynamic shared memory per CTA in bytes. It must equal
  /// moe::sharedBytes() of the templates; every emitted .cu file asserts this.
  virtual int64_t sharedBytes(const MatmulProblem &problem,
                              const Schedule &schedule) const = 0;
  /// Returns the number of tensor memory columns that a CTA allocates. Returns
  /// 0 if the accumulators are in registers.
  virtual int64_t tensorColumns(const MatmulProblem &, const Schedule &) const {
    return 0;
  }
  /// Returns the number of registers per thread at launch.
  virtual int64_t registers(const MatmulProblem &problem,
                            const Schedule &schedule) const = 0;
  /// Returns the number of CTAs per SM for a measured schedule.
  virtual int64_t ctasPerSm(const MatmulProblem &problem,
                            const Schedule &schedule,
                            const Hardware &hardware) const = 0;
  /// Returns the granularity of a tile's rows: the MMAs compute multiples of
  /// this number of rows.
  virtual int64_t rowStep(const Schedule &schedule) const {
    return schedule.tileM;
  }
  virtual EngineCost cost(const MatmulProblem &problem,
                          const Schedule &schedule, const Hardware &hardware,
                          const MatmulWork &work) const = 0;
  /// Returns true if a warp converts the weights of a pipeline stage and then
  /// multiplies them, so that the conversion does not overlap with the warp's
  /// MMAs.
  virtual bool convertsFirst() const { return false; }

  /// Returns the C++ type `Mma` of a Config. `type` is the C++ element type of
  /// the operands. For `isNative`, see catalog::choosesNative().
  virtual std::string mma(const MatmulProblem &problem,
                          const Schedule &schedule, std::string_view type,
                          bool isNative) const = 0;

protected:
  /// Copies the warp layout and the CTAs per SM from a choice to a schedule.
  virtual void setWarps(Schedule &schedule, const ScheduleChoice &choice,
                        const MatmulProblem &problem,
                        const Hardware &hardware) const = 0;
};

/// Returns all engines, in the order of dialect/catalog/Engines.h.
std::span<const Engine *const> allEngines();
/// Returns the engine with this name, or null.
const Engine *findEngine(std::string_view name);
/// Returns the engine that the schedule names.
const Engine &engineOf(const Schedule &schedule);

/// Returns a sentence that states why the schedule is illegal for the problem
/// on this GPU, or nullopt.
std::optional<std::string> whyIllegal(const MatmulProblem &problem,
                                      const Schedule &schedule,
                                      const Hardware &hardware);

/// Returns the first good schedule (source "default") that is legal, of the
/// first of `engines` that has one, or nullopt.
std::optional<Schedule> knownGood(const MatmulProblem &problem,
                                  const Engines &engines,
                                  const Hardware &hardware);

int64_t sharedBytes(const MatmulProblem &problem, const Schedule &schedule);
/// Returns the number of CTAs that fit on one SM. Shared memory, registers and
/// threads limit it.
int64_t occupancy(const MatmulProblem &problem, const Schedule &schedule,
                  const Hardware &hardware);

/// Describes the schedule for reports and messages, such as "mma_sync 16x64x64
/// stages 4 warps 1x4". For warp-specialized schedules the end is "warps 4+8"
/// (producer + consumer warps), or "warps 4+8 of tokens" if tokens are the
/// MMA's rows.
std::string describe(const Schedule &schedule);

/// Adds the nested struct `Schedule` to a Config.
void addSchedule(const Schedule &schedule, ConfigPrinter &config);

/// The engine instances. The generated file Engines.inc lists their files.
namespace engines {
#define MOEC_ENGINE(name) const Engine &name();
#include "compiler/matmul/Engines.inc"
#undef MOEC_ENGINE
} // namespace engines

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_ENGINE_H
