//===- ExpertRows.h - how many rows experts get -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tokens choose experts independently of each other, so the rows of an expert
// have a binomial distribution. Means of such counts say how much of a layer's
// weights a run reads, and how full its tiles are.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_EXPERTROWS_H
#define MOEC_COMPILER_MATMUL_EXPERTROWS_H

#include <cstdint>
#include <vector>

namespace moec::compiler {

/// Experts that a token chooses with the same probability.
struct ExpertGroup {
  double experts = 0, chance = 0;
};

/// The rows that a run brings to the experts of a rank.
class ExpertRows {
public:
  ExpertRows(int64_t tokens, std::vector<ExpertGroup> groups)
      : numTokens(tokens), groups(std::move(groups)) {}
  /// `pairs` of `experts` are chosen for each token, all alike; `localExperts`
  /// of them are of the rank.
  static ExpertRows uniform(int64_t tokens, int64_t experts,
                            int64_t localExperts, int64_t pairs);

  int64_t tokens() const { return numTokens; }
  /// Rows of all experts.
  double rows() const;
  /// Experts with a row at least.
  double touched() const;
  /// Rows of the expert that has most, in the mean.
  double most() const;

  struct Tiles {
    double count = 0; ///< of all experts
    double rows = 0;  ///< that they multiply, with those behind an expert's end
  };
  /// Tiles of at most `tileRows` rows, of which an expert has as few as there
  /// can be. Each multiplies a multiple of `step` rows. `alike`: the tiles of
  /// an expert have as many rows each, but for the last one; else all but the
  /// last one are full.
  Tiles tiles(int64_t tileRows, int64_t step, bool alike) const;
  /// The tiles of one group of experts.
  Tiles tilesOf(const ExpertGroup &group, int64_t tileRows, int64_t step,
                bool alike) const;
  const std::vector<ExpertGroup> &ofGroups() const { return groups; }

private:
  int64_t numTokens;
  std::vector<ExpertGroup> groups;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_EXPERTROWS_H
