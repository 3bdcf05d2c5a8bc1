//===- Problem.h - what a matmul kernel works on ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The sizes of one grouped matmul in one variant, the few numbers of a GPU
// that a schedule depends on. No IR: SelectSchedule fills
// these from ops and catalog rows, tests fill them by hand.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_PROBLEM_H
#define MOEC_COMPILER_MATMUL_PROBLEM_H

#include "dialect/Schedules.h"

#include <cstdint>
#include <string>
#include <vector>

namespace moec::compiler {

/// Group size of a quantized result [columns], except for schemes that are
/// emulated.
inline constexpr int64_t kScaledColumns = 128;

class Engine;
/// Engines that may serve, the preferred one first.
using Engines = std::vector<const Engine *>;

/// Registers of a thread that scales, biases and activations take beside sums.
enum class Registers { None, Few, Many };

/// result[rows, n (n / 2 when gated)] = lhs[rows, k] . weights[expert][n, k]^T
/// for sorted rows, where every token brings `pairs` rows spread over experts.
struct MatmulProblem {
  int64_t minTokens = 1, maxTokens = 1; ///< of the variant, inclusive
  int64_t n = 0, k = 0;                 ///< rows and columns of one weight
  int64_t experts = 1;                  ///< of the layer
  int64_t localExperts = 1;             ///< of this rank
  int64_t pairs = 1;            ///< of a token; of a slot, one for each expert
  std::string elementType = ""; ///< of lhs and weights, "bf16"
  std::string scheme = "";      ///< of the layer, for measured schedules
  int64_t elementBytes = 2;
  int64_t resultBytes = 2;
  /// Bits of a code of weights that a kernel converts; 0: weights are stored as
  /// they are multiplied.
  int64_t codeBits = 0;
  /// They are packed in the order of fragments (templates/moe/math/slabs.cuh).
  bool inFragments = false;
  /// Bytes of a scale and a zero point of weights that are converted, and
  /// elements of k that share them; 0: all.
  int64_t numberBytes = 0, groupK = 0;
  bool hasZeroPoints = false;
  bool first = false;              ///< of the layer's two matmuls
  bool gather = false;             ///< lhs rows are gathered from tokens
  bool gated = false;              ///< the epilogue halves the columns
  bool takesManyRegisters = false; ///< the activation
  /// Scales of the lhs change along k, so each stage of a ring that scales
  /// partial sums has its own.
  bool groupScales = false;
  bool scaled = false; ///< the lhs has scales
  /// Each row of the lhs has one scale.
  bool rowScales = false;
  /// Group size of the quantized result [columns]; 0 if it has no group scales.
  /// A CTA computes a whole group: in one tile or, if warps have roles, in
  /// consecutive column tiles.
  int64_t groupColumns = 0;

  bool quantizesGroups() const { return groupColumns > 0; }
  /// The result is quantized with a scale that is given, or emulated.
  bool quantizesOtherwise = false;
  bool hasBias = false;
  /// Integers are summed by the groups of their scales.
  bool sumsByGroup = false;
  /// The element type of weights that are converted out of fragments, and what
  /// takes registers, of either matmul of the layer.
  std::string weights = "";
  Registers registers = Registers::None;

  /// Bytes of an expert's first weight, as it is multiplied.
  int64_t firstBytes() const { return (first ? 1 : 2) * n * k * elementBytes; }

  /// Bytes of k of both operands that share a scale which the tensor core
  /// multiplies; 0: it multiplies none.
  int64_t blockBytes = 0;

  /// Stored bytes of a block-scaled weight for each byte that is multiplied: 4-
  /// and 6-bit codes may become bytes.
  double storedShare = 1;
  /// Both operands have power-of-two scales of 128 elements along k, which
  /// block-scaled tensor cores can apply too.
  bool powerGroups = false;

  /// Mean rows of an expert at the largest token count of the variant.
  double meanRows() const {
    return double(maxTokens) * double(pairs) / double(experts);
  }

  /// Elements of k after which sums are promoted, where they are.
  int64_t promoteK = 128;

  /// The layer allows sums without totals: see the engine's addsFast.
  bool addsFast = false;

  /// Sums of 8-bit operands keep fewer bits than f32: they are added to totals,
  /// unless an engine that can leave this away may.
  bool isPromoted(bool engineAddsFast = false) const {
    return elementBytes == 1 && blockBytes == 0 &&
           !(addsFast && engineAddsFast);
  }
  /// Rows of an m tile; given by the variant's permutation.
  int64_t tileRows = 16;
  /// All tiles of an expert except the last have the same number of rows.
  bool alikeTiles = false;

  /// Bytes of an expert's weight, with scales and zero points, as a kernel
  /// reads them.
  double weightBytes() const;
};

/// Shared memory of each CTA that the driver keeps for itself.
inline constexpr int64_t kReservedPerCta = 1024;

/// Schedules need to know this of a GPU. Sizes in bytes.
struct Hardware {
  std::string gpu;                   ///< row of the GPU table
  std::string arch;                  ///< row of the architecture table
  int64_t sharedPerBlock = 48 << 10; ///< opt-in limit
  int64_t sharedPerSm = 64 << 10;
  int64_t threadsPerSm = 1024;
  int64_t ctasPerSm = 16;
  int64_t registersPerSm = 64 << 10;
  int64_t sms = 1;
  double bandwidth = 1e12; ///< bytes a second
  int64_t l2Bytes = 4 << 20;
  double l2Bandwidth = 2e12; ///< bytes a second to all multiprocessors
  double tensorFlops = 1e14; ///< a second, dense, of operands of 16 bits
  double scalarFlops = 1e13; ///< a second, f32 FMA
  bool asyncCopy = true;     ///< has cp.async

  /// Dense rate of the tensor cores for operands of `elementBytes`.
  double tensorFlopsOf(int64_t elementBytes) const {
    return elementBytes == 1 ? 2 * tensorFlops : tensorFlops;
  }
};

/// Weight rows that a CTA takes at a time with tiles of `tileN`: those of a
/// group where it quantizes groups.
int64_t takenWeightRows(const MatmulProblem &problem, int64_t tileN);

/// Hardware of catalog rows; `gpu` may be "" for the arch row's own GPU.
/// False when a name is unknown or the GPU has another arch.
bool findHardware(const std::string &arch, const std::string &gpu,
                  Hardware &hardware);

/// Rows of an instruction's tile that a consuming warpgroup multiplies: 64, or
/// 128 where it has the CTA's tile to itself; 0 without roles.
int64_t rowsOfWarpgroup(const Schedule &schedule);
/// Gives the schedule one warpgroup of producers and a consuming one for every
/// so many of those rows, which share the registers of a CTA.
void setRoles(Schedule &schedule, int64_t rowsOfWarpgroup = 64,
              bool swap = true);

/// CTAs of a cluster that may share the k of a tile.
inline constexpr int64_t kSplit = 2;
/// The most tiles whose k is worth sharing: with a quarter as many as
/// multiprocessors a layer gains 5 %, with a third it loses 1 %
/// (bench/notes/decode-h100.md).
int64_t mostTilesToSplit(const Hardware &hardware);
} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_PROBLEM_H
