//===- Problem.h - sizes of a matmul and properties of a GPU ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The sizes of one grouped matmul in one variant, and the properties of a GPU
// that a schedule depends on. This header does not depend on the IR:
// SelectSchedule sets these structs from ops and catalog rows, and tests set
// them directly.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_PROBLEM_H
#define MOEC_COMPILER_MATMUL_PROBLEM_H

#include "dialect/Schedules.h"

#include <cstdint>
#include <string>
#include <vector>

namespace moec::compiler {

/// Group size of a quantized result [columns]. Schemes that are emulated may
/// have another one.
inline constexpr int64_t kScaledColumns = 128;

class Engine;
/// Engines that may serve a problem, the preferred one first.
using Engines = std::vector<const Engine *>;

/// Registers of a thread that scales, biases and activations need besides the
/// accumulators.
enum class Registers { None, Few, Many };

/// A grouped matmul: result[rows, n] = lhs[rows, k] . weights[expert][n, k]^T,
/// with n / 2 columns of the result if gated. Rows are sorted by expert, and
/// each token has `pairs` rows.
struct MatmulProblem {
  int64_t minTokens = 1, maxTokens = 1; ///< of the variant, inclusive
  int64_t n = 0, k = 0;         ///< rows and columns of an expert's weight
  int64_t experts = 1;          ///< experts of the layer
  int64_t localExperts = 1;     ///< experts of this rank
  int64_t pairs = 1;            ///< rows of a token; if batched, of a slot
  std::string elementType = ""; ///< of lhs and weights, such as "bf16"
  std::string scheme = "";      ///< of the layer, to match measured schedules
  int64_t elementBytes = 2;
  int64_t resultBytes = 2;
  /// Bits of a code (quantized value) of weights that the kernel converts to
  /// operands. 0 if the stored weights are the operands.
  int64_t codeBits = 0;
  /// Converted weights are packed in MMA fragment order
  /// (templates/moe/math/slabs.cuh).
  bool inFragments = false;
  /// Bytes of a scale and a zero point of converted weights, and the number of
  /// k elements that share them (0: all).
  int64_t numberBytes = 0, groupK = 0;
  bool hasZeroPoints = false;
  bool first = false;  ///< first of the layer's two matmuls
  bool gather = false; ///< lhs rows are gathered by token
  bool gated = false;  ///< the epilogue halves the number of columns
  bool takesManyRegisters = false; ///< the activation needs many registers
  /// The scales of lhs change along k. The accumulators of each pipeline stage
  /// are scaled by that stage's own scales.
  bool groupScales = false;
  bool scaled = false; ///< lhs has scales
  /// Each row of lhs has one scale.
  bool rowScales = false;
  /// Group size of the quantized result [columns]; 0 if it has no group scales.
  /// A CTA computes whole groups: in one tile or, in warp-specialized kernels,
  /// in consecutive column tiles.
  int64_t groupColumns = 0;

  bool quantizesGroups() const { return groupColumns > 0; }
  /// The result is quantized with a given scale, or its quantization is
  /// emulated.
  bool quantizesOtherwise = false;
  bool hasBias = false;
  /// Integer products are accumulated separately for each scale group.
  bool sumsByGroup = false;
  /// Element type of weights that are converted from fragment order, and the
  /// register demand of epilogues. Both are the same for both matmuls of the
  /// layer.
  std::string weights = "";
  Registers registers = Registers::None;

  /// Returns the bytes of an expert's first weight in the element type of the
  /// MMA.
  int64_t firstBytes() const { return (first ? 1 : 2) * n * k * elementBytes; }

  /// Bytes of k that share a scale which the tensor core applies, in both
  /// operands. 0 if the tensor core applies no scales.
  int64_t blockBytes = 0;

  /// Ratio of stored bytes to operand bytes of a block-scaled weight: 4- and
  /// 6-bit codes may be expanded to bytes.
  double storedShare = 1;
  /// Both operands have power-of-two scales of 128 elements along k, which
  /// block-scaled tensor cores can apply as well.
  bool powerGroups = false;

  /// Returns the mean number of rows per expert at the variant's largest token
  /// count.
  double meanRows() const {
    return double(maxTokens) * double(pairs) / double(experts);
  }

  /// Number of k elements after which accumulators are promoted, if they are.
  int64_t promoteK = 128;

  /// The layer permits accumulation in the tensor core without promotion
  /// (addsFast of dialect/catalog/Engines.h).
  bool addsFast = false;

  /// Returns true if accumulators are promoted: the tensor core accumulates
  /// 8-bit operands with fewer bits than f32, so partial sums are added to f32
  /// totals. This is omitted if both the layer and the engine permit it.
  bool isPromoted(bool engineAddsFast = false) const {
    return elementBytes == 1 && blockBytes == 0 &&
           !(addsFast && engineAddsFast);
  }
  /// Rows of a tile, defined by the variant's permutation.
  int64_t tileRows = 16;
  /// All tiles of an expert except the last have the same number of rows, at
  /// most tileRows. If false, they are full.
  bool alikeTiles = false;

  /// Returns the bytes of one expert's weight, including scales and zero
  /// points, as the kernel reads them.
  double weightBytes() const;
};

/// Shared memory that the driver reserves in each CTA.
inline constexpr int64_t kReservedPerCta = 1024;

/// Properties of a GPU that schedules depend on. Sizes are in bytes.
struct Hardware {
  std::string gpu;                   ///< row of the GPU table, or ""
  std::string arch;                  ///< row of the architecture table
  int64_t sharedPerBlock = 48 << 10; ///< opt-in limit of a CTA
  int64_t sharedPerSm = 64 << 10;
  int64_t threadsPerSm = 1024;
  int64_t ctasPerSm = 16;
  int64_t registersPerSm = 64 << 10;
  int64_t sms = 1;
  double bandwidth = 1e12; ///< bytes per second
  int64_t l2Bytes = 4 << 20;
  double l2Bandwidth = 2e12; ///< bytes per second to all multiprocessors
  double tensorFlops = 1e14; ///< per second, dense, 16-bit operands
  double scalarFlops = 1e13; ///< per second, f32 FMA
  bool asyncCopy = true;     ///< supports cp.async

  /// Returns the dense rate of the tensor cores for operands of `elementBytes`.
  double tensorFlopsOf(int64_t elementBytes) const {
    return elementBytes == 1 ? 2 * tensorFlops : tensorFlops;
  }
};

/// Returns the weight rows that a CTA processes at a time with tiles of
/// `tileN`. If it quantizes groups, these are all weight rows of a group.
int64_t takenWeightRows(const MatmulProblem &problem, int64_t tileN);

/// Sets `hardware` from catalog rows. If `gpu` is "", uses the GPU of the
/// arch's row. Returns false if a name is unknown or the GPU has another arch.
bool findHardware(const std::string &arch, const std::string &gpu,
                  Hardware &hardware);

/// Returns the number of MMA rows that each consumer warpgroup multiplies: 64,
/// or 128 (two MMAs of wgmma or one of tcgen05). Returns 0 without warp roles.
int64_t rowsOfWarpgroup(const Schedule &schedule);
/// Sets the warp roles of a schedule: one producer warpgroup and one consumer
/// warpgroup for every `rowsOfWarpgroup` MMA rows of the tile. Distributes the
/// registers of the CTA over them. For `swap`, see WarpRoles.
void setRoles(Schedule &schedule, int64_t rowsOfWarpgroup = 64,
              bool swap = true);

/// CTAs of a cluster that may split k of a tile.
inline constexpr int64_t kSplit = 2;
/// Returns the maximum number of tiles for which splitting k pays off. With a
/// quarter as many tiles as multiprocessors a layer gains 5 %; with a third it
/// loses 1 % (bench/notes/decode-h100.md).
int64_t mostTilesToSplit(const Hardware &hardware);
} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_PROBLEM_H
