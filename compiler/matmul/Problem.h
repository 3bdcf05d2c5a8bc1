//===- Problem.h - sizes of a matmul and properties of a GPU ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The sizes of one grouped matmul in one variant, and the GPU properties that a
// schedule depends on. This header does not depend on the IR: the pass
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

/// Number of columns that share a scale in a quantized result. Emulated schemes
/// may have a different group size.
inline constexpr int64_t kScaledColumns = 128;

class Engine;
/// Engines that support a problem, the preferred engine first.
using Engines = std::vector<const Engine *>;

/// A rough class of register demand: how many registers per thread scales,
/// biases and activations need in addition to the accumulators.
enum class Registers { None, Few, Many };

/// A grouped matmul: result[rows, n] = lhs[rows, k] x weights[expert][n, k]^T.
/// A gated result has n / 2 columns. Rows are sorted by expert, and each token
/// has `pairs` rows.
struct MatmulProblem {
  /// Token range of the variant, inclusive.
  int64_t minTokens = 1, maxTokens = 1;
  int64_t n = 0, k = 0;     ///< rows and columns of an expert's weight
  int64_t experts = 1;      ///< experts of the layer
  int64_t localExperts = 1; ///< experts of this rank
  /// Rows per token. If batched, the number of this rank's experts: a slot
  /// index has a row in each expert.
  int64_t pairs = 1;
  std::string elementType = ""; ///< of lhs and weights, such as "bf16"
  std::string scheme = "";      ///< of the layer, to match measured schedules
  int64_t elementBytes = 2;
  int64_t resultBytes = 2;
  /// Bits of a weight code (quantized value), if the kernel converts codes to
  /// operands. 0 if weights are multiplied without conversion.
  int64_t codeBits = 0;
  /// True if the converted weights are packed in MMA fragment order
  /// (templates/moe/math/slabs.cuh).
  bool inFragments = false;
  /// numberBytes: bytes of a scale plus its zero point, for converted weights.
  /// groupK: number of k elements that share them; 0: the whole row.
  int64_t numberBytes = 0, groupK = 0;
  bool hasZeroPoints = false;
  bool first = false;  ///< first of the layer's two matmuls
  bool gather = false; ///< lhs rows are gathered by token
  bool gated = false;  ///< the epilogue halves the number of columns
  bool takesManyRegisters = false; ///< the activation needs many registers
  /// True if the lhs scales change along k. Then the accumulators of each
  /// pipeline stage are scaled by that stage's own scales.
  bool groupScales = false;
  bool scaled = false; ///< lhs has scales
  /// True if each lhs row has one scale.
  bool rowScales = false;
  /// Number of columns per scale group in a result that is quantized by groups;
  /// 0 if it is not. A CTA computes whole groups, either in one tile or, in
  /// warp-specialized kernels, in consecutive column tiles.
  int64_t groupColumns = 0;

  bool quantizesGroups() const { return groupColumns > 0; }
  /// True if the result is quantized with a static scale, or if its
  /// quantization is emulated.
  bool quantizesOtherwise = false;
  bool hasBias = false;
  /// True if integer products are accumulated separately per scale group.
  bool sumsByGroup = false;
  /// `weights`: element type of weights that are converted from fragment order.
  /// `registers`: register demand of the epilogues. Each member is the same for
  /// both matmuls of the layer.
  std::string weights = "";
  Registers registers = Registers::None;

  /// Returns the bytes of the first weight of one expert, in the MMA's element
  /// type. For a second matmul, the first weight is assumed to be twice as
  /// large as the second, as in a gated layer.
  int64_t firstBytes() const { return (first ? 1 : 2) * n * k * elementBytes; }

  /// Number of bytes along k that share a scale, in lhs and weights, if the
  /// tensor core applies the scales. 0 if it does not.
  int64_t blockBytes = 0;

  /// Ratio of bytes in memory to operand bytes for a block-scaled weight. 4-bit
  /// and 6-bit codes may be expanded to bytes.
  double storedShare = 1;
  /// True if lhs and weights have power-of-two scales for groups of 128
  /// elements along k. Block-scaled MMAs can apply such scales too.
  bool powerGroups = false;

  /// Returns the mean number of rows per expert at the variant's largest token
  /// count.
  double meanRows() const {
    return double(maxTokens) * double(pairs) / double(experts);
  }

  /// Number of k elements after which accumulators are promoted, if they are
  /// promoted; see isPromoted().
  int64_t promoteK = 128;

  /// True if the layer permits accumulation in the tensor core without
  /// promotion (addsFast in dialect/catalog/Engines.h).
  bool addsFast = false;

  /// Returns true if accumulators are promoted. Tensor cores accumulate 8-bit
  /// operands with fewer bits than f32, so partial sums are regularly added to
  /// f32 totals in registers. Promotion is omitted if both the layer and the
  /// engine permit it.
  bool isPromoted(bool engineAddsFast = false) const {
    return elementBytes == 1 && blockBytes == 0 &&
           !(addsFast && engineAddsFast);
  }
  /// Rows of a tile, as the variant's permutation defines them.
  int64_t tileRows = 16;
  /// If true, all tiles of an expert except the last have the same number of
  /// rows, at most tileRows. If false, all tiles except the last are full.
  bool alikeTiles = false;

  /// Returns the bytes that the kernel reads for one expert's weight, including
  /// scales and zero points.
  double weightBytes() const;
};

/// Bytes of shared memory that the driver reserves per CTA.
inline constexpr int64_t kReservedPerCta = 1024;

/// GPU properties that schedules depend on. Sizes are in bytes.
struct Hardware {
  std::string gpu;  ///< name in the catalog's GPU table, or ""
  std::string arch; ///< name in the catalog's architecture table
  int64_t sharedPerBlock = 48 << 10; ///< opt-in limit per CTA
  int64_t sharedPerSm = 64 << 10;
  int64_t threadsPerSm = 1024;
  int64_t ctasPerSm = 16;
  int64_t registersPerSm = 64 << 10;
  int64_t sms = 1;
  double bandwidth = 1e12; ///< bytes per second
  int64_t l2Bytes = 4 << 20;
  double l2Bandwidth = 2e12; ///< bytes per second, all SMs together
  double tensorFlops = 1e14; ///< per second, dense, 16-bit operands
  double scalarFlops = 1e13; ///< per second, f32 FMA
  bool asyncCopy = true;     ///< supports cp.async

  /// Returns the dense rate of the tensor cores for operands with
  /// `elementBytes` bytes per element.
  double tensorFlopsOf(int64_t elementBytes) const {
    return elementBytes == 1 ? 2 * tensorFlops : tensorFlops;
  }
};

/// Returns the number of weight rows that a CTA processes at a time with tiles
/// of `tileN` weight rows. If the CTA quantizes groups, these are all weight
/// rows of a group.
int64_t takenWeightRows(const MatmulProblem &problem, int64_t tileN);

/// Sets `hardware` from catalog rows. If `gpu` is "", uses the GPU that the
/// arch's row names. Returns false if a name is unknown.
bool findHardware(const std::string &arch, const std::string &gpu,
                  Hardware &hardware);

/// Returns the number of MMA rows that each consumer warpgroup multiplies: 64,
/// or 128 (two wgmma instructions or one tcgen05 instruction). Returns 0
/// without warp roles.
int64_t rowsOfWarpgroup(const Schedule &schedule);
/// Sets the warp roles: one producer warpgroup, and one consumer warpgroup per
/// `rowsOfWarpgroup` MMA rows of the tile. Distributes the CTA's registers
/// among them. `swap` is WarpRoles::swap.
void setRoles(Schedule &schedule, int64_t rowsOfWarpgroup = 64,
              bool swap = true);

/// Number of CTAs in a cluster that may split the K dimension of a tile.
inline constexpr int64_t kSplit = 2;
/// Returns the maximum number of tiles for which splitting K is faster. If
/// there are a quarter as many tiles as SMs, a layer is 5 % faster; with a
/// third, it is 1 % slower (bench/notes/decode-h100.md).
int64_t mostTilesToSplit(const Hardware &hardware);
} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_PROBLEM_H
