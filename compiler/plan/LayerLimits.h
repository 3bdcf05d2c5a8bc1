//===- LayerLimits.h - limits on the sizes of a layer -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Importers accept larger layers than the kernels support. Such a layer can be
// described, printed and divided over ranks, even if no kernel can compute it
// as a whole. This header does not depend on the IR.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_LAYERLIMITS_H
#define MOEC_COMPILER_PLAN_LAYERLIMITS_H

#include "runtime/package/Limits.h"

#include <algorithm>
#include <cstdint>

namespace moec::compiler {

// Limits of a layer's description. They are the manifest's limits, or values
// far above the sizes of any known layer. Products of these sizes fit in 64
// bits.
inline constexpr int64_t kMaxDescribedExperts = kMostExperts;
inline constexpr int64_t kMaxDescribedHidden = 1 << 20;
inline constexpr int64_t kMaxDescribedIntermediate = 1 << 24;
inline constexpr int64_t kMaxDescribedRanks = 1 << 16;
inline constexpr int64_t kMaxDescribedVocabulary = 1 << 24;

// Limits of the kernels.

/// Maximum number of routed experts and of stored experts. One CTA sorts the
/// logits of a token, and the permutation keeps one counter per expert.
inline constexpr int64_t kMaxExperts = 1024;
/// Maximum number of experts per token, including shared experts.
inline constexpr int64_t kMaxPairsPerToken = 32;
/// Maximum hidden size, and maximum intermediate size per rank. Tensor map
/// strides must be less than 2^40 bytes. The largest stride is the distance
/// between two experts' w13 in f32.
inline constexpr int64_t kMaxColumns = int64_t(1) << 18;
/// Bytes of the chunks in which kernels load rows of x and of weights.
inline constexpr int64_t kRowPieceBytes = 16;
/// Returns the number of elements of `bits` bits per 16-byte chunk. 6-bit
/// elements are expanded to bytes, so a chunk holds 16 elements, which occupy
/// 12 bytes in memory.
constexpr int64_t elementsPerPiece(int64_t bits) {
  return std::max<int64_t>(kRowPieceBytes * 8 / (bits == 6 ? 8 : bits), 1);
}
/// Run length, in rows, in which gate and up rows of packed weights alternate.
inline constexpr int64_t kGateUpRun = 8;

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_LAYERLIMITS_H
