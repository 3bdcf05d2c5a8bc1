//===- ExpertRows.h - distribution of rows over experts ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tokens are assumed to choose experts independently of each other. The number
// of rows per expert is therefore binomially distributed. From this
// distribution follow how many weights a run is expected to read and how full
// its tiles are.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_EXPERTROWS_H
#define MOEC_COMPILER_MATMUL_EXPERTROWS_H

#include <cstdint>
#include <vector>

namespace moec::compiler {

/// A group of experts, each of which a token chooses with probability `chance`.
struct ExpertGroup {
  double experts = 0, chance = 0;
};

/// The distribution of a run's rows over the experts on this rank.
class ExpertRows {
public:
  ExpertRows(int64_t tokens, std::vector<ExpertGroup> groups)
      : numTokens(tokens), groups(std::move(groups)) {}
  /// Returns the distribution for tokens that choose `pairs` of `experts`
  /// experts uniformly. This rank has `localExperts` of the experts.
  static ExpertRows uniform(int64_t tokens, int64_t experts,
                            int64_t localExperts, int64_t pairs);

  int64_t tokens() const { return numTokens; }
  /// Returns the expected total number of rows.
  double rows() const;
  /// Returns the expected number of experts that have at least one row.
  double touched() const;
  /// Returns the expected number of rows of the expert with the most rows.
  double most() const;

  struct Tiles {
    double count = 0; ///< tiles of all experts
    double rows = 0;  ///< rows that the tiles compute, including padding
  };
  /// Returns the expected tiles if each expert uses the fewest possible tiles
  /// of at most `tileRows` rows. A tile computes a multiple of `step` rows. If
  /// `alike`, all tiles of an expert except the last have the same number of
  /// rows. Otherwise all tiles except the last are full.
  Tiles tiles(int64_t tileRows, int64_t step, bool alike) const;
  /// Returns the expected tiles for one group of experts.
  Tiles tilesOf(const ExpertGroup &group, int64_t tileRows, int64_t step,
                bool alike) const;
  const std::vector<ExpertGroup> &ofGroups() const { return groups; }

private:
  int64_t numTokens;
  std::vector<ExpertGroup> groups;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_EXPERTROWS_H
