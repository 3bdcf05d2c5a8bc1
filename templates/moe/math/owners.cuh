//===- owners.cuh - ranks that compute a token ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A rank owns a token if it has one of the token's experts. If experts are not
// distributed over ranks (`experts` is 0), all ranks own each token that has an
// expert.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe {

/// Returns the rank that has an expert. Experts are distributed evenly; if
/// there is a remainder, the first ranks have one expert more.
constexpr int ownerOf(int expert, int experts, int ranks) {
  int each = experts / ranks, rest = experts % ranks;
  int ofLarger = rest * (each + 1);
  return expert < ofLarger ? expert / (each + 1)
                           : rest + (expert - ofLarger) / each;
}

/// A set of at most kRanks ranks.
template <int kRanks> struct RankSet {
  static constexpr int kWords = (kRanks + 31) / 32;
  unsigned words[kWords] = {};

  static __device__ __forceinline__ RankSet all(int ranks) {
    RankSet set;
    for (int w = 0; w < kWords; ++w) {
      int left = ranks - 32 * w;
      set.words[w] = left >= 32 ? 0xffffffffu
                     : left > 0 ? (1u << left) - 1
                                : 0u;
    }
    return set;
  }
  __device__ __forceinline__ void add(int rank) {
    for (int w = 0; w < kWords; ++w)
      words[w] |= rank / 32 == w ? 1u << rank % 32 : 0u;
  }
  __device__ __forceinline__ bool has(int rank) const {
    unsigned word = 0;
    for (int w = 0; w < kWords; ++w)
      word = rank / 32 == w ? words[w] : word;
    return word >> rank % 32 & 1u;
  }
  __device__ __forceinline__ int count() const { return countBelow(kRanks); }
  /// Returns the number of ranks in the set that are less than `rank`.
  __device__ __forceinline__ int countBelow(int rank) const {
    const RankSet below = all(rank);
    int count = 0;
    for (int w = 0; w < kWords; ++w)
      count += __popc(words[w] & below.words[w]);
    return count;
  }
};

/// Adds the owner of a token's expert. A negative id is no expert.
template <int kRanks>
__device__ __forceinline__ void addOwner(RankSet<kRanks> &owners, int id,
                                         int experts, int ranks) {
  if (id < 0)
    return;
  if (experts > 0)
    owners.add(ownerOf(id, experts, ranks));
  else
    owners = RankSet<kRanks>::all(ranks);
}

/// Returns the maximum number of ranks that own one token. `pairs`: number of
/// pairs per token.
constexpr int mostOwners(int experts, int ranks, int pairs) {
  return experts > 0 && pairs < ranks ? pairs : ranks;
}

} // namespace moe
