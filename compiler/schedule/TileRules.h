//===- TileRules.h - rows of a tile by rows of an expert --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which tile is right depends on the engine and on r, the mean number of rows
// of an expert: rows beyond an expert's end are computed for nothing, and an
// expert of more rows than a tile has its weight read more than once. The
// counts scatter, so a small tile is left before the mean fills it.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_SCHEDULE_TILERULES_H
#define MOEC_COMPILER_SCHEDULE_TILERULES_H

#include <cstdint>
#include <limits>
#include <string_view>

namespace moec::compiler {

/// With `engine` and operands of so many bytes (0: any), tiles of `rows` serve
/// up to `most` rows an expert in the mean. The rules of an engine ascend; its
/// last one serves all the rest. With a `step` an expert's tiles are alike, in
/// steps of so many rows; 0: full ones and a last one.
struct TileRule {
  std::string_view engine;
  int64_t elementBytes;
  int64_t rows;
  double most;
  /// Where the layer allows sums without totals (accumulate = fast), and there
  /// alone; a rule for any operands serves both.
  bool addsFast = false;
  int64_t step = 0;

  constexpr bool serves(std::string_view name, int64_t bytes,
                        bool fast = false) const {
    return engine == name &&
           (elementBytes == 0 || (elementBytes == bytes && addsFast == fast));
  }
};

inline constexpr double kAnyRows = std::numeric_limits<double>::infinity();

/// mma_sync: measured on an H100 (bench/notes/mma_sync-h100.md); tiles of 32
/// rows are nowhere more than 1 % better than these, and each size costs two
/// compilations. wgmma multiplies a large tile by the rows that it really has,
/// so that tiles may be alike: a short last one reads as much weight as a full
/// one, and later than its neighbours, when the L2 has forgotten it. mma_sync
/// has one worker for few rows and one for all. Tiles of 192 rows leave shared
/// memory for a deeper ring where few experts have more. Those of operands of 8
/// bits leave room for totals beside the sums.
inline constexpr TileRule kTileRules[] = {
    {"wgmma", 1, 16, 8},
    {"wgmma", 1, 64, 48},
    {"wgmma", 1, 128, kAnyRows},
    {"wgmma", 1, 16, 8, true},
    {"wgmma", 1, 64, 48, true},
    {"wgmma", 1, 192, kAnyRows, true},
    {"wgmma", 2, 16, 8},
    {"wgmma", 2, 64, 48},
    {"wgmma", 2, 192, 160, false, 16},
    {"wgmma", 2, 256, kAnyRows, false, 16},
    {"mma_sync", 0, 16, 8},
    {"mma_sync", 0, 64, 48},
    {"mma_sync", 0, 128, kAnyRows},
    {"simt", 0, 16, 8},
    {"simt", 0, 64, 48},
    {"simt", 0, 128, kAnyRows},
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_SCHEDULE_TILERULES_H
