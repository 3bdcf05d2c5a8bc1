//===- windows.cuh - rows into the memory of other ranks --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every rank has a window with the same layout, which starts with the words of
// moe/math/exchange.cuh. Therefore a value has the same offset in a peer's
// window as in this rank's own window. `peers` is the table of the addresses of
// all windows. A warp copies a row in copy chunks: it reads a chunk once and
// stores it to each destination rank. The order of destinations starts with the
// next higher rank, so that not all ranks write to rank 0 at the same time.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_peer.cuh"
#include "moe/core/types.cuh"
#include "moe/math/exchange.cuh"
#include "moe/math/owners.cuh"

namespace moe::exchange {

/// Calls visit(rank) for each rank of a set, in cyclic order starting from
/// `first`.
template <int kRanks, class Visit>
__device__ __forceinline__ void forEachRank(const RankSet<kRanks> &ranks,
                                            int first, Visit visit) {
  const RankSet<kRanks> below = RankSet<kRanks>::all(first);
#pragma unroll
  for (int pass = 0; pass < 2; ++pass)
#pragma unroll
    for (int w = 0; w < RankSet<kRanks>::kWords; ++w) {
      unsigned left =
          ranks.words[w] & (pass == 0 ? ~below.words[w] : below.words[w]);
#pragma unroll 1
      for (; left != 0; left &= left - 1)
        visit(32 * w + __ffs(int(left)) - 1);
    }
}

/// The windows of all ranks as the kernels of one rank address them.
class Windows {
public:
  /// `words`: the start of the rank's own window.
  __device__ __forceinline__ Windows(const unsigned long long *peers,
                                     const unsigned long long *words)
      : peers(peers), words(words) {
    ptx::prefetchFirstLevel(peers);
  }

  /// Returns the address in the window of `rank` that corresponds to `mine` in
  /// this rank's own window.
  template <class T> __device__ __forceinline__ T *in(int rank, T *mine) const {
    long long behind = reinterpret_cast<const char *>(mine) -
                       reinterpret_cast<const char *>(words);
    return reinterpret_cast<T *>(peers[rank] + behind);
  }

private:
  const unsigned long long *peers;
  const unsigned long long *words;
};

template <int kBytes> struct Word;
template <> struct Word<16> {
  using Type = Vector16;
};
template <> struct Word<8> {
  using Type = Vector8;
};
template <> struct Word<4> {
  using Type = unsigned;
};
template <> struct Word<2> {
  using Type = unsigned short;
};
template <> struct Word<1> {
  using Type = unsigned char;
};

/// Returns the largest power of two, up to 16, that divides rowBytes: the bytes
/// of a load or store.
constexpr int wordBytes(int rowBytes) {
  int bytes = 16;
  while (rowBytes % bytes != 0)
    bytes /= 2;
  return bytes;
}

/// The number of words that a lane loads before it stores them.
inline constexpr int kInFlight = 4;
/// The number of words of a copy chunk.
inline constexpr int kPieceWords = 32 * kInFlight;

/// Loads and stores copy chunks (Piece in identifiers) of rows with words of
/// kBytes bytes. A warp handles one chunk at a time.
template <int kBytes> struct Pieces {
  using Type = typename Word<kBytes>::Type;
  /// The words of a copy chunk that one lane holds.
  struct Piece {
    Type words[kInFlight];
  };

  /// Loads the calling lane's words of chunk `piece` of a row. `words`: number
  /// of words of the row.
  static __device__ __forceinline__ Piece load(const void *row, int words,
                                               int piece) {
    Piece loaded;
    forEach(words, piece, [&](int i, int word) {
      loaded.words[i] = static_cast<const Type *>(row)[word];
    });
    return loaded;
  }
  static __device__ __forceinline__ void store(void *row, int words, int piece,
                                               const Piece &loaded) {
    forEach(words, piece, [&](int i, int word) {
      static_cast<Type *>(row)[word] = loaded.words[i];
    });
  }

private:
  template <class Visit>
  static __device__ __forceinline__ void forEach(int words, int piece,
                                                 Visit visit) {
    int first = piece * kPieceWords + int(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kInFlight; ++i)
      if (first + 32 * i < words)
        visit(i, first + 32 * i);
  }
};

/// Addresses rows of kBytes bytes in a matrix, and loads and stores their copy
/// chunks.
template <int kBytes> struct Row {
  using Words = Pieces<wordBytes(kBytes)>;
  static constexpr int kWords = kBytes / wordBytes(kBytes);
  static constexpr int kPieces = ceilDiv(kWords, kPieceWords);

  static __device__ __forceinline__ const char *at(const void *matrix,
                                                   long long row) {
    return static_cast<const char *>(matrix) + row * kBytes;
  }
  static __device__ __forceinline__ char *at(void *matrix, long long row) {
    return static_cast<char *>(matrix) + row * kBytes;
  }
  static __device__ __forceinline__ auto load(const void *row, int piece) {
    return Words::load(row, kWords, piece);
  }
  static __device__ __forceinline__ void
  store(void *row, int piece, const typename Words::Piece &loaded) {
    Words::store(row, kWords, piece, loaded);
  }
};

__device__ __forceinline__ unsigned warpOr(unsigned bits) {
#if __CUDA_ARCH__ >= 800
  return __reduce_or_sync(0xffffffffu, bits);
#else
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    bits |= __shfl_xor_sync(0xffffffffu, bits, distance);
  return bits;
#endif
}

/// Returns the n-th token in an order that starts with the tokens of the next
/// rank, so that not all ranks write to the same rank at a time. Each rank has
/// `own` of the `tokens` tokens.
__device__ __forceinline__ int tokenFromNext(int n, int rank, int own,
                                             int tokens) {
  int token = n + (rank + 1) * own;
  return token < tokens ? token : token - tokens;
}

/// Returns the ranks that own a token. One warp computes the set from the
/// token's expert ids. A kernel before the predecessor may have written the
/// ids, and this kernel may not have waited for its predecessor yet, so the
/// loads bypass L1.
template <class Config>
__device__ __forceinline__ RankSet<Config::kRanks> ownersOf(const int *ids,
                                                            int token) {
  RankSet<Config::kRanks> owners;
  ids += (long long)token * Config::kPairs;
#pragma unroll
  for (int first = 0; first < Config::kPairs; first += 32) {
    int pair = first + int(threadIdx.x) % 32;
    if (pair < Config::kPairs)
      addOwner(owners, ptx::loadFresh(ids + pair), Config::kExperts,
               Config::kRanks);
  }
#pragma unroll
  for (unsigned &word : owners.words)
    word = warpOr(word);
  return owners;
}

} // namespace moe::exchange
