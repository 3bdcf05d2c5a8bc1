//===- pack.cuh - packs weights for the matmul kernels ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels that pack the weights of a range of experts.
//   packCopy copies stored experts to the scratch buffer.
//   packInterleave reads the scratch buffer and writes packed experts:
//     kInterleave gate rows, their up rows, the next gate rows, and so on. The
//     scratch buffer has the rows in GateUpOrder, or gates first if the Config
//     has no GateUpOrder.
//   packStored does the same if the scratch buffer has a checkpoint format's
//     bit layout. It also converts elements to their packed representation.
// Because the scratch buffer is between the two steps, packed weights may
// overwrite the stored weights.
//
// Args of all three, in order:
//   source: packCopy reads from expert first_expert on; packInterleave and
//     packStored read the scratch buffer from its start
//   destination: packCopy writes the scratch buffer from its start;
//     packInterleave and packStored write from expert first_expert on
//   order: int [experts, kColumns], see below [optional, packStored]
//   int first_expert
//   int experts
//
// Codes of fewer than 8 bits are copied as bytes; kColumns then counts the
// bytes of a row. Grid.x: ceildiv(experts * kRows * kColumns * sizeof(Element),
// kBytesPerCta).
//
// packStored: source and destination are byte pointers, and kColumns counts
// elements. An element has kStoredBits bits in the source and kBits bits in the
// destination. A 32-bit source word holds kRowsPerWord rows or kColumnsPerWord
// columns; if both are 1, each element is stored separately. In memory the
// matrix of words is [rows, columns], or [columns, rows] with kRowsLast.
// Element i of a word is in slot (kSlots >> 4 * i) % 16, counted from the
// lowest bits. If words hold several elements, kAdded is added to each element,
// and then the bits of kFlipped are inverted.
//
// Optional members of the Config of packStored:
//   kPowers: elements are ue8m0 and become f32.
//   Args has a field order: column c is read from stored column order[expert,
//     c] (moe/kernel/pack_order.cuh).
//   kFragmentColumns: the destination is in fragment order
//     (moe/math/slabs.cuh): codes for 16-bit operands (64) or 8-bit operands
//     (128), or parameters of groups such as scales (1). 4: the destination
//     has 8-bit scales in scale blocks (moe/math/scale_atoms.cuh).
//   kRepeatRows, kRepeatColumns: one stored value is valid for kRepeatRows
//     packed rows and kRepeatColumns packed columns.
//   kParts: the number of parts of the packed rows (gates and ups). Parts
//     alternate every kAlternate rows, or follow each other if that is 0.
//   kStoredRows, kStoredColumns: the extents in memory. The last rows of each
//     part and the last columns may be padding, which is never read.
//   kAtoms: 8-bit elements are stored in scale blocks of 128 x 4 (atoms,
//     moe/math/scale_atoms.cuh).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/gate_up.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/types.cuh"
#include "moe/math/scale_atoms.cuh"
#include "moe/math/slabs.cuh"
#include "moe/math/small_floats.cuh"

namespace moe {

template <class Config> constexpr bool checkPackConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_TYPE(Config, Element, "element type");
  MOE_REQUIRE_VALUE(Config, kRows, "weight rows per expert");
  MOE_REQUIRE_VALUE(Config, kColumns, "elements per row");
  MOE_REQUIRE_VALUE(Config, kInterleave, "rows per block");
  MOE_REQUIRE_VALUE(Config, kBytesPerCta, "bytes that a CTA moves");
  static_assert(Config::kBytesPerCta % 16 == 0,
                "kBytesPerCta must be a multiple of 16");
  static_assert(Config::kInterleave == 0 ||
                    Config::kRows % (2 * Config::kInterleave) == 0,
                "kRows must be whole blocks of gate and up rows");
  return true;
}

/// Columns of a block in fragment order (moe/math/slabs.cuh), or 0 if weights
/// are packed in row order.
template <class Config> inline constexpr int kFragmentColumnsOf = 0;
template <class Config>
  requires requires { Config::kFragmentColumns; }
inline constexpr int kFragmentColumnsOf<Config> = Config::kFragmentColumns;

/// True if stored elements are powers of two (ue8m0).
template <class Config>
inline constexpr bool storesPowers = requires { requires Config::kPowers; };

/// True if stored elements are in scale blocks of 128 x 4
/// (moe/math/scale_atoms.cuh).
template <class Config>
inline constexpr bool storesAtoms = requires { requires Config::kAtoms; };

namespace detail {

/// Defaults of the optional members kParts, kRepeatRows, kRepeatColumns and
/// kAlternate.
template <class Config> constexpr int storedParts() {
  if constexpr (requires { Config::kParts; })
    return Config::kParts;
  return 1;
}
template <class Config> constexpr int storedRowsRepeat() {
  if constexpr (requires { Config::kRepeatRows; })
    return Config::kRepeatRows;
  return 1;
}
template <class Config> constexpr int storedColumnsRepeat() {
  if constexpr (requires { Config::kRepeatRows; })
    return Config::kRepeatColumns;
  return 1;
}
template <class Config> constexpr int storedPartsAlternate() {
  if constexpr (requires { Config::kAlternate; })
    return Config::kAlternate;
  return 0;
}

} // namespace detail

/// The stored matrix of an expert. row() and column() map a row and a column of
/// the packed matrix to the stored matrix.
template <class Config> struct StoredMatrix {
  static constexpr int kParts = detail::storedParts<Config>();
  static constexpr int kRepeatRows = detail::storedRowsRepeat<Config>();
  static constexpr int kRepeatColumns = detail::storedColumnsRepeat<Config>();
  static constexpr int kAlternate = detail::storedPartsAlternate<Config>();
  static constexpr int kPartRows = Config::kRows / kParts;
  static constexpr int rows() {
    if constexpr (requires { Config::kStoredRows; })
      return Config::kStoredRows;
    return kParts * ceilDiv(kPartRows, kRepeatRows);
  }
  static constexpr int columns() {
    if constexpr (requires { Config::kStoredRows; })
      return Config::kStoredColumns;
    return ceilDiv(Config::kColumns, kRepeatColumns);
  }
  static constexpr int kRows = rows(), kColumns = columns();
  static constexpr long long kElements =
      storesAtoms<Config> ? ScaleAtoms::count(kRows, kColumns)
                          : (long long)kRows * kColumns;
  static constexpr long long kBytes = kElements * Config::kStoredBits / 8;

  static __device__ __forceinline__ int row(int row) {
    if constexpr (kParts == 1)
      return row / kRepeatRows;
    constexpr int kRun = kAlternate > 0 ? kAlternate : kPartRows;
    const int part = row / kRun % kParts;
    const int index = row / (kRun * kParts) * kRun + row % kRun;
    return part * (kRows / kParts) + index / kRepeatRows;
  }
  static __device__ __forceinline__ int column(int column) {
    return column / kRepeatColumns;
  }
};

template <class Config> constexpr bool checkStoredConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_VALUE(Config, kRows, "weight rows per expert");
  MOE_REQUIRE_VALUE(Config, kColumns, "elements per row");
  MOE_REQUIRE_VALUE(Config, kBits, "bits per packed element");
  MOE_REQUIRE_VALUE(Config, kStoredBits, "bits per stored element");
  MOE_REQUIRE_VALUE(Config, kRowsLast, "true if rows are contiguous");
  MOE_REQUIRE_VALUE(Config, kRowsPerWord, "rows in 32 bits");
  MOE_REQUIRE_VALUE(Config, kColumnsPerWord, "columns in 32 bits");
  MOE_REQUIRE_VALUE(Config, kSlots, "order of elements in 32 bits");
  MOE_REQUIRE_VALUE(Config, kAdded, "the value that is added to an element");
  MOE_REQUIRE_VALUE(Config, kFlipped, "bits that are inverted");
  MOE_REQUIRE_VALUE(Config, kInterleave, "rows per block");
  MOE_REQUIRE_VALUE(Config, kBytesPerCta, "bytes that a CTA writes");
  static_assert(StoredMatrix<Config>::kRows % Config::kRowsPerWord == 0 &&
                    StoredMatrix<Config>::kColumns % Config::kColumnsPerWord ==
                        0,
                "rows and columns must fill whole words");
  static_assert(
      Config::kRows % StoredMatrix<Config>::kParts == 0 &&
          StoredMatrix<Config>::kRows % StoredMatrix<Config>::kParts == 0 &&
          StoredMatrix<Config>::kRows / StoredMatrix<Config>::kParts *
                  StoredMatrix<Config>::kRepeatRows >=
              StoredMatrix<Config>::kPartRows &&
          StoredMatrix<Config>::kColumns *
                  StoredMatrix<Config>::kRepeatColumns >=
              Config::kColumns,
      "memory must hold all rows of each part, and all columns");
  static_assert(!storesAtoms<Config> ||
                    (Config::kStoredBits == 8 && !Config::kRowsLast &&
                     Config::kRowsPerWord * Config::kColumnsPerWord == 1),
                "scale blocks need 8-bit elements, each stored separately");
  static_assert(Config::kColumns * Config::kBits % 8 == 0,
                "packed rows must be whole bytes");
  static_assert(Config::kBytesPerCta % (Config::kBits == 6 ? 12 : 4) == 0,
                "kBytesPerCta must be a multiple of 4, or 12 for 6 bits");
  static_assert(
      !storesPowers<Config> ||
          (Config::kBits == 32 && Config::kStoredBits == 8 &&
           Config::kRowsPerWord == 1 && Config::kColumnsPerWord == 1),
      "kPowers needs 8-bit elements, each stored separately, that become f32");
  static_assert(kFragmentColumnsOf<Config> == 0 ||
                    (Config::kRows % 64 == 0 &&
                     Config::kColumns % kFragmentColumnsOf<Config> == 0),
                "fragment order needs whole blocks of 64 rows");
  static_assert(
      kFragmentColumnsOf<Config> != ScaleAtoms::kColumns ||
          (Config::kRows % ScaleAtoms::kRows == 0 && Config::kBits == 8),
      "scale blocks have 128 rows of 8-bit scales");
  return true;
}

/// Returns the dynamic shared memory of each of the kernels in bytes, 0.
template <class Config> constexpr int sharedBytes() {
  if constexpr (requires { Config::kStoredBits; })
    static_assert(checkStoredConfig<Config>());
  else
    static_assert(checkPackConfig<Config>());
  return 0;
}

namespace detail {

/// An unsigned integer or vector type of kBytes bytes.
template <int kBytes> struct Chunk {
  using Type = unsigned short;
};
template <> struct Chunk<1> {
  using Type = unsigned char;
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

/// The largest vector type whose size divides the size of a row.
template <class Config> struct Vectors {
  static constexpr int kRowBytes =
      Config::kColumns * int(sizeof(typename Config::Element));
  static constexpr int kBytes = minimum(16, kRowBytes & -kRowBytes);
  using Type = typename Chunk<kBytes>::Type;
};

/// Calls move(v) for each vector v that this CTA processes. All CTAs together
/// process `experts` experts.
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

/// Returns the bits of one element of an expert, converted to the packed
/// representation.
template <class Config>
__device__ __forceinline__ unsigned storedBits(const unsigned char *expert,
                                               int row, int column) {
  using Matrix = StoredMatrix<Config>;
  constexpr int kRows = Matrix::kRows / Config::kRowsPerWord;
  constexpr int kColumns = Matrix::kColumns / Config::kColumnsPerWord;
  row = Matrix::row(row), column = Matrix::column(column);
  const int slot =
      row % Config::kRowsPerWord + column % Config::kColumnsPerWord;
  row /= Config::kRowsPerWord, column /= Config::kColumnsPerWord;
  long long at = Config::kRowsLast ? (long long)column * kRows + row
                                   : (long long)row * kColumns + column;
  if constexpr (storesAtoms<Config>)
    at = ScaleAtoms::place(row, column, kColumns);
  if constexpr (Config::kStoredBits == 6) {
    // Elements of 6 bits are packed without gaps. The second byte is read only
    // if the element crosses into it, so nothing past the end is read.
    const unsigned char *from = expert + at * 6 / 8;
    const int shift = int(at * 6 % 8);
    const unsigned bits = from[0] | (shift > 2 ? from[1] << 8 : 0);
    return bits >> shift & 63u;
  } else if constexpr (Config::kRowsPerWord * Config::kColumnsPerWord == 1) {
    using Bits = typename Chunk<Config::kStoredBits / 8>::Type;
    const unsigned bits = reinterpret_cast<const Bits *>(expert)[at];
    return storesPowers<Config> ? __float_as_uint(powerOfTwo(bits)) : bits;
  } else {
    const unsigned word = reinterpret_cast<const unsigned *>(expert)[at];
    const int shift =
        Config::kStoredBits * ((unsigned(Config::kSlots) >> 4 * slot) & 15);
    const unsigned bits = word >> shift & ((1u << Config::kStoredBits) - 1);
    // The addition wraps modulo 2^kBits.
    return ((bits + Config::kAdded) ^ Config::kFlipped) &
           (0xffffffffu >> (32 - Config::kBits));
  }
}

/// Returns the packed row and column of element i of a run, for an expert in
/// fragment order. A run is a group of words that holds whole elements
/// (moe/math/slabs.cuh).
template <class Config>
__device__ __forceinline__ SlabPlace fragmentPlace(int run, int i) {
  if constexpr (Config::kFragmentColumns == ScaleAtoms::kColumns) {
    const ScalePlace place = ScaleAtoms::ofWord(run, Config::kColumns);
    return {place.row, place.column + i};
  } else if constexpr (Config::kFragmentColumns == 1)
    return SlabScales::place(run * (32 / Config::kBits) + i, Config::kColumns);
  else
    return Slabs<Config::kBits, 1024 / Config::kFragmentColumns>::place(
        run, i, Config::kColumns);
}

/// Returns the stored row of a packed row.
template <class Config>
__device__ __forceinline__ int storedRowOf(int packedRow) {
  if constexpr (Config::kInterleave > 0) {
    const GateUpRow row = gateUpRow<Config::kInterleave>(packedRow);
    return StoredOrder<Config>::Type::template row<Config::kRows / 2>(
        row.up, row.index);
  } else {
    return packedRow;
  }
}

/// Returns the stored column of a packed column. `expert` is the expert's index
/// among all experts, not among those in the scratch buffer.
template <class Config>
__device__ __forceinline__ int storedColumnOf(const typename Config::Args &args,
                                              int expert, int column) {
  if constexpr (requires { args.order; })
    return args.order[(long long)expert * Config::kColumns + column];
  else
    return column;
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

namespace detail {

/// Implements packStored for a destination in fragment order. A thread writes
/// runs: groups of words that hold whole elements.
template <class Config>
__device__ __forceinline__ void
packFragments(const typename Config::Args &args) {
  constexpr int kRunWords = Config::kBits == 6 ? 3 : 1;
  constexpr int kElements = 32 * kRunWords / Config::kBits;
  constexpr int kRuns = Config::kRows * Config::kColumns / kElements;
  constexpr int kRunsPerCta = Config::kBytesPerCta / (4 * kRunWords);
  constexpr long long kStoredBytes = StoredMatrix<Config>::kBytes;
  unsigned *destination = reinterpret_cast<unsigned *>(args.destination) +
                          (long long)args.first_expert * kRuns * kRunWords;
  const long long first = (long long)blockIdx.x * kRunsPerCta;
  const long long end =
      min(first + kRunsPerCta, (long long)args.experts * kRuns);
  for (long long v = first + threadIdx.x; v < end; v += Config::kThreads) {
    const int expert = int(v / kRuns), run = int(v % kRuns);
    unsigned words[kRunWords] = {};
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const SlabPlace place = fragmentPlace<Config>(run, i);
      const unsigned bits = storedBits<Config>(
          args.source + expert * kStoredBytes, storedRowOf<Config>(place.row),
          storedColumnOf<Config>(args, args.first_expert + expert,
                                 place.column));
      const int at = i * Config::kBits;
      words[at / 32] |= bits << at % 32;
      if (at % 32 + Config::kBits > 32)
        words[at / 32 + 1] |= bits >> (32 - at % 32);
    }
#pragma unroll
    for (int i = 0; i < kRunWords; ++i)
      destination[v * kRunWords + i] = words[i];
  }
}

} // namespace detail

template <class Config>
__device__ __forceinline__ void packStored(const typename Config::Args &args) {
  static_assert(checkStoredConfig<Config>());
  awaitPredecessor<Config>();
  if constexpr (kFragmentColumnsOf<Config> > 0) {
    detail::packFragments<Config>(args);
    return;
  }
  constexpr int kRowBytes = Config::kColumns * Config::kBits / 8;
  // Four is the smallest number of 6-bit elements that fills whole bytes.
  constexpr bool kIsSix = Config::kBits == 6;
  constexpr int kBytes = kIsSix ? 3 : minimum(4, kRowBytes & -kRowBytes);
  constexpr int kElements = kBytes * 8 / Config::kBits;
  constexpr int kChunks = kRowBytes / kBytes;
  constexpr long long kStoredBytes = StoredMatrix<Config>::kBytes;
  static_assert(kRowBytes % kBytes == 0, "rows must be whole chunks");
  auto *destination = args.destination +
                      (long long)args.first_expert * Config::kRows * kRowBytes;
  const long long first =
      (long long)blockIdx.x * (Config::kBytesPerCta / kBytes);
  const long long end = min(first + Config::kBytesPerCta / kBytes,
                            (long long)args.experts * Config::kRows * kChunks);
  for (long long v = first + threadIdx.x; v < end; v += Config::kThreads) {
    const int expert = int(v / ((long long)Config::kRows * kChunks));
    const int inExpert = int(v % ((long long)Config::kRows * kChunks));
    // Adjacent threads of a warp read adjacent addresses.
    const int row =
        Config::kRowsLast ? inExpert % Config::kRows : inExpert / kChunks;
    const int chunk =
        Config::kRowsLast ? inExpert / Config::kRows : inExpert % kChunks;
    const int stored = detail::storedRowOf<Config>(row);
    unsigned bits = 0;
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const int column = detail::storedColumnOf<Config>(
          args, args.first_expert + expert, chunk * kElements + i);
      bits |= detail::storedBits<Config>(args.source + expert * kStoredBytes,
                                         stored, column)
              << i * (kElements > 1 ? Config::kBits : 0);
    }
    const long long at =
        ((long long)expert * Config::kRows + row) * kChunks + chunk;
    if constexpr (kIsSix) {
#pragma unroll
      for (int i = 0; i < kBytes; ++i)
        destination[at * kBytes + i] = (unsigned char)(bits >> 8 * i);
    } else {
      using Chunk = typename detail::Chunk<kBytes>::Type;
      reinterpret_cast<Chunk *>(destination)[at] = Chunk(bits);
    }
  }
}

} // namespace moe
