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

#ifndef MOEC_COMPILER_ENGINE_ENGINE_H
#define MOEC_COMPILER_ENGINE_ENGINE_H

#include "compiler/engine/ConfigPrinter.h"
#include "compiler/engine/ExpertRows.h"
#include "compiler/engine/Problem.h"
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

/// The facts of a layer that decide on the tiles of its matmuls.
struct TiledLayer {
  int64_t elementBytes = 0; ///< of operands
  bool addsFast = false;    ///< the layer allows it, and the engine does it
  /// Element type of weights that are converted out of fragments; "": others.
  std::string weights = "";
  /// Zero points, second scales, an activation or results of 32 bits take
  /// registers.
  bool takesRegisters = false;
  /// Biases, or weights of no whole tiles of 256 rows, take a few.
  bool takesFewRegisters = false;
  /// Scales of activations change along k.
  bool groupScales = false;
  int64_t firstBytes = 0; ///< of an expert's first weight, as it is multiplied
};

/// A result that is to be quantized by groups of so many columns.
struct GroupedResult {
  int64_t tileRows = 0, columns = 0;
  bool gated = false;
  /// A kernel gathers the rows of the lhs from tokens.
  bool gathers = false;
  /// Rows of an expert in the mean, with the most tokens of the variant, and
  /// bytes of an expert's first weight.
  double meanRows = 0;
  int64_t firstBytes = 0;
  /// Scales of the lhs: of groups along k, or one of each row.
  bool groupScales = false, rowScales = false;
};

/// Tiles of `rows` serve up to `most` rows an expert in the mean. Rows beyond
/// an expert's end are computed for nothing, and an expert of more rows than a
/// tile has its weight read more than once. The counts scatter, so a small tile
/// is left before the mean fills it.
struct TileRule {
  int64_t elementBytes = 0; ///< of operands; 0: any
  int64_t rows = 0;
  double most = kAnyRows;
  /// In place of `most`, where the first weight has at most kSmallFirst bytes;
  /// 0: `most`.
  double mostOfSmall = 0;
  /// Serves layers alone that allow sums without totals (accumulate = fast). A
  /// rule for any operands serves both.
  bool addsFast = false;
  /// Serves layers alone whose scales are of groups along k, or others alone;
  /// none: both.
  std::optional<bool> groupScales = std::nullopt;
  /// An expert's tiles are alike, in steps of so many rows; 0: full ones and a
  /// last one.
  int64_t step = 0;
  Measured measured;
  /// Serves such weights alone, where nothing else takes registers, or few are
  /// taken.
  WordList weights = {};
  bool leavesFewRegisters = false;

  /// First weights that few tokens fill tiles of.
  static constexpr int64_t kSmallFirst = 64 << 20;

  double mostRows(const TiledLayer &layer) const {
    const bool isSmall = layer.firstBytes <= kSmallFirst;
    return isSmall && mostOfSmall > 0 ? mostOfSmall : most;
  }
  bool serves(const TiledLayer &layer) const {
    if (!weights.empty() &&
        (!weights.contains(layer.weights) || layer.takesRegisters ||
         (layer.takesFewRegisters && !leavesFewRegisters)))
      return false;
    if (groupScales && *groupScales != layer.groupScales)
      return false;
    return elementBytes == 0 ||
           (elementBytes == layer.elementBytes && addsFast == layer.addsFast);
  }
};

/// A schedule that measured well over several layers on GPUs with large shared
/// memory.
struct GoodSchedule {
  Schedule schedule;
  bool behindOthers = false; ///< the other engines' are tried first
};

/// `Mma` of a Config depends on these, and on the schedule.
struct MmaOperands {
  std::string type;      ///< of the kernel's C++
  bool addsFast = false; ///< the layer allows sums without totals
  bool byGroup = false;  ///< integers are summed by the groups of their scales
  bool native = false;   ///< see catalog::choosesNative
  bool inFragments = false; ///< weights are, see MatmulProblem
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
  /// "multiples of 16 up to 256", the tiles of a problem for messages.
  virtual std::string possibleTileRows(const MatmulProblem &problem) const = 0;
  /// Schedules that serve the problem, best first. They need not be legal.
  virtual std::vector<GoodSchedule> goodSchedules(const MatmulProblem &,
                                                  const Hardware &) const {
    return {};
  }
  /// Legal schedules, for the cost model to rank.
  virtual std::vector<Schedule> candidates(const MatmulProblem &problem,
                                           const Hardware &hardware) const = 0;

  /// Why not, besides what whyIllegal() below asks all engines.
  virtual std::optional<std::string>
  whyIllegal(const MatmulProblem &problem, const Schedule &schedule) const = 0;
  virtual std::optional<std::string>
  whyGroupsApart(const GroupedResult &result) const = 0;
  /// Whether a cluster shares the k of a tile where a run touches so few
  /// experts that there are no more tiles than that (templates'
  /// matmul/roles/split.cuh).
  virtual bool maySplit(const MatmulProblem &, const Schedule &,
                        const Hardware &) const {
    return false;
  }
  /// Whether rows of a second matmul, which lie one behind the other, come by a
  /// tensor map, too: kBoxRows at a time, as the templates have it.
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
  /// Registers of a thread when its CTA begins.
  virtual int64_t registers(const MatmulProblem &problem,
                            const Schedule &schedule) const = 0;
  /// CTAs of a measured schedule on a multiprocessor.
  virtual int64_t ctasPerSm(const MatmulProblem &problem,
                            const Schedule &schedule,
                            const Hardware &hardware) const = 0;
  /// A tile multiplies a multiple of so many rows.
  virtual int64_t rowStep(const Schedule &schedule) const {
    return schedule.tileM;
  }
  virtual EngineCost cost(const MatmulProblem &problem,
                          const Schedule &schedule, const Hardware &hardware,
                          const MatmulWork &work) const = 0;
  /// Warps convert a stage's weights before they multiply it.
  virtual bool convertsFirst() const { return false; }

  /// `Mma` of a Config.
  virtual std::string mma(const MmaOperands &operands,
                          const Schedule &schedule) const = 0;
};

/// All, as Engines.h orders them.
std::span<const Engine *const> allEngines();
/// The engine of grouped matmuls that is called so, or null.
const Engine *findEngine(std::string_view name);

// These ask the engine that the schedule or the argument names.

/// A sentence saying why the schedule cannot serve the problem, or nullopt.
std::optional<std::string> whyIllegal(const MatmulProblem &problem,
                                      const Schedule &schedule,
                                      const Hardware &hardware);

/// A sentence saying why kernels of `engine` leave it to a launch of its own to
/// quantize a result; nullopt where a CTA's tile has whole groups and its
/// epilogue does it. Every such problem has candidates.
std::optional<std::string> whyGroupsApart(const std::string &engine,
                                          const GroupedResult &result);

/// Legal schedules of the engine, ctasPerSm filled in. Never empty for a
/// problem with a tile row count that its rules have on a catalog GPU.
std::vector<Schedule> candidates(const MatmulProblem &problem,
                                 const std::string &engine,
                                 const Hardware &hardware);

/// The first good schedule that is legal (source "default"), with one of these
/// engines.
std::optional<Schedule> knownGood(const MatmulProblem &problem,
                                  const std::vector<std::string> &engines,
                                  const Hardware &hardware);

bool maySplit(const MatmulProblem &problem, const Schedule &schedule,
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
#include "compiler/engine/Engines.inc"
#undef MOEC_ENGINE
} // namespace engines

} // namespace moec::compiler

#endif // MOEC_COMPILER_ENGINE_ENGINE_H
