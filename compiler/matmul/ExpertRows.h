//===- ExpertRows.h - distribution of rows over experts ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tokens are assumed to choose experts independently of each other, so the
// number of rows of an expert is binomially distributed. Expectations over
// these counts determine how much of the weights a run reads and how full its
// tiles are.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_EXPERTROWS_H
#define MOEC_COMPILER_MATMUL_EXPERTROWS_H

#include <cstdint>
#include <vector>

namespace moec::compiler {

/// A number of experts that each token chooses with probability `chance`.
struct ExpertGroup {
  double experts = 0, chance = 0;
};

/// The distribution of a run's rows over the experts of a rank.
class ExpertRows {
public:
  ExpertRows(int64_t tokens, std::vector<ExpertGroup> groups)
      : numTokens(tokens), groups(std::move(groups)) {}
  /// Returns the distribution if each token chooses `pairs` of `experts`
  /// uniformly. This rank has `localExperts` of them.
  static ExpertRows uniform(int64_t tokens, int64_t experts,
                            int64_t localExperts, int64_t pairs);

  int64_t tokens() const { return numTokens; }
  /// Returns the expected number of rows of all experts.
  double rows() const;
  /// Returns the expected number of experts that have at least one row.
  double touched() const;
  /// Returns the expected number of rows of the expert that has the most.
  double most() const;

  struct Tiles {
    double count = 0; ///< tiles of all experts
    double rows = 0;  ///< rows that tiles compute, including padding
  };
  /// Returns the expected tiles if each expert uses as few tiles of at most
  /// `tileRows` rows as possible. The rows that a tile computes are a multiple
  /// of `step`. If `alike`, all tiles of an expert except the last have the
  /// same number of rows; else all except the last are full.
  Tiles tiles(int64_t tileRows, int64_t step, bool alike) const;
  /// Returns the expected tiles of one group of experts.
  Tiles tilesOf(const ExpertGroup &group, int64_t tileRows, int64_t step,
                bool alike) const;
  const std::vector<ExpertGroup> &ofGroups() const { return groups; }

private:
  int64_t numTokens;
  std::vector<ExpertGroup> groups;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_EXPERTROWS_H
