//===- LayerLimits.h - limits on the sizes of a layer -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Importers accept larger layers than the kernels support: a layer can be
// described, printed and divided over ranks even if no kernel runs it whole.
// This header does not depend on the IR.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_LAYERLIMITS_H
#define MOEC_COMPILER_PLAN_LAYERLIMITS_H

#include "runtime/package/Limits.h"

#include <algorithm>
#include <cstdint>

namespace moec::compiler {

// Limits of a layer's description. They are the manifest's limits, or sizes far
// above those of any known layer. Their products fit in 64 bits.
inline constexpr int64_t kMaxDescribedExperts = kMostExperts;
inline constexpr int64_t kMaxDescribedHidden = 1 << 20;
inline constexpr int64_t kMaxDescribedIntermediate = 1 << 24;
inline constexpr int64_t kMaxDescribedRanks = 1 << 16;
inline constexpr int64_t kMaxDescribedVocabulary = 1 << 24;

// Limits of the kernels.
/// Maximum number of routed or stored experts. One CTA sorts the logits of a
/// token, and the permutation keeps one count for each expert.
inline constexpr int64_t kMaxExperts = 1024;
/// Maximum number of experts per token, including shared experts.
inline constexpr int64_t kMaxPairsPerToken = 32;
/// Maximum hidden and intermediate size of a rank. Strides of tensor maps must
/// be below 2^40 bytes; the largest one is the distance between two experts'
/// w13 in f32.
inline constexpr int64_t kMaxColumns = int64_t(1) << 18;
/// Size of the pieces in which kernels load rows of x and of weights [bytes].
inline constexpr int64_t kRowPieceBytes = 16;
/// Returns the number of elements of `bits` bits in one such piece. 6-bit
/// elements are expanded to bytes, so a piece holds 16 of them, from 12 stored
/// bytes.
constexpr int64_t elementsPerPiece(int64_t bits) {
  return std::max<int64_t>(kRowPieceBytes * 8 / (bits == 6 ? 8 : bits), 1);
}
/// Gate and up rows of packed weights alternate in runs of this length [rows].
inline constexpr int64_t kGateUpRun = 8;

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_LAYERLIMITS_H
