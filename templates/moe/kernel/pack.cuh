//===- pack.cuh - stored weights to the order that kernels read -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two kernels over a range of experts. packCopy: stored experts to the scratch
// buffer. packInterleave: scratch (gate and up rows in GateUpOrder, gates first
// where there is none) to packed experts (kInterleave gate rows, their up rows,
// the next ones). With the scratch in between, packed weights may lie where the
// stored ones did.
//
// Args of both, in order: source, destination, int first_expert, int experts.
//   packCopy reads expert first_expert.. of source and writes destination from
//   its beginning; packInterleave the other way round.
// Codes of fewer than 8 bits are moved as bytes: kColumns is those of a row.
// Grid.x: ceildiv(experts * kRows * kColumns * sizeof(Element), kBytesPerCta).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/gate_up.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/types.cuh"

namespace moe {

template <class Config> constexpr bool checkPackConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_TYPE(Config, Element, "element type");
  MOE_REQUIRE_VALUE(Config, kRows, "weight rows of an expert");
  MOE_REQUIRE_VALUE(Config, kColumns, "elements of a row");
  MOE_REQUIRE_VALUE(Config, kInterleave, "rows of a block");
  MOE_REQUIRE_VALUE(Config, kBytesPerCta, "bytes that a CTA moves");
  static_assert(Config::kColumns * int(sizeof(typename Config::Element)) % 2 ==
                    0,
                "rows must be whole 2-byte chunks");
  static_assert(Config::kBytesPerCta % 16 == 0,
                "kBytesPerCta must be a multiple of 16");
  static_assert(Config::kInterleave == 0 ||
                    Config::kRows % (2 * Config::kInterleave) == 0,
                "kRows must be whole blocks of gate and up rows");
  return true;
}

/// Dynamic shared memory of both kernels: none.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkPackConfig<Config>());
  return 0;
}

namespace detail {

/// So many bytes as one value.
template <int kBytes> struct Chunk {
  using Type = unsigned short;
};
template <> struct Chunk<4> {
  using Type = unsigned;
};
template <> struct Chunk<8> {
  using Type = Vector8;
};
template <> struct Chunk<16> {
  using Type = Vector16;
};

/// The largest vector of which rows are whole numbers.
template <class Config> struct Vectors {
  static constexpr int kRowBytes =
      Config::kColumns * int(sizeof(typename Config::Element));
  static constexpr int kBytes = minimum(16, kRowBytes & -kRowBytes);
  using Type = typename Chunk<kBytes>::Type;
};

/// Calls move(v) for each vector v of this CTA's share of `experts`.
template <class Config, class Move>
__device__ __forceinline__ void forEachVector(int experts, Move move) {
  constexpr int kBytes = Vectors<Config>::kBytes;
  constexpr long long kPerExpert =
      (long long)Config::kRows * Vectors<Config>::kRowBytes / kBytes;
  long long first = (long long)blockIdx.x * (Config::kBytesPerCta / kBytes);
  long long end =
      min(first + Config::kBytesPerCta / kBytes, experts * kPerExpert);
#pragma unroll 4
  for (long long v = first + threadIdx.x; v < end; v += Config::kThreads)
    move(v);
}

} // namespace detail

template <class Config>
__device__ __forceinline__ void packCopy(const typename Config::Args &args) {
  static_assert(checkPackConfig<Config>());
  awaitPredecessor<Config>();
  using Vector = typename detail::Vectors<Config>::Type;
  const Vector *source = reinterpret_cast<const Vector *>(
      args.source +
      (long long)args.first_expert * Config::kRows * Config::kColumns);
  Vector *destination = reinterpret_cast<Vector *>(args.destination);
  detail::forEachVector<Config>(
      args.experts, [&](long long v) { destination[v] = source[v]; });
}

template <class Config>
__device__ __forceinline__ void
packInterleave(const typename Config::Args &args) {
  static_assert(checkPackConfig<Config>());
  awaitPredecessor<Config>();
  using Vector = typename detail::Vectors<Config>::Type;
  constexpr int kVectors =
      detail::Vectors<Config>::kRowBytes / detail::Vectors<Config>::kBytes;
  constexpr int kBy = maximum(1, Config::kInterleave);
  const Vector *source = reinterpret_cast<const Vector *>(args.source);
  Vector *destination = reinterpret_cast<Vector *>(
      args.destination +
      (long long)args.first_expert * Config::kRows * Config::kColumns);
  detail::forEachVector<Config>(args.experts, [&](long long v) {
    long long packedRow = v / kVectors;
    int chunk = int(v % kVectors);
    long long expert = packedRow / Config::kRows;
    GateUpRow row = gateUpRow<kBy>(int(packedRow % Config::kRows));
    int stored = StoredOrder<Config>::Type::template row<Config::kRows / 2>(
        row.up, row.index);
    destination[v] =
        source[(expert * Config::kRows + stored) * kVectors + chunk];
  });
}

} // namespace moe
