//===- Batch.cpp - stage batch on the host --------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Forms tiles of rows in batched format. In this format each expert has the
// same number of slots, and its count specifies how many of them hold rows.
// Also defines how the rows of any expert are split into tiles.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/KernelRun.h"

#include <algorithm>

using namespace moec;
using namespace moec::host;

/// Returns the number of rows per tile of an expert with `count` rows. The rows
/// are distributed evenly over the minimum number of tiles, in multiples of
/// `rowStep`. The last tile may have fewer rows.
static int64_t rowsOfTile(int64_t count, int64_t tileRows, int64_t rowStep) {
  int64_t tiles = std::max<int64_t>(1, (count + tileRows - 1) / tileRows);
  int64_t share = (count + tiles - 1) / tiles;
  return std::max<int64_t>(1, (share + rowStep - 1) / rowStep) * rowStep;
}

Result<void> moec::host::writeTiles(KernelRun &run,
                                    std::span<const int64_t> first,
                                    std::span<const int64_t> counts) {
  int64_t tileRows = run.integer("tile_rows");
  int64_t rowStep = run.integer("row_step");
  if (tileRows < 1)
    return run.fail("expected tile_rows of at least 1, got {}", tileRows);
  if (rowStep == 0)
    rowStep = tileRows;
  if (tileRows % rowStep)
    return run.fail("expected row_step to divide the {} tile_rows, got {}",
                    tileRows, rowStep);
  int64_t total = 0;
  for (int64_t count : counts)
    total += (count + tileRows - 1) / tileRows;
  View tiles = TRY(run.neededResult("tiles", total, 4, Storage::I32));
  int64_t counters = run.integer("counters", 2);
  View tileCount =
      TRY(run.neededResult("tile_count", 1, 1 + counters, Storage::I32));
  int64_t tile = 0;
  for (size_t e = 0; e < counts.size(); ++e) {
    int64_t each = rowsOfTile(counts[e], tileRows, rowStep);
    int64_t end = first[e] + counts[e];
    for (int64_t row = first[e]; row < end; row += each, ++tile) {
      int64_t values[4] = {int64_t(e), row, std::min(row + each, end), 0};
      for (int64_t i = 0; i < 4; ++i)
        tiles.setInteger(tile, i, values[i]);
    }
  }
  tileCount.setInteger(0, 0, tile);
  for (int64_t i = 1; i <= counters; ++i)
    tileCount.setInteger(0, i, 0);
  return {};
}

Result<std::vector<Tile>> moec::host::readTiles(KernelRun &run) {
  View count = TRY(run.needed("tile_count", 1, 3));
  int64_t tileCount = count.integer(0);
  if (tileCount < 0)
    return run.fail("expected a tile count >= 0, got {}", tileCount);
  // Each CTA computes one tile, so tiles beyond the number of CTAs are not
  // computed.
  tileCount = std::min(tileCount, run.ctas());
  View view = TRY(run.needed("tiles", tileCount, 4));
  std::vector<Tile> tiles;
  for (int64_t i = 0; i < tileCount; ++i) {
    Tile tile = {view.integer(i, 0), view.integer(i, 1), view.integer(i, 2)};
    if (tile.expert < 0 || tile.begin < 0 || tile.end <= tile.begin)
      return run.fail("expected a tile of an expert with rows, tile {} is "
                      "expert {}, rows {} to {}",
                      i, tile.expert, tile.begin, tile.end);
    tiles.push_back(tile);
  }
  return tiles;
}

Result<std::vector<int64_t>> moec::host::readExpertCounts(KernelRun &run,
                                                          int64_t slots) {
  int64_t experts = TRY(run.columnsOf("expert_num_tokens"));
  View view = TRY(run.needed("expert_num_tokens", 1, experts));
  std::vector<int64_t> counts(experts);
  for (int64_t e = 0; e < experts; ++e)
    counts[e] = std::clamp<int64_t>(view.integer(0, e), 0, slots);
  return counts;
}

Result<void> stages::batch(KernelRun &run) {
  int64_t slots = TRY(run.size("tokens"));
  std::vector<int64_t> counts = TRY(readExpertCounts(run, slots));
  if (int64_t experts = run.integer("experts");
      experts != int64_t(counts.size()))
    return run.fail("expected counts of {} experts, got {}", experts,
                    counts.size());
  std::vector<int64_t> first(counts.size());
  for (size_t e = 0; e < first.size(); ++e)
    first[e] = int64_t(e) * slots;
  return writeTiles(run, first, counts);
}
